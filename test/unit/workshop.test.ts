/** How many steps are carried out at once: as many small ones as there are, and of those for which much is staged only some. */

import { describe, expect, it } from 'vitest';
import { isLarge, MAX_SMALL_BYTES, MAX_SMALL_ROWS, type Work } from '../../src/sync/work/carry-out.ts';
import { inEarnest } from '../../src/sync/work/workshop.ts';
import { oneSubscription } from '../support/small-world.ts';
import { history, offer, schema, table, version } from '../support/sync-values.ts';

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

it('of large loads 32 are under way, of small ones all', async () => {
  const { parts } = await oneSubscription('parcels');
  const begun: string[] = [];
  const download: typeof parts.feed.download = ({ entry }) => {
    begun.push(entry.datasetId);
    return new Promise(() => {});
  };
  const workshop = inEarnest({ ...parts, feed: { ...parts.feed, download } }, new AbortController().signal);
  const known = { held: table(1) };
  const offers = { manifestOf: () => ({}) };
  const carryOut = (work: Work) =>
    void workshop.carryOut(work, { known, history: history([]), offers } as unknown as Parameters<
      typeof workshop.carryOut
    >[1]);
  for (let index = 0; index < 100; index++) {
    carryOut(load(MAX_SMALL_BYTES + 1, `large-${index}`));
    carryOut(load(1, `small-${index}`));
  }
  await expect.poll(() => begun.length).toBe(132);
  expect(begun.filter((datasetId) => datasetId.startsWith('large'))).toHaveLength(32);
});
