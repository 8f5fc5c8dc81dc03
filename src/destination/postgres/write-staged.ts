/**
 * The order in which staged rows get into a table that is there, whatever staged them: difference → gate → columns → rows in place →
 * key → proof → undo log. Nothing is written before the gate has passed, and no undo log before the rows are proven.
 */

import { isDeepStrictEqual } from 'node:util';
import { StorageError } from '../../model/errors.ts';
import { type Gate, NO_KEYS, rowCountsOf } from '../../model/gate.ts';
import { ALTERED } from '../../model/lost-past.ts';
import type { Counts } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { CommittedVersion } from '../catalog/undo-logs.ts';
import { type Awaiting, type Judgement, judgeCommit, mayWait, readShownKeys } from '../judge-commit.ts';
import { qualified } from './catalog/names.ts';
import type { Current } from './catalog/observed-state.ts';
import { readContent } from './content.ts';
import { createDifference, type Difference, findLongestKept, lowestKeys } from './difference.ts';
import { isTooLongRow, PostgresError, sentence } from './errors.ts';
import type { Turn } from './job.ts';
import { type CommitLog, isAltered, logOfCommit, NO_LOG } from './past/commit-log.ts';
import type { Target } from './stage.ts';
import { type Alteration, addKey, type FoundTable, isSameType } from './tables.ts';
import { countRows, hasRepeatedKey, replaceRows, writeInPlace } from './write-rows.ts';

export interface Staged {
  readonly target: Target;
  /** Nothing is judged, and no difference reported, where it has no live table. */
  readonly current: Current;
  readonly found: FoundTable;
  /** The version that the commit brings. */
  readonly version: CommittedVersion & { readonly datasetId: string };
  /** From the found table to the columns of the target. */
  readonly alteration: Alteration;
  /** Undefined: nothing is judged. */
  readonly gate: Gate | undefined;
  /** Identifies the content. */
  readonly digest: () => Promise<string> | string;
  /** The rows of the table afterwards, where they are known before they are compared. */
  readonly rowCount: number | null;
  /** Whether the rows before are compared with the recorded checksum where the table has an undo log. */
  readonly looksForAltered: boolean;
  /** Whether the rows become those that the newest commit left, so that the undo log stays as it is. */
  readonly restores?: boolean;
  /** Proves the rows once they are written, with what became of them. @throws any error that rolls the commit back. */
  prove(difference: Difference | null): Promise<void>;
}

export interface WrittenRows {
  /** Null where there was no table before, or where its rows have no common key. */
  readonly net: Counts | null;
  /** An operator has approved that the content exceeds its gate. */
  readonly isApproved: boolean;
}

/** Writes the staged rows. @throws PostgresError */
export async function writeStaged(turn: Turn, staged: Staged): Promise<WrittenRows | Awaiting> {
  const { transaction, indexes } = turn;
  const { target, alteration } = staged;
  const { live } = staged.current;
  refuseHeirs(target, staged.found);
  refuseUnlogged(target, staged.found);
  const known = knownColumns(turn, staged);
  const isCompared = await isComparable(turn, staged, known);
  const log = await logOf(turn, staged, known, isCompared);
  const { keepsRows } = log;
  const logged = async <T>(work: Promise<T>): Promise<T> =>
    await work.catch(async (error) => {
      throw keepsRows && isTooLongRow(error) ? await tooLongForLog(turn, staged, known, error) : error;
    });
  const differing = { target, known, keepsRows };
  const difference = isCompared ? await logged(createDifference(transaction, differing)) : null;
  const judgement = await judgeStaged(turn, staged, difference);
  if (judgement?.kind === 'awaiting') return judgement;
  await turn.alter([...log.before, ...alteration.before]);
  if (difference === null) await replaceRows(transaction, target);
  else await writeInPlace(transaction, target, difference, turn.isRepeated);
  await turn.alter(alteration.after);
  // A table without an index of its key keeps going without one: changes wait for no reader.
  if (alteration.addsKey && !target.isNet) await addKey(transaction, target, target.columns, indexes);
  await staged.prove(difference);
  await logged(turn.alter(log.after));
  return { net: live === null ? null : netOf(difference), isApproved: judgement !== null };
}

/** Statements would reach the rows of an heir, which lie at the same addresses, and readers see them as rows of the table. */
function refuseHeirs({ schemaName, tableName }: Target, { heirs }: FoundTable): void {
  if (heirs === null) return;
  throw new PostgresError(
    'depended-on',
    `tables inherit from ${schemaName}.${tableName}, so that their rows count as rows of it: ${heirs}`,
    null,
  );
}

/** What was committed outlasts a crash of the server. */
function refuseUnlogged({ schemaName, tableName }: Target, { isUnlogged }: FoundTable): void {
  if (!isUnlogged) return;
  const named = `${schemaName}.${tableName}`;
  throw new PostgresError(
    'depended-on',
    `the table ${named} was set UNLOGGED, so that the server empties it when it crashes: ALTER TABLE ${named} SET LOGGED`,
    null,
  );
}

/** The log has five columns beside those of the table. */
async function tooLongForLog(
  { transaction }: Turn,
  { target, version: { datasetId } }: Staged,
  known: ReadonlySet<string>,
  cause: PostgresError,
): Promise<StorageError> {
  const values = await findLongestKept(transaction, { target, known, keepsRows: true });
  const keys = target.columns.filter(({ role }) => role === 'key');
  const row = keys.map(({ column }, index) => `${column.name} = ${JSON.stringify(values?.[index] ?? null)}`);
  return new StorageError(
    `The undo log of ${datasetId} cannot keep the row ${row.join(', ')} as it was before the commit: ${sentence(cause)}`,
    {
      code: 'dataset_storage_failed',
      hint: 'With the columns of the log it is longer than a page of the server. Take the dataset out of history.datasets.',
      cause,
    },
  );
}

async function logOf(
  turn: Turn,
  staged: Staged,
  known: ReadonlySet<string>,
  isCompared: boolean,
): Promise<CommitLog> {
  if (staged.restores === true) return NO_LOG;
  const { current, version, target } = staged;
  const lost = await whyLost(turn, staged, known);
  return await logOfCommit(turn, {
    current,
    live: current.live,
    columns: target.columns,
    isCompared,
    lost,
    version,
  });
}

/**
 * Why the rows of the table are not those that the commit before left; null where they are, or where they are not compared: a commit of
 * changes reads no more rows than it touches.
 */
async function whyLost(
  { transaction, keepsHistory }: Turn,
  { target, looksForAltered, current: { live, log, checksum } }: Staged,
  known: ReadonlySet<string>,
): Promise<string | null> {
  if (live === null || (log === null && !keepsHistory)) return null;
  const after = new Map(target.columns.map(({ columnName, type }) => [columnName, type]));
  const missing = live.columns.filter(
    ({ columnName, type }) => after.get(columnName) === type && !known.has(columnName),
  );
  if (missing.length > 0) {
    const names = missing.map(({ columnName }) => JSON.stringify(columnName));
    return `columns were missing, or of another type: ${names.join(', ')}`;
  }
  if (!looksForAltered || live.columns.some(({ columnName }) => !known.has(columnName))) return null;
  const found = await readContent(transaction, qualified(live), live.columns);
  return isAltered(checksum, found.checksum) ? ALTERED : null;
}

function netOf(difference: Difference | null): Counts | null {
  if (difference === null) return null;
  const { added, changed, removed } = difference;
  return { added, changed, removed };
}

/** The columns that the table has and keeps. */
function knownColumns({ postgis }: Turn, { target, found }: Staged): ReadonlySet<string> {
  const kept = target.columns.filter((column) =>
    isSameType(found.columns.get(column.columnName), column, postgis),
  );
  return new Set(kept.map(({ columnName }) => columnName));
}

/** Rows can be compared where both sides have one key in common, and each row of the table one of its own. */
async function isComparable(
  { transaction }: Turn,
  { target, current: { live }, alteration }: Staged,
  known: ReadonlySet<string>,
): Promise<boolean> {
  if (target.isNet || alteration.hasSameKey) return true;
  const keys = target.columns.filter(({ role }) => role === 'key');
  if (keys.length === 0 || live === null || !keys.every(({ columnName }) => known.has(columnName)))
    return false;
  if (!isDeepStrictEqual(keyTypes(keys), keyTypes(live.columns))) return false;
  return !(await hasRepeatedKey(transaction, target));
}

function keyTypes(columns: readonly Pick<PlannedColumn, 'columnName' | 'type' | 'role'>[]) {
  return columns.filter(({ role }) => role === 'key').map(({ columnName, type }) => [columnName, type]);
}

/** A first load, and the return of a dataset, are not judged. Values of columns that the table lacks are no changes. */
async function judgeStaged(
  { transaction }: Turn,
  { target, current: { live }, gate, digest, rowCount }: Staged,
  difference: Difference | null,
): Promise<Judgement> {
  if (live === null || !mayWait(gate)) return null;
  if (difference === null) return await judgeUncompared(gate, digest, live, rowCount ?? live.rowCount);
  const { added, removed, changedBefore: changed } = difference;
  const before = await countRows(transaction, target);
  const counts = rowCountsOf(before, before + added - removed, { added, changed, removed });
  const keys = () => readShownKeys((statement) => transaction.rows(statement), lowestKeys(target));
  return await judgeCommit({ gate, counts, digest, keys });
}

/** Judges rows that were not compared. Rows that have no common key, or are missing, count with their recorded number. */
export async function judgeUncompared(
  gate: Gate | undefined,
  digest: Staged['digest'],
  live: ObservedTable | null,
  rowCount: number,
): Promise<Judgement> {
  if (live === null) return null;
  const counts = rowCountsOf(live.rowCount, rowCount, null);
  return await judgeCommit({ gate, counts, digest, keys: async () => NO_KEYS });
}
