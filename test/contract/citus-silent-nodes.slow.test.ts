/**
 * Nodes of Citus that answer nothing any more from a chosen moment on, and keep their connections: in the middle of a COMMIT, of
 * statements that take all nodes, of work beside commits. Skipped where Citus is not installed.
 */

import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Comparer } from '../../src/destination/comparer.ts';
import { openPostgresComparer } from '../../src/destination/postgres/compare-table.ts';
import type { PostgresOptions } from '../../src/destination/postgres/destination.ts';
import { openPostgresReader } from '../../src/destination/postgres/reader.ts';
import type { DestinationReader } from '../../src/destination/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { runProgram } from '../../src/lib/run-program.ts';
import { Secret } from '../../src/lib/secret.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import { citusOfTests, HAS_CITUS, OHIO, schemaOf, TEXAS } from '../support/citus-states.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { ENROLMENT, errorOf } from '../support/mirror-at-work.ts';
import { eventually } from '../support/patience.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { type DatabaseAtWork, databaseAtWork } from '../support/postgres-destination.ts';
import { proxiedStatesIn } from '../support/proxied-citus.ts';
import { contentFrom } from '../support/repairing.ts';

const COMMITTED = { kind: 'committed' };
const NEW_MEXICO = 'us-nm-parcels';
const MORE = [...THREE_PEOPLE, [4, 'four']] as const;
const EVEN_MORE = [...MORE, [5, 'five']] as const;
const COUNT = 'SELECT (SELECT count(*) FROM us_tx.us_tx_parcels), (SELECT count(*) FROM us_oh.us_oh_parcels)';

/** Nodes are asked at once, and one that gave no answer is asked again after seconds. */
const HURRIED_CLOCK = { ...systemClock, monotonicMs: () => 10 * systemClock.monotonicMs() };
const HURRIED: Partial<PostgresOptions> = {
  clock: HURRIED_CLOCK,
  leaseMs: 3_000,
  lockWaitMs: 30_000,
};

describe.skipIf(!HAS_CITUS)('silent nodes of Citus', () => {
  const cluster = citusOfTests();

  it('F74 a commit whose node falls silent in the middle of COMMIT holds up no other node, and is found where it was prepared', async () => {
    const { world, texas, ohio, proxyOf } = await proxiedStatesIn(cluster(), HURRIED);
    const proxy = await proxyOf('us_oh');
    proxy.before('COMMIT PREPARED', async () => proxy.lose());
    for (const course of [texas, ohio]) course.publishRows(MORE);
    expect(await world.apply(ohio)).toMatchObject(COMMITTED);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    proxy.restore();
    for (const course of [texas, ohio]) course.publishRows(EVEN_MORE);
    await eventually(async () => expect(await world.apply(ohio)).toMatchObject(COMMITTED));
    ohio.publishRows(THREE_PEOPLE);
    proxy.before('PREPARE TRANSACTION', async () => proxy.lose());
    expect(errorCodeOf(errorOf(await world.apply(ohio)))).toBe('node_unavailable');
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    proxy.restore();
    await eventually(async () => expect(await world.apply(ohio)).toMatchObject(COMMITTED));
    expect(await world.byHand(COUNT)).toEqual([['5', '3']]);
  });

  it('F74 tables that are made, and a past that is forgotten, are given up beside a silent node, and others go on', async () => {
    const { world, texas, ohio, proxyOf } = await proxiedStatesIn(cluster(), HURRIED);
    const datasetIds = [TEXAS, OHIO, NEW_MEXICO];
    const proxy = await proxyOf('us_oh');
    for (const course of [texas, ohio]) {
      course.publishRows(MORE);
      expect(await world.apply(course)).toMatchObject(COMMITTED);
    }
    await world.destination.close();
    const history = { keeps: () => true, keepMs: 1 };
    const second = await databaseAtWork(world.address, { schemaOf, ...HURRIED, history });
    await second.destination.enroll({ ...ENROLMENT, datasetIds });
    await second.destination.has();
    proxy.lose();
    await expect(second.destination.forgetPast()).rejects.toMatchObject({ code: 'destination_unavailable' });
    const mexico = second.published(firstContent(PEOPLE, THREE_PEOPLE), NEW_MEXICO);
    expect(errorCodeOf(errorOf(await second.load(mexico)))).toBe('node_unavailable');
    const again = second.published(firstContent(PEOPLE, MORE), TEXAS);
    expect(await second.load(again)).toMatchObject(COMMITTED);
    await second.destination.enroll({ ...ENROLMENT, datasetIds: [...datasetIds, 'us-az-parcels'] });
    again.publishRows(EVEN_MORE);
    expect(await second.apply(again)).toMatchObject(COMMITTED);
    proxy.restore();
    await eventually(async () => expect(await second.load(mexico)).toMatchObject(COMMITTED));
  });

  it.each([
    ['before its node has prepared it', 'PREPARE TRANSACTION', 'failed'],
    ['before its node has ended it', 'COMMIT PREPARED', 'committed'],
  ] as const)(
    'F74 a COMMIT whose answer is lost %s, which falls silent, holds up no other node',
    async (_, text, kind) => {
      const { world, texas, ohio, proxyOf, coordinator } = await proxiedStatesIn(cluster(), HURRIED);
      const proxy = await proxyOf('us_oh');
      for (const course of [texas, ohio]) course.publishRows(MORE);
      proxy.before(text, async () => {
        proxy.lose();
        coordinator.leave();
      });
      const outcome = await world.apply(ohio);
      expect(outcome.kind).toBe(kind);
      if (kind === 'failed') expect(errorCodeOf(errorOf(outcome))).toBe('node_unavailable');
      expect(await world.apply(texas)).toMatchObject(COMMITTED);
      proxy.restore();
      for (const course of [texas, ohio]) course.publishRows(EVEN_MORE);
      expect(await world.apply(texas)).toMatchObject(COMMITTED);
      await eventually(async () => expect(await world.apply(ohio)).toMatchObject(COMMITTED));
      expect(await world.byHand(COUNT)).toEqual([['5', '5']]);
    },
  );

  it('F74 a reader whose node falls silent while it reads is told so, and others read on', async () => {
    const { world, ohio, proxyOf } = await proxiedStatesIn(cluster(), HURRIED);
    const counting = await hurriedReader(world.address);
    const sizing = await hurriedReader(world.address);
    const counted = (ids: readonly string[]) => counting.count(ids, () => false);
    expect(await counted([TEXAS, OHIO])).toHaveLength(2);
    expect(await sizing.count([OHIO], () => false)).toHaveLength(1);
    const comparer = await hurriedComparer(world);
    const content = await contentFrom(ohio.newest(), ohio, world);
    const compared = async () => await comparer.compare(await world.observed(OHIO), content, () => {});
    expect(await compared()).toMatchObject({ kind: 'equal' });
    const proxy = await proxyOf('us_oh');
    proxy.lose();
    const size = sizing.bytes?.();
    await expect(counted([OHIO])).rejects.toMatchObject({ code: 'destination_unavailable' });
    await expect(counted([TEXAS, OHIO])).rejects.toMatchObject({ code: 'destination_unavailable' });
    expect(await counted([TEXAS])).toHaveLength(1);
    await expect(compared()).rejects.toMatchObject({ code: 'destination_unavailable' });
    expect(await size).toBeNull();
    proxy.restore();
    await eventually(async () => expect(await counted([TEXAS, OHIO])).toHaveLength(2));
    expect(await compared()).toMatchObject({ kind: 'equal' });
  });
});

async function hurriedReader(address: string): Promise<DestinationReader> {
  const options = { url: new Secret(address), clock: HURRIED_CLOCK };
  const reader = present(await openPostgresReader(options), 'the catalog is there');
  onTestFinished(() => reader.close());
  return reader;
}

async function hurriedComparer({ address, folder }: DatabaseAtWork): Promise<Comparer> {
  const comparer = await openPostgresComparer({
    url: new Secret(address),
    directory: folder,
    memoryLimitBytes: 500_000_000,
    threads: 1,
    reserveBytes: 0,
    runProgram,
    programPath: process.env['PATH'] ?? '',
    clock: HURRIED_CLOCK,
    signal: new AbortController().signal,
  });
  onTestFinished(() => comparer.close());
  return comparer;
}
