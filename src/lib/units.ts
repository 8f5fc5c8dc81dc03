/** Durations and sizes as people write and read them (`500ms`, `5m`, `512MB`). */

const DURATION_UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const SIZE_UNITS_BYTES: Readonly<Record<string, number>> = { KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };

export const DURATION = /^(\d{1,12})(ms|s|m|h|d)$/;
/** Written without the flag i, so that it means the same in a JSON Schema. */
export const SIZE = /^(\d{1,9})(?:\.(\d{1,3}))?([KMGTkmgt][Bb])$/;

/** Returns milliseconds, or null when the text is not a duration. */
export function parseDurationMs(text: string): number | null {
  const match = DURATION.exec(text.trim());
  return match === null ? null : Number(match[1]) * (DURATION_UNITS_MS[match[2] ?? ''] ?? Number.NaN);
}

/** Returns bytes (1 MB is 1,000,000), or null when the text is not a size. */
export function parseSizeBytes(text: string): number | null {
  const match = SIZE.exec(text.trim());
  if (match === null) return null;
  const [, whole, decimals = '', unit = ''] = match;
  const size = SIZE_UNITS_BYTES[unit.toUpperCase()] ?? Number.NaN;
  return Number(whole) * size + Number(decimals.padEnd(3, '0')) * (size / 1_000);
}

/** Returns `340 B`, `18.2 MB`: one decimal, the largest unit that gives at least 1. */
export function formatBytes(bytes: number): string {
  const { name, size } = unitOf(bytes);
  return `${inUnit(bytes, size)} ${name}`;
}

/** Returns `0.3 of 18.2 MB`: both in the unit of the whole. */
export function formatBytesOf(bytes: number, wholeBytes: number): string {
  const { name, size } = unitOf(wholeBytes);
  return `${inUnit(bytes, size)} of ${inUnit(wholeBytes, size)} ${name}`;
}

function unitOf(bytes: number): { readonly name: string; readonly size: number } {
  const unit = Object.entries(SIZE_UNITS_BYTES).findLast(([, size]) => bytes >= size);
  return unit === undefined ? { name: 'B', size: 1 } : { name: unit[0], size: unit[1] };
}

function inUnit(bytes: number, size: number): string {
  return size === 1 ? String(bytes) : (bytes / size).toFixed(1);
}

/** Returns `340 ms`, `2.4 s`, `3 m 12 s`, `5 h 2 m`. */
export function formatDuration(durationMs: number): string {
  if (durationMs < 1_000) return `${Math.round(durationMs)} ms`;
  if (durationMs < 60_000) return `${(durationMs / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(durationMs / 60_000);
  if (minutes < 60) return `${minutes} m ${Math.floor((durationMs % 60_000) / 1_000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

/** Returns `2,000,000`, of a whole number. */
export function formatCount(count: number | bigint): string {
  // The first number that toLocaleString formats loads the tables of all languages, which takes 18 ms.
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** Returns `1 row`, `2,000 rows`: the noun forms its plural with an s. */
export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

const ISO_TIME = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?)?$/;

/** Parses a time in ISO 8601. A date alone is its start, and a time without an offset is meant, in UTC. Null where it is no time. */
export function parseIsoTime(text: string): Date | null {
  const [, date, time = '00:00', offset = 'Z'] = ISO_TIME.exec(text) ?? [];
  if (date === undefined || !isDay(date)) return null;
  const parsed = new Date(`${date}T${time}${offset}`);
  return Number.isNaN(parsed.getTime()) ? null : parsed;
}

/** JavaScript takes the 30th of February for the 2nd of March. */
function isDay(date: string): boolean {
  const day = new Date(`${date}T00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(date);
}
