/**
 * The oracle: compares a mirror with what the feed has published, from the feed's own rows and by no code of the
 * program. Tables in all columns, types and values, both ways; the bookkeeping; comments; and nothing beside.
 */

import { MIRROR_TYPES } from '../../fixtures/demo/comparison/exact-text.ts';
import type { DatasetVersion } from '../../fixtures/feed/model.ts';
import type { SourceColumn, SourceSchema } from '../../fixtures/source/content.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';
import { textOfCell, textOfMirrored } from './cell-text.ts';
import { type ExactMirror, exactText, identifier, literal, openExactly } from './exact-mirror.ts';
import { catalogDifferences } from './mirror-catalog.ts';
import { type Expectation, type PublishedDataset, tableNameOf } from './published.ts';
import { sameText } from './same-text.ts';

const MAX_DIFFERENCES_OF_A_TABLE = 5;

/** What differs, in words; empty where the mirror is what it has to be. */
export async function mirrorDifferences(
  mirrorPath: string,
  expected: Expectation,
): Promise<readonly string[]> {
  const mirror = await openExactly(mirrorPath);
  try {
    return await differencesIn(mirror, expected);
  } finally {
    mirror.close();
  }
}

/** `areHashed`: see `catalogDifferences`. */
export async function differencesIn(
  mirror: ExactMirror,
  expected: Expectation,
  areHashed = true,
): Promise<readonly string[]> {
  const differences = [...(await catalogDifferences(mirror, expected, areHashed))];
  for (const dataset of expected.datasets) differences.push(...(await tableDifferences(mirror, dataset)));
  return differences;
}

async function tableDifferences(
  mirror: ExactMirror,
  { datasetId, version }: PublishedDataset,
): Promise<readonly string[]> {
  const { schema } = version.content;
  const tableName = tableNameOf(datasetId);
  const columns = await columnDifferences(mirror, tableName, schema);
  const differences = columns.length > 0 ? columns : await rowDifferences(mirror, tableName, version);
  return differences.map((difference) => `${datasetId}: ${difference}`);
}

/** Names in their order, types, comments, and what `feed_sync.columns` says of each. */
async function columnDifferences(
  mirror: ExactMirror,
  tableName: string,
  schema: SourceSchema,
): Promise<readonly string[]> {
  const actual = await mirror.rows(`SELECT column_name,
      CASE WHEN starts_with(data_type, 'GEOMETRY') THEN 'GEOMETRY' ELSE data_type END, comment
    FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = ${literal(tableName)} ORDER BY column_index`);
  const expected = columnsOf(schema).map(({ name, type, description }) => [
    name,
    MIRROR_TYPES[type],
    description ?? null,
  ]);
  return sameText('columns', actual, expected);
}

/** Both ways: rows are counted, so a row that is there twice is no row that is there once. */
async function rowDifferences(
  mirror: ExactMirror,
  tableName: string,
  { content }: DatasetVersion,
): Promise<readonly string[]> {
  const columns = columnsOf(content.schema);
  const counts = new Map<string, number>();
  const count = (row: readonly (string | null)[], by: 1 | -1): void => {
    const text = JSON.stringify(row);
    counts.set(text, (counts.get(text) ?? 0) + by);
  };
  for (const row of content.rows()) {
    count(
      columns.map(({ type }, index) => textOfCell(type, row[index] ?? null)),
      1,
    );
  }
  for (const row of await mirroredRows(mirror, tableName, columns)) count(row, -1);
  const differing = [...counts].filter(([, surplus]) => surplus !== 0);
  const reported = differing.slice(0, MAX_DIFFERENCES_OF_A_TABLE).map(([row, surplus]) => {
    const where = surplus > 0 ? 'missing in the mirror' : 'only in the mirror';
    return `${Math.abs(surplus)} × ${where}: ${row.slice(0, 2_000)}`;
  });
  return differing.length > reported.length ? [...reported, `${differing.length} rows differ`] : reported;
}

async function mirroredRows(
  mirror: ExactMirror,
  tableName: string,
  columns: readonly SourceColumn[],
): Promise<readonly (readonly (string | null)[])[]> {
  const values = columns.map(({ name, type }, index) => `${exactText(type, identifier(name))} AS c${index}`);
  const rows = await mirror.rows(`SELECT ${values.join(', ')} FROM main.${identifier(tableName)}`);
  return rows.map((row) => row.map((text, index) => textOfMirrored(columns[index]?.type ?? 'string', text)));
}
