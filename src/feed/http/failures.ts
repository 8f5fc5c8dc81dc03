/**
 * How an exchange ends without an answer: by a temporary failure, with its description and hint, or by an interruption.
 * A `TransientError` is thrown only inside this folder; after the last retry the policy throws a `ServiceUnavailableError`
 * instead. An interruption is always an `InterruptedError`, or the error of the abort.
 */

import type { Clock } from '../../lib/clock.ts';
import { systemCode } from '../../lib/files.ts';
import { FeedSyncError, InterruptedError } from '../../model/errors.ts';
import { kindOfAddress } from './addresses.ts';

export class TransientError extends Error {
  override readonly name = 'TransientError';
  readonly hint: string | null;
  /** How long the service asked to wait, in milliseconds; null when it did not ask. */
  readonly retryAfterMs: number | null;
  /** False when the request surely never reached the service, so the command cannot have been done. */
  readonly mayBeDone: boolean;
  /** True when the service refused the request for the number of requests. */
  readonly isThrottled: boolean;
  /** True when another attempt now would end in the same way. */
  readonly isFinal: boolean;

  /** `message` is a clause without a full stop: `connection refused at feed.example.com:443`. */
  constructor(
    message: string,
    details: {
      readonly hint?: string | null;
      readonly retryAfterMs?: number | null;
      readonly mayBeDone?: boolean;
      readonly isThrottled?: boolean;
      readonly isFinal?: boolean;
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.hint = details.hint ?? null;
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.mayBeDone = details.mayBeDone ?? true;
    this.isThrottled = details.isThrottled ?? false;
    this.isFinal = details.isFinal ?? false;
  }
}

const CHECK_NETWORK =
  'Check the address, the network and, where there is one, the proxy (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).';
const CHECK_CERTIFICATES =
  'Where the service has a certificate of a private authority, name its file in NODE_EXTRA_CA_CERTS.';

/** Describes a failed connection or a broken body. `host` is the host of the address, with its port. */
export function networkError(error: unknown, host: string, timeoutMs: number): TransientError {
  const code = codeOf(error);
  const seconds = `${timeoutMs / 1_000} s`;
  const say = (message: string, hint = CHECK_NETWORK): TransientError =>
    new TransientError(message, { hint, cause: error });
  const unconnected = (message: string, hint = CHECK_NETWORK): TransientError =>
    new TransientError(message, { hint, mayBeDone: false, cause: error });
  const proxyStatus = proxyStatusOf(error);
  if (proxyStatus !== null) {
    return unconnected(`the proxy refused the connection with ${proxyStatus}`, proxyHint(proxyStatus));
  }
  switch (code) {
    case 'ECONNREFUSED':
      return unconnected(`connection refused at ${host}`);
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return unconnected(`the name in ${host} could not be resolved (${code})`);
    case 'UND_ERR_CONNECT_TIMEOUT':
      return unconnected(`no connection to ${host} within ${seconds}`);
    case 'ETIMEDOUT':
      return say(`no connection to ${host} within ${seconds}`);
    case 'UND_ERR_HEADERS_TIMEOUT':
      return say(`no answer from ${host} within ${seconds}`);
    case 'UND_ERR_BODY_TIMEOUT':
      return say(`the answer of ${host} stood still for ${seconds}`);
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
      return say(`no TLS is spoken at ${host} (${code})`, checkPlainText(host));
    case 'ECONNRESET':
    case 'EPIPE':
    case 'UND_ERR_SOCKET':
    case 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH':
      return say(`${host} ended the connection early (${code})`);
    default:
      if (isCertificateError(code)) {
        // An error of the record layer may come in the middle of an exchange.
        const reported = code?.startsWith('ERR_SSL_') === true ? say : unconnected;
        return reported(`TLS to ${host} failed (${code})`, CHECK_CERTIFICATES);
      }
      return say(`the exchange with ${host} failed (${code ?? 'without a code'})`);
  }
}

/** Returns the status with which a proxy refused a tunnel; undici names it in the message alone. */
function proxyStatusOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const stated = /^Proxy response \((\d{3})\)|^Proxy Authentication Required \((407)\)/.exec(error.message);
  return stated?.[1] ?? stated?.[2] ?? proxyStatusOf(error.cause);
}

function proxyHint(status: string): string {
  return status === '407'
    ? 'The proxy asks for a user and a password: set HTTPS_PROXY to http://USER:PASSWORD@HOST:PORT.'
    : 'Ask the operator of the proxy to allow the host, or name the host in NO_PROXY where it is reached without the proxy.';
}

/** Only services on this machine may be used without TLS. */
function checkPlainText(host: string): string {
  const hostname = host.replace(/:\d+$/, '');
  const isOfThisMachine = hostname === 'localhost' || kindOfAddress(hostname) === 'loopback';
  return isOfThisMachine
    ? `Check the port. Where the service on this machine speaks plain HTTP, set service.baseUrl to http://${host}.`
    : 'Check the host and the port; where there is a proxy, check its address, too (HTTPS_PROXY).';
}

function isCertificateError(code: string | null): boolean {
  return code !== null && /CERT|^ERR_(?:TLS|SSL)_|^UNABLE_TO_|^EPROTO$|SIGNATURE|ISSUER/.test(code);
}

/** Returns the code of the error, else of the first error that it aggregates (all addresses of a name), else of its cause. */
function codeOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const code = systemCode(error);
  if (code !== null) return code;
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return codeOf(error.cause);
}

/** Returns the host and port of a URL, also where the port is the default. */
export function hostOf({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port === '' ? (protocol === 'https:' ? 443 : 80) : port}`;
}

/** Stops where `signal` is aborted. @throws the reason of `signal` when it is aborted. */
export function throwIfStopped(signal: AbortSignal): void {
  if (!signal.aborted) return;
  if (signal.reason instanceof FeedSyncError) throw signal.reason;
  throw new InterruptedError('Stopped before the work was done.', { cause: signal.reason });
}

export async function sleepUnlessStopped(
  clock: Clock,
  durationMs: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    await clock.sleep(durationMs, signal);
  } catch (error) {
    throwIfStopped(signal);
    throw error;
  }
}

/** Returns the result of `work`, unless `signal` is aborted first. Then the work's own result or error is ignored. */
export async function unlessStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stopped = Promise.withResolvers<never>();
  const stop = (): void => stopped.reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  try {
    return await Promise.race([stopped.promise, work]);
  } catch (error) {
    throwIfStopped(signal);
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
