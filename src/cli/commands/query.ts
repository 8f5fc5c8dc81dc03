/** `feed-sync query SQL`: reads the mirror. The mirror is opened read-only, so nothing can be changed by accident. */

import { resolve } from 'node:path';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { DestinationReader, QueryResult } from '../../destination/reader.ts';
import { systemReason } from '../../lib/files.ts';
import { printable } from '../../lib/text.ts';
import { formatCount } from '../../lib/units.ts';
import { UsageError } from '../../model/errors.ts';
import { usingMirror, usingMirrorFile } from '../../reporting/stores.ts';
import type { Context } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { timeOf } from '../past-state.ts';
import { QUERY_FORMATS } from '../render/formats.ts';
import { isPlan, writePlan, writeRows } from '../render/rows.ts';
import { readingPlace } from '../render/screen.ts';
import { outputOf, type QueryFlags, writeToFile } from './query-file.ts';

/**
 * Reads the mirror with SQL. @throws UsageError when the SQL does not run. @throws StorageError when there is no mirror. @throws BusyError
 * when a writer keeps the mirror locked for longer than `lock.wait`.
 */
export async function query(
  given: string | undefined,
  configuration: LocalConfiguration,
  context: Context,
  flags: QueryFlags,
): Promise<ExitCode> {
  const asOf = flags.asOf === undefined ? undefined : timeOf('--as-of', flags.asOf);
  const extensions = extensionsOf(flags.load ?? []);
  const output = outputOf(flags, context);
  const sql = await statementOf(given, flags.file, context);
  if (sql.trim() === '') throw new UsageError('The SQL is empty.', { hint: HELP });
  if (output !== null) {
    await writeToFile({ sql, asOf, extensions, output, isYes: flags.yes === true }, configuration, context);
    return EXIT_CODES.caughtUp;
  }
  const format = QUERY_FORMATS.find((one) => one === flags.format) ?? 'table';
  const { stdout, resultWidth } = context.terminal;
  const show = async (result: QueryResult): Promise<void> => {
    if (isPlan(result)) await writePlan(result, stdout);
    else await writeRows(result, format, stdout, { width: resultWidth });
  };
  const use = async (reader: DestinationReader): Promise<void> => show(await reader.query(sql, asOf));
  if (extensions.length === 0) await usingMirror(configuration, readingPlace(configuration, context), use);
  else
    await usingMirrorFile('query --load', configuration, readingPlace(configuration, context), use, {
      extensions,
    });
  return EXIT_CODES.caughtUp;
}

const HELP = 'feed-sync query --help';
const STANDARD_INPUT = '-';
const MAX_SQL_CHARACTERS = 1_000_000;

/** @throws UsageError */
async function statementOf(
  given: string | undefined,
  file: string | undefined,
  context: Context,
): Promise<string> {
  if (given !== undefined && file !== undefined) {
    throw new UsageError('The SQL is given twice: by a word and by --file.', { hint: HELP });
  }
  const source = file ?? given;
  // Somebody who types nothing else does not expect the program to wait for more.
  if (source === undefined && context.ask !== null) throw new UsageError('No SQL was given.', { hint: HELP });
  if (source === undefined || source === STANDARD_INPUT) return statementOfInput(context);
  return file === undefined ? source : statementOfFile(file, context);
}

async function statementOfInput({ readStandardInput }: Context): Promise<string> {
  const sql = await readStandardInput(MAX_SQL_CHARACTERS);
  if (sql.length <= MAX_SQL_CHARACTERS) return sql;
  const limit = formatCount(MAX_SQL_CHARACTERS);
  throw new UsageError(`The SQL on standard input is longer than ${limit} characters.`, { hint: HELP });
}

function statementOfFile(file: string, { readFile, workingDirectory }: Context): string {
  try {
    return readFile(resolve(workingDirectory, file));
  } catch (error) {
    const why = error instanceof Error ? systemReason(error) : String(error);
    const message = `The file ${printable(file)} cannot be read: ${why}.`;
    throw new UsageError(message, { hint: HELP, cause: error });
  }
}

/** A path would load a file that nobody has signed. @throws UsageError */
function extensionsOf(names: readonly string[]): readonly string[] {
  const wrong = names.find((name) => !/^[a-z][a-z0-9_]*$/.test(name));
  if (wrong === undefined) return names;
  throw new UsageError(`${printable(wrong)} is no name of an extension; for example spatial.`, {
    hint: HELP,
  });
}
