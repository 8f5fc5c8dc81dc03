/** Moments as people read them: absolute, to the minute and in UTC, and how long ago that is. Pure. */

const MINUTE_MS = 60_000;
const UNITS = [
  { noun: 'day', ms: 24 * 60 * MINUTE_MS },
  { noun: 'hour', ms: 60 * MINUTE_MS },
  { noun: 'minute', ms: MINUTE_MS },
] as const;

/** `2026-03-01 12:00`, in UTC: for a table whose title says so. `moment`: as ISO 8601 writes it. */
export function minuteOf(moment: string): string {
  return new Date(moment).toISOString().slice(0, 16).replace('T', ' ');
}

/** `2026-03-01 12:00 UTC`. */
export function tellMoment(moment: string): string {
  return `${minuteOf(moment)} UTC`;
}

/** `2026-03-01 12:00 UTC (3 hours ago)`, `… (in 1 minute)`. */
export function tellMomentFrom(now: Date, moment: string): string {
  return `${tellMoment(moment)} (${distanceTo(new Date(moment), now)})`;
}

/** In the largest unit that fits at least once, rounded down: what is told is never more than what passed. */
function distanceTo(moment: Date, now: Date): string {
  const ms = moment.getTime() - now.getTime();
  const unit = UNITS.find((one) => Math.abs(ms) >= one.ms);
  if (unit === undefined) return ms > 0 ? 'in less than a minute' : 'just now';
  const count = Math.floor(Math.abs(ms) / unit.ms);
  const length = `${count} ${unit.noun}${count === 1 ? '' : 's'}`;
  return ms > 0 ? `in ${length}` : `${length} ago`;
}
