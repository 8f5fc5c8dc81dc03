/**
 * Finds the file, column and value that made a load fail. Runs on the validating engine after the destination is let go:
 * the load itself stays one plain statement at no extra cost.
 */

import { asError, DataError, type FeedSyncError } from '../../model/errors.ts';
import type { SnapshotJob } from '../../model/write-jobs.ts';
import type { Engine } from '../engine/engine.ts';
import { DuckDbError, firstLine } from '../engine/errors.ts';
import { textAt } from '../engine/sql.ts';
import { type ParquetFile, unreadableFile } from './parquet.ts';
import { findKey, findOffender, scan } from './scan-sql.ts';
import type { FileGroup, PlannedColumn, TablePlan } from './table-plan.ts';

interface Load {
  readonly job: SnapshotJob;
  readonly plan: TablePlan;
}

/** Returns the error for the operator: a DataError when the content was the cause, else what `otherwise` makes of the error. */
export async function explainFailure(
  engine: Engine,
  load: Load,
  error: unknown,
  otherwise: (error: unknown) => Promise<Error>,
): Promise<Error> {
  if (error instanceof BadKeysError) return await explainBadKeys(engine, load.plan, error);
  // A load can need more memory than there is. A single file that needs more must not stop the other datasets.
  const isMemory = error instanceof DuckDbError && error.fault === 'out-of-memory';
  if (!isMemory && !isContent(error)) return await otherwise(error);
  try {
    for (const group of load.plan.groups) {
      const found =
        (isMemory ? null : await findValue(engine, load, group)) ?? (await findFile(engine, group));
      if (found !== null) return found;
    }
  } catch (searchError) {
    // The search serves the message only. Its own failure must not hide the original error.
    if (engine.invalidated) await engine.reopen();
    return unexplained(load, error, searchError);
  }
  // Every file of the snapshot can be read to its end, so the database file is what could not be read.
  const isOfDatabase = isMemory || error.fault === 'unreadable';
  return isOfDatabase ? await otherwise(error) : unexplained(load, error, error);
}

function isContent(error: unknown): error is DuckDbError {
  return error instanceof DuckDbError && ['statement', 'unreadable', 'gave-up'].includes(error.fault);
}

async function findValue(
  engine: Engine,
  { job, plan }: Load,
  group: FileGroup,
): Promise<FeedSyncError | null> {
  for (const [index, source] of group.sources.entries()) {
    const planned = plan.columns[index];
    if (!source.cast.canFail || planned === undefined) continue;
    const [row] = await tolerant(engine, findOffender(group, source));
    if (row === undefined) continue;
    const path = textAt(row, 0);
    const name = group.files.find(({ file }) => file.path === path)?.file.name ?? path;
    const { must } = source.cast;
    return new DataError(
      `The file ${name} of ${job.datasetId} holds in the column ${JSON.stringify(planned.column.name)} ` +
        `the value ${JSON.stringify(row[1])}, which cannot become ${article(planned.type)} ${planned.type} without being changed` +
        `${must === undefined ? '' : `; it must ${must}`}.`,
    );
  }
  return null;
}

function article(word: string): string {
  return /^[aeiou]/.test(word) ? 'an' : 'a';
}

/** Returns no rows for an unreadable file; `findFile` then names it. */
async function tolerant(engine: Engine, sql: string): ReturnType<Engine['rows']> {
  try {
    return await engine.rows(sql);
  } catch {
    if (engine.invalidated) await engine.reopen();
    return [];
  }
}

async function findFile(engine: Engine, group: FileGroup): Promise<Error | null> {
  for (const file of group.files) {
    const error = await scanError(engine, group, file);
    if (error !== null) return error;
  }
  return null;
}

async function scanError(engine: Engine, group: FileGroup, file: ParquetFile): Promise<Error | null> {
  try {
    await engine.run(scan(group, file));
    return null;
  } catch (error) {
    return asError(await unreadableFile(engine, file, error));
  }
}

function unexplained({ job }: Load, error: DuckDbError, cause: unknown): DataError {
  return new DataError(
    `The snapshot of ${job.datasetId} version ${job.version} cannot be loaded: ${firstLine(error)}`,
    {
      cause,
    },
  );
}

/** One column of a bad key, with its value as text. */
interface KeyCell {
  readonly column: PlannedColumn;
  readonly value: string | null;
}

/** The error that is thrown when the keys of a loaded table fail the proof; never leaves a destination. */
export class BadKeysError extends Error {
  override readonly name = 'BadKeysError';
  readonly key: readonly KeyCell[];
  /** The rest of the sentence. */
  readonly rest: string;

  /** `what` is the beginning of the sentence: `The key id = "a" of parcels is there 2 times`. */
  constructor(what: string, key: readonly KeyCell[], rest = '') {
    super(what);
    this.key = key;
    this.rest = rest;
  }
}

/** Returns the error for the operator. */
async function explainBadKeys(
  engine: Engine,
  { columns, groups }: TablePlan,
  { message, key, rest }: BadKeysError,
): Promise<DataError> {
  const cells = key.map(({ column, value }) => ({ index: columns.indexOf(column), value }));
  for (const group of groups) {
    const path = await firstPath(engine, () => findKey(group, cells));
    const found = group.files.find(({ file }) => file.path === path);
    if (found !== undefined) return new DataError(`${message}, as in the file ${found.file.name}${rest}.`);
  }
  return new DataError(`${message}${rest}.`);
}

/** Returns null when no file matches, and when a value cannot stand in SQL: the search serves the message only. */
async function firstPath(engine: Engine, select: () => string): Promise<string | null> {
  try {
    const [row] = await engine.rows(select());
    return row === undefined ? null : textAt(row, 0);
  } catch {
    if (engine.invalidated) await engine.reopen();
    return null;
  }
}
