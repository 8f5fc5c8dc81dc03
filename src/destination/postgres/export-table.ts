/**
 * A live table of the database as a GeoParquet file: COPY writes CSV into a named pipe, from which DuckDB reads it. No row becomes a
 * value of JavaScript, and nothing but the file is written to a disk.
 *
 * Invariants: a file counts only where the COPY, too, has ended well, because a pipe that ends early looks like one that ends. The
 * pipe has a reader here until DuckDB has ended, so that what is written before DuckDB opens it stays; and once everything is
 * written, writers come and go, because opening the pipe waits for one.
 */

import { closeSync } from 'node:fs';
import { StorageError } from '../../model/errors.ts';
import type { ColumnType } from '../../model/records.ts';
import type { ObservedColumn, ObservedTable } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { identifier, integer, text } from '../../staging/engine/sql.ts';
import { explainExport, writeGeoParquet } from '../../staging/geoparquet.ts';
import { DUCKDB_TYPES } from '../../staging/snapshot/casts.ts';
import { qualified } from './catalog/names.ts';
import { readTables } from './catalog/observed-state.ts';
import type { Connection, Transaction } from './connection.ts';
import { writingEnd } from './copy-rows.ts';
import { PostgresError, sentence } from './errors.ts';
import type { NodeWatch } from './node-watch.ts';
import { openForReading, openForWriting, type Pipe } from './pipe.ts';
import { type Postgis, searchPath } from './types.ts';

/** DuckDB reads CSV in blocks, and each line has to fit into one. */
const MAX_LINE_BYTES = 128_000_000;
/** Between two writers of a pipe that is written. */
const RELEASE_EVERY_MS = 20;

interface Exporting {
  /** How long a lock is waited for that keeps the table from being read: commits wait behind the export. */
  readonly lockWaitMs: number;
  readonly connection: Connection;
  readonly postgis: Postgis | null;
  /** Null without Citus. */
  readonly nodes: NodeWatch | null;
  readonly pipe: Pipe;
  readonly writing: Engine;
}

/** Writes the table as `ExportSource.writeTable` says. @throws StorageError, PostgresError, DuckDbError */
export async function exportTable(
  { connection, postgis, nodes, pipe, writing, lockWaitMs }: Exporting,
  datasetId: string,
  to: string,
): Promise<ObservedTable | null> {
  return await connection.transaction(
    async (transaction) => {
      const table = (await readTables(transaction, [datasetId])).get(datasetId)?.observed;
      if (table === undefined) return null;
      await nodes?.begin(transaction, table.schemaName);
      const copy = `COPY (${selectTexts(table, postgis)}) TO STDOUT (FORMAT csv)`;
      await throughPipe(pipe, transaction, copy, () =>
        writeGeoParquet(writing, table, readTexts(table, pipe.path), to).catch((error) => {
          throw explainExport(error, table, to);
        }),
      ).catch((error: unknown) => {
        throw explainCopy(error, table);
      });
      return table;
    },
    { isReadOnly: true, isSnapshot: true, searchPath: searchPath(postgis), lockWaitMs },
  );
}

/** A table or a column that somebody has dropped says nothing of the other tables. */
function explainCopy(error: unknown, { tableName }: ObservedTable): unknown {
  if (!(error instanceof PostgresError) || error.fault !== 'statement') return error;
  return new StorageError(`The table ${tableName} cannot be exported: ${sentence(error)}`, {
    code: 'export_failed',
    hint: 'To learn how it is mended: feed-sync verify. The last generation of the export stays.',
    cause: error,
  });
}

async function throughPipe(
  pipe: Pipe,
  transaction: Transaction,
  copy: string,
  read: () => Promise<void>,
): Promise<void> {
  const reading = await openForReading(pipe);
  const sink = writingEnd(pipe);
  let isRead = false;
  /** Whether DuckDB failed while it was being written to, and so the COPY because of that; else what it read was cut. */
  let failedFirst = false;
  const consumed = read().then(
    () => {
      isRead = true;
    },
    (error) => {
      isRead = true;
      failedFirst = !sink.destroyed;
      sink.destroy();
      throw error;
    },
  );
  // Is awaited below, after the COPY.
  consumed.catch(() => {});
  try {
    const failure = await transaction.copyOut(copy, sink).then(
      () => null,
      (error: unknown) => ({ error }),
    );
    sink.destroy();
    while (!isRead) {
      closeSync(openForWriting(pipe));
      await Promise.race([consumed.catch(() => {}), pipe.clock.sleep(RELEASE_EVERY_MS)]);
    }
    if (failure !== null && !failedFirst) throw failure.error;
    await consumed;
  } finally {
    closeSync(reading);
  }
}

/** In the order of the catalog, which is that of the schema. */
function selectTexts(table: ObservedTable, postgis: Postgis | null): string {
  const values = table.columns.map(({ columnName, type }) =>
    writtenValue(identifier(columnName), type, postgis),
  );
  return `SELECT ${values.join(', ')} FROM ${qualified(table)}`;
}

/** Days and microseconds since 1970, because the two databases write times before our era in different ways. */
function writtenValue(name: string, type: ColumnType, postgis: Postgis | null): string {
  switch (type) {
    case 'date':
      return `CASE WHEN isfinite(${name}) THEN (${name} - DATE '1970-01-01')::text ELSE ${name}::text END`;
    case 'timestamp':
      return `CASE WHEN isfinite(${name}) THEN (extract(epoch FROM ${name}) * 1000000)::bigint::text ELSE ${name}::text END`;
    case 'geometry':
      return postgis === null ? `encode(${name}, 'hex')` : writtenGeometry(name, identifier(postgis.schema));
    default:
      return name;
  }
}

/** As WKB, in which PostGIS leaves out the members of what is empty as a whole: that is written as text. */
function writtenGeometry(name: string, schema: string): string {
  return `CASE WHEN ${schema}.ST_IsEmpty(${name}) THEN ${schema}.ST_AsText(${name})
    ELSE encode(${schema}.ST_AsBinary(${name}), 'hex') END`;
}

/** Returns SQL of DuckDB for the rows in the pipe, with the names and types of the table. */
function readTexts({ columns }: ObservedTable, path: string): string {
  const texts = columns.map((_, index) => `c${index}: 'VARCHAR'`);
  const values = columns.map(
    (column, index) => `${readValue(`c${index}`, column)} AS ${identifier(column.columnName)}`,
  );
  return `(SELECT ${values.join(', ')} FROM read_csv(${text(path)}, columns = {${texts.join(', ')}},
    header = false, auto_detect = false, delim = ',', quote = '"', escape = '"', nullstr = '',
    allow_quoted_nulls = false, parallel = false,
    max_line_size = ${integer(MAX_LINE_BYTES)}, buffer_size = ${integer(MAX_LINE_BYTES)}))`;
}

function readValue(value: string, { type }: ObservedColumn): string {
  const isEndless = `${value} IN ('infinity', '-infinity')`;
  switch (type) {
    case 'string':
      return value;
    case 'date':
      return `CASE WHEN ${isEndless} THEN ${value}::DATE ELSE DATE '1970-01-01' + TRY_CAST(${value} AS INTEGER) END`;
    case 'timestamp':
      return `CASE WHEN ${isEndless} THEN ${value}::TIMESTAMPTZ ELSE make_timestamptz(TRY_CAST(${value} AS BIGINT)) END`;
    case 'geometry':
      return `CASE WHEN ${value}[1] = '0' THEN ST_GeomFromWKB(unhex(${value})) ELSE ${value}::GEOMETRY END`;
    default:
      return `${value}::${DUCKDB_TYPES[type]}`;
  }
}
