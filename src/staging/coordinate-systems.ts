/**
 * WKB may carry the number of a coordinate system (EWKB), behind a flag in its type. DuckDB ignores the number, so it is first
 * compared with the column's system. Pure.
 */

import { text } from './engine/sql.ts';

/** Names of WGS 84 in the spellings of various writers. GeoParquet has longitude first, whatever the authority says. */
const WGS_84 = new Set([
  'OGC:CRS84',
  'OGC:CRS84H',
  'EPSG:4326',
  'EPSG:4979',
  'SRID:4326',
  '4326',
  'WGS 84',
  'WGS84',
  'WGS 84 (CRS84)',
  'WGS 84 (LONGITUDE-LATITUDE)',
  'URN:OGC:DEF:CRS:OGC:1.3:CRS84',
  'URN:OGC:DEF:CRS:OGC::CRS84',
  'URN:OGC:DEF:CRS:EPSG::4326',
  'HTTP://WWW.OPENGIS.NET/DEF/CRS/OGC/1.3/CRS84',
  'HTTPS://WWW.OPENGIS.NET/DEF/CRS/OGC/1.3/CRS84',
]);
const SRID_OF_WGS_84 = 4_326;

/** The number at the end of a name, alone or of EPSG: `EPSG:2277`, `urn:ogc:def:crs:EPSG::2277`. */
const SRID_AT_END = /^(?:(?:.*[:/])?(?:EPSG|SRID)[:/](?:[\d.]*[:/])?)?(\d{1,9})$/i;

/** The flag is in the highest byte of the type, which comes last or first. */
const HAS_SRID = '^(?:01.{6}|00)[2367ABEF]';

/** Returns whether GeoJSON can be stored in a column of that coordinate system. An unknown system may be any. */
export function isWgs84(crs: string | null): boolean {
  return crs !== null && WGS_84.has(crs.toUpperCase());
}

/** Returns SQL that is true when `digits`, WKB in hexadecimal digits, names a coordinate system other than `crs`. */
export function isInOtherSystem(digits: string, crs: string | null): string {
  const has = `regexp_matches(upper(${digits}), ${text(HAS_SRID)})`;
  const srid = sridOf(crs);
  if (srid === null) return has;
  const bigEndian = Buffer.alloc(4);
  bigEndian.writeUInt32BE(srid);
  const littleEndian = Buffer.from(bigEndian).reverse();
  const same = `^(?:01.{8}${hex(littleEndian)}|00.{8}${hex(bigEndian)})`;
  return `(${has} AND NOT regexp_matches(upper(${digits}), ${text(same)}))`;
}

/** Returns the number of bytes that the WKB uses for a coordinate system. */
export function sridBytes(digits: string): string {
  return `CASE WHEN regexp_matches(upper(${digits}), ${text(HAS_SRID)}) THEN 4 ELSE 0 END`;
}

export function sridOf(crs: string | null): number | null {
  if (isWgs84(crs)) return SRID_OF_WGS_84;
  const digits = SRID_AT_END.exec(crs ?? '')?.[1];
  return digits === undefined ? null : Number(digits);
}

function hex(bytes: Buffer): string {
  return bytes.toString('hex').toUpperCase();
}
