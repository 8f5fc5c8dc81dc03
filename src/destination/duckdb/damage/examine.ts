/**
 * Reads a DuckDB file to its end in other processes: damage that makes DuckDB end the process by a signal becomes the state of a table.
 */

import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { linesOf } from '../../../lib/run-program.ts';
import { StorageError } from '../../../model/errors.ts';
import type { ScrubPosition } from '../../../model/scrub.ts';
import { DuckDbError, type Fault, mirrorFailure } from '../../../staging/engine/errors.ts';
import { CATALOG_SCHEMA } from '../catalog/schema.ts';
import { IS_DAMAGE } from '../count-tables.ts';
import type { Owners, Said, Task } from './examine-child.ts';

export interface ExamineOptions extends Omit<Task, 'skip' | 'copyTo' | 'scrubFrom'> {
  readonly signal?: AbortSignal;
}

export interface ExaminedTable extends Owners {
  /** With its schema. */
  readonly name: string;
  readonly state: 'sound' | 'altered' | 'damaged' | 'ends-process';
  /** Null where the table is sound or altered. */
  readonly why: string | null;
}

export interface Examined {
  readonly tables: readonly ExaminedTable[];
  /** Why no table can be read, a clause; null where the file can be opened. */
  readonly unreadable: string | null;
  /** Opening the file, or reading its catalog, ends the process by a signal. */
  readonly endsProcess: boolean;
}

/** The process has the extension of this file, both in the sources and in the build. */
const SCRIPT = fileURLToPath(new URL(`./examine-child${extname(import.meta.url)}`, import.meta.url));

/**
 * Examines a file in another process. Never throws for what is in the file. A file that another process has locked is `unreadable`, too.
 * @throws StorageError where something else than the file is in the way.
 */
export async function examineFile({ signal, ...options }: ExamineOptions): Promise<Examined> {
  const tables: ExaminedTable[] = [];
  for (;;) {
    const end = await child({ ...options, skip: tables.map(({ name }) => name), copyTo: null }, signal);
    await refuseHindrance(options.path, end);
    tables.push(...end.read);
    if (end.why === null) return { tables, unreadable: null, endsProcess: false };
    const ofCatalog = end.reading !== null && isCatalogTable(end.reading) ? end.reading : null;
    if (ofCatalog !== null && end.isDamage) tables.push({ ...ofCatalog, state: 'damaged', why: end.why });
    if (end.reading === null || !end.isCrash) {
      return { tables, unreadable: end.why, endsProcess: end.isCrash };
    }
    tables.push({ ...end.reading, state: 'ends-process', why: end.why });
    // Every further child would read the catalog, too.
    if (ofCatalog !== null) return { tables, unreadable: end.why, endsProcess: true };
  }
}

/** Returns why a table of the catalog cannot be read; null where all can be. */
export function catalogDamage(tables: readonly ExaminedTable[]): string | null {
  const damaged = tables.find((table) => isCatalogTable(table) && isUnreadable(table));
  return damaged === undefined ? null : `${damaged.name}: ${damaged.why}`;
}

/** Returns whether the table cannot be read, or only by a process that it may end. */
export function isUnreadable({ state }: Pick<ExaminedTable, 'state'>): boolean {
  return state === 'damaged' || state === 'ends-process';
}

/** Returns whether the table is one of the catalog, without which nobody knows the content of the others. */
export function isCatalogTable({ name }: Pick<ExaminedTable, 'name'>): boolean {
  return name.startsWith(`${CATALOG_SCHEMA}.`);
}

/**
 * Copies a file without some tables; resolves to the reason where what is in it cannot be copied. @throws StorageError where something
 * else is in the way.
 */
export async function copyWithout(
  { signal, ...options }: ExamineOptions,
  skip: readonly string[],
  copyTo: string,
): Promise<string | null> {
  const end = await child({ ...options, skip, copyTo }, signal);
  await refuseHindrance(options.path, end);
  const { why, reading } = end;
  return why === null || reading === null ? why : `${reading.name}: ${why}`;
}

/** The signals by which a process ends itself. Others come from outside, as where the memory of the machine is exhausted. */
const OWN_SIGNALS: ReadonlySet<string> = new Set([
  'SIGABRT',
  'SIGBUS',
  'SIGFPE',
  'SIGILL',
  'SIGSEGV',
  'SIGTRAP',
]);

/** Faults outside of the file that hinder its reading: a full disk must never quarantine a mirror. */
const IS_HINDRANCE: ReadonlySet<Fault> = new Set([
  'disk-full',
  'no-space',
  'out-of-memory',
  'not-permitted',
  'folder-missing',
]);

/**
 * Refuses an examination that did not end by itself. @throws StorageError where the process was killed, or something is in its way that is
 * not in the file.
 */
export async function refuseHindrance(path: string, { why, isKilled, fault }: Ended): Promise<void> {
  if (isKilled) {
    throw new StorageError(`The process that was to read ${path} did not end by itself: ${why}.`, {
      hint: 'Run it again. Where the memory of the machine is exhausted, lower duckdb.memoryLimit first.',
    });
  }
  if (why !== null && fault !== null && IS_HINDRANCE.has(fault))
    throw await mirrorFailure(new DuckDbError(fault, false, why, null), { path });
}

interface Ended {
  readonly read: readonly ExaminedTable[];
  /** Where a scrub goes on; null where it has passed nothing. */
  readonly passed: ScrubPosition | null;
  /** Whether a scrub has reached the end of the file. */
  readonly isAtEnd: boolean;
  /** The table that was being read at the end; null: none was begun. */
  readonly reading: Pick<ExaminedTable, 'name' | keyof Owners> | null;
  /** Null where the child has done everything. */
  readonly why: string | null;
  /** Whether what it read has made it end itself. */
  readonly isCrash: boolean;
  /** Whether somebody else has ended it. */
  readonly isKilled: boolean;
  /** Why it could not go on, as DuckDB's error was diagnosed. */
  readonly fault: Fault | null;
  /** Whether the file could not be read. */
  readonly isDamage: boolean;
}

/** Runs a child. `onPassed` is called with each position that a scrub has reached. */
export async function child(
  task: Task,
  signal: AbortSignal | undefined,
  onPassed: (position: ScrubPosition) => void = () => {},
): Promise<Ended> {
  const read: ExaminedTable[] = [];
  let [reading, passed]: [Ended['reading'], ScrubPosition | null] = [null, null];
  let failed: Extract<Said, { readonly kind: 'failed' }> | null = null;
  let ended: Extract<Said, { readonly kind: 'ended' }> | null = null;
  const end = await linesOf({ script: SCRIPT, args: [JSON.stringify(task)], signal }, (line) => {
    const said: Said = JSON.parse(line);
    if (said.kind === 'reading') {
      const { table: name, datasetId, pastOf } = said;
      reading = { name, datasetId, pastOf };
    } else if (said.kind === 'failed') failed = said;
    else if (said.kind === 'ended') ended = said;
    else if (said.kind === 'passed') {
      passed = said.position;
      onPassed(said.position);
    } else {
      const { table: name, datasetId, pastOf, state, why } = said;
      read.push({ name, datasetId, pastOf, state, why });
      reading = null;
    }
  });
  return endOf({ read, reading, passed, failed, ended }, end);
}

interface SaidInAll {
  readonly read: Ended['read'];
  readonly reading: Ended['reading'];
  readonly passed: Ended['passed'];
  readonly failed: Extract<Said, { readonly kind: 'failed' }> | null;
  readonly ended: Extract<Said, { readonly kind: 'ended' }> | null;
}

function endOf({ read, reading, passed, failed, ended }: SaidInAll, end: string): Ended {
  const common = { read, passed, isAtEnd: ended?.isAtEnd ?? false };
  const fault = failed?.fault ?? null;
  const isSilent = failed === null && ended === null;
  return {
    ...common,
    reading: ended === null ? reading : null,
    why: isSilent ? `reading it ends the process (${end})` : (failed?.why ?? null),
    isCrash: isSilent && OWN_SIGNALS.has(end),
    isKilled: isSilent && !OWN_SIGNALS.has(end),
    fault,
    isDamage: fault !== null && IS_DAMAGE.has(fault),
  };
}
