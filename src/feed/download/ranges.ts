/**
 * Decides whether the rest of a file is requested in ranges side by side, and how large they are. Pure.
 *
 * A file begins as one stream. Where that stream would take long for the rest, several ranges at once are faster: over a long
 * distance the round trips limit a connection, and some services limit each connection.
 */

import type { RangeLimits } from '../http/options.ts';

/** Bytes that arrived, and the time that they took. */
export interface Throughput {
  readonly bytes: number;
  readonly ms: number;
}

/** Returns the bytes of a range; null where the rest of the file stays one stream. `one` is the throughput of one stream. */
export function rangeBytesFor(restBytes: number, one: Throughput, limits: RangeLimits): number | null {
  const { minRangeBytes, maxRangeBytes, rangeMs, worthMs } = limits;
  const bytesPerMs = one.bytes / Math.max(1, one.ms);
  const rangeBytes = Math.min(maxRangeBytes, Math.ceil(bytesPerMs * rangeMs));
  return restBytes > bytesPerMs * worthMs && rangeBytes >= minRangeBytes ? rangeBytes : null;
}

/** Ranges that hardly bring more than one stream only trouble the service. */
const LEAST_GAIN = 1.25;

/** Returns whether ranges side by side bring clearly more than one stream. */
export function isFaster(many: Throughput, one: Throughput): boolean {
  return many.bytes * one.ms >= LEAST_GAIN * one.bytes * many.ms;
}

/** Why the service did not serve a range: `refused` means that it never will, `broken` that fewer at once may work. */
export type RangeFailure = 'refused' | 'broken';

/** Returns how many ranges may be requested at once after a failure; 1 is one stream. */
export function fewerAtOnce(atOnce: number, failure: RangeFailure): number {
  return failure === 'refused' ? 1 : Math.max(1, Math.floor(atOnce / 2));
}
