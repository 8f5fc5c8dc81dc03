/** The options of the service's clients. Everything ambient is passed in. */

import type { Backoff, Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Secret } from '../../lib/secret.ts';
import type { RememberedContract } from '../../model/contract.ts';
import type { ResolveName } from './addresses.ts';
import type { OnExchange } from './http.ts';
import { Outage, type RetryPolicy } from './retry.ts';

export interface ConnectionOptions {
  /** https, or http on a loopback address; without a trailing slash. */
  readonly baseUrl: string;
  readonly apiKey: Secret;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly http: HttpOptions;
  readonly retry: RetryOptions;
  readonly proxy: ProxyOptions;
  /** Called for every exchange with the service; optional. */
  readonly onExchange?: OnExchange;
  readonly limits?: Partial<FeedLimits>;
  /**
   * Returns whether a call at the origin of the base URL succeeded in an earlier process; false by default. Called only when the
   * list of subscriptions is missing.
   */
  readonly isKnownOrigin?: () => Promise<boolean>;
  /** Resolves names; the system's resolver by default. */
  readonly resolveName?: ResolveName;
}

export interface FeedOptions extends ConnectionOptions {
  /** The configured names that the interface leaves open; null means discovered. */
  readonly contract: { readonly manifestPath: string | null; readonly newerThanParameter: string | null };
  readonly remembered: RememberedContract;
  /** Called with the names from the service's description. Remember them for times when the description is unavailable. */
  readonly onContractDiscovered: (remembered: RememberedContract) => void;
  readonly downloads: {
    /** Origins, as `new URL(…).origin` writes them, that may have any address and may use http. */
    readonly allowedOrigins: readonly string[];
    /** Files downloaded at once, over all datasets. */
    readonly concurrency?: number;
  };
  /** Bytes that must stay free on the disk. */
  readonly diskReserveBytes: number;
}

export interface HttpOptions {
  /** The longest silence of a connection. */
  readonly timeoutMs: number;
  /** Connections to one origin, at least 2: file downloads leave one to all other requests. */
  readonly connections: number;
  /** The largest JSON answer, measured after inflating. */
  readonly maxJsonBytes: number;
  /** All pages of a list that is kept in memory, as sent; 256 MB by default. */
  readonly maxListBytes?: number;
  /** The longest total wait that the service may ask for during one request. */
  readonly maxRetryAfterMs: number;
}

interface RetryOptions extends Backoff {
  readonly maxAttempts: number;
}

/** The values of HTTP_PROXY, HTTPS_PROXY and NO_PROXY; null when unset. */
export interface ProxyOptions {
  readonly httpProxy: string | null;
  readonly httpsProxy: string | null;
  readonly noProxy: string | null;
}

export interface FeedLimits {
  /** One request with a JSON answer, from the first byte sent to the last byte read. */
  readonly jsonDeadlineMs: number;
  /** One request with all its repetitions, without the waits that the service asked for, which have a limit of their own. */
  readonly operationDeadlineMs: number;
  /** One file with all repetitions of its requests. */
  readonly fileDeadlineMs: number;
  /** A file that arrives more slowly, averaged over `slowestOverMs`, is interrupted and resumed. */
  readonly slowestBytesPerSecond: number;
  readonly slowestOverMs: number;
  /** After this many bytes of a file, earlier failures are forgiven: a large file may survive many interruptions. */
  readonly forgivingProgressBytes: number;
  /** A file of this size, or of unknown length, has a thread that computes its digest. */
  readonly digestThreadFromBytes: number;
  readonly ranges: RangeLimits;
}

/** When the rest of a large file is requested in ranges side by side. */
export interface RangeLimits {
  /** A smaller file stays one stream. */
  readonly fromBytes: number;
  /** The most ranges of one file at once. */
  readonly atOnce: number;
  /** A range waits in memory for the ranges before it, so it has at most this many bytes. */
  readonly maxRangeBytes: number;
  /** Where a range would be smaller the line itself is slow, and ranges would only share it. */
  readonly minRangeBytes: number;
  /** A range has the bytes that one stream brings in this time. That is all that a killed process loses of each range. */
  readonly rangeMs: number;
  /** A range that would take longer is requested again, and in the end fewer at once: the ranges behind it wait. */
  readonly slowestRangeMs: number;
  /** The throughput of one stream is measured over this time. */
  readonly measureMs: number;
  /** A rest that one stream brings sooner stays one stream. */
  readonly worthMs: number;
}

const DEFAULT_LIMITS: FeedLimits = {
  jsonDeadlineMs: 5 * 60_000,
  operationDeadlineMs: 10 * 60_000,
  fileDeadlineMs: 24 * 3_600_000,
  slowestBytesPerSecond: 1_000,
  slowestOverMs: 60_000,
  forgivingProgressBytes: 1_000_000,
  digestThreadFromBytes: 16_000_000,
  ranges: {
    fromBytes: 64_000_000,
    atOnce: 6,
    maxRangeBytes: 8_000_000,
    minRangeBytes: 256_000,
    rangeMs: 2_000,
    slowestRangeMs: 30_000,
    measureMs: 1_000,
    worthMs: 5_000,
  },
};

export function limitsOf({ limits }: ConnectionOptions): FeedLimits {
  return { ...DEFAULT_LIMITS, ...limits };
}

/** Returns a policy for one kind of requests, with an outage of its own. */
export function retryPolicy({ retry, http }: ConnectionOptions, deadlineMs: number): RetryPolicy {
  return { ...retry, maxRetryAfterMs: http.maxRetryAfterMs, deadlineMs, outage: new Outage() };
}
