/** What a GeoParquet file says of its geometry columns, in the key `geo` of its metadata. Every version from 0.1 on. */

import { z } from 'zod';

/** What the format assumes where a file names no coordinate system. */
const DEFAULT_CRS = 'OGC:CRS84';

const MAX_CRS_CHARACTERS = 200;

const columnSchema = z.object({
  encoding: z.string().optional(),
  crs: z.unknown().optional(),
  covering: z.record(z.string(), z.record(z.string(), z.array(z.string()))).optional(),
});
const geoSchema = z.object({ columns: z.record(z.string(), columnSchema) });

export interface GeoColumn {
  /** `WKB`, or the name of a GeoArrow encoding; null where the file does not say. */
  readonly encoding: string | null;
  /** `authority:code`, or a name; null where the file says that it is not known. */
  readonly crs: string | null;
}

export interface GeoMetadata {
  readonly columns: ReadonlyMap<string, GeoColumn>;
  /** Columns that hold only the bounds of geometries, for readers that skip rows by them. */
  readonly coverings: ReadonlySet<string>;
}

export const NO_GEO_METADATA: GeoMetadata = { columns: new Map(), coverings: new Set() };

/** The metadata, or null where the text is none. */
export function parseGeoMetadata(text: string): GeoMetadata | null {
  const parsed = geoSchema.safeParse(parseJson(text));
  if (!parsed.success) return null;
  const columns = new Map<string, GeoColumn>();
  const coverings = new Set<string>();
  for (const [name, column] of Object.entries(parsed.data.columns)) {
    columns.set(name, {
      encoding: column.encoding ?? null,
      crs: 'crs' in column ? crsName(column.crs) : DEFAULT_CRS,
    });
    for (const bounds of Object.values(column.covering ?? {})) {
      for (const [root] of Object.values(bounds)) if (root !== undefined) coverings.add(root);
    }
  }
  return { columns, coverings };
}

/** The coordinate system of a native geometry column of Parquet, from its logical type; undefined: it is no such column. */
export function nativeCrs(logicalType: string | null): string | null | undefined {
  const crs = /^GeometryType\(crs=(.*)\)$/s.exec(logicalType ?? '')?.[1];
  if (crs === undefined) return undefined;
  return crs === '<null>' || crs === '' ? DEFAULT_CRS : crsName(parseJson(crs) ?? crs);
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
