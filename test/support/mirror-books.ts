/** Compares the schema `feed_sync` of a mirror, and the list of its tables, with what the feed has published. */

import { microsecondsOfTimestamp } from '../../fixtures/source/moment.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';
import { type ExactMirror, literal } from './exact-mirror.ts';
import { type Expectation, type PublishedDataset, tableNameOf } from './published.ts';
import { sameText } from './same-text.ts';

export async function bookDifferences(
  mirror: ExactMirror,
  expected: Expectation,
): Promise<readonly string[]> {
  return [
    ...(await tables(mirror, expected)),
    ...(await datasets(mirror, expected)),
    ...(await columns(mirror, expected)),
    ...(await histories(mirror, expected)),
    ...(await names(mirror)),
    ...(await reloads(mirror, expected)),
    ...(await meta(mirror, expected)),
  ];
}

/** The tables that people see, and their comments: one for each dataset, and none beside. */
async function tables(mirror: ExactMirror, expected: Expectation): Promise<readonly string[]> {
  const actual = await mirror.rows(
    "SELECT table_name, comment FROM duckdb_tables() WHERE schema_name <> 'feed_sync' ORDER BY encode(table_name)",
  );
  const wanted = expected.datasets.map(({ datasetId }) => [tableNameOf(datasetId), `Dataset ${datasetId}`]);
  return sameText('tables', actual, inOrder(wanted));
}

async function datasets(mirror: ExactMirror, expected: Expectation): Promise<readonly string[]> {
  const actual =
    await mirror.rows(`SELECT dataset_id, table_name, version::VARCHAR, schema_version, row_count::VARCHAR,
      to_json(key_columns)::VARCHAR, snapshot_version::VARCHAR, epoch_us(published_at)::VARCHAR,
      (regexp_full_match(snapshot_digest, '[0-9a-f]{64}') AND applied_at IS NOT NULL)::VARCHAR
    FROM feed_sync.datasets ORDER BY encode(dataset_id)`);
  const wanted = expected.datasets.map(({ datasetId, version }) => [
    datasetId,
    tableNameOf(datasetId),
    String(version.version),
    version.schemaVersion,
    String(version.content.rowCount),
    JSON.stringify(version.content.schema.keyColumns),
    String(version.version),
    String(microsecondsOfTimestamp(version.publishedAt)),
    'true',
  ]);
  return sameText('feed_sync.datasets', actual, inOrder(wanted));
}

async function columns(mirror: ExactMirror, expected: Expectation): Promise<readonly string[]> {
  const differences: string[] = [];
  for (const dataset of expected.datasets) {
    const actual = await mirror.rows(`SELECT "position"::VARCHAR, name, column_name, type, nullable::VARCHAR,
        description, source_name, role, crs
      FROM feed_sync.columns WHERE dataset_id = ${literal(dataset.datasetId)} ORDER BY "position"`);
    differences.push(...sameText(`feed_sync.columns of ${dataset.datasetId}`, actual, columnRows(dataset)));
  }
  const strangers = await mirror.rows(
    'SELECT DISTINCT dataset_id FROM feed_sync.columns ANTI JOIN feed_sync.datasets USING (dataset_id)',
  );
  return [...differences, ...sameText('columns of no dataset', strangers, [])];
}

function columnRows({ version }: PublishedDataset): readonly (readonly (string | null)[])[] {
  const { schema, rowCount } = version.content;
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
    // A GeoParquet file that names no coordinate system is in WGS 84; without a file nothing is known.
    type === 'geometry' && rowCount > 0 ? 'OGC:CRS84' : null,
  ]);
}

/** Each line begins where the one before ended, and the last one ends at the version of the table. */
async function histories(mirror: ExactMirror, expected: Expectation): Promise<readonly string[]> {
  const lines = await mirror.rows(`SELECT dataset_id, from_version::VARCHAR, to_version::VARCHAR, kind,
      (coalesce(added, changed, removed) IS NULL AND applied_at IS NOT NULL)::VARCHAR
    FROM feed_sync.history ORDER BY rowid`);
  return expected.datasets.flatMap(({ datasetId, version }) => {
    const own = lines.filter(([id]) => id === datasetId);
    const from = own.map((line) => line[1]);
    const to = own.map((line) => line[2] ?? null);
    const rest = own.map((line) => line.slice(3));
    return [
      ...sameText(`history of ${datasetId}: from`, from, [null, ...to.slice(0, -1)]),
      ...sameText(`history of ${datasetId}: last`, to.at(-1), String(version.version)),
      ...sameText(
        `history of ${datasetId}: kinds`,
        rest,
        own.map(() => ['snapshot', 'true']),
      ),
    ];
  });
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

/** At most one for each dataset and subscription, of a dataset that is there. */
async function reloads(mirror: ExactMirror, expected: Expectation): Promise<readonly string[]> {
  const rows = await mirror.rows(`SELECT dataset_id, subscription_id, count(*)::VARCHAR
    FROM feed_sync.reloads GROUP BY ALL ORDER BY ALL`);
  const ids = new Set(expected.datasets.map(({ datasetId }) => datasetId));
  const wrong = rows.filter(
    ([dataset, subscription, count]) =>
      !ids.has(dataset ?? '') || !expected.subscriptionIds.includes(subscription ?? '') || count !== '1',
  );
  return sameText('feed_sync.reloads', wrong, []);
}

async function meta(
  mirror: ExactMirror,
  { origin, subscriptionIds }: Expectation,
): Promise<readonly string[]> {
  const actual = await mirror.rows(
    'SELECT "key", value FROM feed_sync.meta ORDER BY encode("key"), encode(value)',
  );
  const wanted = [
    ['format_version', '1'],
    ['service_origin', origin],
    ...subscriptionIds.toSorted().map((id) => ['subscription_id', id]),
  ];
  return sameText('feed_sync.meta', actual, wanted);
}

/** By the bytes of the first cell, as the queries order. */
function inOrder(rows: readonly (readonly string[])[]): readonly (readonly string[])[] {
  return rows.toSorted(([left = ''], [right = '']) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
}
