/**
 * Checks the way to the service: its name, the connection, the certificate, a proxy where one is used, and the clock. Every
 * call takes the same way; the one request of this check carries no key.
 *
 * Where the workspace is suspended, not even this request is made.
 */

import {
  type AnswerSeen,
  type ConnectionCheck,
  checkConnection as probe,
  type TlsSeen,
} from '../../feed/http/connection-check.ts';
import { adviceOnDistrust, type TrustAdvice } from '../../lib/certificates.ts';
import { formatDuration, plural } from '../../lib/units.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { proxyOf } from '../service-client.ts';
import { type Facts, type Finding, notKnown, ok, problem, skipped, suspensionsOf, warning } from './check.ts';

/** An operator waits for the response. */
const MAX_SILENCE_MS = 10_000;
const DAY_MS = 86_400_000;
const SOON_DAYS = 14;

export async function checkConnection(facts: Facts, signal: AbortSignal): Promise<readonly Finding[]> {
  const { inspection, context, checkpoint } = facts;
  const baseUrl = inspection.known('service.baseUrl');
  if (baseUrl === null) return [notKnown('service', 'service.baseUrl')];
  if (suspensionsOf(checkpoint, inspection.configuration).workspace !== null) {
    return [skipped('service', 'It is suspended, see checkpoint: nothing is asked of it.')];
  }
  const timeoutMs = Math.min(inspection.known('http.timeout') ?? MAX_SILENCE_MS, MAX_SILENCE_MS);
  const options = { baseUrl, http: { timeoutMs }, proxy: proxyOf(context.environment), clock: context.clock };
  const seen = await probe(options, signal);
  facts.answer = seen.answer;
  facts.isReachable = seen.answer !== null && (seen.tls?.distrust ?? null) === null;
  return judgeConnection(seen, context.clock.now());
}

/** Returns the findings about the connection. Pure. */
export function judgeConnection(seen: ConnectionCheck, now: Date): readonly Finding[] {
  return [
    ...nameFindings(seen),
    ...(seen.proxyHost === null ? [] : [ok('proxy', `${seen.proxyHost} (from HTTPS_PROXY or HTTP_PROXY)`)]),
    ...(seen.tls === null ? [] : [certificateFinding(seen.tls, now)]),
    answerFinding(seen),
  ];
}

function nameFindings({ resolveHost, proxyHost }: ConnectionCheck): readonly Finding[] {
  if (resolveHost === null) return [];
  const { hostname, addresses, tookMs, failure } = resolveHost;
  const ms = `${Math.round(tookMs)} ms`;
  if (failure === null) return [ok('name', `${hostname} is ${addresses.join(', ')} (${ms})`)];
  const whose = proxyHost === null ? 'Check service.baseUrl' : 'Check HTTPS_PROXY';
  const hint = `${whose}, and the resolver of this machine; where a proxy is to be used, set HTTPS_PROXY.`;
  const found = `${hostname} could not be resolved (${failure}, ${ms}).`;
  return [problem('name', found, EXIT_CODES.tryAgainLater, hint)];
}

const TRUST_ADVICE: TrustAdvice = {
  owner: 'the service',
  otherHost: 'It is for another host: check service.baseUrl, and the proxy where there is one.',
  privateAuthority:
    'Where it is of a private authority, name its file in NODE_EXTRA_CA_CERTS; if not, somebody stands between you and the service.',
};

function certificateFinding(tls: TlsSeen, now: Date): Finding {
  const { protocol, subject, issuer, validUntil, distrust } = tls;
  const until = Number.isNaN(validUntil.getTime()) ? 'an unknown day' : validUntil.toISOString().slice(0, 10);
  const found = `${subject} by ${issuer}, valid until ${until}; ${protocol ?? 'TLS'}`;
  if (distrust !== null) {
    const hint = adviceOnDistrust(distrust, TRUST_ADVICE);
    return problem('certificate', `Not trusted (${distrust}): ${found}.`, EXIT_CODES.tryAgainLater, hint);
  }
  const days = Math.floor((validUntil.getTime() - now.getTime()) / DAY_MS);
  if (days >= SOON_DAYS) return ok('certificate', found);
  return warning(
    'certificate',
    `It expires in ${plural(days, 'day')}: ${found}.`,
    'Report it to whoever runs the service.',
  );
}

function answerFinding({ host, resolveHost, answer, fault, tls }: ConnectionCheck): Finding {
  if (answer === null) {
    if ((resolveHost?.failure ?? null) !== null) {
      return skipped('service', 'There is no address to connect to.');
    }
    const { message, hint } = fault ?? { message: 'no answer', hint: null };
    const found = `No answer from ${host}: ${message}.`;
    return problem('service', found, EXIT_CODES.tryAgainLater, ...(hint === null ? [] : [hint]));
  }
  const how = tls === null ? 'without TLS, on this machine' : 'over TLS';
  return ok('service', `${host} answers ${how} (${Math.round(answer.tookMs)} ms)`);
}

const WARNING_FROM_MS = 60_000;
/** Standard Webhooks: a receiver rejects a signature whose time differs by more. */
const PROBLEM_FROM_MS = 5 * 60_000;
/** The header states whole seconds, rounded down. */
const RESOLUTION_MS = 1_000;

/** Returns the finding about the clock. Pure. */
export function judgeClock(answer: AnswerSeen | null): Finding {
  const about = 'clock';
  if (answer === null) return skipped(about, 'There is no answer of the service that could state its time.');
  if (answer.serviceTime === null) return skipped(about, 'The service did not state its time (header Date).');
  const aheadMs = answer.ourTime.getTime() - answer.serviceTime.getTime();
  const skewMs = Math.abs(aheadMs);
  if (skewMs < WARNING_FROM_MS) {
    const within =
      skewMs <= 2 * RESOLUTION_MS
        ? 'as that of the service'
        : `${formatDuration(skewMs)} off that of the service`;
    return ok(about, within);
  }
  const found = `Our clock is ${formatDuration(skewMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} that of the service.`;
  const hint = 'Set the clock of this machine, best by NTP.';
  if (skewMs < PROBLEM_FROM_MS) return warning(about, found, hint);
  return problem(about, `${found} Webhooks are refused from 5 minutes on.`, EXIT_CODES.tryAgainLater, hint);
}
