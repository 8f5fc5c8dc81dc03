/**
 * Values of a query as text that loses nothing: for tables, CSV and JSON alike. Times are in UTC whatever the zone of
 * the process; integers and decimals keep every digit.
 */

import {
  DuckDBArrayValue,
  DuckDBBlobValue,
  DuckDBDateValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBUnionValue,
  type DuckDBValue,
} from '@duckdb/node-api';

/** What a rendered value can be. Numbers are doubles and small integers; larger integers are text. */
export type Rendered = string | number | boolean | null;

const MICROS_PER_SECOND = 1_000_000n;
const POSITIVE_INFINITY = 2n ** 63n - 1n;

/** A value as it is shown, written to CSV, or put into JSON. GEOMETRY has been made text by the query. */
export function renderValue(value: DuckDBValue): Rendered {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'bigint') return String(value);
  if (value instanceof DuckDBTimestampTZValue) return `${isoMoment(value.micros)}${zone(value.micros)}`;
  if (value instanceof DuckDBTimestampValue) return isoMoment(value.micros);
  if (value instanceof DuckDBTimestampNanosecondsValue) return String(value).replace(' ', 'T');
  if (value instanceof DuckDBDateValue) return String(value);
  if (value instanceof DuckDBBlobValue) return Buffer.from(value.bytes).toString('hex');
  const nested = renderNested(value);
  return nested === undefined ? String(value) : JSON.stringify(nested);
}

/** Lists and structures as JSON values; undefined for what is neither. */
function renderNested(value: DuckDBValue): unknown {
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue)
    return value.items.map(renderInside);
  if (value instanceof DuckDBStructValue) {
    return Object.fromEntries(Object.entries(value.entries).map(([key, item]) => [key, renderInside(item)]));
  }
  if (value instanceof DuckDBMapValue) {
    return value.entries.map(({ key, value: item }) => ({
      key: renderInside(key),
      value: renderInside(item),
    }));
  }
  if (value instanceof DuckDBUnionValue) return renderInside(value.value);
  return undefined;
}

function renderInside(value: DuckDBValue): unknown {
  const nested = renderNested(value);
  return nested === undefined ? renderValue(value) : nested;
}

/** `2026-01-31T23:59:59.123456`; years outside 0000 to 9999 have a sign and six digits, as ISO 8601 has it. */
function isoMoment(micros: bigint): string {
  if (micros === POSITIVE_INFINITY) return 'infinity';
  if (micros === -POSITIVE_INFINITY) return '-infinity';
  const fraction = ((micros % MICROS_PER_SECOND) + MICROS_PER_SECOND) % MICROS_PER_SECOND;
  const date = new Date(Number((micros - fraction) / 1_000n));
  // DuckDB's years reach farther than those of Date, which then has no text.
  if (Number.isNaN(date.getTime())) return `${micros} microseconds since 1970`;
  return `${date.toISOString().slice(0, -'.000Z'.length)}.${String(fraction).padStart(6, '0')}`;
}

function zone(micros: bigint): string {
  return micros === POSITIVE_INFINITY || micros === -POSITIVE_INFINITY ? '' : 'Z';
}
