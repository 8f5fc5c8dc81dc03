/**
 * The physical forms of a geometry: well-known binary, the geometry of Parquet itself, GeoArrow. All become a GEOMETRY
 * without a coordinate system in its type, so that a table's types do not depend on who wrote its files.
 */

import { isInOtherSystem, sridBytes } from '../srid.ts';
import { exact, guarded, type Rule, raising } from './cast.ts';
import { geoArrowWkb } from './geoarrow.ts';

const WELL_KNOWN_BINARY = 'wkb';

/** `WKB`, `point` and, as earlier writers have it, `geoarrow.wkb` and `geoarrow.point`. */
function encodingName(stated: string | null): string {
  return (stated ?? WELL_KNOWN_BINARY).toLowerCase().replace(/^geoarrow\./, '');
}

const fromWkb: Rule = ({ type, geometry }) => {
  if (type !== 'BLOB' || encodingName(geometry?.encoding ?? null) !== WELL_KNOWN_BINARY) return null;
  const crs = geometry?.crs ?? null;
  return guarded(
    (value) => `ST_GeomFromWKB(${value})`,
    (value) => isWhollyRead(value, crs),
    `be WKB that names no coordinate system${crs === null ? '' : ` but ${crs}`}`,
  );
};

/**
 * DuckDB reads over the number of a coordinate system that WKB may carry (EWKB), here or in its parts. What it has read is
 * shorter then. Where the number is that of the column's own system, nothing is lost.
 */
function isWhollyRead(value: string, crs: string | null): string {
  const digits = `hex(${value})`;
  return `CASE octet_length(${value}) - octet_length(ST_AsWKB(ST_GeomFromWKB(${value}))) WHEN 0 THEN TRUE
    WHEN 4 THEN ${sridBytes(digits)} = 4 AND NOT ${isInOtherSystem(digits, crs)} ELSE FALSE END`;
}

/** The type may carry a coordinate system: GEOMETRY('OGC:CRS84'). */
const fromNative: Rule = ({ type }) => (/^GEOMETRY(?:\(|$)/.test(type) ? exact('GEOMETRY') : null);

const fromGeoArrow: Rule = ({ type, geometry }) => {
  if (geometry === null) return null;
  const wkb = geoArrowWkb(encodingName(geometry.encoding), type, geometry.dimensions);
  return wkb === null
    ? null
    : raising(
        (value) => `ST_GeomFromWKB(${wkb(value)})`,
        'have no null inside, and at every position the numbers that the file states',
      );
};

export const GEOMETRY_RULES: readonly Rule[] = [fromWkb, fromNative, fromGeoArrow];
