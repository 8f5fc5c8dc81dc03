/**
 * Reads a DuckDB file to its end in other processes: damage that makes DuckDB end the process by a signal becomes the state of a table.
 */

import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { linesOf } from '../../lib/run-program.ts';
import type { ScrubPosition } from '../../model/scrub.ts';
import { CATALOG_SCHEMA } from './catalog/schema.ts';
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

/** Never throws for what is in the file. A file that another process has locked is `unreadable`, too. */
export async function examineFile({ signal, ...options }: ExamineOptions): Promise<Examined> {
  const tables: ExaminedTable[] = [];
  for (;;) {
    const end = await child({ ...options, skip: tables.map(({ name }) => name), copyTo: null }, signal);
    tables.push(...end.read);
    if (end.why === null) return { tables, unreadable: null, endsProcess: false };
    if (end.reading === null || !end.isCrash) {
      return { tables, unreadable: end.why, endsProcess: end.isCrash };
    }
    tables.push({ ...end.reading, state: 'ends-process', why: end.why });
    // Every further child would read the catalog, too.
    if (isCatalogTable(end.reading)) return { tables, unreadable: end.why, endsProcess: true };
  }
}

/** Returns why a table of the catalog cannot be read; null where all can be. */
export function catalogDamage(tables: readonly ExaminedTable[]): string | null {
  const damaged = tables.find((table) => table.state === 'damaged' && isCatalogTable(table));
  return damaged === undefined ? null : `${damaged.name}: ${damaged.why}`;
}

/** Without its catalog nobody knows what the other tables hold. */
export function isCatalogTable({ name }: Pick<ExaminedTable, 'name'>): boolean {
  return name.startsWith(`${CATALOG_SCHEMA}.`);
}

/** Copies a file without some tables; resolves to the reason where that cannot be done. */
export async function copyWithout(
  { signal, ...options }: ExamineOptions,
  skip: readonly string[],
  copyTo: string,
): Promise<string | null> {
  const { why, reading } = await child({ ...options, skip, copyTo }, signal);
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
  /** Whether the file could not be read. */
  readonly isDamage: boolean;
}

/** `onPassed` is called with each position that a scrub has reached. */
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
  if (ended !== null) return { ...common, reading: null, why: null, isCrash: false, isDamage: false };
  return {
    ...common,
    reading,
    why: failed?.why ?? `reading it ends the process (${end})`,
    isCrash: failed === null && OWN_SIGNALS.has(end),
    isDamage: failed?.isDamage ?? false,
  };
}
