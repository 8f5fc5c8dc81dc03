/**
 * A process of its own that reads a DuckDB file table by table, or copies its tables into a new file. Some damage makes DuckDB end the
 * process by a signal: then this process ends, and the one that asked goes on. Each table is named before it is read.
 */

import { writeSync } from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { systemClock } from '../../../lib/clock.ts';
import type { ScrubPosition } from '../../../model/scrub.ts';
import type { ObservedTable } from '../../../model/write-jobs.ts';
import { Engine } from '../../../staging/engine/engine.ts';
import { DuckDbError, type Fault, firstLine } from '../../../staging/engine/errors.ts';
import { identifier, numberAt, text } from '../../../staging/engine/sql.ts';
import type { Checksum } from '../../catalog/cells.ts';
import type { PastTable } from '../../past-tables.ts';
import { readFormat } from '../catalog/format.ts';
import { readChecksums, readObservedState } from '../catalog/observed-state.ts';
import { CATALOG_SCHEMA, IN_OUR_FORMAT, MIRROR, mirrored } from '../catalog/schema.ts';
import { computeChecksum } from '../checksum.ts';
import {
  COMPACTED,
  type CopiedTable,
  copyAllObjects,
  copyAllRows,
  digestOf,
  digestOfRows,
  placeOf,
  tablesOf,
  writeCopied,
} from '../copy-content.ts';
import { IS_DAMAGE } from '../count-tables.ts';
import { readPastCommits, readPastLogs } from '../past/past-logs.ts';
import { comparePastTable, isKeptDamaged, readPastTables } from '../past/past-tables.ts';
import { readUnions } from '../unions.ts';
import { asRead } from './damage.ts';
import { isUnreadable } from './examine.ts';

/**
 * The task of a child: it examines the tables of the file but those to skip, or copies all but those into a new file, or reads the next
 * slice of a scrub.
 */
export interface Task {
  readonly path: string;
  readonly memoryLimitBytes: number;
  /** DuckDB spills into it what exceeds the memory. */
  readonly temporaryDirectory: string;
  /** With their schemas. */
  readonly skip: readonly string[];
  readonly copyTo: string | null;
  /** Missing where the file is not scrubbed; null at the beginning of the file. */
  readonly scrubFrom?: ScrubPosition | null;
}

/** The dataset of a table, as far as it is known. */
export interface Owners {
  /** The dataset whose live table it is. */
  readonly datasetId: string | null;
  /** The dataset whose undo log, frozen or archived table it is. */
  readonly pastOf: string | null;
}

const NOBODY: Owners = { datasetId: null, pastOf: null };

/** The lines that a child writes. */
export type Said =
  | ({ readonly kind: 'reading'; readonly table: string } & Owners)
  | ({
      readonly kind: 'read';
      readonly table: string;
      /** `altered`: the rows are not those of the recorded checksum. `ends-process`: it might, read in another way. */
      readonly state: 'sound' | 'altered' | 'damaged' | 'ends-process';
      readonly why: string | null;
    } & Owners)
  /** The scrub has read everything before this position. */
  | { readonly kind: 'passed'; readonly position: ScrubPosition }
  /** `fault`: as DuckDB's error was diagnosed; null: it was another one. */
  | { readonly kind: 'failed'; readonly why: string; readonly fault: Fault | null }
  /** `isAtEnd`: false where the time of a scrub's slice is over before. */
  | { readonly kind: 'ended'; readonly isAtEnd: boolean };

/** A writer gets the file after this time at the latest, or after the table that is being read. */
const TURN_MS = 2_000;
/** Longer than a writer waits between two attempts to open the file. */
const PAUSE_MS = 1_000;

const OUTPUT = 1;

/** Returns once the line is written: the next statement may end the process. */
function say(said: Said): void {
  writeSync(OUTPUT, `${JSON.stringify(said)}\n`);
}

const nameOf = ({ schema, name }: Pick<CopiedTable, 'schema' | 'name'>): string => `${schema}.${name}`;

async function examine(task: Task): Promise<void> {
  const known = new Set(task.skip);
  let left: readonly CopiedTable[] | null = null;
  for (;;) {
    const engine = await Engine.open({
      ...engineOptions(task),
      readOnlyDatabase: { path: task.path, name: MIRROR },
    });
    try {
      const tables = await tablesOf(engine, MIRROR);
      left ??= catalogFirst(tables).filter((table) => !known.has(nameOf(table)) && !isKeptDamaged(table));
      left = await examineSome(engine, task.path, left);
    } finally {
      engine.close();
    }
    if (left.length === 0) return;
    await systemClock.sleep(PAUSE_MS);
  }
}

/** Nothing is known of the other tables before the catalog was read. */
function catalogFirst(tables: readonly CopiedTable[]): readonly CopiedTable[] {
  const isCatalog = ({ schema }: CopiedTable): boolean => schema === CATALOG_SCHEMA;
  return [...tables.filter(isCatalog), ...tables.filter((table) => !isCatalog(table))];
}

/** Returns the tables that are left. An instance that met damage may refuse everything from then on. */
async function examineSome(
  engine: Engine,
  path: string,
  tables: readonly CopiedTable[],
): Promise<readonly CopiedTable[]> {
  const endMs = systemClock.monotonicMs() + TURN_MS;
  let known: Cataloged | null = null;
  for (const [index, table] of tables.entries()) {
    if (table.schema !== CATALOG_SCHEMA) known ??= await readCataloged(engine, path);
    const datasetId = known?.live.get(nameOf(table))?.observed.datasetId ?? null;
    const pastOf = known?.past.get(nameOf(table))?.datasetId ?? null;
    say({ kind: 'reading', table: nameOf(table), datasetId, pastOf });
    const state = asDangerous(await stateOf(engine, path, table, known));
    say({ kind: 'read', table: nameOf(table), datasetId, pastOf, ...state });
    if (isUnreadable(state) || systemClock.monotonicMs() > endMs) return tables.slice(index + 1);
  }
  return [];
}

/**
 * A block whose checksum is wrong is never used. One that is whole and in the place of another one is: where it is an error here, it may
 * end the process that reads it in another way.
 */
function asDangerous(found: State): State {
  const isUsed = found.state === 'damaged' && !found.why?.includes('checksum');
  return isUsed ? { ...found, state: 'ends-process' } : found;
}

/** The catalog's statements about tables, by their names. */
interface Cataloged {
  readonly live: ReadonlyMap<
    string,
    { readonly observed: ObservedTable; readonly checksum: Checksum | null }
  >;
  readonly past: ReadonlyMap<string, PastTable>;
}

/** Reads whatever the program reads of its bookkeeping: what can be read may still be impossible. */
async function readCataloged(engine: Engine, path: string): Promise<Cataloged> {
  say({ kind: 'reading', table: `${CATALOG_SCHEMA}.datasets`, ...NOBODY });
  const format = await readFormat(engine, path);
  const { datasets } = await readObservedState(engine, path);
  const checksums = format === null ? new Map() : await readChecksums(engine, [...datasets.keys()], format);
  const past = await readPastTables(engine, format, null);
  if (format !== null) {
    await readUnions(engine);
    await readPastLogs(engine, format);
    for (const datasetId of datasets.keys()) await readPastCommits(engine, format, datasetId);
  }
  return {
    live: new Map(
      [...datasets.values()].map((observed) => [
        `main.${observed.tableName}`,
        { observed, checksum: checksums.get(observed.datasetId) ?? null },
      ]),
    ),
    past: new Map(past.map((table) => [nameOf(table), table])),
  };
}

type State = Pick<Extract<Said, { readonly kind: 'read' }>, 'state' | 'why'>;

async function stateOf(
  engine: Engine,
  path: string,
  table: CopiedTable,
  known: Cataloged | null,
): Promise<State> {
  const live = known?.live.get(nameOf(table)) ?? null;
  const past = known?.past.get(nameOf(table)) ?? null;
  try {
    if (past !== null) {
      const { state, damage } = await comparePastTable(engine, past);
      return { state: state === 'damaged' ? state : isAltered(state === 'altered'), why: damage };
    }
    // Every column is read, those of an operator, too.
    const { rowCount } = await digestOf(engine, MIRROR, table);
    const invalid = table.schema === CATALOG_SCHEMA ? await invalidText(engine, table) : null;
    if (invalid !== null) return { state: 'damaged', why: invalid };
    if (live === null || live.checksum === null) return { state: 'sound', why: null };
    const columns = live.observed.columns.map(({ columnName }) => columnName);
    const { sum, version } = await computeChecksum(engine, mirrored(live.observed.tableName), columns);
    const isOther = version === live.checksum.version && sum !== live.checksum.sum;
    return { state: isAltered(isOther || rowCount !== live.observed.rowCount), why: null };
  } catch (thrown) {
    const error = await asRead(thrown, path);
    if (!(error instanceof DuckDbError) || !IS_DAMAGE.has(error.fault)) throw error;
    return { state: 'damaged', why: firstLine(error) };
  }
}

/**
 * Returns which column holds text that is not valid UTF-8; null: none does. DuckDB returns such text as it is, and gives up on the
 * CHECKPOINT that writes it anew. Other tables have checksums, from which it differs.
 */
async function invalidText(engine: Engine, table: CopiedTable): Promise<string | null> {
  const counts = table.columns.map((column) => {
    const value = `${identifier(column)}::VARCHAR`;
    return `count(*) FILTER (WHERE ${value} IS NOT NULL AND try(decode(encode(${value}))) IS NULL)`;
  });
  const [row = []] = await engine.rows(`SELECT ${counts.join(', ')} FROM ${placeOf(MIRROR, table)}`);
  const column = table.columns.find((_, index) => numberAt(row, index) > 0);
  return column === undefined ? null : `its column ${column} holds text that is not valid UTF-8`;
}

function isAltered(is: boolean): 'altered' | 'sound' {
  return is ? 'altered' : 'sound';
}

/** A row group of DuckDB, whose blocks are read together. */
const ROWS_AT_ONCE = 122_880;
/** Into so many parts rows are taken that exceed the memory together. */
const PARTS = 8;

/**
 * Reads every column of the rows after `from`, table by table in the order of their names, until the time of a slice is over. Returns
 * whether the end of the file was reached; a damaged table ends the slice.
 */
async function scrub(task: Task, from: ScrubPosition | null): Promise<boolean> {
  const engine = await Engine.open({
    ...engineOptions(task),
    readOnlyDatabase: { path: task.path, name: MIRROR },
  });
  try {
    const tables = (await tablesOf(engine, MIRROR)).filter((table) => !isKeptDamaged(table));
    const left = tables
      .filter((table) => from === null || nameOf(table) >= from.table)
      .toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
    const endMs = systemClock.monotonicMs() + TURN_MS;
    for (const table of left) {
      const row = from?.table === nameOf(table) ? from.row : 0;
      if (!(await scrubTable(engine, table, row, endMs))) return false;
    }
    return true;
  } finally {
    engine.close();
  }
}

/** Returns false where the slice ends within the table. */
async function scrubTable(engine: Engine, table: CopiedTable, from: number, endMs: number): Promise<boolean> {
  const name = nameOf(table);
  say({ kind: 'reading', table: name, ...NOBODY });
  for (let row = from; row < table.rows; row += ROWS_AT_ONCE) {
    if (systemClock.monotonicMs() > endMs) return false;
    try {
      await readRows(engine, table, { from: row, before: row + ROWS_AT_ONCE });
    } catch (error) {
      if (!(error instanceof DuckDbError) || !IS_DAMAGE.has(error.fault)) throw error;
      say({ kind: 'read', table: name, ...NOBODY, state: 'damaged', why: firstLine(error) });
      return false;
    }
    say({ kind: 'passed', position: { table: name, row: row + ROWS_AT_ONCE } });
  }
  say({ kind: 'read', table: name, ...NOBODY, state: 'sound', why: null });
  return true;
}

/** The values of many rows may exceed the memory together: then fewer rows are read at once. */
async function readRows(
  engine: Engine,
  table: CopiedTable,
  rows: { readonly from: number; readonly before: number },
): Promise<void> {
  try {
    await digestOfRows(engine, MIRROR, table, rows);
  } catch (error) {
    const { from, before } = rows;
    const isTooMuch = error instanceof DuckDbError && error.fault === 'out-of-memory';
    if (!isTooMuch || before - from === 1) throw error;
    const some = Math.ceil((before - from) / PARTS);
    for (let row = from; row < before; row += some)
      await readRows(engine, table, { from: row, before: Math.min(row + some, before) });
  }
}

/** Copies every object and the rows of all tables but those to leave out, which are dropped in the new file. */
async function copy(task: Task & { readonly copyTo: string }): Promise<void> {
  const engine = await Engine.open({ ...engineOptions(task), directories: [dirname(task.path)] });
  try {
    await engine.finish(`ATTACH ${text(task.path)} AS ${identifier(MIRROR)} (READ_ONLY)`);
    await engine.finish(`ATTACH ${text(task.copyTo)} AS ${identifier(COMPACTED)} ${IN_OUR_FORMAT}`);
    await copyAllObjects(engine, task.path);
    const leftOut = new Set(task.skip);
    const isCopied = (table: CopiedTable): boolean => !leftOut.has(nameOf(table));
    await copyAllRows(engine, task.path, ({ table }) => say({ kind: 'reading', table, ...NOBODY }), isCopied);
    for (const table of (await tablesOf(engine, COMPACTED)).filter((one) => !isCopied(one))) {
      await engine.run(`DROP TABLE ${placeOf(COMPACTED, table)}`);
    }
    await writeCopied(engine);
    await engine.finish(`DETACH DATABASE ${identifier(COMPACTED)}`);
  } finally {
    engine.close();
  }
}

function engineOptions({ memoryLimitBytes, temporaryDirectory }: Task) {
  return { memoryLimitBytes, threads: 1, temporaryDirectory, directories: null };
}

const task: Task = JSON.parse(process.argv[2] ?? '');
try {
  let isAtEnd = true;
  if (task.scrubFrom !== undefined) isAtEnd = await scrub(task, task.scrubFrom);
  else await (task.copyTo === null ? examine(task) : copy({ ...task, copyTo: task.copyTo }));
  say({ kind: 'ended', isAtEnd });
} catch (thrown) {
  const error = await asRead(thrown, task.path);
  const fault = error instanceof DuckDbError ? error.fault : null;
  say({ kind: 'failed', why: error instanceof Error ? firstLine(error) : String(error), fault });
}
