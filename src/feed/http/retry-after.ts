/** The header `Retry-After` (RFC 9110): seconds, or a date. Pure. */

import { httpDate } from './http-date.ts';

/** Milliseconds from `now`, never negative; null where the header is missing or says nothing. */
export function retryAfterMs(header: string | null, now: Date): number | null {
  if (header === null) return null;
  const text = header.trim();
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000;
  const moment = httpDate(text);
  return moment === null ? null : Math.max(0, moment.getTime() - now.getTime());
}
