/** What the clients of the service are made from. Everything ambient is passed in. */

import type { Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Secret } from '../../lib/secret.ts';
import type { RememberedContract } from '../../model/contract.ts';
import type { ResolveName } from './addresses.ts';
import type { OnAsked } from './http.ts';

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
  /** Told of every exchange with the service; nobody by default. */
  readonly onAsked?: OnAsked;
  readonly limits?: Partial<FeedLimits>;
  /**
   * Whether a call at the origin of the base URL succeeded in an earlier process; it is not known to have by default.
   * Asked only where the list of subscriptions is not there.
   */
  readonly isKnownOrigin?: () => Promise<boolean>;
  /** How names become addresses; the system's way by default. */
  readonly resolveName?: ResolveName;
}

export interface FeedOptions extends ConnectionOptions {
  /** What the configuration says of the names that the interface leaves open; null: discovered. */
  readonly contract: { readonly manifestPath: string | null; readonly newerThanParameter: string | null };
  readonly remembered: RememberedContract;
  /** Called when the service's description gave names: keep them for when it cannot be had. */
  readonly onContractDiscovered: (remembered: RememberedContract) => void;
  readonly downloads: {
    /** Origins, as `new URL(…).origin` writes them, that may be at any address and may speak http. */
    readonly allowedOrigins: readonly string[];
    /** Files downloaded at once, over all datasets. */
    readonly concurrency?: number;
  };
  /** Bytes kept free on the disk. */
  readonly diskReserveBytes: number;
}

export interface HttpOptions {
  /** Longest silence of a connection. */
  readonly timeoutMs: number;
  /** Connections to one origin, at least 2: files from there leave one to all else. */
  readonly connections: number;
  /** Largest JSON answer, counted after inflating. */
  readonly maxJsonBytes: number;
  /** Longest wait, in all, that the service may ask for during one request. */
  readonly maxRetryAfterMs: number;
}

interface RetryOptions {
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

/** The values of HTTP_PROXY, HTTPS_PROXY and NO_PROXY; null where one is not set. */
export interface ProxyOptions {
  readonly httpProxy: string | null;
  readonly httpsProxy: string | null;
  readonly noProxy: string | null;
}

export interface FeedLimits {
  /** One request with a JSON answer, from the first byte sent to the last one read. */
  readonly jsonDeadlineMs: number;
  /** One request with all its repetitions. Waiting that the service asked for is not counted; it has a cap of its own. */
  readonly operationDeadlineMs: number;
  /** One file with all repetitions of its requests. */
  readonly fileDeadlineMs: number;
  /** A file that arrives more slowly than this, averaged over `slowestOverMs`, is given up and resumed. */
  readonly slowestBytesPerSecond: number;
  readonly slowestOverMs: number;
  /** Bytes of a file after which earlier failures are forgiven: a large file may outlive many cuts. */
  readonly forgivingProgressBytes: number;
  /** A file of this size, or of unknown length, has a thread that computes its digest. */
  readonly digestThreadFromBytes: number;
}

export const DEFAULT_LIMITS: FeedLimits = {
  jsonDeadlineMs: 5 * 60_000,
  operationDeadlineMs: 10 * 60_000,
  fileDeadlineMs: 24 * 3_600_000,
  slowestBytesPerSecond: 1_000,
  slowestOverMs: 60_000,
  forgivingProgressBytes: 1_000_000,
  digestThreadFromBytes: 16_000_000,
};

/** Nesting of a JSON answer. */
export const MAX_JSON_DEPTH = 64;
/** Nesting of a page of changes, whose rows hold values of type json. */
export const MAX_CHANGES_DEPTH = 1_000;
