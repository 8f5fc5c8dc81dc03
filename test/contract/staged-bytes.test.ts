/** Changes of more bytes than may be staged, from a real service into a real mirror: in steps, or by the snapshot. */

import { readdir } from 'node:fs/promises';
import { expect, it } from 'vitest';
import type { Change, Row } from '../../fixtures/source/content.ts';
import { expectVersions, type HostileFeed, hostileFeed, type Seen } from '../support/hostile-feed.ts';
import { smallContent } from '../support/small-content.ts';

/** Three pages of changes, and some. */
const MANY_ROWS = 3_500;

const allow = ({ world }: HostileFeed, maxStagedBytes: number): void => {
  Object.assign(world.parts.choices, { maxStagedBytes });
};

const commitsOf = ({ result }: Seen) => result.datasets.flatMap(({ commits }) => commits);

/** Files below the folder of what is staged. */
async function staged({ world }: HostileFeed): Promise<readonly string[]> {
  const entries = await readdir(world.parts.choices.stagingDirectory, {
    recursive: true,
    withFileTypes: true,
  });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

/** A version that adds very many rows. */
function publishMany({ feed }: HostileFeed, datasetId: string): void {
  const added = Array.from({ length: MANY_ROWS }, (_, index): Row => [`m${index}`, index]);
  const before = [...(feed.store.dataset(datasetId).versions.at(-1)?.content.rows() ?? [])];
  const changes = added.map((row): Change => ({ op: 'added', row }));
  feed.publisher.publish(datasetId, smallContent([...before, ...added], changes));
}

async function followed(): Promise<HostileFeed> {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x'] } });
  await one.once();
  return one;
}

it('applies a backlog of more bytes than may be staged in as many steps as fit', async () => {
  const one = await followed();
  one.publish('x');
  const [first] = commitsOf(await one.once());
  const maxBytes = 2.5 * (first?.bytes ?? 0);
  allow(one, maxBytes);
  for (let version = 3; version <= 9; version += 1) one.publish('x');
  const seen = await one.once();
  expect(seen).toMatchObject({ exitCode: 0 });
  const commits = commitsOf(seen);
  expect(commits.length).toBeGreaterThan(1);
  for (const { kind, bytes } of commits) {
    expect(kind).toBe('changes');
    expect(bytes).toBeLessThanOrEqual(maxBytes);
  }
  await expectVersions(one, { x: 9 });
  expect(await staged(one)).toEqual([]);
  await one.expectRightInTheEnd();
});

it('a version with more bytes by itself falls back to the snapshot, after the versions before it', async () => {
  const one = await followed();
  one.feed.manifest.freeze();
  one.publish('x');
  publishMany(one, 'x');
  one.publish('x');
  allow(one, 100_000);
  const waiting = await one.once();
  expect(waiting).toMatchObject({
    exitCode: 75,
    result: { datasets: [{ kind: 'waiting', why: expect.stringContaining('changes.maxStagedBytes') }] },
  });
  await expectVersions(one, { x: 2 });
  expect(await staged(one)).toEqual([]);
  one.feed.requests.clear();
  expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' } });
  expect(one.feed.requests.entries('changes')).toEqual([]);
  one.feed.manifest.thaw();
  expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'loaded' } });
  expect(await staged(one)).toEqual([]);
  await one.expectRightInTheEnd();
});

it('applies a version with more bytes once more may be staged', async () => {
  const one = await followed();
  one.feed.manifest.freeze();
  publishMany(one, 'x');
  allow(one, 100_000);
  expect(await one.once()).toMatchObject({ exitCode: 75 });
  allow(one, 10_000_000);
  expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'applied' } });
  one.feed.manifest.thaw();
  await one.expectRightInTheEnd();
});
