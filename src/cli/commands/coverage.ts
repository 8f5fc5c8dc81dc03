/** `feed-sync coverage`: lists the counties that the workspace covers, with every field that the service gives. */

import type { Configuration } from '../../configuration/configuration.ts';
import type { County } from '../../feed/operator.ts';
import { formatCount } from '../../lib/units.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { jsonText, renderTable } from '../render/table.ts';
import { usingOperator } from '../service-client.ts';

/** The most fields beside id, name and state that a table shows; the JSON has all of them. */
const MAX_FURTHER_COLUMNS = 6;
const MAX_CELL_CHARACTERS = 60;

const NOTHING_COVERED =
  'The workspace covers no county: nothing can be subscribed to yet. Counties are added in the web application of the ' +
  'service.\n';

/** @throws FeedSyncError when the service cannot be asked. */
export async function listCoverage(
  configuration: Configuration,
  context: Context,
  { json }: { readonly json: boolean },
): Promise<ExitCode> {
  const { terminal, signal } = context;
  const counties = await usingOperator(configuration, context, (operator) => operator.coverage(signal));
  await write(terminal.stdout, json ? jsonText({ counties: counties.map(asJson) }) : asTable(counties));
  return EXIT_CODES.caughtUp;
}

/** Unchanged, as the service wrote the fields. */
function asJson({ further, ...county }: County) {
  return { ...county, ...Object.fromEntries(further) };
}

function asTable(counties: readonly County[]): string {
  if (counties.length === 0) return NOTHING_COVERED;
  const all = [...new Set(counties.flatMap(({ further }) => [...further.keys()]))];
  const shown = all.slice(0, MAX_FURTHER_COLUMNS);
  const columns = ['county', 'name', 'state', ...shown].map((title) => ({ title }));
  const rows = counties.map(({ id, name, state, further }) => [
    id,
    name ?? '',
    state ?? '',
    ...shown.map((field) => cellOf(further.get(field))),
  ]);
  const rest = all.length - shown.length;
  const more =
    rest === 0
      ? ''
      : `\nThe service gives ${formatCount(rest)} ${rest === 1 ? 'field' : 'fields'} more: see --json.\n`;
  return `${renderTable(columns, rows)}\n${more}`;
}

function cellOf(value: unknown): string {
  const text = typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value);
  return text.length > MAX_CELL_CHARACTERS
    ? `${text.slice(0, MAX_CELL_CHARACTERS - 1).toWellFormed()}…`
    : text;
}
