/** The header `Retry-After` (RFC 9110): seconds, or a date. Pure. */

/** Milliseconds from `now`, never negative; null where the header is missing or says nothing. */
export function retryAfterMs(header: string | null, now: Date): number | null {
  if (header === null) return null;
  const text = header.trim();
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000;
  // Every form of HTTP date begins with the name of a day; `Date.parse` alone would also take "5 apples".
  const moment = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(moment) ? null : Math.max(0, moment - now.getTime());
}
