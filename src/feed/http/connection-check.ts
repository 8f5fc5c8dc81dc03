/** Checks the connection to the service without calling its API, for `doctor`. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { type PeerCertificate, TLSSocket } from 'node:tls';
import type { Clock } from '../../lib/clock.ts';
import { systemCode } from '../../lib/files.ts';
import { kindOfAddress, resolveBySystem } from './addresses.ts';
import { agent } from './connections.ts';
import { hostOf, networkError, throwIfStopped } from './failures.ts';
import { httpDate } from './http.ts';
import type { ConnectionOptions, HttpOptions } from './options.ts';

export interface ConnectionCheck {
  /** The host of the base URL, with its port unless it is the default. */
  readonly host: string;
  /** The host and port of the proxy; null when none was used. */
  readonly proxyHost: string | null;
  /** Null when the host is an address, which needs no lookup. */
  readonly resolveHost: ResolveHost | null;
  /** Null without a connection, and without TLS. */
  readonly tls: TlsSeen | null;
  /** Null when no answer came. */
  readonly answer: AnswerSeen | null;
  /** Why no answer came, as a clause without a full stop; null when one came. */
  readonly fault: { readonly message: string; readonly hint: string | null } | null;
}

interface ResolveHost {
  /** The proxy's host name when one is used, because the proxy looks up the service's name itself. */
  readonly hostname: string;
  /** Empty when the lookup failed. */
  readonly addresses: readonly string[];
  readonly tookMs: number;
  /** The code of the failure (`ENOTFOUND`); null on success. */
  readonly failure: string | null;
}

export interface TlsSeen {
  /** For example `TLSv1.3`. */
  readonly protocol: string | null;
  readonly subject: string;
  readonly issuer: string;
  readonly validFrom: Date;
  readonly validUntil: Date;
  /** Why the certificate is not trusted, in the terms of OpenSSL and Node: `CERT_HAS_EXPIRED`; null when it is trusted. */
  readonly distrust: string | null;
}

export interface AnswerSeen {
  readonly status: number;
  /** The time in the answer's Date header; null when it is missing or unreadable. */
  readonly serviceTime: Date | null;
  /** The local time half-way between question and answer. */
  readonly ourTime: Date;
  readonly tookMs: number;
}

interface CheckOptions extends Pick<ConnectionOptions, 'baseUrl' | 'proxy' | 'clock' | 'resolveName'> {
  readonly http: Pick<HttpOptions, 'timeoutMs'>;
}

/** Checks the connection to the service. @throws InterruptedError */
export async function checkConnection(options: CheckOptions, signal: AbortSignal): Promise<ConnectionCheck> {
  const url = new URL(options.baseUrl);
  // The connection comes first: only it shows whether a proxy is used, whose name is then looked up.
  const watch = new ConnectionWatch(url);
  const dispatcher = agent({ connections: 1, ...options.http }, options.proxy, { rejectUnauthorized: false });
  let answer: AnswerSeen | null = null;
  let fault: ConnectionCheck['fault'] = null;
  try {
    answer = await ask(url, dispatcher, options.clock, signal);
  } catch (error) {
    throwIfStopped(signal);
    const { message, hint } = networkError(error, watch.proxyHost ?? hostOf(url), options.http.timeoutMs);
    fault = { message, hint };
  } finally {
    watch.end();
    await dispatcher.destroy();
  }
  const { proxyHost, tls } = watch;
  const hostname = proxyHost === null ? url.hostname : new URL(`http://${proxyHost}`).hostname;
  return { host: url.host, proxyHost, resolveHost: await resolveHost(hostname, options), tls, answer, fault };
}

async function resolveHost(
  hostname: string,
  { resolveName = resolveBySystem, clock }: CheckOptions,
): Promise<ResolveHost | null> {
  if (kindOfAddress(hostname) !== null) return null;
  const startedMs = clock.monotonicMs();
  const ended = (addresses: readonly string[], failure: string | null): ResolveHost => {
    return { hostname, addresses, tookMs: clock.monotonicMs() - startedMs, failure };
  };
  try {
    const addresses = await resolveName(hostname);
    return ended([...new Set(addresses.map(({ address }) => address))], null);
  } catch (error) {
    return ended([], systemCode(error) ?? String(error));
  }
}

async function ask(
  url: URL,
  dispatcher: ReturnType<typeof agent>,
  clock: Clock,
  signal: AbortSignal,
): Promise<AnswerSeen> {
  const startedMs = clock.monotonicMs();
  const startedAt = clock.now();
  const { statusCode, headers, body } = await dispatcher.request({
    origin: url.origin,
    path: `${url.pathname.replace(/\/+$/, '')}/`,
    method: 'HEAD',
    headers: { 'user-agent': 'feed-sync' },
    signal,
  });
  body.on('error', () => {}).destroy();
  const tookMs = clock.monotonicMs() - startedMs;
  return {
    status: statusCode,
    serviceTime: httpDate(String(headers['date'] ?? '')),
    ourTime: new Date(startedAt.getTime() + tookMs / 2),
    tookMs,
  };
}

interface Attempt {
  readonly connectParams: { readonly protocol?: string; readonly host?: string };
  readonly socket?: Socket;
}

/** undici publishes the connections of the whole process here. The probe ignores connections to other hosts. */
const CONNECTED = 'undici:client:connected';
const NOT_CONNECTED = 'undici:client:connectError';

class ConnectionWatch {
  readonly #url: URL;
  proxyHost: string | null = null;
  tls: TlsSeen | null = null;

  constructor(url: URL) {
    this.#url = url;
    subscribe(CONNECTED, this.#note);
    subscribe(NOT_CONNECTED, this.#note);
  }

  readonly #note = (message: unknown): void => {
    const { connectParams, socket } = message as Attempt;
    const { host, protocol } = this.#url;
    if (connectParams.host !== host || connectParams.protocol !== protocol) {
      this.proxyHost = connectParams.host ?? null;
    } else if (socket instanceof TLSSocket) this.tls = tlsOf(socket);
  };

  end(): void {
    unsubscribe(CONNECTED, this.#note);
    unsubscribe(NOT_CONNECTED, this.#note);
  }
}

function tlsOf(socket: TLSSocket): TlsSeen {
  const certificate = socket.getPeerCertificate();
  return {
    protocol: socket.getProtocol(),
    subject: nameOf(certificate.subject),
    issuer: nameOf(certificate.issuer),
    validFrom: new Date(certificate.valid_from),
    validUntil: new Date(certificate.valid_to),
    distrust: socket.authorized ? null : String(socket.authorizationError),
  };
}

/** Returns the recognisable parts of a name: `CN=feed.example.com, O=Example`. */
function nameOf(name: PeerCertificate['subject'] | undefined): string {
  const parts = [
    ['CN', name?.CN],
    ['O', name?.O],
  ] as const;
  return parts.flatMap(([label, value]) => (value === undefined ? [] : `${label}=${value}`)).join(', ');
}
