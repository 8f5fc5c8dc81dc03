/** Compares the schema `feed_sync` of a mirror, and the list of its tables, with what the feed has published. */

import { microsecondsOfTimestamp } from '../../fixtures/source/timestamp.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';
import { type ExactMirror, identifier, literal } from './exact-mirror.ts';
import {
  type ArchivedTable,
  countCopied,
  historyDifferences,
  type Lines,
  loadedVersion,
  readArchived,
  readLines,
} from './mirror-commits.ts';
import { type Expectation, type PublishedDataset, tableNameOf } from './published.ts';
import { sameText } from './same-text.ts';

/** `areHashed`: the checksums are those of DuckDB, and not of a database that the mirror was copied from. */
export async function catalogDifferences(
  mirror: ExactMirror,
  expected: Expectation,
  areHashed: boolean,
): Promise<readonly string[]> {
  const lines = await readLines(mirror);
  const archived = await readArchived(mirror);
  return [
    ...(await tables(mirror, expected, archived)),
    ...(await datasets(mirror, expected, lines)),
    ...(await columns(mirror, expected, lines)),
    ...(areHashed ? await checksums(mirror) : []),
    ...(areHashed ? await entries(mirror) : []),
    ...(await historyDifferences(expected, lines, archived, (name) => countCopied(mirror, name))),
    ...(await names(mirror)),
    ...(await reloads(mirror, expected)),
    ...(await progress(mirror)),
    ...(await meta(mirror, expected)),
  ];
}

/** The tables for readers, but for the past of tables, and their comments: one for each dataset and each retired one, and none beside. */
async function tables(
  mirror: ExactMirror,
  expected: Expectation,
  archived: readonly ArchivedTable[],
): Promise<readonly string[]> {
  const actual = await mirror.rows(
    `SELECT schema_name || '.' || table_name AS name, comment FROM duckdb_tables()
      WHERE schema_name NOT IN ('feed_sync', 'history') ORDER BY encode(name)`,
  );
  const live = expected.datasets.map(({ datasetId }) => [
    `main.${tableNameOf(datasetId)}`,
    `Dataset ${datasetId}`,
  ]);
  const retired = archived.flatMap(({ datasetId, tableName, isKept }) =>
    tableName === null ? [] : [[`${isKept ? 'main' : 'archived'}.${tableName}`, `Dataset ${datasetId}`]],
  );
  return sameText('tables', actual, inOrder([...live, ...retired]));
}

async function datasets(
  mirror: ExactMirror,
  expected: Expectation,
  lines: Lines,
): Promise<readonly string[]> {
  const actual =
    await mirror.rows(`SELECT dataset_id, table_name, version::VARCHAR, schema_version, row_count::VARCHAR,
      to_json(key_columns)::VARCHAR, snapshot_version::VARCHAR, epoch_us(published_at)::VARCHAR,
      (regexp_full_match(snapshot_digest, '[0-9a-f]{64}') AND applied_at IS NOT NULL)::VARCHAR
    FROM feed_sync.datasets ORDER BY encode(dataset_id)`);
  const expectedRows = expected.datasets.map(({ datasetId, version }) => [
    datasetId,
    tableNameOf(datasetId),
    String(version.version),
    version.schemaVersion,
    String(version.content.rowCount),
    JSON.stringify(version.content.schema.keyColumns),
    loadedVersion(lines.get(datasetId) ?? []) ?? 'never loaded',
    String(microsecondsOfTimestamp(version.publishedAt)),
    'true',
  ]);
  return sameText('feed_sync.datasets', actual, inOrder(expectedRows));
}

async function columns(mirror: ExactMirror, expected: Expectation, lines: Lines): Promise<readonly string[]> {
  const differences: string[] = [];
  for (const dataset of expected.datasets) {
    const actual = await mirror.rows(`SELECT "position"::VARCHAR, name, column_name, type, nullable::VARCHAR,
        description, source_name, role, crs
      FROM feed_sync.columns WHERE dataset_id = ${literal(dataset.datasetId)} ORDER BY "position"`);
    const wasChanged = ['changes', 'rollback', 'repair'].includes(
      lines.get(dataset.datasetId)?.at(-1)?.kind ?? '',
    );
    const hasFiles = dataset.version.content.rowCount > 0 || expected.emptySnapshot === 'one-file';
    const crs = (index: number) =>
      wasChanged ? crsAfterChanges(dataset, index, actual[index]?.at(-1)) : hasFiles ? CRS_OF_FILES : null;
    const expectedRows = columnRows(dataset, crs);
    differences.push(...sameText(`feed_sync.columns of ${dataset.datasetId}`, actual, expectedRows));
  }
  const strangers = await mirror.rows(
    'SELECT DISTINCT dataset_id FROM feed_sync.columns ANTI JOIN feed_sync.datasets USING (dataset_id)',
  );
  return [...differences, ...sameText('columns of no dataset', strangers, [])];
}

type Cells = readonly (string | null)[];

function columnRows(dataset: PublishedDataset, crsOf: (index: number) => string | null): readonly Cells[] {
  const { schema } = dataset.version.content;
  const roleOf = (name: string, index: number): string => {
    if (schema.keyColumns.includes(name)) return 'key';
    return index < schema.columns.length ? 'data' : 'envelope';
  };
  return columnsOf(schema).map(({ name, type, nullable, description, sourceName }, index) => [
    String(index + 1),
    name,
    name,
    type,
    String(nullable),
    description ?? null,
    sourceName ?? null,
    roleOf(name, index),
    type === 'geometry' ? crsOf(index) : null,
  ]);
}

/** A GeoParquet file that names no coordinate system is in WGS 84, and so is GeoJSON; without any of them nothing is known. */
const CRS_OF_FILES = 'OGC:CRS84';

/** A column that changes have emptied, or never filled, may have come with one or not. */
function crsAfterChanges(
  { version: { content } }: PublishedDataset,
  index: number,
  actual: string | null | undefined,
): string | null {
  const hasValue = [...content.rows()].some((row) => (row[index] ?? null) !== null);
  return !hasValue && actual === null ? null : CRS_OF_FILES;
}

/** The recorded checksum of each table is the sum of the hashes of its rows. */
async function checksums(mirror: ExactMirror): Promise<readonly string[]> {
  const recorded = await mirror.rows(
    'SELECT table_name, checksum::VARCHAR FROM feed_sync.datasets ORDER BY table_name',
  );
  const computed: (readonly (string | null)[])[] = [];
  for (const [name] of recorded) {
    const [row] = await mirror.rows(
      `SELECT coalesce(sum(hash(hash(*COLUMNS(*)))), 0)::HUGEINT::VARCHAR FROM main.${identifier(name ?? '')}`,
    );
    computed.push([name ?? null, row?.[0] ?? null]);
  }
  return sameText('checksums', computed, recorded);
}

/** Each undo log has as many entries as were recorded, with the checksum that was recorded. */
async function entries(mirror: ExactMirror): Promise<readonly string[]> {
  const recorded = await mirror.rows(
    'SELECT log_name, row_count::VARCHAR, checksum::VARCHAR FROM feed_sync.history_logs ORDER BY log_name',
  );
  const computed: (readonly (string | null)[])[] = [];
  for (const [name] of recorded) {
    const log = `history.${identifier(name ?? '')}`;
    const rows = await mirror.rows(
      `SELECT count(*)::VARCHAR, coalesce(sum(hash(hash(*COLUMNS(*)))), 0)::HUGEINT::VARCHAR FROM ${log}`,
    );
    computed.push(...rows.map(([count = null, sum = null]) => [name ?? null, count, sum]));
  }
  return sameText('entries of undo logs', computed, recorded);
}

/** Given once for each dataset, to no two the same, and those of the live tables among them. */
async function names(mirror: ExactMirror): Promise<readonly string[]> {
  const repeated = await mirror.rows(`SELECT table_name FROM feed_sync.names GROUP BY ALL HAVING count(*) > 1
    UNION ALL SELECT dataset_id FROM feed_sync.names GROUP BY ALL HAVING count(*) > 1`);
  const nameless = await mirror.rows(
    'SELECT dataset_id FROM feed_sync.datasets ANTI JOIN feed_sync.names USING (dataset_id, table_name)',
  );
  return [...sameText('names given twice', repeated, []), ...sameText('without a name', nameless, [])];
}

/** At most one for each dataset and subscription, of a dataset that is there. An operator's has no subscription. */
async function reloads(mirror: ExactMirror, expected: Expectation): Promise<readonly string[]> {
  const rows = await mirror.rows(`SELECT dataset_id, subscription_id, count(*)::VARCHAR
    FROM feed_sync.reloads GROUP BY ALL ORDER BY ALL`);
  const ids = new Set(expected.datasets.map(({ datasetId }) => datasetId));
  const askers = ['', ...expected.subscriptionIds, ...(expected.formerSubscriptionIds ?? [])];
  const wrong = rows.filter(
    ([dataset, subscription, count]) =>
      !ids.has(dataset ?? '') || !askers.includes(subscription ?? '') || count !== '1',
  );
  return sameText('feed_sync.reloads', wrong, []);
}

/**
 * One row for each subscription, one for each of its datasets, and nothing owed twice. A reload that was requested at a time
 * has the number of the newest event of then, so two of one number differ in when they were asked for.
 */
async function progress(mirror: ExactMirror): Promise<readonly string[]> {
  const repeated =
    await mirror.rows(`SELECT subscription_id FROM feed_sync.subscriptions GROUP BY ALL HAVING count(*) > 1
    UNION ALL SELECT dataset_id FROM feed_sync.members GROUP BY subscription_id, dataset_id HAVING count(*) > 1
    UNION ALL SELECT dataset_id FROM (SELECT dataset_id, count(*) AS n FROM feed_sync.owed
      GROUP BY dataset_id, subscription_id, log_number, event_number, created_at) WHERE n > 1`);
  return sameText('progress stored twice', repeated, []);
}

/** The command after commits may have been given any commit, and exactly one is stored. */
async function meta(
  mirror: ExactMirror,
  { origin, subscriptionIds }: Expectation,
): Promise<readonly string[]> {
  const actual = await mirror.rows(
    `SELECT "key", value FROM feed_sync.meta WHERE "key" NOT IN ('kept_damaged', 'as_of_functions') QUALIFY "key" <> 'hook' OR count(*) OVER (PARTITION BY "key") > 1
      OR coalesce(TRY_CAST(regexp_extract(value, '[0-9]+') AS BIGINT), -1) NOT IN (SELECT commit_number FROM feed_sync.commits)
    ORDER BY encode("key"), encode(value)`,
  );
  const expectedRows = [
    ['format_version', '5'],
    ['service_origin', origin],
    ...subscriptionIds.toSorted().map((id) => ['subscription_id', id]),
  ];
  return sameText('feed_sync.meta', actual, expectedRows);
}

/** By the bytes of the first cell, as the queries order. */
function inOrder(rows: readonly (readonly string[])[]): readonly (readonly string[])[] {
  return rows.toSorted(([left = ''], [right = '']) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
}
