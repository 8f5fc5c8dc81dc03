/** Spans of time that are looked at while they pass: in one or two units, so that they change once a second at most. Pure. */

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** `12 s`, `3 m 12 s`, `5 h 2 m`: rounded down. */
export function passed(durationMs: number): string {
  const seconds = Math.floor(Math.max(0, durationMs) / SECOND_MS);
  if (durationMs < MINUTE_MS) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return durationMs < HOUR_MS
    ? `${minutes} m ${seconds % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

/** `12 s`, `4 m`, `5 h 2 m`: what is estimated, rounded up. */
export function roughly(durationMs: number): string {
  if (durationMs <= 59 * SECOND_MS) return `${Math.ceil(durationMs / SECOND_MS)} s`;
  const minutes = Math.ceil(durationMs / MINUTE_MS);
  return minutes < 60 ? `${minutes} m` : `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}
