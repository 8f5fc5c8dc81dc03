/**
 * Two connection pools: one for the configured origins, one for all others, with guarded name lookup. Both use the given
 * proxies, except for addresses of this machine.
 */

import type { LookupFunction } from 'node:net';
import { type Dispatcher, EnvHttpProxyAgent } from 'undici';
import type { HttpOptions, ProxyOptions } from './options.ts';

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
