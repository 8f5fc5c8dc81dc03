/**
 * How many steps are carried out at once: as many small ones as there are, and of those for which much is staged only some. And when
 * what was staged goes.
 */

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { UnitQueue } from '../../src/destination/destination.ts';
import {
  type Ground,
  inEarnest,
  isLarge,
  MAX_SMALL_BYTES,
  MAX_SMALL_ROWS,
  type Work,
} from '../../src/sync/execute/executor.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import { oneSubscription } from '../support/small-world.ts';
import { history, NOW, offer, schema, table, version, want } from '../support/sync-values.ts';

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

/** What a load of version 2 needs. */
function groundOf(datasetId: string): Ground {
  const known = { held: table(1), want: want({ datasetId }) };
  const offers = { manifestOf: () => ({}) };
  return { known, history: history([version(datasetId, 2)]), offers } as unknown as Ground;
}

describe('much is staged', () => {
  it.each<[string, Work, boolean]>([
    ['not for a small snapshot', load(MAX_SMALL_BYTES), false],
    ['for a large one', load(MAX_SMALL_BYTES + 1), true],
    ['for one whose size is not known', load(null), true],
    ['not for small changes', apply(MAX_SMALL_ROWS - 1, 1), false],
    ['for large ones', apply(MAX_SMALL_ROWS, 1), true],
    ['for those that nobody counted', apply(1, null), true],
    [
      'never for what is retired',
      { kind: 'retire', reason: 'left', isApproved: false, judgedAt: NOW },
      false,
    ],
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
  const carryOut = (bytes: number, datasetId: string) =>
    void workshop.carryOut(load(bytes, datasetId), groundOf(datasetId));
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

it('what was staged for a small load goes at once, for the last large one when the destination is let go of', async () => {
  const { workshop, carryOut, isThere, letGo } = await workshopAtWork();
  await carryOut(MAX_SMALL_BYTES + 1, 'large');
  await carryOut(1, 'small');
  await carryOut(1, 'another small');
  const discarded = workshop.discard('large');
  // What is begun later and has ended shows that there was time for it.
  for (const datasetId of ['small', 'another small']) {
    await workshop.discard(datasetId);
    expect([isThere(datasetId), isThere('large')]).toEqual([false, true]);
  }
  letGo();
  await discarded;
  expect(isThere('large')).toBe(false);
});

it('what was staged for a large load goes at once while another is under way, which needs the room', async () => {
  const { workshop, carryOut, isThere } = await workshopAtWork('endless');
  await carryOut(MAX_SMALL_BYTES + 1, 'large');
  void carryOut(MAX_SMALL_BYTES + 1, 'endless');
  await expect.poll(() => isThere('endless')).toBe(true);
  await workshop.discard('large');
  expect(isThere('large')).toBe(false);
});

/** One whose destination stays open until three units were handed to it and it is told to let go. The download of `endless` does not end. */
async function workshopAtWork(endless?: string) {
  const stagingDirectory = mkdtempSync(join(tmpdir(), 'feed-sync-workshop-'));
  onTestFinished(() => rmSync(stagingDirectory, { recursive: true }));
  const { parts } = await oneSubscription('parcels');
  const folders = new Map<string, string>();
  const download: typeof parts.feed.download = async ({ entry: { datasetId }, directory }) => {
    folders.set(datasetId, directory);
    if (datasetId === endless) await new Promise(() => {});
    const file = { path: '', name: '', bytes: 1, sha256: '0', rowCount: null };
    return { kind: 'complete', files: [file], digestKind: 'stated', isSurelyOneContent: true };
  };
  const closing = Promise.withResolvers<void>();
  const commit = async (queue: UnitQueue): Promise<void> => {
    for (let units = 0; units < 3; ) {
      await queue.arrival();
      for (const one of queue.take()) {
        units += 1;
        queue.tell(one, { kind: 'overtaken', datasetId: one.unit.datasetId });
      }
    }
    await closing.promise;
  };
  const feed = { ...parts.feed, download };
  const destination = { ...parts.destination, commit };
  const choices = { ...parts.choices, stagingDirectory };
  const { signal } = new AbortController();
  const workshop = inEarnest({ ...parts, feed, destination, choices }, signal, () => {});
  return {
    workshop,
    letGo: closing.resolve,
    isThere: (datasetId: string): boolean => existsSync(folders.get(datasetId) ?? ''),
    async carryOut(bytes: number, datasetId: string): Promise<void> {
      await workshop.carryOut(load(bytes, datasetId), groundOf(datasetId));
    },
  };
}
