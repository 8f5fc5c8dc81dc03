/**
 * How many steps run at once: all small ones, and a bounded number of those that stage much; and when their staged files are removed.
 * Staging folders are bounded by that.
 */

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { JobQueue } from '../../src/destination/destination.ts';
import { isLarge, liveExecutor, MAX_SMALL_BYTES, MAX_SMALL_ROWS } from '../../src/sync/execute/executor.ts';
import type { StepDependencies, Work } from '../../src/sync/execute/step-tools.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import { oneSubscription } from '../support/small-world.ts';
import { desired, listedEntry, metadata, NOW, schema, table, version } from '../support/sync-values.ts';

/** A load of two files. */
function load(bytes: number | null, datasetId = 'parcels'): Work {
  const { entry, ...rest } = listedEntry(2);
  const [file] = entry.files;
  if (file === undefined) throw new Error('an entry has a file');
  const files = [
    { ...file, bytes: 0 },
    { ...file, bytes },
  ];
  return {
    kind: 'load',
    listedEntry: { ...rest, entry: { ...entry, datasetId, files } },
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

/** The dependencies of a load of version 2. */
function dependenciesOf(datasetId: string): StepDependencies {
  const known = { observed: table(1), desired: desired({ datasetId }) };
  const listedEntries = { manifestOf: () => ({}) };
  return { known, metadata: metadata([version(datasetId, 2)]), listedEntries } as unknown as StepDependencies;
}

describe('isLarge', () => {
  it.each<[string, Work, boolean]>([
    ['a small snapshot', load(MAX_SMALL_BYTES), false],
    ['a large snapshot', load(MAX_SMALL_BYTES + 1), true],
    ['a snapshot of unknown size', load(null), true],
    ['small changes', apply(MAX_SMALL_ROWS - 1, 1), false],
    ['large changes', apply(MAX_SMALL_ROWS, 1), true],
    ['changes without counts', apply(1, null), true],
    ['a retirement', { kind: 'retire', reason: 'left', isApproved: false, judgedAt: NOW }, false],
  ])('judges whether %s stages much', (_, work, expected) => {
    expect(isLarge(work, { metadata: metadata([]) })).toBe(expected);
  });
});

it('runs 32 large loads at once and all small ones, and reports only those as begun', async () => {
  const { parts } = await oneSubscription('parcels');
  const [begun, reported]: [string[], string[]] = [[], []];
  const ends = new Map<string, () => void>();
  const download: typeof parts.feed.download = ({ entry }) => {
    begun.push(entry.datasetId);
    return new Promise((resolve) => {
      ends.set(entry.datasetId, () => resolve({ kind: 'superseded', entry: null }));
    });
  };
  const progress = {
    ...silentProgress,
    began: (datasetId: string, step: string) => void reported.push(`${datasetId} ${step}`),
  };
  const feed = { ...parts.feed, download };
  const executor = liveExecutor({ ...parts, feed, progress }, new AbortController().signal, () => {});
  const execute = (bytes: number, datasetId: string) =>
    void executor.execute(load(bytes, datasetId), dependenciesOf(datasetId));
  for (let index = 0; index < 100; index++) {
    execute(MAX_SMALL_BYTES + 1, `large-${index}`);
    execute(1, `small-${index}`);
  }
  await expect.poll(() => begun.length).toBe(132);
  expect(begun.filter((datasetId) => datasetId.startsWith('large'))).toHaveLength(32);
  const reportsOf = (datasetIds: readonly string[]) =>
    datasetIds.map((id) => `${id} loading version 2`).sort();
  expect(reported.toSorted()).toEqual(reportsOf(begun));
  ends.get('large-7')?.();
  await expect.poll(() => begun.at(-1)).toBe('large-32');
  expect(reported.toSorted()).toEqual(reportsOf(begun));
});

it('removes what a small load staged at once, and what the last large load staged once the destination is free', async () => {
  const { executor, execute, isThere, letGo } = await executorAtWork();
  await execute(MAX_SMALL_BYTES + 1, 'large');
  await execute(1, 'small');
  await execute(1, 'another small');
  const discarded = executor.discard('large');
  // Work that started later and has ended shows that there was time for it.
  for (const datasetId of ['small', 'another small']) {
    await executor.discard(datasetId);
    expect([isThere(datasetId), isThere('large')]).toEqual([false, true]);
  }
  letGo();
  await discarded;
  expect(isThere('large')).toBe(false);
});

it('removes what a large load staged at once while another large load is under way and needs the space', async () => {
  const { executor, execute, isThere } = await executorAtWork('endless');
  await execute(MAX_SMALL_BYTES + 1, 'large');
  void execute(MAX_SMALL_BYTES + 1, 'endless');
  await expect.poll(() => isThere('endless')).toBe(true);
  await executor.discard('large');
  expect(isThere('large')).toBe(false);
});

/** An executor whose destination has taken three write jobs and stays open until `letGo`. The download of `endless` does not end. */
async function executorAtWork(endless?: string) {
  const stagingDirectory = mkdtempSync(join(tmpdir(), 'feed-sync-executor-'));
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
  const commit = async (queue: JobQueue): Promise<void> => {
    for (let jobs = 0; jobs < 3; ) {
      await queue.arrival();
      for (const one of queue.take()) {
        jobs += 1;
        queue.report(one, { kind: 'stale-plan', datasetId: one.job.datasetId });
      }
    }
    await closing.promise;
  };
  const feed = { ...parts.feed, download };
  const destination = { ...parts.destination, commit };
  const choices = { ...parts.choices, stagingDirectory };
  const { signal } = new AbortController();
  const executor = liveExecutor({ ...parts, feed, destination, choices }, signal, () => {});
  return {
    executor,
    letGo: closing.resolve,
    isThere: (datasetId: string): boolean => existsSync(folders.get(datasetId) ?? ''),
    async execute(bytes: number, datasetId: string): Promise<void> {
      await executor.execute(load(bytes, datasetId), dependenciesOf(datasetId));
    },
  };
}
