/**
 * Reads a DuckDB file to its end in other processes: damage that makes DuckDB end the process by a signal becomes the state of a table.
 */

import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { linesOf } from '../../lib/run-program.ts';
import { CATALOG_SCHEMA } from './catalog/schema.ts';
import type { Said, Task } from './examine-child.ts';

export interface ExamineOptions extends Omit<Task, 'skip' | 'copyTo'> {
  readonly signal?: AbortSignal;
}

export interface ExaminedTable {
  /** With its schema. */
  readonly name: string;
  /** The dataset whose live table it is, as far as that is known. */
  readonly datasetId: string | null;
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

/** Without its catalog nobody knows what the other tables hold. */
function isCatalogTable({ name }: Pick<ExaminedTable, 'name'>): boolean {
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
  /** The table that was being read at the end; null: none was begun. */
  readonly reading: Pick<ExaminedTable, 'name' | 'datasetId'> | null;
  /** Null where the child has done everything. */
  readonly why: string | null;
  /** Whether what it read has made it end itself. */
  readonly isCrash: boolean;
}

async function child(task: Task, signal: AbortSignal | undefined): Promise<Ended> {
  const read: ExaminedTable[] = [];
  let [reading, why, isDone]: [Ended['reading'], string | null, boolean] = [null, null, false];
  const end = await linesOf({ script: SCRIPT, args: [JSON.stringify(task)], signal }, (line) => {
    const said: Said = JSON.parse(line);
    if (said.kind === 'reading') reading = { name: said.table, datasetId: said.datasetId };
    else if (said.kind === 'failed') why = said.why;
    else if (said.kind === 'ended') isDone = true;
    else {
      const { table: name, datasetId, state } = said;
      read.push({ name, datasetId, state, why: said.why });
      reading = null;
    }
  });
  if (isDone) return { read, reading: null, why: null, isCrash: false };
  return {
    read,
    reading,
    why: why ?? `reading it ends the process (${end})`,
    isCrash: why === null && OWN_SIGNALS.has(end),
  };
}
