/**
 * The file in which dbt finds the tables of the mirror as sources. Pure.
 *
 * Invariant: dbt evaluates Jinja in the texts of this file, and the texts come from the service, so no text leaves with an opening
 * of Jinja in it.
 */

import { stringify } from 'yaml';
import type { DescribedColumn, DescribedTable } from '../../destination/catalog/described-tables.ts';
import { formatLeftOut, type RecordedUnion } from '../../destination/catalog/unions.ts';
import { printable } from '../../lib/text.ts';
import { plural } from '../../lib/units.ts';

export interface DbtOptions {
  /** The name of the source in dbt; with tables in several schemas, its beginning. */
  readonly source: string;
  /** The database that the tables are in, as the profile of dbt calls it; null: the one of the profile. */
  readonly database: string | null;
  /** From this age of its newest commit on dbt warns of a table, or fails. In milliseconds; null: never. */
  readonly warnAfterMs: number | null;
  readonly errorAfterMs: number | null;
}

export interface DbtSources {
  readonly text: string;
  /** `table.column`: columns that dbt cannot take because of their names. */
  readonly leftOut: readonly string[];
}

const JINJA = /\{(?=[{%#])/gu;

const CATALOG: Readonly<Record<string, string>> = {
  datasets:
    'One row for each table of the mirror: its dataset, version, rows, key, and when it was published and applied.',
  columns:
    "One row for each column of each table: the service's name, type and description, and the name in the table.",
  commits:
    'One row for each commit: versions before and after, rows added, changed and removed, and when it was applied.',
};

/** Returns the text of `sources.yml`, for dbt 1.10 and newer. */
export function dbtSources(
  tables: readonly DescribedTable[],
  unions: readonly RecordedUnion[],
  options: DbtOptions,
): DbtSources {
  const database = options.database === null ? {} : { database: options.database };
  const shown = unions.filter(({ members }) => members > 0);
  const ofTables = new Set(tables.map(({ schemaName }) => schemaName));
  const isLiveMissing = shown.length > 0 && ![...ofTables].some((schema) => LIVE_SCHEMAS.has(schema));
  const schemas = [...ofTables, ...(isLiveMissing ? [DATABASE_SCHEMA] : [])];
  const sources = schemas.map((schema) => ({
    name: schemas.length === 1 ? options.source : `${options.source}_${schema}`,
    description:
      'Datasets of a feed service, mirrored by feed-sync. Each table is at exactly one published version.',
    ...database,
    schema,
    tables: [
      ...tables.filter(({ schemaName }) => schemaName === schema).map((table) => tableOf(table, options)),
      ...(LIVE_SCHEMAS.has(schema) ? shown.map(unionOf) : []),
    ],
  }));
  const catalog = {
    name: 'feed_sync',
    description: 'What the mirror knows about itself, written in the same transactions as the rows.',
    ...database,
    schema: 'feed_sync',
    tables: Object.entries(CATALOG).map(([name, description]) => ({ name, description })),
  };
  const leftOut = tables.flatMap(({ tableName, columns }) =>
    columns.filter((column) => !isFit(column)).map(({ columnName }) => `${tableName}.${columnName}`),
  );
  const text = stringify({ version: 2, sources: [...sources, catalog] }, { lineWidth: 0 });
  return { text: `${HEADER}${text}`, leftOut };
}

const HEADER = `# The tables of the mirror as sources of dbt 1.10 and newer. Written by feed-sync dbt-sources:
# write it anew when datasets or columns change.
`;

/** The schema of the unions in PostgreSQL, where rules may name other ones for all tables. */
const DATABASE_SCHEMA = 'feeds';

/** The schema of the unions: in a file, in PostgreSQL. */
const LIVE_SCHEMAS: ReadonlySet<string> = new Set(['main', DATABASE_SCHEMA]);

function unionOf({ name, members, leftOut, unusable }: RecordedUnion) {
  const about = `The rows of ${plural(members, 'table')}, with the id of the dataset in dataset_id.`;
  const left = [...leftOut.map(formatLeftOut), ...unusable];
  const without = left.length === 0 ? '' : ` Left out: ${left.join('; ')}.`;
  return { name, description: safe(`${about}${without}`) };
}

function tableOf({ datasetId, tableName, columns }: DescribedTable, options: DbtOptions) {
  const keys = columns.filter(({ isKey }) => isKey);
  const [only, ...others] = keys;
  const isOneColumn = only !== undefined && others.length === 0;
  const isUnique = keys.length > 1 && keys.every(isFit);
  return {
    name: tableName,
    description: `The dataset ${safe(datasetId)}.`,
    quoting: { identifier: true },
    config: { meta: { dataset_id: safe(datasetId) }, ...freshnessOf(datasetId, options) },
    ...(isUnique ? { data_tests: [uniqueTogether(keys)] } : {}),
    columns: columns.filter(isFit).map((column) => ({
      name: column.columnName,
      quote: true,
      ...(column.description === null ? {} : { description: safe(column.description) }),
      config: { meta: { type: safe(column.type) } },
      ...(column.isKey ? { data_tests: isOneColumn ? ['not_null', 'unique'] : ['not_null'] } : {}),
    })),
  };
}

function uniqueTogether(keys: readonly DescribedColumn[]) {
  const names = keys.map(({ columnName }) => `"${columnName}"`);
  return { unique: { arguments: { column_name: `row(${names.join(', ')})` } } };
}

function freshnessOf(datasetId: string, { warnAfterMs, errorAfterMs }: DbtOptions) {
  if (warnAfterMs === null && errorAfterMs === null) return {};
  const literal = `'${safe(datasetId).replaceAll("'", "''")}'`;
  return {
    loaded_at_query: `select max(applied_at) from feed_sync.datasets where dataset_id = ${literal}`,
    freshness: {
      ...(warnAfterMs === null ? {} : { warn_after: periodOf(warnAfterMs) }),
      ...(errorAfterMs === null ? {} : { error_after: periodOf(errorAfterMs) }),
    },
  };
}

const MINUTE_MS = 60_000;
const PERIODS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
] as const;

/** The largest unit of dbt in which the time is a whole number; below a minute, one minute. */
function periodOf(durationMs: number) {
  const [period, unitMs] = PERIODS.find(([, ms]) => durationMs % ms === 0) ?? ['minute', MINUTE_MS];
  return { count: Math.max(1, Math.round(durationMs / unitMs)), period };
}

/** A name cannot be rewritten, and dbt puts quotes around it without doubling those in it: the column is left out instead. */
function isFit({ columnName }: DescribedColumn): boolean {
  return safe(columnName) === columnName && !columnName.includes('"');
}

function safe(text: string): string {
  return printable(text).replaceAll(JINJA, '{ ');
}
