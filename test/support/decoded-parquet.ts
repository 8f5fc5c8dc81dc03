/** Parquet files and the geometries in them as read by a library that has nothing in common with DuckDB. */

import { readFile } from 'node:fs/promises';
import { parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';

/** GeoJSON, as the library makes it of WKB. */
export type Geometry =
  | { readonly type: 'GeometryCollection'; readonly geometries: readonly Geometry[] }
  | { readonly type: SimpleType; readonly coordinates: unknown };
export type SimpleType =
  | 'Point'
  | 'LineString'
  | 'Polygon'
  | 'MultiPoint'
  | 'MultiLineString'
  | 'MultiPolygon';

export async function decodedRows(path: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { buffer, byteOffset, byteLength } = await readFile(path);
  return await parquetReadObjects({
    file: buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer,
    compressors,
  });
}

/** Well-known text as `spelled` gives it, from what a decoder makes of WKB; null for what is not there. */
export function wktOf(geometry: Geometry | null | undefined): string | null {
  if (geometry === null || geometry === undefined) return null;
  const name = geometry.type.toUpperCase();
  if (geometry.type === 'GeometryCollection') return `${name} ${listed(geometry.geometries.map(wktOf))}`;
  const text = coordinatesOf(geometry.coordinates);
  return `${name} ${geometry.type === 'Point' && text !== 'EMPTY' ? `(${text})` : text}`;
}

/** The same from the structs and lists of GeoArrow, of which `type` is the name in GeoJSON. */
export function wktOfGeoArrow(type: SimpleType, value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return wktOf({ type, coordinates: numbersOf(value) });
}

function numbersOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(numbersOf);
  return typeof value === 'object' && value !== null ? Object.values(value) : value;
}

function coordinatesOf(value: unknown): string {
  if (!Array.isArray(value)) throw new Error(`${JSON.stringify(value)} is no list of coordinates`);
  if (value.length > 0 && value.every((item) => typeof item === 'number')) {
    return value.every(Number.isNaN) ? 'EMPTY' : value.map(shown).join(' ');
  }
  return listed(value.map(coordinatesOf));
}

function listed(items: readonly unknown[]): string {
  return items.length === 0 ? 'EMPTY' : `(${items.join(', ')})`;
}

function shown(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value).toLowerCase();
}

/** Well-known text of DuckDB with numbers as JavaScript writes them. How many a position has says its dimensions, too. */
export function spelled(wkt: string): string {
  return wkt
    .replaceAll(/ (?:Z|M|ZM)(?= )/g, '')
    .replaceAll(/-?\d[\d.]*(?:e[+-]?\d+)?/g, (number) => shown(Number(number)));
}
