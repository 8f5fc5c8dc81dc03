/** The history of the mirror, read on from where it was read before: for those who build on the mirror. */

import { expect, it } from 'vitest';
import type { HistoryPosition } from '../../src/model/commits.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { manualClock } from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { column } from '../support/small-content.ts';

const people = sourceSchema([column('id', 'integer', false), column('name', 'string')]);
const ALL = { limit: 100, upTo: null };

async function busyMirror() {
  const world = await mirrorAtWork({ clock: manualClock() });
  const parcels = await world.loaded(firstContent(people, [[1, 'one']]));
  parcels.publishRows([
    [1, 'changed'],
    [2, 'two'],
    [3, 'three'],
  ]);
  await world.apply(parcels);
  const roads = await world.loaded(firstContent(people, [[1, 'one']]), 'us-tx-roads');
  await world.retire(roads, 'drop');
  return { world };
}

it('has a line for every commit, in order, with the rows that the table has now', async () => {
  const { world } = await busyMirror();
  const appliedAt = manualClock().now();
  const { lines, position, hasMore } = await world.mirror.history(null, ALL);
  const parcels = { datasetId: 'parcels', tableName: 'parcels', rowCount: 3, appliedAt };
  const roads = { datasetId: 'us-tx-roads', tableName: 'us_tx_roads', rowCount: null, appliedAt };
  expect(lines).toEqual([
    { line: 1, ...parcels, kind: 'snapshot', fromVersion: null, toVersion: 1, net: null },
    {
      line: 2,
      ...parcels,
      kind: 'changes',
      fromVersion: 1,
      toVersion: 2,
      net: { added: 2, changed: 1, removed: 0 },
    },
    { line: 3, ...roads, kind: 'snapshot', fromVersion: null, toVersion: 1, net: null },
    {
      line: 4,
      ...roads,
      kind: 'retired',
      fromVersion: 1,
      toVersion: 1,
      net: { added: 0, changed: 0, removed: 1 },
    },
  ]);
  expect(position.lines).toBe(4);
  expect(hasMore).toBe(false);
});

it('goes on after a position, a few lines at a time, and up to a line', async () => {
  const { world } = await busyMirror();
  const read: number[][] = [];
  let position: HistoryPosition | null = null;
  for (let hasMore = true; hasMore; ) {
    const page = await world.mirror.history(position, { limit: 2, upTo: 3 });
    read.push(page.lines.map(({ line }) => line));
    ({ position, hasMore } = page);
  }
  expect(read).toEqual([[1, 2], [3]]);
  expect(await world.mirror.history(position, { limit: 2, upTo: 3 })).toEqual({
    lines: [],
    position,
    hasMore: false,
  });
  expect((await world.mirror.history(position, ALL)).lines.map(({ line }) => line)).toEqual([4]);
});

it('begins anew where the position is that of another history, and is empty without a mirror', async () => {
  const { world } = await busyMirror();
  const { position } = await world.mirror.history(null, { limit: 2, upTo: null });
  const other = await mirrorAtWork();
  expect(await other.mirror.history(position, ALL)).toMatchObject({ lines: [], hasMore: false });
  const parcels = await other.loaded(firstContent(people, [[1, 'one']]));
  await other.load(parcels);
  for (const elsewhere of [position, { lines: 9, last: position.last }]) {
    const page = await other.mirror.history(elsewhere, ALL);
    expect(page.lines.map(({ line }) => line)).toEqual([1, 2]);
  }
});
