/** What a GeoParquet file says of its geometry columns, in the key `geo` of its metadata. Every version from 0.1 on. */

import { z } from 'zod';

/** What the format assumes where a file names no coordinate system. */
const DEFAULT_CRS = 'OGC:CRS84';

const MAX_CRS_CHARACTERS = 200;

/** The geometry and the geography of Parquet, as DuckDB writes them. They differ in what is between two positions. */
const NATIVE_TYPE = /^Geo(?:metry|graphy)Type\(crs=(.*?)(?:, algorithm=[^,)]*)?\)$/s;

const columnSchema = z.object({
  encoding: z.string().optional(),
  crs: z.unknown().optional(),
  // A hint to readers, which no file is refused for. Before 1.0 it was one name, or a list of them.
  geometry_types: z.array(z.string()).optional().catch(undefined),
  geometry_type: z
    .union([z.string(), z.array(z.string())])
    .optional()
    .catch(undefined),
  covering: z.record(z.string(), z.record(z.string(), z.array(z.string()))).optional(),
});
/** By name, as pairs: a record of the library would drop a column called `__proto__`. */
const columnsSchema = z.preprocess(
  (columns) => (isObject(columns) ? Object.entries(columns) : columns),
  z.array(z.tuple([z.string(), columnSchema])),
);
const geoSchema = z.object({ columns: columnsSchema });

/** What a file says of the geometry in one of its columns. */
export interface GeoColumn {
  /** `WKB`, or the name of a GeoArrow encoding; null where the file does not say. */
  readonly encoding: string | null;
  /** `authority:code`, or a name; null where it is not known. */
  readonly crs: string | null;
  /** The coordinates of each position, in their order: `xyz`; null where the types of geometry differ in it. */
  readonly dimensions: string | null;
}

interface StatedColumn extends Omit<GeoColumn, 'crs'> {
  /** Undefined where the file leaves it open. */
  readonly crs: string | null | undefined;
}

export interface GeoMetadata {
  readonly columns: ReadonlyMap<string, StatedColumn>;
  /** Columns that hold only the bounds of geometries, for readers that skip rows by them. */
  readonly coverings: ReadonlySet<string>;
}

const NO_GEO_METADATA: GeoMetadata = { columns: new Map(), coverings: new Set() };

/** The metadata from the properties of a file; null where it cannot be understood. */
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

/** From names like `Polygon` and `Point Z`. */
function commonDimensions(geometryTypes: readonly string[]): string | null {
  const stated = new Set(
    geometryTypes.map((name) => `xy${/ (Z|M|ZM)$/.exec(name)?.[1] ?? ''}`.toLowerCase()),
  );
  return stated.size > 1 ? null : ([...stated][0] ?? 'xy');
}

/**
 * The geometry of a column, from the metadata and from its logical type in Parquet; null where neither says that it is one.
 * The metadata goes before the type, what is stated before what is assumed.
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

/** The type holds it whole, or the name of the file's property that does (`projjson:…`). */
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

/** Well-known text ends with the id of the whole; those inside are ids of its parts. */
function wktName(wkt: string): string {
  const id = /(?:ID|AUTHORITY)\["([^"]+)",\s*"?([^"\]]+)"?\]\s*\]$/.exec(wkt.trim());
  if (id !== null) return `${id[1]}:${id[2]}`;
  return /^[A-Z_]+\["([^"]+)"/.exec(wkt)?.[1] ?? wkt;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
