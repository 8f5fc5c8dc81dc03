/** Reads the footer of a Parquet file, without touching the rows. */

import { z } from 'zod';
import { DataError, InterruptedError, StorageError } from '../../model/errors.ts';
import type { SnapshotFile } from '../../model/write-jobs.ts';
import type { Engine, Row } from '../engine/engine.ts';
import { DuckDbError, firstLine } from '../engine/errors.ts';
import { filePath, numberAt, textAt, textOrNullAt } from '../engine/sql.ts';

const MORE_MEMORY = 'If the file is sound, raise duckdb.memoryLimit (FEED_SYNC_DUCKDB_MEMORY_LIMIT).';

export interface ParquetFile {
  readonly datasetId: string;
  readonly file: SnapshotFile;
  /** The row count in the file's footer. */
  readonly rowCount: number;
  /** The top-level columns, in the file's order. */
  readonly columns: readonly ParquetColumn[];
  /** The names of columns that only hold the bounds of geometries. */
  readonly coverings: ReadonlySet<string>;
}

export interface ParquetColumn {
  readonly name: string;
  /** DuckDB's type of the column. */
  readonly type: string;
  /** Why DuckDB would silently cut the values; null when it reads them exactly. */
  readonly inexact: string | null;
  /** The stored types: those inside structs, lists and maps in the file's order, or the column's own type. */
  readonly leaves: readonly string[];
  /** The file's description of the geometry; null when the column is not a geometry. */
  readonly geometry: GeoColumn | null;
  /** False when the file is known to hold no value in the column. Its type then means nothing (table-plan.ts). */
  readonly hasValue: boolean;
}

/** Reads every file without deriving columns from its path. */
export function readParquet(paths: readonly string[], options: readonly string[] = []): string {
  return `read_parquet(${[`[${paths.map(filePath).join(', ')}]`, 'hive_partitioning = false', ...options].join(', ')})`;
}

/** Examines a Parquet file. @throws DataError naming the file when it is not a complete Parquet file. */
export async function examine(engine: Engine, file: SnapshotFile, datasetId: string): Promise<ParquetFile> {
  try {
    const { rowCount, fields, types, properties } = await readFooter(engine, file);
    if (rowCount === null || fields.length !== types.length) {
      const what = rowCount === null ? 'rows' : 'columns';
      throw new DataError(
        `The file ${file.name} of ${datasetId} has contradicting metadata about its ${what}.`,
      );
    }
    const geo = parseGeoMetadata(properties.get('geo'));
    if (geo === null) {
      throw new DataError(
        `The file ${file.name} of ${datasetId} has geo metadata that cannot be understood.`,
      );
    }
    const columns = fields.map(({ name, logicalType, storedAs, leaves }, index) => ({
      name,
      type: types[index] ?? '',
      inexact: inexactness(logicalType, storedAs),
      leaves,
      geometry: geometryOf(geo.columns.get(name), logicalType, properties),
      hasValue: rowCount > 0,
    }));
    return { datasetId, file, rowCount, columns, coverings: geo.coverings };
  } catch (error) {
    throw await unreadableFile(engine, { datasetId, file }, error);
  }
}

/** Names the file in an error, and reopens the engine when the error ended it. */
export async function unreadableFile(
  engine: Engine,
  { datasetId, file }: Pick<ParquetFile, 'datasetId' | 'file'>,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof DuckDbError)) return error;
  if (error.fault === 'interrupted') {
    return new InterruptedError(`The validation of the file ${file.name} of ${datasetId} was interrupted.`, {
      cause: error,
    });
  }
  if (engine.invalidated) await engine.reopen();
  const message = `The file ${file.name} of ${datasetId} cannot be read: ${firstLine(error)}`;
  const isContent = ['statement', 'unreadable', 'gave-up', 'out-of-memory'].includes(error.fault);
  const options = { cause: error, ...(error.fault === 'out-of-memory' ? { hint: MORE_MEMORY } : {}) };
  return isContent ? new DataError(message, options) : new StorageError(message, options);
}

interface Footer {
  /** Null when the file's row count differs from the sum of its row groups, by which DuckDB reads. */
  readonly rowCount: number | null;
  readonly fields: readonly Field[];
  /** DuckDB's type of each column. */
  readonly types: readonly string[];
  /** The writer's own key-value metadata. A value that is not text is empty. */
  readonly properties: ReadonlyMap<string, string>;
}

/** The parts of a footer, by the first cell of their rows. */
const PART = { rowCount: 0, schema: 1, types: 2, properties: 3 };

/** Reads all parts by one statement: each statement of a small file costs more than what it reads. */
async function readFooter(engine: Engine, file: SnapshotFile): Promise<Footer> {
  const path = filePath(file.path);
  const rows = await engine.rows(
    `SELECT ${PART.rowCount}, NULL, num_rows = (SELECT coalesce(sum(abs(row_group_num_rows)), 0)
      FROM parquet_metadata(${path}) WHERE column_id = 0), num_rows, NULL, NULL, NULL FROM parquet_file_metadata(${path})
    UNION ALL SELECT ${PART.schema}, name, NULL, coalesce(num_children, 0), logical_type, type, duckdb_type
      FROM parquet_schema(${path})
    UNION ALL SELECT ${PART.types}, column_type, NULL, NULL, NULL, NULL, NULL
      FROM (DESCRIBE SELECT * FROM ${readParquet([file.path])})
    UNION ALL SELECT ${PART.properties}, coalesce(TRY(decode(key)), ''), NULL, NULL, coalesce(TRY(decode(value)), ''), NULL, NULL
      FROM parquet_kv_metadata(${path})`,
  );
  const of = (part: number) => rows.filter((row) => row[0] === part);
  const [counted = []] = of(PART.rowCount);
  return {
    rowCount: counted[2] === true ? numberAt(counted, 3) : null,
    fields: fieldsOf(of(PART.schema)),
    types: of(PART.types).map((row) => textAt(row, 1)),
    properties: new Map(of(PART.properties).map((row) => [textAt(row, 1), textAt(row, 4)])),
  };
}

/** A top-level column in the tree of the schema. */
interface Field {
  readonly name: string;
  readonly logicalType: string | null;
  readonly storedAs: string | null;
  readonly leaves: string[];
}

/** Walks the schema tree, which is stored depth first, and returns the root's children with their leaves. */
function fieldsOf(rows: readonly Row[]): readonly Field[] {
  const fields: Field[] = [];
  let pending = 0;
  for (const row of rows.slice(1)) {
    if (pending === 0) {
      fields.push({
        name: textAt(row, 1),
        logicalType: textOrNullAt(row, 4),
        storedAs: textOrNullAt(row, 5),
        leaves: [],
      });
    } else pending -= 1;
    const children = numberAt(row, 3);
    pending += children;
    if (children === 0) fields.at(-1)?.leaves.push(textOrNullAt(row, 6) ?? 'unknown');
  }
  return fields;
}

/** DuckDB has no type for these values and cuts them to microseconds while reading. */
function inexactness(logicalType: string | null, storedAs: string | null): string | null {
  if (storedAs === 'INT96') return 'timestamps as INT96';
  const nanosecondsInUtc = /isAdjustedToUTC=1.*NANOS=NanoSeconds/.test(logicalType ?? '');
  return nanosecondsInUtc ? 'timestamps in nanoseconds with a zone' : null;
}

/** The coordinate system that GeoParquet assumes when a file names none. */
const DEFAULT_CRS = 'OGC:CRS84';

const MAX_CRS_CHARACTERS = 200;

/** Parquet's geometry and geography types, as DuckDB writes them. They differ in the line between two positions. */
const NATIVE_TYPE = /^Geo(?:metry|graphy)Type\(crs=(.*?)(?:, algorithm=[^,)]*)?\)$/s;

const columnSchema = z.object({
  encoding: z.string().optional(),
  crs: z.unknown().optional(),
  // A hint to readers, never a reason to refuse a file. Before 1.0 it was one name or a list.
  geometry_types: z.array(z.string()).optional().catch(undefined),
  geometry_type: z
    .union([z.string(), z.array(z.string())])
    .optional()
    .catch(undefined),
  covering: z.record(z.string(), z.record(z.string(), z.array(z.string()))).optional(),
});
/** Pairs by name, because zod's records drop a column called `__proto__`. */
const columnsSchema = z.preprocess(
  (columns) => (isObject(columns) ? Object.entries(columns) : columns),
  z.array(z.tuple([z.string(), columnSchema])),
);
const geoSchema = z.object({ columns: columnsSchema });

/** A file's description of the geometry in one of its columns. */
interface GeoColumn {
  /** `WKB`, or the name of a GeoArrow encoding; null when the file does not name one. */
  readonly encoding: string | null;
  /** `authority:code`, or a name; null when unknown. */
  readonly crs: string | null;
  /** The coordinates of each position, in order: `xyz`; null when the geometry types differ in them. */
  readonly dimensions: string | null;
}

interface StatedColumn extends Omit<GeoColumn, 'crs'> {
  /** Undefined when the file does not say. */
  readonly crs: string | null | undefined;
}

interface GeoMetadata {
  readonly columns: ReadonlyMap<string, StatedColumn>;
  /** Columns that only hold the bounds of geometries, by which readers skip rows. */
  readonly coverings: ReadonlySet<string>;
}

const NO_GEO_METADATA: GeoMetadata = { columns: new Map(), coverings: new Set() };

/** Parses the metadata in the properties of a file; returns null when it is invalid. */
export function parseGeoMetadata(text: string | undefined): GeoMetadata | null {
  if (text === undefined) return NO_GEO_METADATA;
  const parsed = geoSchema.safeParse(parseJson(text));
  if (!parsed.success) return null;
  const { columns } = parsed.data;
  const bounds = columns.flatMap(([, { covering }]) => Object.values(covering ?? {}));
  return {
    columns: new Map(columns.map(([name, column]) => [name, statedOf(column)])),
    coverings: new Set(bounds.flatMap((paths) => Object.values(paths).flatMap(([root]) => root ?? []))),
  };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function statedOf(column: z.infer<typeof columnSchema>): StatedColumn {
  return {
    encoding: column.encoding ?? null,
    crs: 'crs' in column ? crsName(column.crs) : undefined,
    dimensions: commonDimensions(column.geometry_types ?? [column.geometry_type ?? []].flat()),
  };
}

/** Derives the dimensions from names such as `Polygon` and `Point Z`. */
function commonDimensions(geometryTypes: readonly string[]): string | null {
  const stated = new Set(
    geometryTypes.map((name) => `xy${/ (Z|M|ZM)$/.exec(name)?.[1] ?? ''}`.toLowerCase()),
  );
  return stated.size > 1 ? null : ([...stated][0] ?? 'xy');
}

/**
 * Returns the geometry of a column from the metadata and from its logical type in Parquet; null when neither names a geometry.
 * The metadata has precedence over the type, a statement over an assumption.
 */
export function geometryOf(
  stated: StatedColumn | undefined,
  logicalType: string | null,
  properties: ReadonlyMap<string, string>,
): GeoColumn | null {
  const native = NATIVE_TYPE.exec(logicalType ?? '')?.[1];
  if (stated === undefined && native === undefined) return null;
  return {
    encoding: stated?.encoding ?? null,
    crs: stated?.crs === undefined ? nativeCrs(native, properties) : stated.crs,
    dimensions: stated?.dimensions ?? null,
  };
}

/** The type contains the coordinate system, or the name of the file's property with it (`projjson:…`). */
function nativeCrs(native: string | undefined, properties: ReadonlyMap<string, string>): string | null {
  if (native === undefined || native === '<null>' || native === '') return DEFAULT_CRS;
  const property = /^projjson:(.*)$/s.exec(native)?.[1];
  const crs = property === undefined ? native : (properties.get(property) ?? native);
  return crsName(parseJson(crs) ?? crs);
}

function crsName(crs: unknown): string | null {
  if (crs === null || crs === undefined) return null;
  const name = typeof crs === 'string' ? wktName(crs) : projJsonName(crs);
  return name.slice(0, MAX_CRS_CHARACTERS);
}

const projJsonSchema = z.object({
  id: z.object({ authority: z.string(), code: z.union([z.string(), z.number()]) }).optional(),
  name: z.string().optional(),
});

function projJsonName(crs: unknown): string {
  const parsed = projJsonSchema.safeParse(crs);
  if (!parsed.success) return JSON.stringify(crs);
  const { id, name } = parsed.data;
  return id === undefined ? (name ?? JSON.stringify(crs)) : `${id.authority}:${id.code}`;
}

/** Well-known text ends with the id of the whole system; the ids inside belong to its parts. */
function wktName(wkt: string): string {
  const id = /(?:ID|AUTHORITY)\["([^"]+)",\s*"?([^"\]]+)"?\]\s*\]$/.exec(wkt.trim());
  if (id !== null) return `${id[1]}:${id[2]}`;
  return /^[A-Z_]+\["([^"]+)"/.exec(wkt)?.[1] ?? wkt;
}

/** Metadata of writers is a few levels deep. Metadata that is much deeper cannot be written again: it would exceed the stack. */
const MAX_METADATA_DEPTH = 100;

/** Returns null for a text that is no JSON, or that is nested too deeply. */
function parseJson(text: string): unknown {
  try {
    const parsed: unknown = JSON.parse(text);
    return isDeeper(parsed, MAX_METADATA_DEPTH) ? null : parsed;
  } catch {
    return null;
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((member) => isDeeper(member, levels - 1));
}
