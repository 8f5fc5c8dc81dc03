/** F15 over the wire: a service that asks us to wait is waited for, as long as it says and no longer than the cap. */

import { expect, it } from 'vitest';
import type { Operation } from '../../fixtures/feed/operations.ts';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import { type InstantClock, instantClock, testFeed } from '../support/feed-client.ts';
import { expectCalm, expectNewest, expectPublished, newestVersions } from '../support/oracle.ts';
import { publishNext, type ServedWorld, withRealMirror } from '../support/served-world.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const DATE = 'Thu, 01 Jan 2026 00:00:00 GMT';
const IN_A_MINUTE = 'Thu, 01 Jan 2026 00:01:00 GMT';
const CAP_MS = 900_000;

const WAITS: readonly (readonly [Operation, number, string, number])[] = [
  ['subscriptions', 503, '7', 7_000],
  ['events', 429, '7', 7_000],
  ['events', 503, IN_A_MINUTE, 60_000],
  ['manifest', 429, IN_A_MINUTE, 60_000],
  ['versions', 503, '7', 7_000],
  ['schemas', 429, '7', 7_000],
  ['changes', 503, IN_A_MINUTE, 60_000],
  ['file', 429, '7', 7_000],
  ['file', 503, IN_A_MINUTE, 60_000],
];

/** Permits have a further version as a snapshot, parcels by changes. */
function publish({ feed }: ServedWorld): void {
  const rows = feed.store.dataset('permits').versions.length + 2;
  feed.publisher.publish('permits', smallContent(numberedRows(rows), null));
  publishNext(feed, 'parcels');
}

/** Its client waits by a clock of its own. */
function withClock(world: ServedWorld, now = '2026-01-01T00:00:00Z'): InstantClock {
  const clock = instantClock(now);
  Object.assign(world.parts, { feed: testFeed(world.feed.baseUrl, { clock }).feed });
  return clock;
}

it('F15 waits for Retry-After as seconds and as a date, in every operation', async () => {
  const world = await withRealMirror();
  await world.catchUp();
  for (const [operation, status, retryAfter, waitMs] of WAITS) {
    publish(world);
    const clock = withClock(world);
    const headers = { date: DATE, 'retry-after': retryAfter };
    const act = { kind: 'respond', status, headers } as const;
    const fault = world.feed.faults.add({ match: { operation }, act });
    expect(await world.catchUp(), operation).toMatchObject({ incidents: [] });
    expect([operation, fault.fired, clock.sleptMs]).toEqual([operation, 1, [waitMs]]);
  }
  await expectNewest(world);
});

it.each(['2025-12-31T00:00:00Z', '2026-01-02T00:00:00Z'])(
  'F13 F15 waits until a date of the service, where the clock here says %s at its midnight of 2026',
  async (now) => {
    const world = await withRealMirror();
    await world.catchUp();
    publish(world);
    const clock = withClock(world, now);
    const headers = { date: DATE, 'retry-after': IN_A_MINUTE };
    const act = { kind: 'respond', status: 503, headers } as const;
    world.feed.faults.add({ match: { operation: 'versions' }, act });
    expect(await world.catchUp()).toMatchObject({ incidents: [] });
    expect(clock.sleptMs).toEqual([60_000]);
  },
);

it('F15 F64 waits for a Retry-After of a day up to the cap, and gives up; others go on', async () => {
  const world = await withRealMirror();
  await world.catchUp();
  for (const status of [429, 503]) {
    const before = newestVersions(world);
    publish(world);
    const clock = withClock(world);
    const act = { kind: 'respond', status, headers: { 'retry-after': '86400' } } as const;
    const match = { operation: 'versions', datasetId: 'permits', times: 'always' } as const;
    world.feed.faults.add({ match, act });
    const { datasets } = await world.catchUp();
    const failed = datasets.flatMap((one) => (one.kind === 'failed' ? [one] : []));
    expect(failed.map(({ datasetId }) => datasetId)).toEqual(['permits']);
    expect(failed[0]?.error).toBeInstanceOf(ServiceUnavailableError);
    // A 429 is of the origin: the requests of the others wait, too.
    expect(new Set(clock.sleptMs)).toEqual(new Set([CAP_MS]));
    if (status === 503) expect(clock.sleptMs).toHaveLength(1);
    const { parcels = 0, ...others } = before;
    expect(await expectPublished(world, before)).toEqual({ ...others, parcels: parcels + 1 });
    await expectCalm(world);
  }
});
