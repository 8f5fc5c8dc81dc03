/**
 * The connections to the service: their pools and proxies, and the queue before them. A queue inside the pools would use up the
 * deadline of a request.
 *
 * Invariants: a request occupies a slot exactly until the body of its answer has ended. Two lanes take turns, so neither waits
 * for the other to become empty.
 */

import type { LookupFunction } from 'node:net';
import { type Dispatcher, EnvHttpProxyAgent } from 'undici';
import { unlessStopped } from './failures.ts';
import type { HttpOptions, ProxyOptions } from './options.ts';

/**
 * One pool for the configured origins, one for all others, with guarded name lookup. Both use the given proxies, except for
 * addresses of this machine.
 */
export interface Dispatchers {
  /** For trusted origins, whatever their address. */
  readonly trusted: Dispatcher;
  /** For all other origins: `lookup` checks every address of a name before connecting. A proxy does the lookup itself. */
  readonly guarded: Dispatcher;
  /** Closes idle and busy connections. */
  close(): Promise<void>;
}

/** A proxy cannot reach the servers on this machine. */
const NEVER_PROXIED = ['localhost', '127.0.0.1', '::1'];

export function createDispatchers(
  http: HttpOptions,
  proxy: ProxyOptions,
  lookup: LookupFunction,
): Dispatchers {
  const trusted = agent(http, proxy, {});
  const guarded = agent(http, proxy, { lookup });
  return {
    trusted,
    guarded,
    async close() {
      await Promise.all([trusted.destroy(), guarded.destroy()]);
    },
  };
}

interface ConnectRules {
  /** Checks every address of a name before a connection is made. */
  readonly lookup?: LookupFunction;
  /** False accepts an untrusted certificate; true by default. */
  readonly rejectUnauthorized?: boolean;
}

/** Sends requests directly, or through the proxy of their origin. */
export function agent(
  http: Pick<HttpOptions, 'connections' | 'timeoutMs'>,
  proxy: ProxyOptions,
  connect: ConnectRules,
): Dispatcher {
  return new EnvHttpProxyAgent({
    // undici reads each of these from the environment when it is missing.
    httpProxy: proxy.httpProxy ?? '',
    httpsProxy: proxy.httpsProxy ?? '',
    noProxy: [proxy.noProxy ?? '', ...NEVER_PROXIED].join(','),
    // Body lengths, aborted bodies and time-outs are handled as HTTP/1.1 has them.
    allowH2: false,
    connections: http.connections,
    headersTimeout: http.timeoutMs,
    bodyTimeout: http.timeoutMs,
    connect: { ...connect, timeout: http.timeoutMs },
    // Applies to the service behind a tunnel. TLS to the proxy itself is always verified.
    requestTls: { rejectUnauthorized: connect.rejectUnauthorized ?? true },
  });
}

/** The lane of a request. `leading`: requests that find out whether there is work; `following`: the requests of that work. */
export type Lane = 'leading' | 'following';

export interface Exchange<Answer> {
  readonly answer: Answer;
  /** Resolves once the connection is free again. Never rejects. */
  readonly ended: Promise<void>;
}

export class ConnectionSlots {
  readonly #lanes: Readonly<Record<Lane, (() => void)[]>> = { leading: [], following: [] };
  #free: number;
  #lastLane: Lane = 'following';

  constructor(slots: number) {
    this.#free = slots;
  }

  /**
   * Calls `send` once a slot is free, and returns its result. @throws the error of `send`
   * @throws InterruptedError at once when `signal` is aborted, even while waiting for a slot
   */
  run<Answer>(lane: Lane, send: () => Promise<Exchange<Answer>>, signal: AbortSignal): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const takeSlot = async (): Promise<void> => {
      await this.#take(lane);
      try {
        const { answer, ended } = await send();
        resolve(answer);
        await ended;
      } catch (error) {
        reject(error);
      } finally {
        this.#giveBack();
      }
    };
    void takeSlot();
    return unlessStopped(promise, signal);
  }

  async #take(lane: Lane): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => void this.#lanes[lane].push(resolve));
  }

  #giveBack(): void {
    const { leading, following } = this.#lanes;
    const isLeadingNext = following.length === 0 || (leading.length > 0 && this.#lastLane === 'following');
    this.#lastLane = isLeadingNext ? 'leading' : 'following';
    const next = (isLeadingNext ? leading : following).shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
