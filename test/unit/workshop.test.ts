/** How many steps are carried out at once: as many small ones as there are, and of those for which much is staged only some. */

import { describe, expect, it } from 'vitest';
import { silentProgress } from '../../src/sync/progress.ts';
import { isLarge, MAX_SMALL_BYTES, MAX_SMALL_ROWS, type Work } from '../../src/sync/work/carry-out.ts';
import { inEarnest } from '../../src/sync/work/workshop.ts';
import { oneSubscription } from '../support/small-world.ts';
import { history, offer, schema, table, version, want } from '../support/sync-values.ts';

/** Of two files. */
function load(bytes: number | null, datasetId = 'parcels'): Work {
  const { entry, ...rest } = offer(2);
  const [file] = entry.files;
  if (file === undefined) throw new Error('an entry has a file');
  const files = [
    { ...file, bytes: 0 },
    { ...file, bytes },
  ];
  return {
    kind: 'load',
    offer: { ...rest, entry: { ...entry, datasetId, files } },
    reloads: new Map(),
    why: '',
  };
}

function apply(...rows: readonly (number | null)[]): Work {
  const versions = rows.map((count, index) =>
    version('parcels', index + 2, {
      counts: count === null ? null : { added: 0, changed: count, removed: 0 },
    }),
  );
  return { kind: 'apply', versions, schema: schema('parcels'), addsColumns: false };
}

describe('much is staged', () => {
  it.each<[string, Work, boolean]>([
    ['not for a small snapshot', load(MAX_SMALL_BYTES), false],
    ['for a large one', load(MAX_SMALL_BYTES + 1), true],
    ['for one whose size is not known', load(null), true],
    ['not for small changes', apply(MAX_SMALL_ROWS - 1, 1), false],
    ['for large ones', apply(MAX_SMALL_ROWS, 1), true],
    ['for those that nobody counted', apply(1, null), true],
    ['never for what is retired', { kind: 'retire', reason: 'left' }, false],
  ])('%s', (_, work, expected) => {
    expect(isLarge(work, { history: history([]) })).toBe(expected);
  });
});

it('of large loads 32 are under way, of small ones all, and only those are told as begun', async () => {
  const { parts } = await oneSubscription('parcels');
  const [begun, told]: [string[], string[]] = [[], []];
  const ends = new Map<string, () => void>();
  const download: typeof parts.feed.download = ({ entry }) => {
    begun.push(entry.datasetId);
    return new Promise((resolve) => {
      ends.set(entry.datasetId, () => resolve({ kind: 'superseded', entry: null }));
    });
  };
  const progress = {
    ...silentProgress,
    began: (datasetId: string, step: string) => void told.push(`${datasetId} ${step}`),
  };
  const feed = { ...parts.feed, download };
  const workshop = inEarnest({ ...parts, feed, progress }, new AbortController().signal, () => {});
  const offers = { manifestOf: () => ({}) };
  const carryOut = (bytes: number, datasetId: string) => {
    const known = { held: table(1), want: want({ datasetId }) };
    const ground = { known, history: history([]), offers } as unknown as Parameters<
      typeof workshop.carryOut
    >[1];
    void workshop.carryOut(load(bytes, datasetId), ground);
  };
  for (let index = 0; index < 100; index++) {
    carryOut(MAX_SMALL_BYTES + 1, `large-${index}`);
    carryOut(1, `small-${index}`);
  }
  await expect.poll(() => begun.length).toBe(132);
  expect(begun.filter((datasetId) => datasetId.startsWith('large'))).toHaveLength(32);
  const toldOf = (datasetIds: readonly string[]) => datasetIds.map((id) => `${id} loading version 2`).sort();
  expect(told.toSorted()).toEqual(toldOf(begun));
  ends.get('large-7')?.();
  await expect.poll(() => begun.at(-1)).toBe('large-32');
  expect(told.toSorted()).toEqual(toldOf(begun));
});
