/**
 * `query --output FILE`: the rows of a statement in a file. They are written in a folder beside it, the only one that the
 * statement can reach, and the file gets its name once it is whole.
 */

import { existsSync, lstatSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { instanceLockPath } from '../../checkpoint/instance-lock.ts';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { MirrorReader } from '../../destination/duckdb/reader.ts';
import {
  isSameFile,
  makeTemporaryDirectory,
  openForWriting,
  remove,
  renameFile,
  settleFile,
  systemCode,
  systemReason,
} from '../../lib/files.ts';
import { isProcessGone } from '../../lib/run-program.ts';
import { printable } from '../../lib/text.ts';
import { plural } from '../../lib/units.ts';
import { StorageError, UsageError } from '../../model/errors.ts';
import { usingMirrorFile } from '../../reporting/stores.ts';
import { confirm } from '../confirm.ts';
import { type Context, writeMessage } from '../context.ts';
import type { QueryFileFormat, QueryFormat } from '../render/formats.ts';
import { writeRows } from '../render/rows.ts';
import { readingPlace } from '../render/screen.ts';

export interface QueryFlags {
  readonly format?: QueryFileFormat;
  readonly asOf?: string;
  /** The file that holds the statement; `-` is standard input. */
  readonly file?: string;
  readonly output?: string;
  readonly load?: readonly string[];
  readonly yes?: boolean;
}

const FORMATS_BY_ENDING: ReadonlyMap<string, QueryFileFormat> = new Map([
  ['.csv', 'csv'],
  ['.json', 'json'],
  ['.jsonl', 'json'],
  ['.ndjson', 'json'],
  ['.parquet', 'parquet'],
  ['.geoparquet', 'geoparquet'],
  ['.txt', 'table'],
]);

interface Output {
  readonly path: string;
  readonly format: QueryFileFormat;
}

/** Returns the file of the rows; null: the rows go to standard output. @throws UsageError */
export function outputOf({ output, format }: QueryFlags, { workingDirectory }: Context): Output | null {
  const hint = 'feed-sync query --help';
  if (output === undefined) {
    if (format !== 'parquet' && format !== 'geoparquet') return null;
    throw new UsageError(`${format} goes to a file: give --output FILE.`, { hint });
  }
  if (output === '') throw new UsageError('The name of the output is empty.', { hint });
  const byEnding = FORMATS_BY_ENDING.get(extname(output).toLowerCase());
  const chosen = format ?? byEnding;
  if (chosen !== undefined) return { path: resolve(workingDirectory, output), format: chosen };
  const endings = [...FORMATS_BY_ENDING.keys()].join(', ');
  throw new UsageError(
    `The ending of ${printable(output)} names no format: give --format, or one of ${endings}.`,
    {
      hint,
    },
  );
}

interface QueryToFile {
  readonly sql: string;
  readonly asOf: Date | undefined;
  readonly extensions: readonly string[];
  readonly output: Output;
  /** The operator agrees that an existing file is replaced. */
  readonly isYes: boolean;
}

/** Writes the rows to a file. @throws UsageError, StorageError */
export async function writeToFile(
  { sql, asOf, extensions, output, isYes }: QueryToFile,
  configuration: LocalConfiguration,
  context: Context,
): Promise<void> {
  const { path, format } = output;
  if (!existsSync(dirname(path))) {
    throw new StorageError(`There is no folder ${printable(dirname(path))}.`, { hint: 'Make it first.' });
  }
  await refuseOthers(path, configuration);
  if (existsSync(path)) {
    await confirm(
      isYes,
      { lines: [`The file ${printable(path)} is there.`], question: 'Replace it?' },
      context,
    );
  }
  let folder: string | null = null;
  try {
    await clearLeft(path);
    folder = await makeTemporaryDirectory('cli.make-query-folder', folderPrefix(path, context.identity.pid));
    const part = join(folder, 'rows');
    const use = (reader: MirrorReader): Promise<number> => {
      if (format === 'parquet' || format === 'geoparquet') {
        return reader.writeParquet(sql, { path: part, needsGeometry: format === 'geoparquet' }, asOf);
      }
      return writeText(reader, { sql, asOf, format, part });
    };
    const rows = await usingMirrorFile(
      'query --output',
      configuration,
      readingPlace(configuration, context),
      use,
      { extensions, folder },
    );
    // The earlier file is gone once the new one has its name.
    await settleFile('cli.settle-query-result', part);
    await renameFile('cli.place-query-result', part, path);
    await writeMessage(
      context.terminal,
      `Wrote ${printable(path)} (${plural(rows, 'row')}).
`,
    );
  } catch (error) {
    if (systemCode(error) === null || !(error instanceof Error)) throw error;
    throw new StorageError(`The file ${printable(path)} cannot be written: ${systemReason(error)}.`, {
      hint: 'Name a file in a folder that exists and that you may write to.',
      cause: error,
    });
  } finally {
    if (folder !== null) await clear(folder).catch(() => {});
  }
}

/** A device or a pipe would be gone, a link would lead no longer where it led, and a mirror would be a text. @throws UsageError */
async function refuseOthers(
  path: string,
  { dataDirectory, destination, checkpoint }: LocalConfiguration,
): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  const hint = 'Name a file, or leave --output out: the rows then go to standard output.';
  if (found !== undefined && !found.isFile()) {
    const what = found.isDirectory() ? 'a folder' : found.isSymbolicLink() ? 'a link' : 'no file';
    throw new UsageError(`${printable(path)} is ${what}, so it is left as it is.`, { hint });
  }
  const own = [destination.path, destination.publish?.path ?? null, checkpoint.path];
  const stores = [...own, instanceLockPath(dataDirectory)].filter((one) => one !== null);
  for (const store of stores) {
    if (path !== resolve(store) && !(await isSameFile(path, store))) continue;
    throw new UsageError(`${printable(path)} is a file of feed-sync itself, so it is left as it is.`, {
      hint,
    });
  }
}

/** Each process has a folder of its own: of two queries into one file, each gives it its own rows, and whole. */
function folderPrefix(path: string, pid: number): string {
  return join(dirname(path), `.${basename(path)}.${pid}.`);
}

/** Removes the folders of processes that were killed. */
async function clearLeft(path: string): Promise<void> {
  for (const name of await readdir(dirname(path))) {
    const of = /^\.(.+)\.(\d+)\.[A-Za-z0-9]{6}$/.exec(name);
    if (of?.[1] === basename(path) && isProcessGone(Number(of[2]))) await clear(join(dirname(path), name));
  }
}

function clear(folder: string): Promise<void> {
  return remove('cli.clear-query-folder', folder);
}

async function writeText(
  reader: MirrorReader,
  {
    sql,
    asOf,
    format,
    part,
  }: Pick<QueryToFile, 'sql' | 'asOf'> & {
    readonly format: QueryFormat;
    readonly part: string;
  },
): Promise<number> {
  const result = await reader.query(sql, asOf);
  const file = await openForWriting('cli.open-query-result', part, 'new');
  const stream = file.createWriteStream();
  try {
    return await writeRows(result, format, stream);
  } finally {
    stream.end();
    await new Promise<void>((ended) => stream.once('close', ended));
  }
}
