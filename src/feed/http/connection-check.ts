/** Checks the connection to the service without calling its API, for `doctor`. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { type PeerCertificate, TLSSocket } from 'node:tls';
import type { Clock } from '../../lib/clock.ts';
import { systemCode } from '../../lib/files.ts';
import { kindOfAddress, type ResolveName, resolveBySystem } from './addresses.ts';
import { agent } from './connections.ts';
import { hostOf, networkError, throwIfStopped } from './failures.ts';
import { httpDate } from './http.ts';
import type { HttpOptions, ProxyOptions } from './options.ts';

export interface ConnectionCheck extends Probed {
  /** The host of the base URL, with its port unless it is the default. */
  readonly host: string;
  /** Null when the host is an address, which needs no lookup. */
  readonly resolveHost: ResolveHost | null;
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

interface ConnectionCheckOptions extends ProbeOptions {
  /** Resolves names; the system's resolver by default. */
  readonly resolveName?: ResolveName;
}

/** @throws InterruptedError */
export async function checkConnection(
  options: ConnectionCheckOptions,
  signal: AbortSignal,
): Promise<ConnectionCheck> {
  const { host, hostname } = new URL(options.baseUrl);
  // The connection comes first: only it shows whether a proxy is used, whose name is then looked up.
  const probed = await probeConnection(options, signal);
  const name = probed.proxyHost === null ? hostname : new URL(`http://${probed.proxyHost}`).hostname;
  return {
    host,
    ...probed,
    resolveHost: await resolveHost(name, options.resolveName ?? resolveBySystem, options.clock),
  };
}

async function resolveHost(
  hostname: string,
  resolveName: ResolveName,
  clock: Clock,
): Promise<ResolveHost | null> {
  if (kindOfAddress(hostname) !== null) return null;
  const startedMs = clock.monotonicMs();
  const since = (): number => clock.monotonicMs() - startedMs;
  try {
    const addresses = await resolveName(hostname);
    return {
      hostname,
      addresses: [...new Set(addresses.map(({ address }) => address))],
      tookMs: since(),
      failure: null,
    };
  } catch (error) {
    return { hostname, addresses: [], tookMs: since(), failure: systemCode(error) ?? String(error) };
  }
}

interface ProbeOptions {
  readonly baseUrl: string;
  readonly http: Pick<HttpOptions, 'timeoutMs'>;
  readonly proxy: ProxyOptions;
  readonly clock: Clock;
}

interface Probed {
  /** The host and port of the proxy; null when none was used. */
  readonly proxyHost: string | null;
  /** Null without a connection, and without TLS. */
  readonly tls: TlsSeen | null;
  /** Null when no answer came. */
  readonly answer: AnswerSeen | null;
  /** Why no answer came, as a clause without a full stop; null when one came. */
  readonly fault: { readonly message: string; readonly hint: string | null } | null;
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

/** @throws InterruptedError */
async function probeConnection(options: ProbeOptions, signal: AbortSignal): Promise<Probed> {
  const url = new URL(options.baseUrl);
  const seen = watchConnections(url);
  const dispatcher = agent({ connections: 1, ...options.http }, options.proxy, { rejectUnauthorized: false });
  try {
    const answer = await ask(url, dispatcher, options.clock, signal);
    return { ...seen(), answer, fault: null };
  } catch (error) {
    throwIfStopped(signal);
    const { proxyHost, tls } = seen();
    const { message, hint } = networkError(error, proxyHost ?? hostOf(url), options.http.timeoutMs);
    return { proxyHost, tls, answer: null, fault: { message, hint } };
  } finally {
    seen.end();
    await dispatcher.destroy();
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

type Watch = (() => Pick<Probed, 'proxyHost' | 'tls'>) & { end(): void };

function watchConnections(url: URL): Watch {
  let proxyHost: string | null = null;
  let tls: TlsSeen | null = null;
  const note = (message: unknown): void => {
    const { connectParams, socket } = message as Attempt;
    const isService = connectParams.host === url.host && connectParams.protocol === url.protocol;
    if (!isService) proxyHost = connectParams.host ?? null;
    else if (socket instanceof TLSSocket) tls = tlsOf(socket);
  };
  subscribe(CONNECTED, note);
  subscribe(NOT_CONNECTED, note);
  const end = (): void => {
    unsubscribe(CONNECTED, note);
    unsubscribe(NOT_CONNECTED, note);
  };
  return Object.assign(() => ({ proxyHost, tls }), { end });
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
