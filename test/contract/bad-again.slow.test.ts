/**
 * V11 over the wire: what was found bad is not fetched again until the service names other content, an operator asks, or a
 * day has passed, whatever happens meanwhile.
 */

import { expect, it } from 'vitest';
import { type BadWorld, contentRequests, messageOf, publishChanges } from '../support/bad-content.ts';
import { withRealMirror } from '../support/served-world.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { elapse, kinds } from '../support/small-world.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const TWO = numberedRows(2);
const THREE = numberedRows(3);

/** Permits are mirrored with two rows. */
async function mirroring(): Promise<BadWorld> {
  const world = await withRealMirror();
  world.feed.publisher.publish('permits', smallContent(TWO));
  await world.catchUp();
  return world;
}

/** What became of permits in one more catch-up, and what was fetched of them. */
async function caughtUp(world: BadWorld): Promise<readonly string[]> {
  world.feed.requests.clear();
  const became = kinds(await world.catchUp())['permits'] ?? 'nothing';
  return [became, ...contentRequests(world.feed, 'permits')];
}

const withDamagedFiles = ({ feed }: BadWorld) =>
  feed.faults.add({
    match: { operation: 'file', datasetId: 'permits', times: 'always' },
    act: { kind: 'flipBit', atByte: 100 },
  });

/** A manifest that states another number of rows than the record of the version is waited for; one that states none is not. */
const withoutRowCounts = ({ feed }: BadWorld) =>
  feed.faults.add({
    match: { operation: 'manifest', times: 'always' },
    act: {
      kind: 'rewrite',
      rewrite: (body) => {
        for (const entry of Object(body).datasets) Object.assign(entry, { rowCount: null });
        return body;
      },
    },
  });

it('F31 V11 fetches neither bad changes nor their bad snapshot again until a day has passed', async () => {
  const world = await mirroring();
  withoutRowCounts(world);
  world.feed.publisher.publish('permits', smallContent(THREE), { claims: { rowCount: 7 } });
  expect(await caughtUp(world)).toEqual(['failed', 'changes', 'file']);
  expect(await caughtUp(world)).toEqual(['failed']);
  elapse(world, 23 * HOUR_MS);
  expect(await caughtUp(world)).toEqual(['failed']);
  elapse(world, HOUR_MS);
  expect(await caughtUp(world)).toEqual(['failed', 'changes', 'file']);
});

it('waits for a snapshot whose row count in the manifest differs from that of the version record', async () => {
  const world = await mirroring();
  world.feed.publisher.publish('permits', smallContent(THREE), { claims: { rowCount: 7 } });
  expect(await caughtUp(world)).toEqual(['waiting', 'changes']);
  expect(await caughtUp(world)).toEqual(['waiting', 'changes']);
});

it('V11 does not request unrecorded changes again while the snapshot is bad', async () => {
  const world = await mirroring();
  world.feed.publisher.publish('permits', smallContent(THREE, null));
  const fault = withDamagedFiles(world);
  expect(await caughtUp(world)).toEqual(['failed', 'changes', 'file', 'file', 'file']);
  expect(await caughtUp(world)).toEqual(['failed']);
  world.feed.faults.remove(fault.id);
  expect(await caughtUp(world)).toEqual(['failed']);
  world.feed.publisher.publish('permits', smallContent(numberedRows(4), null));
  expect(await caughtUp(world)).toEqual(['loaded', 'file']);
});

it('V11 fetches only the file that differed from its manifest again, after 15 minutes', async () => {
  const world = await withRealMirror(
    { files: { filesPerSnapshot: 2 } },
    { downloads: { allowedOrigins: [], concurrency: 1 } },
  );
  world.feed.publisher.publish('permits', smallContent(numberedRows(4)));
  const match = { operation: 'file', datasetId: 'permits', nth: 2, times: 3 } as const;
  world.feed.faults.add({ match, act: { kind: 'flipBit', atByte: 100 } });
  expect(await caughtUp(world)).toEqual(['failed', 'file', 'file', 'file', 'file']);
  elapse(world, 14 * MINUTE_MS);
  expect(await caughtUp(world)).toEqual(['failed']);
  elapse(world, MINUTE_MS);
  expect(await caughtUp(world)).toEqual(['loaded', 'file']);
});

it('V11 fetches bad changes and their bad snapshot once each, and does not alternate between them', async () => {
  const world = await mirroring();
  withoutRowCounts(world);
  publishChanges(world.feed, 'permits', ['{"op":"added","row":{"id":"b","amount":1.5}}']);
  expect(await caughtUp(world)).toEqual(['failed', 'changes']);
  expect(await caughtUp(world)).toEqual(['failed']);
  withDamagedFiles(world);
  world.checkpoint.requestResync(['permits']);
  expect(await caughtUp(world)).toEqual(['failed', 'file', 'file', 'file']);
  // The resync of the operator stops no changes, and is a reason to try these once more, too.
  expect(await caughtUp(world)).toEqual(['failed', 'changes']);
  for (let times = 0; times < 3; times += 1) expect(await caughtUp(world)).toEqual(['failed']);
});

it('V11 remembers bad changes across another failure of the dataset', async () => {
  const world = await mirroring();
  publishChanges(world.feed, 'permits', ['{"op":"added","row":{"id":"b","amount":1.5}}']);
  expect(await caughtUp(world)).toEqual(['failed', 'changes']);
  const act = { kind: 'respond', status: 503 } as const;
  const fault = world.feed.faults.add({
    match: { operation: 'versions', datasetId: 'permits', times: 'always' },
    act,
  });
  expect(await caughtUp(world)).toEqual(['failed']);
  world.feed.faults.remove(fault.id);
  expect(await caughtUp(world)).toEqual(['failed']);
  expect(messageOf(await world.catchUp(), 'permits')).toContain('holds 1.5, which is no integer');
});

it('V11 fetches bad content again at once when the service names other content or an operator requests a resync', async () => {
  const world = await mirroring();
  const { feed, checkpoint } = world;
  withoutRowCounts(world);
  feed.publisher.publish('permits', smallContent(THREE, null), { claims: { rowCount: 7 } });
  expect(await caughtUp(world)).toEqual(['failed', 'changes', 'file']);
  checkpoint.requestResync(['permits']);
  expect(await caughtUp(world)).toEqual(['failed', 'file']);
  // The resync of the operator stops no changes, and is a reason to try these once more, too.
  expect(await caughtUp(world)).toEqual(['failed', 'changes']);
  for (let times = 0; times < 3; times += 1) expect(await caughtUp(world)).toEqual(['failed']);

  const dataset = feed.store.dataset('permits');
  const wrong = dataset.versions.at(-1);
  if (wrong === undefined) throw new Error('permits have a version');
  const content = smallContent(numberedRows(7), null);
  dataset.versions = [...dataset.versions.slice(0, -1), { ...wrong, content }];
  expect(await caughtUp(world)).toEqual(['loaded', 'file']);
  expect(checkpoint.failures().size).toBe(0);
});
