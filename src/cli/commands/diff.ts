/** `feed-sync diff`: the rows of a table with history that differ between two of its states. */

import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { DiffResult, DiffRow, QueryResult, Rendered } from '../../destination/reader.ts';
import { printable } from '../../lib/text.ts';
import { plural } from '../../lib/units.ts';
import { UsageError } from '../../model/errors.ts';
import type { PastCommit } from '../../model/past-states.ts';
import { usingMirror } from '../../reporting/stores.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { type PastStateFlags, pastStateOf } from '../past-state.ts';
import type { QueryFormat } from '../render/formats.ts';
import { minuteOf } from '../render/messages.ts';
import { jsonValue, writeBatches, writeRows } from '../render/rows.ts';
import { readingPlace } from '../render/screen.ts';

/**
 * Shows the difference between two states. @throws UsageError where no state is named to begin with, or where the history does not know
 * one. @throws StorageError when there is no mirror. @throws BusyError when a writer keeps the mirror locked for longer than `lock.wait`.
 */
export async function diff(
  datasetId: string,
  flags: PastStateFlags & { readonly format: QueryFormat },
  configuration: LocalConfiguration,
  context: Context,
): Promise<ExitCode> {
  const { stdout } = context.terminal;
  const from = pastStateOf('from', flags);
  const to = pastStateOf('to', flags);
  if (from === null) {
    throw new UsageError('diff needs to know from which state on.', {
      hint: 'Give --from-version, --from-commit or --from-time; feed-sync query "SELECT * FROM feed_sync.commits" lists the states.',
    });
  }
  return usingMirror(configuration, readingPlace(configuration, context), async (reader) => {
    const result = await reader.diff(datasetId, { from, to });
    if (flags.format === 'json') await writeJson(result, stdout);
    else if (flags.format === 'csv') await writeRows(cellByCell(result), 'csv', stdout);
    else await writeTable(datasetId, result, stdout);
    return EXIT_CODES.caughtUp;
  });
}

async function writeTable(
  datasetId: string,
  result: DiffResult,
  stdout: NodeJS.WritableStream,
): Promise<void> {
  const counts = { added: 0, changed: 0, removed: 0 };
  const rows = counted(result.rows, counts);
  await write(stdout, `${printable(datasetId)}, from ${nameOf(result.from)} to ${nameOf(result.to)}\n\n`);
  await writeRows(cellByCell({ ...result, rows }), 'table', stdout, { unit: 'difference' });
  const { added, changed, removed } = counts;
  await write(stdout, `${plural(added, 'row')} added, ${changed} changed, ${removed} removed\n`);
}

async function* counted(
  rows: AsyncIterable<DiffRow>,
  counts: Record<DiffRow['change'], number>,
): AsyncGenerator<DiffRow> {
  for await (const row of rows) {
    counts[row.change] += 1;
    yield row;
  }
}

/** Names a commit: `commit 12 (version 4, 2026-03-01 12:00 UTC)`. */
export function nameOf({ commitNumber, toVersion, appliedAt }: PastCommit): string {
  return `commit ${commitNumber} (version ${toVersion}, ${minuteOf(appliedAt)} UTC)`;
}

/** One line for each value that differs; a row of which nothing but the key is known has one line, too. */
function cellByCell(result: DiffResult): QueryResult {
  const { keys, values } = result;
  return {
    columnNames: ['change', ...keys.map(([name]) => name), 'column', 'before', 'after'],
    columnTypes: ['VARCHAR', ...keys.map(([, type]) => type), 'VARCHAR', 'VARCHAR', 'VARCHAR'],
    rows: cells(result.rows, values),
  };
}

async function* cells(
  rows: AsyncIterable<DiffRow>,
  values: DiffResult['values'],
): AsyncGenerator<readonly Rendered[]> {
  for await (const { change, key, before, after } of rows) {
    const differing = values.flatMap(([name], index) => {
      const [was, is] = [before?.[index] ?? null, after?.[index] ?? null];
      return was === is ? [] : [[change, ...key, name, was, is]];
    });
    yield* differing.length === 0 ? [[change, ...key, null, null, null]] : differing;
  }
}

async function writeJson({ rows, keys, values }: DiffResult, stdout: NodeJS.WritableStream): Promise<void> {
  const object = (columns: DiffResult['keys'], cellsOf: readonly Rendered[] | null): string => {
    if (cellsOf === null) return 'null';
    const fields = columns.map(([name, type], index) => {
      return `${JSON.stringify(name)}:${jsonValue(cellsOf[index] ?? null, type)}`;
    });
    return `{${fields.join(',')}}`;
  };
  const line = ({ change, key, before, after }: DiffRow): string => {
    const states = `"before":${object(values, before)},"after":${object(values, after)}`;
    return `{"change":"${change}","key":${object(keys, key)},${states}}\n`;
  };
  await writeBatches(rows, stdout, (batch) => batch.map(line).join(''));
}
