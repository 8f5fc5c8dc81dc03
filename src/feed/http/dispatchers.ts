/**
 * Connections. Two pools: one for the origins that the configuration names, one for all others, whose names are
 * looked up under guard. Both go through the proxies they were given, and never to this machine through one.
 */

import type { LookupFunction } from 'node:net';
import { type Dispatcher, EnvHttpProxyAgent } from 'undici';
import type { HttpOptions, ProxyOptions } from './options.ts';

export interface Dispatchers {
  /** For origins that are trusted to be wherever they are. */
  readonly trusted: Dispatcher;
  /** For all others: `lookup` sees every address of a name before a connection is made. Not called behind a proxy. */
  readonly guarded: Dispatcher;
  /** Ends idle and busy connections. */
  close(): Promise<void>;
}

/** A proxy cannot reach what listens on this machine only. */
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
  /** Sees every address of a name before a connection is made. */
  readonly lookup?: LookupFunction;
  /** Whether a certificate that is not trusted ends the connection, as it does unless told. */
  readonly rejectUnauthorized?: boolean;
}

/** What sends requests: directly, or through the proxy that is named for their origin. */
export function agent(
  http: Pick<HttpOptions, 'connections' | 'timeoutMs'>,
  proxy: ProxyOptions,
  connect: ConnectRules,
): Dispatcher {
  return new EnvHttpProxyAgent({
    // Left out, each of these three would be read from the environment.
    httpProxy: proxy.httpProxy ?? '',
    httpsProxy: proxy.httpsProxy ?? '',
    noProxy: [proxy.noProxy ?? '', ...NEVER_PROXIED].join(','),
    // Lengths, cuts and time-outs are those of HTTP/1.1 everywhere.
    allowH2: false,
    connections: http.connections,
    headersTimeout: http.timeoutMs,
    bodyTimeout: http.timeoutMs,
    connect: { ...connect, timeout: http.timeoutMs },
    // To the service through a tunnel; TLS to the proxy itself is always checked.
    requestTls: { rejectUnauthorized: connect.rejectUnauthorized ?? true },
  });
}
