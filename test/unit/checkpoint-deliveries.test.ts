/** The ids of webhooks that arrived: known again, also after a restart, up to a limit of number and of age. */

import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { MAX_DELIVERIES, MAX_DELIVERY_AGE_MS } from '../../src/checkpoint/sqlite/table.ts';
import { ContractViolationError } from '../../src/model/errors.ts';
import { NOON, openAt, openNew, temporaryPath } from '../support/checkpoint-files.ts';

it('a delivery is new once, also after a restart', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const first = await openAt(path);
  expect([first.rememberDelivery("msg_'1", NOON), first.rememberDelivery("msg_'1", NOON)]).toEqual([
    true,
    false,
  ]);
  first.close();
  const second = await openAt(path);
  expect([second.rememberDelivery("msg_'1", NOON), second.rememberDelivery('msg_2', NOON)]).toEqual([
    false,
    true,
  ]);
});

it('forgets a delivery after its maximum age, counted from its first arrival', async () => {
  const checkpoint = await openNew();
  const after = (ms: number): Date => new Date(NOON.getTime() + ms);
  checkpoint.rememberDelivery('msg_1', NOON);
  expect(checkpoint.rememberDelivery('msg_1', after(MAX_DELIVERY_AGE_MS))).toBe(false);
  expect(checkpoint.rememberDelivery('msg_1', after(MAX_DELIVERY_AGE_MS + 1))).toBe(true);
});

it('keeps the newest deliveries up to their limit', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const checkpoint = await openAt(path);
  fill(path, MAX_DELIVERIES);
  expect(checkpoint.rememberDelivery('last', NOON)).toBe(true);
  expect(countIn(path)).toBe(MAX_DELIVERIES);
  expect(checkpoint.rememberDelivery('msg_2', NOON)).toBe(false);
  expect(checkpoint.rememberDelivery('msg_1', NOON)).toBe(true);
});

it('refuses a delivery id that is too long', async () => {
  const checkpoint = await openNew();
  expect(() => checkpoint.rememberDelivery('m'.repeat(100_000), NOON)).toThrow(ContractViolationError);
});

/** `msg_1` and so on, in order, without the program, which would wait for the disk each time. */
function fill(path: string, count: number): void {
  const database = new Database(path);
  database
    .prepare(
      `INSERT INTO deliveries (delivery_id, arrived_at)
      WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
      SELECT 'msg_' || n, ? FROM numbers`,
    )
    .run(count, NOON.toISOString());
  database.close();
}

function countIn(path: string): unknown {
  const database = new Database(path, { readonly: true });
  try {
    return database.prepare('SELECT count(*) FROM deliveries').pluck().get();
  } finally {
    database.close();
  }
}
