/** What the clients of the service are made from. Everything ambient is passed in. */

import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import type { Secret } from '../lib/secret.ts';
import type { RememberedContract } from '../model/contract.ts';
import type { ResolveName } from './download/address-guard.ts';
import type { OnAsked } from './http/asked.ts';
import type { FeedLimits } from './limits.ts';

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
  readonly onContractLearned: (remembered: RememberedContract) => void;
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

export interface RetryOptions {
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
