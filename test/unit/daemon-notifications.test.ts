/**
 * Notifications of transitions by a daemon at work: each is sent once for its cause and hour, and never again after a restart of the
 * daemon.
 */

import { expect, it, vi } from 'vitest';
import { openCheckpointBeside } from '../../src/checkpoint/sqlite/open.ts';
import type { DamagedTable } from '../../src/destination/destination.ts';
import { silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { ServiceUnavailableError, StorageError } from '../../src/model/errors.ts';
import { deliverTo, Notifications } from '../../src/post-commit/notifications.ts';
import { NOON, NOON_CLOCK } from '../support/checkpoint-files.ts';
import { EVERY_MINUTE, type SmallDaemon, smallDaemon } from '../support/small-daemon.ts';
import { calm, oneSubscription, publish, publishWithSnapshot, throwAt } from '../support/small-world.ts';
import { column, entry, refusal, schema, version } from '../support/sync-values.ts';
import { webhookReceiver } from '../support/webhook-receiver.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const HOUR = 60;
const NO_PROXY = { httpProxy: null, httpsProxy: null, noProxy: null };
const OUT_OF_REACH = new ServiceUnavailableError('It cannot be reached.');

/** A daemon that notifies a receiver. `after` returns the notifications that the receiver got meanwhile. */
async function notifying(...datasetIds: string[]) {
  const world = await oneSubscription(...datasetIds);
  const receiver = await webhookReceiver();
  const target = { url: new Secret(receiver.url), format: 'json' } as const;
  const source = { host: 'here', dataDirectory: '/data' };
  const deliver = deliverTo(target, source, { proxy: NO_PROXY, secrets: [] });
  let passedMs = 0;
  const started = (): SmallDaemon => {
    const clock = { ...NOON_CLOCK, now: () => world.parts.clock.now() };
    const { signal } = new AbortController();
    const notifications = new Notifications({
      deliver,
      checkpoint: world.checkpoint,
      clock,
      log: silentLog,
      signal,
    });
    Object.assign(world.parts, { onOccurrence: (one: never) => notifications.note([one]) });
    const readers = { postCommit: null, publish: null, exports: null, hook: null, notifications };
    const began = new Date(NOON.getTime() + passedMs);
    return smallDaemon(world, EVERY_MINUTE, undefined, { readers, began });
  };
  let current = started();
  return {
    world,
    receiver,
    /** Returns the titles of what was sent in these minutes. */
    async after(minutes: number, stepMs = MINUTE_MS): Promise<readonly string[]> {
      const before = receiver.received.length;
      await current.pass(minutes * MINUTE_MS, stepMs);
      passedMs += minutes * MINUTE_MS;
      return receiver.received.slice(before).map(({ body }) => JSON.parse(body).title);
    },
    async restart(): Promise<void> {
      current.daemon.stop();
      await current.ended;
      current = started();
    },
  };
}

it('notifies once of a suspension and once of its end, across restarts', async () => {
  const { world, after, restart } = await notifying('parcels', 'permits');
  expect(await after(5)).toEqual([]);
  publish(world, 'parcels');
  throwAt(world, /^versions parcels/, refusal({ kind: 'dataset', datasetId: 'parcels' }));
  expect(await after(2)).toEqual(['Suspended: dataset parcels (outside_coverage)']);
  await restart();
  expect(await after(2 * HOUR)).toEqual([]);
  calm(world);
  const beside = openCheckpointBeside({ path: world.checkpointPath, uid: 1000, clock: NOON_CLOCK });
  beside?.lift({ kind: 'dataset', datasetId: 'parcels' });
  beside?.close();
  expect(await after(2)).toEqual(['Over: suspended (outside_coverage)']);
  await restart();
  expect(await after(2 * HOUR)).toEqual([]);
});

it('notifies once of a lasting failure of many subjects and once of its end, across two restarts', async () => {
  const { world, after, restart } = await notifying('parcels', 'permits');
  await after(5);
  throwAt(world, /^(events|subscriptions)/, OUT_OF_REACH);
  expect(await after(4), 'a short failure is not notified').toEqual([]);
  expect(await after(20)).toEqual(['Failing: subscription sub_1 (service_unavailable)']);
  await restart();
  expect(await after(3 * HOUR)).toEqual([]);
  calm(world);
  await restart();
  expect(await after(5)).toEqual(['Over: failing (service_unavailable)']);
  throwAt(world, /^(events|subscriptions)/, OUT_OF_REACH);
  expect(await after(20), 'it comes back: the cause was notified more than an hour ago').toEqual([
    expect.stringMatching(/^Failing: .* \(service_unavailable\)$/),
  ]);
});

it('notifies once of changed columns, and of those within one hour together', async () => {
  const { world, after, restart } = await notifying('parcels', 'permits', 'roads');
  await after(5);
  const reshape = (datasetId: string): void => {
    const columns = [column('id', { nullable: false }), column('height', { type: 'integer' })];
    const wider = schema(datasetId, { schemaVersion: '2', firstVersion: 2, columns });
    world.service.schemas.set(datasetId, [wider, schema(datasetId)]);
    publishWithSnapshot(world, datasetId, { schemaVersion: '2', resyncRequired: true });
  };
  reshape('parcels');
  expect(await after(3)).toEqual(['Schema changed: dataset parcels']);
  reshape('permits');
  expect(await after(3)).toEqual([]);
  await restart();
  reshape('roads');
  expect(await after(47)).toEqual([]);
  await restart();
  expect(await after(10)).toEqual(['Schema changed: dataset permits and 1 more']);
  expect(await after(2 * HOUR)).toEqual([]);
});

it('notifies once of a commit that removed many rows, with their number', async () => {
  const { world, receiver, after, restart } = await notifying('parcels');
  const { snapshots, versions } = world.service;
  snapshots.set('parcels', { ...entry('parcels', 1), rowCount: 4_000 });
  versions.set('parcels', [version('parcels', 1, { rowCount: 4_000 })]);
  await after(5);
  publishWithSnapshot(world, 'parcels', { rowCount: 100, resyncRequired: true });
  expect(await after(3)).toEqual(['Large change: dataset parcels']);
  expect(JSON.parse(receiver.received.at(-1)?.body ?? '')).toMatchObject({
    kind: 'large_change',
    items: [{ subject: 'dataset parcels', text: 'version 2 removed 3,900 of 4,000 rows; 100 rows are left' }],
    count: 1,
  });
  await restart();
  expect(await after(2 * HOUR)).toEqual([]);
});

it('notifies once of a damaged table', async () => {
  const { world, after, restart } = await notifying('parcels', 'permits');
  await after(5);
  const damaged: DamagedTable = {
    tableName: 'main.parcels',
    datasetId: 'parcels',
    pastOf: null,
    isPinned: false,
    why: 'a checksum differs',
  };
  vi.spyOn(world.parts.destination, 'findDamage').mockResolvedValueOnce([damaged]).mockResolvedValue([]);
  publish(world, 'parcels');
  const error = new StorageError('A block cannot be read.', { code: 'mirror_damaged' });
  let isThrown = false;
  world.intervene = (call) => {
    if (call !== 'commit' || isThrown) return;
    isThrown = true;
    throw error;
  };
  expect(await after(10)).toContain('Damaged: table main.parcels');
  await restart();
  expect((await after(3 * HOUR)).filter((title) => title.startsWith('Damaged'))).toEqual([]);
});

it('notifies 30, 14 and 3 days before a position expires, each once, and when it no longer does', async () => {
  const { world, after, restart } = await notifying('parcels');
  publish(world, 'parcels');
  const days = async (count: number): Promise<readonly string[]> => after(count * 24 * HOUR, DAY_MS / 2);
  expect(await after(5)).toEqual([]);
  expect(await days(59)).toEqual([]);
  const near = 'Position about to expire: subscription sub_1 (position)';
  expect(await days(3)).toEqual([near]);
  await restart();
  expect(await days(12)).toEqual([]);
  expect(await days(3)).toEqual([near]);
  await restart();
  expect(await days(9)).toEqual([]);
  expect(await days(2)).toEqual([near]);
  publish(world, 'parcels');
  expect(await days(1)).toEqual(['Over: position about to expire (position)']);
});
