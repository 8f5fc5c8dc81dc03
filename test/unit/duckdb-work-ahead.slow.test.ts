/** A reload of a large table with history: its files are read before the mirror is locked (F10, F68, F70). */

import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import type { Destination } from '../../src/destination/destination.ts';
import type { MirrorOptions } from '../../src/destination/duckdb/mirror.ts';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { DataError } from '../../src/model/errors.ts';
import { NO_LIMITS } from '../../src/model/gate.ts';
import type { SnapshotJob } from '../../src/model/write-jobs.ts';
import { type Child, startChild } from '../support/child.ts';
import { commitAll } from '../support/commit-all.ts';
import {
  column,
  duckdb,
  inMirror,
  load,
  loadError,
  manualClock,
  mirrorIn,
  parquet,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { ALL_HISTORY } from '../support/people.ts';

/** More than one row group, so that the table is a large one. */
const ROWS = 130_000;

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeEach(async () => {
  folder = await temporaryFolder();
});
afterEach(async () => {
  await folder[Symbol.asyncDispose]();
});

async function mirrorWithHistory(options: Partial<MirrorOptions> = {}): Promise<Destination> {
  const mirror = await mirrorIn(folder.path, { history: ALL_HISTORY, ...options });
  onTestFinished(() => mirror.close());
  return mirror;
}

interface Reloaded {
  readonly datasetId?: string;
  /** SQL of the row number `i`. */
  readonly amount: string;
  readonly key?: string;
}

const fileOf = (datasetId: string, version: number): string => `${datasetId}-${version}.parquet`;

async function jobOf(
  mirror: Destination,
  version: number,
  { datasetId = 'parcels', amount, key = 'i' }: Reloaded,
): Promise<SnapshotJob> {
  const select = `SELECT ${key} AS id, ${amount} AS amount FROM range(${ROWS}) AS t(i)`;
  return snapshot({
    datasetId,
    version,
    digest: `digest-${version}`,
    columns: [column('id', 'integer', { nullable: false }), column('amount', 'integer')],
    keyColumns: ['id'],
    files: [await parquet(folder.path, fileOf(datasetId, version), select)],
    plannedFrom: (await mirror.has()).datasets.get(datasetId) ?? null,
  });
}

/** Runs once, as the next write session locks the mirror. */
function whenLocked(work: () => void): void {
  let isDone = false;
  observeDurableEffects((name, timestamp) => {
    if (isDone || name !== 'destination.attach' || timestamp !== 'before') return;
    isDone = true;
    work();
  });
  onTestFinished(() => observeDurableEffects(() => {}));
}

const removeFiles = (...names: readonly string[]) =>
  whenLocked(() => {
    for (const name of names) rmSync(join(folder.path, name));
  });

const sumOfAmounts = async (table = 'parcels'): Promise<number> =>
  Number((await inMirror(folder.path, `SELECT sum(amount)::VARCHAR FROM ${table}`))[0]?.[0]);

const SUM = (ROWS * (ROWS - 1)) / 2;
const FEW = 'i + CASE WHEN i < 10 THEN 1 ELSE 0 END';
const FEW_CHANGED = { kind: 'committed', committed: { net: { added: 0, changed: 10, removed: 0 } } };

it('reads the files of a large reload before the mirror is locked, and not again', async () => {
  const mirror = await mirrorWithHistory();
  await load(mirror, await jobOf(mirror, 1, { amount: 'i' }));
  const job = await jobOf(mirror, 2, { amount: FEW });
  removeFiles(fileOf('parcels', 2));
  expect(await load(mirror, job)).toMatchObject([FEW_CHANGED]);
  expect(await sumOfAmounts()).toBe(SUM + 10);
});

/** Loads while another process reads the mirror; once the program waits for the lock, the reader goes, and `meanwhile` is run. */
async function loadBesideReader(
  second: (mirror: Destination) => Promise<SnapshotJob>,
  ...meanwhile: readonly string[]
) {
  const path = join(folder.path, 'mirror.duckdb');
  let reader: Child | null = null;
  const clock = manualClock(async () => {
    if (reader === null) return;
    await reader.kill();
    reader = null;
    if (meanwhile.length > 0) await duckdb(`ATTACH '${path}' AS m`, ...meanwhile, 'DETACH m');
  });
  const mirror = await mirrorWithHistory({ clock, lockWaitMs: 60_000 });
  await load(mirror, await jobOf(mirror, 1, { amount: 'i' }));
  const prepared = [await mirror.validate(await second(mirror))];
  reader = startChild('duckdb-holder-child.ts', path);
  const held = reader;
  onTestFinished(() => held.kill());
  expect(await held.nextLine()).toBe('held');
  const results = await commitAll(mirror, prepared);
  expect(reader).toBe(null);
  return results;
}

it('F10 reads the files of a large reload while another process reads the mirror', async () => {
  const results = await loadBesideReader(async (mirror) => {
    const job = await jobOf(mirror, 2, { amount: FEW });
    removeFiles(fileOf('parcels', 2));
    return job;
  });
  expect(results).toMatchObject([FEW_CHANGED]);
  expect(await sumOfAmounts()).toBe(SUM + 10);
});

it('F70 compares with the table as it is once the mirror is locked', async () => {
  const results = await loadBesideReader(
    (mirror) => jobOf(mirror, 2, { amount: FEW }),
    'UPDATE m.main.parcels SET amount = -1 WHERE id IN (3, 70_000)',
  );
  const lostPast = expect.stringContaining('altered outside feed-sync');
  const net = { added: 0, changed: 11, removed: 0 };
  expect(results).toMatchObject([{ kind: 'committed', committed: { net, lostPast } }]);
  expect(await sumOfAmounts()).toBe(SUM + 10);
});

it('F70 swaps the table where it was given rows twice, or was dropped, until the mirror is locked', async () => {
  const twice = 'INSERT INTO m.main.parcels SELECT * FROM m.main.parcels WHERE id = 5';
  for (const altered of [twice, 'DROP TABLE m.main.parcels']) {
    const [result] = await loadBesideReader((mirror) => jobOf(mirror, 2, { amount: 'i + 1' }), altered);
    expect(result).toMatchObject({ kind: 'committed', committed: { lostPast: expect.any(String) } });
    expect(await sumOfAmounts()).toBe(SUM + ROWS);
    await rm(join(folder.path, 'mirror.duckdb'));
  }
});

it('loads nothing where the plan is stale, and loads the content by the next plan', async () => {
  const mirror = await mirrorWithHistory();
  await load(mirror, await jobOf(mirror, 1, { amount: 'i' }));
  const stale = await jobOf(mirror, 3, { amount: 'i + 1' });
  await load(mirror, await jobOf(mirror, 2, { amount: FEW }));
  expect(await load(mirror, stale)).toMatchObject([{ kind: 'stale-plan' }]);
  expect(await sumOfAmounts()).toBe(SUM + 10);
  expect(await load(mirror, await jobOf(mirror, 3, { amount: 'i' }))).toMatchObject([FEW_CHANGED]);
  expect(await sumOfAmounts()).toBe(SUM);
});

it('keeps the table and says why where the content of a large reload repeats a key', async () => {
  const mirror = await mirrorWithHistory();
  await load(mirror, await jobOf(mirror, 1, { amount: 'i' }));
  const error = await loadError(mirror, await jobOf(mirror, 2, { amount: 'i', key: 'i // 2' }));
  expect(error).toBeInstanceOf(DataError);
  expect(error.message).toContain('is there 2 times');
  expect(await sumOfAmounts()).toBe(SUM);
});

it('commits a large reload from what it has read where another table of its batch fails', async () => {
  const mirror = await mirrorWithHistory();
  const roads = { datasetId: 'roads', amount: 'i' };
  await load(mirror, await jobOf(mirror, 1, { amount: 'i' }), await jobOf(mirror, 1, roads));
  const jobs = [await jobOf(mirror, 2, { amount: FEW }), await jobOf(mirror, 2, { ...roads, key: 'i // 2' })];
  removeFiles(fileOf('parcels', 2));
  expect(await load(mirror, ...jobs)).toMatchObject([FEW_CHANGED, { kind: 'failed' }]);
  expect(await sumOfAmounts()).toBe(SUM + 10);
  expect(await sumOfAmounts('roads')).toBe(SUM);
});

it('F68 judges a large reload that was read before the mirror was locked, and loads it once it is approved', async () => {
  const mirror = await mirrorWithHistory();
  await load(mirror, await jobOf(mirror, 1, { amount: 'i' }));
  const job = await jobOf(mirror, 2, { amount: FEW });
  const limits = { ...NO_LIMITS, changedRows: { rows: 9, share: null } };
  const judged = { counts: { added: 0, changed: 10, removed: 0 } };
  expect(await load(mirror, { ...job, gate: { limits, approvedDigest: null } })).toMatchObject([
    { kind: 'awaiting', judged },
  ]);
  expect(await sumOfAmounts()).toBe(SUM);
  expect(await load(mirror, { ...job, gate: { limits, approvedDigest: job.digest } })).toMatchObject([
    FEW_CHANGED,
  ]);
  expect(await sumOfAmounts()).toBe(SUM + 10);
});
