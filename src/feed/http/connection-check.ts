/** What can be seen of the way to the service without asking it for anything: for `doctor`. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { type PeerCertificate, TLSSocket } from 'node:tls';
import type { Clock } from '../../lib/clock.ts';
import { systemCode } from '../../lib/files.ts';
import { kindOfAddress, type ResolveName, resolveBySystem } from './addresses.ts';
import { throwIfStopped } from './cancellation.ts';
import { agent } from './dispatchers.ts';
import type { HttpOptions, ProxyOptions } from './options.ts';
import { httpDate } from './service-time.ts';
import { networkError } from './transient-errors.ts';

export interface ConnectionCheck extends Probed {
  /** Of the base URL, with its port where that is not the usual one. */
  readonly host: string;
  /** Null where there is nothing to look up, because the host is an address. */
  readonly resolveHost: ResolveHost | null;
}

interface ResolveHost {
  /** The proxy's where one is used: it looks up the service's itself. */
  readonly hostname: string;
  /** None where the look-up failed. */
  readonly addresses: readonly string[];
  readonly tookMs: number;
  /** The code of the failure (`ENOTFOUND`); null where it succeeded. */
  readonly failure: string | null;
}

interface ConnectionCheckOptions extends ProbeOptions {
  /** How names become addresses; the system's way by default. */
  readonly resolveName?: ResolveName;
}

/** @throws InterruptedError */
export async function checkConnection(
  options: ConnectionCheckOptions,
  signal: AbortSignal,
): Promise<ConnectionCheck> {
  const { host, hostname } = new URL(options.baseUrl);
  // First: only the connection itself shows whether it goes through a proxy, whose name is then the one to look up.
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
  /** Host and port of the proxy that was used; null where none was. */
  readonly proxyHost: string | null;
  /** Null where no connection came about, and without TLS. */
  readonly tls: TlsSeen | null;
  /** Null where there was none. */
  readonly answer: AnswerSeen | null;
  /** Why there was no answer, as a clause without its full stop; null where there was one. */
  readonly fault: { readonly message: string; readonly hint: string | null } | null;
}

export interface TlsSeen {
  /** `TLSv1.3`. */
  readonly protocol: string | null;
  readonly subject: string;
  readonly issuer: string;
  readonly validFrom: Date;
  readonly validUntil: Date;
  /** Why it is not trusted, as OpenSSL and Node call it: `CERT_HAS_EXPIRED`; null where it is. */
  readonly distrust: string | null;
}

export interface AnswerSeen {
  readonly status: number;
  /** What the answer's Date header says; null where it says nothing that can be read. */
  readonly serviceTime: Date | null;
  /** Our clock half-way between question and answer. */
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

/** undici shows the connections of the whole process here; only those that can be the probe's are looked at. */
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

/** `CN=feed.example.com, O=Example`: what of a name helps to recognise it. */
function nameOf(name: PeerCertificate['subject'] | undefined): string {
  const parts = [
    ['CN', name?.CN],
    ['O', name?.O],
  ] as const;
  return parts.flatMap(([label, value]) => (value === undefined ? [] : `${label}=${value}`)).join(', ');
}

function hostOf({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port === '' ? (protocol === 'https:' ? 443 : 80) : port}`;
}
