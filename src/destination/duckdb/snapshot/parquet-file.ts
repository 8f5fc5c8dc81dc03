/** What a Parquet file says of itself: read from its footer, so the rows are not touched. */

import { DataError, InterruptedError, StorageError } from '../../../model/errors.ts';
import type { SnapshotFile } from '../../destination.ts';
import { DuckDbError } from '../engine/diagnosis.ts';
import type { Engine } from '../engine/engine.ts';
import { firstLine } from '../engine/failures.ts';
import { filePath } from '../engine/quoting.ts';
import { numberAt, textAt, textOrNullAt } from '../engine/rows.ts';
import { type GeoColumn, geometryOf, parseGeoMetadata } from './geo-metadata.ts';

const MORE_MEMORY = 'If the file is sound, raise duckdb.memoryLimit (FEED_SYNC_DUCKDB_MEMORY_LIMIT).';

export interface ParquetFile {
  readonly datasetId: string;
  readonly file: SnapshotFile;
  /** By the file's own footer. */
  readonly rowCount: number;
  /** The columns of the highest level, in the file's order. */
  readonly columns: readonly ParquetColumn[];
  /** Names of columns that hold only the bounds of geometries. */
  readonly coverings: ReadonlySet<string>;
}

export interface ParquetColumn {
  readonly name: string;
  /** The type that DuckDB reads it as. */
  readonly type: string;
  /** Why DuckDB would cut the values without a word; null where it does not. */
  readonly inexact: string | null;
  /** The types of what is stored: those inside of structs, lists and maps, in the file's order, or the column's own. */
  readonly leaves: readonly string[];
  /** What the file says of the geometry in it; null where it says that there is none. */
  readonly geometry: GeoColumn | null;
  /** False where the column is known to be without a value in the file, and means nothing there (valueless.ts). */
  readonly holdsValue: boolean;
}

/** How every file is read: what its path looks like must not add columns. */
export function readParquet(paths: readonly string[], options: readonly string[] = []): string {
  return `read_parquet(${[`[${paths.map(filePath).join(', ')}]`, 'hive_partitioning = false', ...options].join(', ')})`;
}

/** @throws DataError naming the file where it is no whole Parquet file. */
export async function examine(engine: Engine, file: SnapshotFile, datasetId: string): Promise<ParquetFile> {
  try {
    const path = filePath(file.path);
    const rowCount = await readRowCount(engine, path);
    const fields = await readFields(engine, path);
    const types = await engine.rows(`DESCRIBE SELECT * FROM ${readParquet([file.path])}`);
    if (rowCount === null || fields.length !== types.length) {
      const what = rowCount === null ? 'rows' : 'columns';
      throw new DataError(`The file ${file.name} of ${datasetId} says different things of its ${what}.`);
    }
    const properties = await readProperties(engine, path);
    const geo = parseGeoMetadata(properties.get('geo'));
    if (geo === null) {
      throw new DataError(
        `The file ${file.name} of ${datasetId} has geo metadata that cannot be understood.`,
      );
    }
    const columns = fields.map(({ name, logicalType, storedAs, leaves }, index) => ({
      name,
      type: textAt(types[index] ?? [], 1),
      inexact: inexactness(logicalType, storedAs),
      leaves,
      geometry: geometryOf(geo.columns.get(name), logicalType, properties),
      holdsValue: rowCount > 0,
    }));
    return { datasetId, file, rowCount, columns, coverings: geo.coverings };
  } catch (error) {
    throw await unreadableFile(engine, { datasetId, file }, error);
  }
}

/** Says of which file an error was, and makes the engine usable again where it was the end of it. */
export async function unreadableFile(
  engine: Engine,
  { datasetId, file }: Pick<ParquetFile, 'datasetId' | 'file'>,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof DuckDbError)) return error;
  if (error.trouble === 'interrupted') {
    return new InterruptedError(`The examination of the file ${file.name} of ${datasetId} was interrupted.`, {
      cause: error,
    });
  }
  if (engine.invalidated) await engine.reopen();
  const message = `The file ${file.name} of ${datasetId} cannot be read: ${firstLine(error)}`;
  const isContent = ['statement', 'unreadable', 'gave-up', 'out-of-memory'].includes(error.trouble);
  const options = { cause: error, ...(error.trouble === 'out-of-memory' ? { hint: MORE_MEMORY } : {}) };
  return isContent ? new DataError(message, options) : new StorageError(message, options);
}

/** Null where the file says another number than its row groups do, by which DuckDB reads. */
async function readRowCount(engine: Engine, path: string): Promise<number | null> {
  const [row = []] = await engine.rows(
    `SELECT num_rows, num_rows = (SELECT coalesce(sum(abs(row_group_num_rows)), 0) FROM parquet_metadata(${path})
      WHERE column_id = 0) FROM parquet_file_metadata(${path})`,
  );
  return row[1] === true ? numberAt(row, 0) : null;
}

/** A column of the highest level, as the tree of the schema has it. */
interface Field {
  readonly name: string;
  readonly logicalType: string | null;
  readonly storedAs: string | null;
  readonly leaves: string[];
}

/** Walks the tree of the schema, which is written down depth first, for the children of its root and their leaves. */
async function readFields(engine: Engine, path: string): Promise<readonly Field[]> {
  const rows = await engine.rows(
    `SELECT name, coalesce(num_children, 0), logical_type, type, duckdb_type FROM parquet_schema(${path})`,
  );
  const fields: Field[] = [];
  let pending = 0;
  for (const row of rows.slice(1)) {
    if (pending === 0) {
      fields.push({
        name: textAt(row, 0),
        logicalType: textOrNullAt(row, 2),
        storedAs: textOrNullAt(row, 3),
        leaves: [],
      });
    } else pending -= 1;
    const children = numberAt(row, 1);
    pending += children;
    if (children === 0) fields.at(-1)?.leaves.push(textOrNullAt(row, 4) ?? 'unknown');
  }
  return fields;
}

/** DuckDB has no type for these and cuts them to microseconds as it reads. */
function inexactness(logicalType: string | null, storedAs: string | null): string | null {
  if (storedAs === 'INT96') return 'timestamps as INT96';
  const nanosecondsInUtc = /isAdjustedToUTC=1.*NANOS=NanoSeconds/.test(logicalType ?? '');
  return nanosecondsInUtc ? 'timestamps in nanoseconds with a zone' : null;
}

/** What the writer says of the file in words of its own. What is no text is empty. */
async function readProperties(engine: Engine, path: string): Promise<ReadonlyMap<string, string>> {
  const rows = await engine.rows(
    `SELECT coalesce(TRY(decode(key)), ''), coalesce(TRY(decode(value)), '') FROM parquet_kv_metadata(${path})`,
  );
  return new Map(rows.map((row) => [textAt(row, 0), textAt(row, 1)]));
}
