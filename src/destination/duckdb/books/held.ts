/** The live tables as the bookkeeping of the mirror tells them. */

import { assert } from '../../../lib/assert.ts';
import { COLUMN_TYPES, type ColumnType } from '../../../model/column.ts';
import type { ReloadMark } from '../../../model/reload-mark.ts';
import type { DigestKind, HeldColumn, HeldDataset } from '../../destination.ts';
import type { Engine, Row } from '../engine/engine.ts';
import { text } from '../engine/quoting.ts';
import {
  bigintAt,
  dateAt,
  dateOrNullAt,
  numberAt,
  textAt,
  textListAt,
  textOrNullAt,
} from '../engine/rows.ts';
import { bookOf } from './formats.ts';
import { type BookTable, FORMAT_VERSION } from './mirror-schema.ts';
import type { RecordedColumn } from './recorded-column.ts';

/** In a mirror of a known format. */
interface Asked {
  /** Null: all of them. */
  readonly datasetIds: readonly string[] | null;
  readonly format: number;
}

/** By dataset id, in order of id: of those datasets that have a live table, or of all where `datasetIds` is null. */
export async function readHeldDatasets(
  engine: Engine,
  datasetIds: readonly string[] | null,
  format = FORMAT_VERSION,
): Promise<ReadonlyMap<string, HeldDataset>> {
  if (datasetIds?.length === 0) return new Map();
  const asked = { datasetIds, format };
  return await readTables(engine, asked, await readColumns(engine, asked));
}

export interface LiveTable {
  readonly held: HeldDataset;
  /** In the order of the table. */
  readonly recordedColumns: readonly RecordedColumn[];
}

/** The same of some datasets, with all that is written of their columns. Of a mirror that is being written. */
export async function readLiveTables(
  engine: Engine,
  datasetIds: readonly string[],
): Promise<ReadonlyMap<string, LiveTable>> {
  if (datasetIds.length === 0) return new Map();
  const asked = { datasetIds, format: FORMAT_VERSION };
  const recorded = await readRecordedColumns(engine, asked);
  const columns = new Map([...recorded].map(([datasetId, of]) => [datasetId, of.map(heldColumn)]));
  const held = await readTables(engine, asked, columns);
  return new Map(
    [...held].map(([datasetId, table]) => {
      return [datasetId, { held: table, recordedColumns: recorded.get(datasetId) ?? [] }];
    }),
  );
}

async function readTables(
  engine: Engine,
  asked: Asked,
  columns: ReadonlyMap<string, readonly HeldColumn[]>,
): Promise<ReadonlyMap<string, HeldDataset>> {
  const reloads = await readReloads(engine, asked);
  const rows =
    await engine.rows(`SELECT dataset_id, table_name, version, schema_version, row_count, key_columns,
      snapshot_version, snapshot_digest, digest_kind, loaded_through, epoch_ms(loaded_at),
      epoch_ms(published_at), epoch_ms(applied_at)
    FROM ${ofDatasets('datasets', asked)} ORDER BY dataset_id`);
  const held = rows.map((row): HeldDataset => {
    const datasetId = textAt(row, 0);
    return {
      datasetId,
      tableName: textAt(row, 1),
      version: numberAt(row, 2),
      schemaVersion: textOrNullAt(row, 3),
      rowCount: numberAt(row, 4),
      keyColumns: textListAt(row, 5),
      snapshotVersion: numberAt(row, 6),
      snapshotDigest: textAt(row, 7),
      digestKind: digestKindAt(row, 8),
      loadedThrough: textOrNullAt(row, 9),
      loadedAt: dateOrNullAt(row, 10),
      publishedAt: dateOrNullAt(row, 11),
      appliedAt: dateAt(row, 12),
      columns: columns.get(datasetId) ?? [],
      reloads: reloads.get(datasetId) ?? new Map(),
    };
  });
  return new Map(held.map((dataset) => [dataset.datasetId, dataset]));
}

function digestKindAt(row: Row, index: number): DigestKind | null {
  const kind = textOrNullAt(row, index);
  assert(
    kind === null || kind === 'stated' || kind === 'computed',
    `a digest is stated or computed, not ${kind}`,
  );
  return kind;
}

function ofDatasets(table: BookTable, { datasetIds, format }: Asked): string {
  const all = bookOf(format, table);
  return datasetIds === null ? all : `${all} WHERE dataset_id IN (${datasetIds.map(text).join(', ')})`;
}

async function readReloads(
  engine: Engine,
  asked: Asked,
): Promise<ReadonlyMap<string, ReadonlyMap<string, ReloadMark>>> {
  const rows = await engine.rows(
    `SELECT dataset_id, subscription_id, log_number, event_number, epoch_ms(created_at)
      FROM ${ofDatasets('reloads', asked)}`,
  );
  const reloads = new Map<string, Map<string, ReloadMark>>();
  for (const row of rows) {
    const ofDataset = reloads.get(textAt(row, 0)) ?? new Map<string, ReloadMark>();
    ofDataset.set(textAt(row, 1), reloadMarkAt(row, 2));
    reloads.set(textAt(row, 0), ofDataset);
  }
  return reloads;
}

/** In three columns: number of the log, number of the event, when it was created. */
export function reloadMarkAt(row: Row, index: number): ReloadMark {
  return {
    logNumber: numberAt(row, index),
    eventNumber: bigintAt(row, index + 1),
    createdAt: dateOrNullAt(row, index + 2),
  };
}

/**
 * The columns of a table come as one JSON text, and are put in order here: of 3,000 datasets with 20 columns each that
 * takes a fifth of the time that a row for each column takes.
 */
async function readColumns(
  engine: Engine,
  asked: Asked,
): Promise<ReadonlyMap<string, readonly HeldColumn[]>> {
  const rows = await engine.rows(`SELECT dataset_id,
      to_json(list(["position"::VARCHAR, name, column_name, type, role, crs]))::VARCHAR
    FROM ${ofDatasets('columns', asked)} GROUP BY dataset_id`);
  return new Map(rows.map((row) => [textAt(row, 0), columnsFrom(textAt(row, 1))]));
}

/** By dataset id: what is written of the columns of each table, in their order. As JSON for the same reason. */
async function readRecordedColumns(
  engine: Engine,
  asked: Asked,
): Promise<ReadonlyMap<string, readonly RecordedColumn[]>> {
  const rows =
    await engine.rows(`SELECT dataset_id, to_json(list(${RECORDED_COLUMN} ORDER BY "position"))::VARCHAR
    FROM ${ofDatasets('columns', asked)} GROUP BY dataset_id`);
  return new Map(
    rows.map((row) => [textAt(row, 0), JSON.parse(textAt(row, 1)) as readonly RecordedColumn[]]),
  );
}

const RECORDED_COLUMN = `{'name': name, 'columnName': column_name, 'type': type, 'isNullable': nullable,
    'description': description, 'sourceName': source_name, 'role': role, 'crs': crs}`;

/** As the query of `readColumns` writes them: position, name, name in the table, type, role, coordinate system. */
type ColumnCells = readonly [string, string, string, string, HeldColumn['role'], string | null];

function columnsFrom(json: string): readonly HeldColumn[] {
  const columns = JSON.parse(json) as readonly ColumnCells[];
  return columns
    .toSorted((left, right) => Number(left[0]) - Number(right[0]))
    .map(([, name, columnName, type, role, crs]) => ({
      name,
      columnName,
      type: knownColumnType(type),
      role,
      crs,
    }));
}

function heldColumn({ name, columnName, type, role, crs }: RecordedColumn): HeldColumn {
  return { name, columnName, type: knownColumnType(type), role: role as HeldColumn['role'], crs };
}

function knownColumnType(stated: string): ColumnType {
  const type = COLUMN_TYPES.find((known) => known === stated);
  assert(type !== undefined, `the bookkeeping holds types of columns that are known, not ${stated}`);
  return type;
}
