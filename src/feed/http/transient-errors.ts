/**
 * Trouble that passes by itself: what it is called, and what a person may look at. It is thrown inside this folder
 * only; the retry policy turns what is left of it into a `ServiceUnavailableError`.
 */

import { systemCode } from '../../lib/files.ts';
import { kindOfAddress } from './addresses.ts';

export class TransientError extends Error {
  override readonly name = 'TransientError';
  readonly hint: string | null;
  /** How long the service asked us to wait, in milliseconds; null where it did not. */
  readonly retryAfterMs: number | null;
  /** Whether the service may have done what was asked all the same: false where the request surely never reached it. */
  readonly mayBeDone: boolean;

  /** `message` is a clause without its full stop: `connection refused at feed.example.com:443`. */
  constructor(
    message: string,
    details: {
      readonly hint?: string | null;
      readonly retryAfterMs?: number | null;
      readonly mayBeDone?: boolean;
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.hint = details.hint ?? null;
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.mayBeDone = details.mayBeDone ?? true;
  }
}

const CHECK_NETWORK =
  'Check the address, the network and, where there is one, the proxy (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).';
const CHECK_CERTIFICATES =
  'Where the service has a certificate of a private authority, name its file in NODE_EXTRA_CA_CERTS.';

/** What a failed connection or a broken body is called. `host` is that of the address, with its port. */
export function networkError(error: unknown, host: string, timeoutMs: number): TransientError {
  const code = codeOf(error);
  const seconds = `${timeoutMs / 1_000} s`;
  const say = (message: string, hint = CHECK_NETWORK): TransientError =>
    new TransientError(message, { hint, cause: error });
  const unconnected = (message: string, hint = CHECK_NETWORK): TransientError =>
    new TransientError(message, { hint, mayBeDone: false, cause: error });
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
        // One of the record layer may come in the middle of an exchange.
        const reported = code?.startsWith('ERR_SSL_') === true ? say : unconnected;
        return reported(`TLS to ${host} failed (${code})`, CHECK_CERTIFICATES);
      }
      return say(`the exchange with ${host} failed (${code ?? 'without a code'})`);
  }
}

/** Without TLS a service is spoken to on this machine only. */
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

/** The code of an error, or of the first that it gathers (all addresses of a name) or was caused by. */
function codeOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const code = systemCode(error);
  if (code !== null) return code;
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return codeOf(error.cause);
}
