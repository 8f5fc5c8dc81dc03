/**
 * The way to the service: its name, the connection, the certificate, a proxy where one is used. What is seen of it is
 * the same way that every call takes; the one request that is made carries no key.
 *
 * Where the workspace is held, no request is made, also not this one: see key.ts.
 */

import { type ConnectionCheck, checkConnection } from '../../feed/connection-check.ts';
import type { TlsSeen } from '../../feed/http/connection-probe.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { proxyOf } from '../feed-options.ts';
import type { Check, Checked, Learned, Patient } from './check.ts';
import { type Finding, ok, skipped, trouble, warning } from './findings.ts';
import { workspaceHold } from './held.ts';

const LIMIT_MS = 30_000;
/** A person waits for it. */
const MAX_SILENCE_MS = 10_000;
const DAY_MS = 86_400_000;
const SOON_DAYS = 14;

export const connectionCheck: Check = { name: 'connection', limitMs: LIMIT_MS, run: checkTheConnection };

async function checkTheConnection(
  { inspection, context }: Patient,
  { checkpoint }: Learned,
  signal: AbortSignal,
): Promise<Checked> {
  const baseUrl = inspection.known('service.baseUrl');
  if (baseUrl === null) return { findings: [skipped('service', 'service.baseUrl is not known.')] };
  if (workspaceHold(checkpoint, inspection.configuration) !== null) {
    return { findings: [skipped('service', 'Its refusal is held, see checkpoint: nothing is asked of it.')] };
  }
  const timeoutMs = Math.min(inspection.known('http.timeout') ?? MAX_SILENCE_MS, MAX_SILENCE_MS);
  const { clock, environment } = context;
  const options = { baseUrl, http: { timeoutMs }, proxy: proxyOf(environment), clock };
  const seen = await checkConnection(options, signal);
  const isTrusted = seen.answer !== null && (seen.tls?.distrust ?? null) === null;
  return {
    findings: judgeConnection(seen, clock.now()),
    learned: { answer: seen.answer, isReachable: isTrusted },
  };
}

/** What is to be said of it. Pure. */
export function judgeConnection(seen: ConnectionCheck, now: Date): readonly Finding[] {
  return [
    ...nameFindings(seen),
    ...(seen.proxyHost === null ? [] : [ok('proxy', `${seen.proxyHost} (from HTTPS_PROXY or HTTP_PROXY)`)]),
    ...(seen.tls === null ? [] : [certificateFinding(seen.tls, now)]),
    answerFinding(seen),
  ];
}

function nameFindings({ lookUp, proxyHost }: ConnectionCheck): readonly Finding[] {
  if (lookUp === null) return [];
  const { hostname, addresses, tookMs, failure } = lookUp;
  const ms = `${Math.round(tookMs)} ms`;
  if (failure === null) return [ok('name', `${hostname} is ${addresses.join(', ')} (${ms})`)];
  const whose = proxyHost === null ? 'Check service.baseUrl' : 'Check HTTPS_PROXY';
  const hint = `${whose}, and the resolver of this machine; where a proxy is to be used, set HTTPS_PROXY.`;
  const found = `${hostname} could not be resolved (${failure}, ${ms}).`;
  return [trouble('name', found, EXIT_CODES.tryAgainLater, hint)];
}

const HINTS_BY_DISTRUST: ReadonlyMap<string, string> = new Map([
  ['CERT_HAS_EXPIRED', 'Whoever runs the service has to renew it. Is the clock of this machine right?'],
  ['CERT_NOT_YET_VALID', 'Is the clock of this machine right?'],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    'It is for another host: check service.baseUrl, and the proxy where there is one.',
  ],
]);
const PRIVATE_AUTHORITY =
  'Where it is of a private authority, name its file in NODE_EXTRA_CA_CERTS; if not, somebody stands between you and the service.';

function certificateFinding(tls: TlsSeen, now: Date): Finding {
  const { protocol, subject, issuer, validUntil, distrust } = tls;
  const until = Number.isNaN(validUntil.getTime()) ? 'an unknown day' : validUntil.toISOString().slice(0, 10);
  const found = `${subject} by ${issuer}, valid until ${until}; ${protocol ?? 'TLS'}`;
  if (distrust !== null) {
    const hint = HINTS_BY_DISTRUST.get(distrust) ?? PRIVATE_AUTHORITY;
    return trouble('certificate', `Not trusted (${distrust}): ${found}.`, EXIT_CODES.tryAgainLater, hint);
  }
  const days = Math.floor((validUntil.getTime() - now.getTime()) / DAY_MS);
  if (days >= SOON_DAYS) return ok('certificate', found);
  return warning('certificate', `It expires in ${days} days: ${found}.`, 'Tell whoever runs the service.');
}

function answerFinding({ host, lookUp, answer, trouble: met, tls }: ConnectionCheck): Finding {
  if (answer === null) {
    if ((lookUp?.failure ?? null) !== null) return skipped('service', 'There is no address to connect to.');
    const { message, hint } = met ?? { message: 'no answer', hint: null };
    const found = `No answer from ${host}: ${message}.`;
    return trouble('service', found, EXIT_CODES.tryAgainLater, ...(hint === null ? [] : [hint]));
  }
  const how = tls === null ? 'without TLS, on this machine' : 'over TLS';
  return ok('service', `${host} answers ${how} (${Math.round(answer.tookMs)} ms)`);
}
