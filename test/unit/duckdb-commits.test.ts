/** The commits of the mirror, read page by page after a bookmark, for jobs that build on the mirror. */

import { expect, it } from 'vitest';
import type { CommitPosition } from '../../src/model/commits.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { manualClock } from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { PEOPLE } from '../support/people.ts';

const ALL = { limit: 100, upTo: null };

async function busyMirror() {
  const world = await mirrorAtWork({ clock: manualClock() });
  const parcels = await world.loaded(firstContent(PEOPLE, [[1, 'one']]));
  parcels.publishRows([
    [1, 'changed'],
    [2, 'two'],
    [3, 'three'],
  ]);
  await world.apply(parcels);
  const roads = await world.loaded(firstContent(PEOPLE, [[1, 'one']]), 'us-tx-roads');
  await world.retire(roads, 'drop');
  return { world };
}

it('lists every commit in order, with the rows that the table has now', async () => {
  const { world } = await busyMirror();
  const appliedAt = manualClock().now();
  const { commits, position, hasMore } = await world.mirror.commits(null, ALL);
  const parcels = { datasetId: 'parcels', tableName: 'parcels', rowCount: 3, appliedAt };
  const roads = { datasetId: 'us-tx-roads', tableName: 'us_tx_roads', rowCount: null, appliedAt };
  expect(commits).toEqual([
    { commitNumber: 1, ...parcels, kind: 'load', fromVersion: null, toVersion: 1, net: null },
    {
      commitNumber: 2,
      ...parcels,
      kind: 'changes',
      fromVersion: 1,
      toVersion: 2,
      net: { added: 2, changed: 1, removed: 0 },
    },
    { commitNumber: 3, ...roads, kind: 'load', fromVersion: null, toVersion: 1, net: null },
    {
      commitNumber: 4,
      ...roads,
      kind: 'retire',
      fromVersion: 1,
      toVersion: 1,
      net: { added: 0, changed: 0, removed: 1 },
    },
  ]);
  expect(position.commitNumber).toBe(4);
  expect(hasMore).toBe(false);
});

it('lists commits after a position, page by page, up to a commit number', async () => {
  const { world } = await busyMirror();
  const read: number[][] = [];
  let position: CommitPosition | null = null;
  for (let hasMore = true; hasMore; ) {
    const page = await world.mirror.commits(position, { limit: 2, upTo: 3 });
    read.push(page.commits.map(({ commitNumber }) => commitNumber));
    ({ position, hasMore } = page);
  }
  expect(read).toEqual([[1, 2], [3]]);
  expect(await world.mirror.commits(position, { limit: 2, upTo: 3 })).toEqual({
    commits: [],
    position,
    hasMore: false,
  });
  expect((await world.mirror.commits(position, ALL)).commits.map(({ commitNumber }) => commitNumber)).toEqual(
    [4],
  );
});

it('lists all commits where the position is from another mirror, and none without a mirror', async () => {
  const { world } = await busyMirror();
  const { position } = await world.mirror.commits(null, { limit: 2, upTo: null });
  const other = await mirrorAtWork();
  expect(await other.mirror.commits(position, ALL)).toMatchObject({ commits: [], hasMore: false });
  const parcels = await other.loaded(firstContent(PEOPLE, [[1, 'one']]));
  await other.load(parcels);
  for (const elsewhere of [position, { commitNumber: 9, mark: position.mark }]) {
    const page = await other.mirror.commits(elsewhere, ALL);
    expect(page.commits.map(({ commitNumber }) => commitNumber)).toEqual([1, 2]);
  }
});
