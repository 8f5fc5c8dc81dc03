/** Times in the headers of an answer (RFC 9110, HTTP-date). Pure. */

/** Every form begins with the name of a day; `Date.parse` alone would also accept "5 apples". */
const BEGINS_WITH_DAY = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;
/** The oldest form names no zone and means UTC. */
const NAMES_ZONE = /(?:GMT|UTC|Z|[+-]\d{2}:?\d{2})$/i;

/** Returns null for a missing or invalid text. */
export function httpDate(text: string | null): Date | null {
  const trimmed = text?.trim() ?? '';
  if (!BEGINS_WITH_DAY.test(trimmed)) return null;
  const ms = Date.parse(NAMES_ZONE.test(trimmed) ? trimmed : `${trimmed} GMT`);
  return Number.isNaN(ms) ? null : new Date(ms);
}

/**
 * Returns the service time: the header `Date` of an answer, or the local clock at its receipt when the header is missing or
 * invalid.
 */
export function serviceTime(dateHeader: string | null, receivedAt: Date): Date {
  return httpDate(dateHeader) ?? receivedAt;
}

/** Returns milliseconds from `now`, never negative; null when the header is missing or invalid. */
export function retryAfterMs(header: string | null, now: Date): number | null {
  if (header === null) return null;
  const text = header.trim();
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000;
  const timestamp = httpDate(text);
  return timestamp === null ? null : Math.max(0, timestamp.getTime() - now.getTime());
}
