/** `feed-sync query SQL`: reads the mirror. It is opened read-only, so nothing can be changed by accident. */

import type { LocalConfiguration } from '../configuration/configuration.ts';
import { openReader } from '../destination/duckdb/reading/reader.ts';
import { StorageError, UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import type { QueryFormat } from './query-format.ts';
import { writeRows } from './query-output.ts';

export interface QueryOptions {
  readonly format: QueryFormat;
}

/**
 * @throws UsageError when the SQL does not run.
 * @throws StorageError when there is no mirror.
 * @throws BusyError when the mirror is held by a writer for longer than `lock.wait`.
 */
export async function query(
  sql: string,
  configuration: LocalConfiguration,
  context: Context,
  { format }: QueryOptions,
): Promise<ExitCode> {
  if (sql.trim() === '') {
    throw new UsageError('The SQL is empty.', { hint: 'feed-sync query --help' });
  }
  const { path } = configuration.destination;
  const reader = await openReader({
    path,
    waitMs: configuration.lock.waitMs,
    ...configuration.duckdb,
    clock: context.clock,
    random: context.random,
    signal: context.signal,
  });
  if (reader === null) {
    throw new StorageError(`There is no mirror at ${path}.`, { hint: 'Make it with: feed-sync once' });
  }
  try {
    await writeRows(await reader.query(sql), format, context.terminal.stdout);
    return EXIT_CODES.caughtUp;
  } finally {
    await reader.close();
  }
}
