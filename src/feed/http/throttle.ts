/**
 * Holds back all requests to an origin after a 429: they wait until `Retry-After`, or for the backoff; then one of them probes, and
 * the others follow spread over some seconds.
 *
 * Invariant: waiting ends. Once the origin has refused every probe for two of the longest waits, requests fail at once, and one
 * probes each time that the origin's wait is over.
 */

import { type Backoff, longestDelayMs } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { sleepUnlessStopped, TransientError, unlessStopped } from './failures.ts';

export const TOO_MANY_REQUESTS = 429;

/**
 * The longest time over which waiting requests are sent once a probe was answered. They are spread over no longer than the origin
 * last asked them to wait.
 */
const SPREAD_MS = 10_000;

/** Periods of the longest wait in which every probe was refused; then the others do not wait any longer. */
const LASTING_PERIODS = 2;

interface ThrottleTools {
  readonly clock: Clock;
  readonly log: Log;
  readonly retry: Backoff;
  /** The longest wait that the service may ask for, in milliseconds. */
  readonly maxRetryAfterMs: number;
}

/** The right to send one request. */
interface Pass {
  readonly isProbe: boolean;
  /** How often the origin had refused by then. */
  readonly refusals: number;
}

/** The state of one origin. */
class Throttle {
  readonly #origin: string;
  readonly #tools: ThrottleTools;
  /** Counts all refusals; those of requests that were under way together count as one. */
  #refusals = 0;
  /** Null while requests are sent freely. */
  #closed: Closed | null = null;
  #waiting = 0;

  constructor(origin: string, tools: ThrottleTools) {
    this.#origin = origin;
    this.#tools = tools;
  }

  /**
   * Resolves as soon as the request may be sent. The caller must call `settle` with the result.
   * @throws TransientError when the origin has refused requests for too long. @throws InterruptedError
   */
  async pass(signal: AbortSignal): Promise<Pass> {
    const { clock } = this.#tools;
    let sleptUntilMs = Number.NEGATIVE_INFINITY;
    this.#waiting += 1;
    try {
      for (let closed = this.#closed; closed !== null; closed = this.#closed) {
        const { untilMs } = closed;
        // A timer may end a little before its time.
        const restMs = untilMs <= sleptUntilMs ? 0 : untilMs - clock.monotonicMs();
        if (closed.periods >= LASTING_PERIODS && (restMs > 0 || closed.probe !== null)) {
          throw refusedForLong(restMs);
        }
        if (restMs > 0) {
          await sleepUnlessStopped(clock, restMs, signal);
          sleptUntilMs = untilMs;
        } else if (closed.probe === null) return this.#probe(closed);
        else await unlessStopped(closed.probe.promise, signal);
        // Meanwhile another one that follows may be refused: then this one waits again.
        if (this.#closed === null) await this.#follow(closed, signal);
      }
    } finally {
      this.#waiting -= 1;
    }
    return { isProbe: false, refusals: this.#refusals };
  }

  /** `status` is null when no answer came. */
  settle(pass: Pass, status: number | null, retryAfterMs: number | null): void {
    const closed = this.#closed;
    if (status === TOO_MANY_REQUESTS) this.#close(pass, retryAfterMs);
    else if (pass.isProbe && status !== null && closed !== null) {
      closed.followers = this.#waiting;
      this.#closed = null;
    }
    if (!pass.isProbe || closed === null) return;
    const { probe } = closed;
    closed.probe = null;
    probe?.resolve();
  }

  #probe(closed: Closed): Pass {
    closed.probe = Promise.withResolvers<void>();
    return { isProbe: true, refusals: this.#refusals };
  }

  async #follow(before: Closed, signal: AbortSignal): Promise<void> {
    const spreadMs = Math.min(SPREAD_MS, before.askedMs);
    const waitMs = (before.followed * spreadMs) / Math.max(1, before.followers);
    before.followed += 1;
    if (waitMs > 0) await sleepUnlessStopped(this.#tools.clock, waitMs, signal);
  }

  #close(pass: Pass, retryAfterMs: number | null): void {
    const { clock, log, retry, maxRetryAfterMs } = this.#tools;
    const nowMs = clock.monotonicMs();
    const isLate = pass.refusals < this.#refusals;
    if (this.#closed === null) {
      if (isLate) return;
      this.#closed = {
        untilMs: nowMs,
        askedMs: 0,
        periodMs: nowMs,
        periods: 0,
        inARow: 0,
        probe: null,
        followers: 0,
        followed: 0,
      };
    }
    const closed = this.#closed;
    if (!isLate) {
      this.#refusals += 1;
      closed.inARow += 1;
      if (nowMs - closed.periodMs >= maxRetryAfterMs) {
        closed.periods += 1;
        closed.periodMs = nowMs;
      }
    }
    const askedMs = Math.max(retryAfterMs ?? 0, longestDelayMs(retry, closed.inARow));
    const untilMs = Math.min(nowMs + askedMs, closed.periodMs + maxRetryAfterMs);
    const waitMs = untilMs - nowMs;
    closed.untilMs = Math.max(closed.untilMs, untilMs);
    closed.askedMs = waitMs;
    const fields = { service: this.#origin, waitMs };
    if (closed.inARow === 1 && !isLate)
      log.warn(fields, 'The service refuses requests for their number: all of them wait.');
  }
}

interface Closed {
  /** On the monotonic clock. */
  untilMs: number;
  /** How long the last refusal asked to wait. */
  askedMs: number;
  /** When the current period of the longest wait began. */
  periodMs: number;
  periods: number;
  /** Refusals in a row. */
  inARow: number;
  probe: PromiseWithResolvers<void> | null;
  /** The requests that waited when a probe was answered, and how many of them were sent since. */
  followers: number;
  followed: number;
}

function refusedForLong(restMs: number): TransientError {
  return new TransientError('the service refuses requests for their number (429)', {
    hint: 'It is asked again by itself. If it stays so, ask the service which number of requests it allows.',
    retryAfterMs: Math.max(0, restMs),
    mayBeDone: false,
    isThrottled: true,
    isFinal: true,
  });
}

/** The throttles of all origins. */
export class Throttles {
  readonly #tools: ThrottleTools;
  readonly #serviceOrigin: string;
  readonly #service: Throttle;
  /** The throttles of other origins, the least recently used first. */
  readonly #others = new Map<string, Throttle>();

  constructor(serviceOrigin: string, tools: ThrottleTools) {
    this.#tools = tools;
    this.#serviceOrigin = serviceOrigin;
    this.#service = new Throttle(serviceOrigin, tools);
  }

  /** Returns the one of an origin. Beyond `MAX_OTHERS` the least recently used is forgotten, and never that of the service. */
  of(origin: string): Throttle {
    if (origin === this.#serviceOrigin) return this.#service;
    const throttle = this.#others.get(origin) ?? new Throttle(origin, this.#tools);
    this.#others.delete(origin);
    this.#others.set(origin, throttle);
    const [leastRecent] = this.#others.keys();
    if (this.#others.size > MAX_OTHERS && leastRecent !== undefined) this.#others.delete(leastRecent);
    return throttle;
  }
}

/** Files may come from any number of hosts. */
const MAX_OTHERS = 100;
