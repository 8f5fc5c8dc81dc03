/**
 * The past of the tables of a model mirror: undo logs by the rules of the design, and beside them what every commit really left, which
 * the logs are compared with. Pure.
 *
 * Invariant: a log claims a state only where every commit since was logged on top of the rows that the commit before left.
 */

import { createHash } from 'node:crypto';
import type { ObservedTable } from '../../../src/model/write-jobs.ts';
import { digestOfTable, type Rows, type TextRow } from './texts.ts';

/** Rows with the names of their columns. */
export interface NamedRows {
  readonly names: readonly string[];
  readonly rows: Rows;
}

interface Entry {
  readonly commitNumber: number;
  readonly key: string;
  readonly names: readonly string[];
  /** The row before the commit; null where there was none. */
  readonly old: TextRow | null;
}

export interface UndoLog {
  /** The first commit whose state is known. */
  readonly firstCommit: number;
  readonly entries: readonly Entry[];
}

interface FrozenLog extends UndoLog {
  readonly frozenCommit: number;
  readonly newest: NamedRows;
  /** Its rows were altered by hand before: the recorded checksum shows it. */
  readonly isAltered: boolean;
}

/** What a commit left, but for what was altered by hand before it, with what the catalog recorded of it. */
export interface LeftState extends NamedRows {
  readonly observed: ObservedTable;
  readonly checksum: bigint;
  /** False: the history was switched off, and a rollback cannot restore the catalog. */
  readonly isRecorded: boolean;
}

export interface Past {
  /** Null where the table has no log. */
  readonly log: UndoLog | null;
  readonly frozen: readonly FrozenLog[];
  /** By commit number, since the mirror was made. */
  readonly left: ReadonlyMap<number, LeftState>;
}

export const NO_PAST: Past = { log: null, frozen: [], left: new Map() };

/** What a commit did to the rows of a table with a log. */
export interface Rewritten {
  readonly commitNumber: number;
  /** Before the commit, as they were found. */
  readonly before: NamedRows;
  readonly after: NamedRows;
  /** The number of the commit that left the table before. */
  readonly plannedFrom: number;
}

/** The log after a commit of rows that were compared. A log that begins only now knows the state before. */
export function logged(
  log: UndoLog | null,
  { commitNumber, before, after, plannedFrom }: Rewritten,
): UndoLog {
  const keys = new Set([...before.rows.keys(), ...after.rows.keys()]);
  const entries = [...keys].flatMap((key): readonly Entry[] => {
    const old = before.rows.get(key) ?? null;
    const now = after.rows.get(key) ?? null;
    const widened = old === null ? null : projected(old, before.names, after.names);
    return JSON.stringify(widened) === JSON.stringify(now)
      ? []
      : [{ commitNumber, key, names: before.names, old }];
  });
  const { firstCommit, entries: earlier } = log ?? { firstCommit: plannedFrom, entries: [] };
  return { firstCommit, entries: [...earlier, ...entries] };
}

/** The log claims nothing from before the commit. */
export function closed({ entries }: UndoLog, commitNumber: number): UndoLog {
  return { firstCommit: commitNumber, entries: entries.filter((entry) => entry.commitNumber > commitNumber) };
}

/** Returns null where no log knows the state. */
export function stateAfter(past: Past, newest: NamedRows | null, commitNumber: number): NamedRows | null {
  const frozen = past.frozen.find((log) => covers(log, commitNumber) && commitNumber < log.frozenCommit);
  if (frozen !== undefined) return undone(frozen, frozen.newest, commitNumber);
  if (past.log === null || newest === null || !covers(past.log, commitNumber)) return null;
  return undone(past.log, newest, commitNumber);
}

function covers({ firstCommit }: UndoLog, commitNumber: number): boolean {
  return firstCommit <= commitNumber;
}

/** The earliest later entry of each key says what its row was. */
function undone({ entries }: UndoLog, { names, rows }: NamedRows, commitNumber: number): NamedRows {
  const state = new Map(rows);
  const restored = new Set<string>();
  for (const entry of entries) {
    if (entry.commitNumber <= commitNumber || restored.has(entry.key)) continue;
    restored.add(entry.key);
    if (entry.old === null) state.delete(entry.key);
    else state.set(entry.key, projected(entry.old, entry.names, names));
  }
  return { names, rows: state };
}

/** In other columns; those that are missing are null. */
function projected(row: TextRow, from: readonly string[], to: readonly string[]): TextRow {
  return to.map((name) => row[from.indexOf(name)] ?? null);
}

export function inColumns({ names, rows }: NamedRows, to: readonly string[]): Rows {
  return new Map([...rows].map(([key, row]) => [key, projected(row, names, to)]));
}

const hashes = new WeakMap<TextRow, bigint>();

/** The checksum of rows: a sum, so that their order does not matter. */
export function checksumOf(rows: Iterable<TextRow>): bigint {
  let sum = 0n;
  for (const row of rows) sum += hashOf(row);
  return sum;
}

function hashOf(row: TextRow): bigint {
  const known = hashes.get(row);
  if (known !== undefined) return known;
  const digest = createHash('sha256').update(JSON.stringify(row)).digest('hex').slice(0, 15);
  const hash = BigInt(`0x${digest}`);
  hashes.set(row, hash);
  return hash;
}

/** What the logs say wrongly of what commits left, in words. */
export function wrongStates(datasetId: string, past: Past, newest: NamedRows | null): readonly string[] {
  return [...past.left].flatMap(([commitNumber, left]) => {
    if (
      past.frozen.some((log) => log.isAltered && covers(log, commitNumber) && commitNumber < log.frozenCommit)
    )
      return [];
    const said = stateAfter(past, newest, commitNumber);
    if (said === null) return [];
    const expected = digestOfTable(said.names, inColumns(left, said.names));
    if (digestOfTable(said.names, said.rows) === expected) return [];
    return [`${datasetId} as of commit ${commitNumber} is not what it was after it`];
  });
}
