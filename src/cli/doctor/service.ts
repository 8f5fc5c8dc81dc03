/**
 * Checks the way to the service: its name, the connection, the certificate, and a proxy where one is used. Every call takes
 * the same
 * way; the one request of this check carries no key.
 *
 * Where the workspace is suspended, not even this request is made.
 */

import type { Configuration } from '../../configuration/configuration.ts';
import { type AccessCheck, createAccessCheck } from '../../feed/access-check.ts';
import {
  type AnswerSeen,
  type ConnectionCheck,
  checkConnection,
  type TlsSeen,
} from '../../feed/http/connection-check.ts';
import { formatDuration } from '../../lib/units.ts';
import type { ContractName, ContractSource } from '../../model/contract.ts';
import { RefusalError } from '../../model/errors.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { isKnownOrigin, proxyOf } from '../operator-session.ts';
import {
  type Check,
  type Checked,
  type CheckInput,
  counted,
  type Facts,
  type Finding,
  ok,
  problem,
  skipped,
  troubleOf,
  warning,
} from './check.ts';
import { KEY_NOT_ACCEPTED, probeOptions, suspensionsOf, whyNotAsked } from './probe.ts';
import { datasetToAsk, subscriptionToAsk } from './scopes.ts';

const CONNECTION_LIMIT_MS = 30_000;
/** An operator waits for the response. */
const MAX_SILENCE_MS = 10_000;
const DAY_MS = 86_400_000;
const SOON_DAYS = 14;

export const connectionCheck: Check = {
  name: 'connection',
  limitMs: CONNECTION_LIMIT_MS,
  run: checkTheConnection,
};

async function checkTheConnection(
  { inspection, context }: CheckInput,
  { checkpoint }: Facts,
  signal: AbortSignal,
): Promise<Checked> {
  const baseUrl = inspection.known('service.baseUrl');
  if (baseUrl === null) return { findings: [skipped('service', 'service.baseUrl is not known.')] };
  if (suspensionsOf(checkpoint, inspection.configuration).workspace !== null) {
    return { findings: [skipped('service', 'It is suspended, see checkpoint: nothing is asked of it.')] };
  }
  const timeoutMs = Math.min(inspection.known('http.timeout') ?? MAX_SILENCE_MS, MAX_SILENCE_MS);
  const { clock, environment } = context;
  const options = { baseUrl, http: { timeoutMs }, proxy: proxyOf(environment), clock };
  const seen = await checkConnection(options, signal);
  const isTrusted = seen.answer !== null && (seen.tls?.distrust ?? null) === null;
  return {
    findings: judgeConnection(seen, clock.now()),
    facts: { answer: seen.answer, isReachable: isTrusted },
  };
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
    return problem('certificate', `Not trusted (${distrust}): ${found}.`, EXIT_CODES.tryAgainLater, hint);
  }
  const days = Math.floor((validUntil.getTime() - now.getTime()) / DAY_MS);
  if (days >= SOON_DAYS) return ok('certificate', found);
  return warning('certificate', `It expires in ${days} days: ${found}.`, 'Tell whoever runs the service.');
}

function answerFinding({ host, resolveHost, answer, fault: met, tls }: ConnectionCheck): Finding {
  if (answer === null) {
    if ((resolveHost?.failure ?? null) !== null)
      return skipped('service', 'There is no address to connect to.');
    const { message, hint } = met ?? { message: 'no answer', hint: null };
    const found = `No answer from ${host}: ${message}.`;
    return problem('service', found, EXIT_CODES.tryAgainLater, ...(hint === null ? [] : [hint]));
  }
  const how = tls === null ? 'without TLS, on this machine' : 'over TLS';
  return ok('service', `${host} answers ${how} (${Math.round(answer.tookMs)} ms)`);
}

const KEY_LIMIT_MS = 60_000;

export const keyCheck: Check = { name: 'key', limitMs: KEY_LIMIT_MS, run: checkKey };

async function checkKey(checkInput: CheckInput, facts: Facts, signal: AbortSignal): Promise<Checked> {
  const { configuration } = checkInput.inspection;
  const why = whyNotAsked(configuration, facts);
  if (why !== null || configuration === null) return { findings: [skipped('key', why ?? '')] };
  const access = createAccessCheck({
    ...probeOptions(configuration, checkInput.context, facts.checkpoint),
    isKnownOrigin: async () => facts.mirror !== null && isKnownOrigin(configuration, facts.mirror),
  });
  try {
    const subscriptions = await access.subscriptions(signal);
    const found = `accepted; it sees ${counted(subscriptions.length, 'subscription')}`;
    return { findings: [ok('key', found)], facts: { subscriptions } };
  } finally {
    await access.close();
  }
}

const CONTRACT_LIMIT_MS = 60_000;
const NOT_FOUND = 404;

export const contractCheck: Check = { name: 'contract', limitMs: CONTRACT_LIMIT_MS, run: checkContract };

const SOURCES: Readonly<Record<ContractSource, string>> = {
  config: 'from the configuration',
  openapi: 'from what the service says of itself',
  remembered: 'from what the service said of itself before',
  default: 'the default: the service does not describe itself',
};

async function checkContract(checkInput: CheckInput, facts: Facts, signal: AbortSignal): Promise<Checked> {
  const { configuration } = checkInput.inspection;
  const why = whyNotAsked(configuration, facts);
  if (why !== null || configuration === null) return { findings: [skipped('names', why ?? '')] };
  if (facts.subscriptions === null) return { findings: [skipped('names', KEY_NOT_ACCEPTED)] };
  const access = createAccessCheck(probeOptions(configuration, checkInput.context, facts.checkpoint));
  try {
    const { manifestPath, newerThanParameter } = await access.contract(signal);
    const names = [
      ok('manifest path', named(manifestPath)),
      ok('newer than', newerThanParameter === null ? 'not used' : named(newerThanParameter)),
    ];
    const { finding, listedDatasetIds } = await askForManifest(
      access,
      manifestPath,
      configuration,
      facts,
      signal,
    );
    return { findings: [...names, finding], facts: { listedDatasetIds } };
  } finally {
    await access.close();
  }
}

function named({ value, source }: ContractName): string {
  return `${value} (${SOURCES[source]})`;
}

interface ManifestAnswer {
  readonly finding: Finding;
  /** The datasets on the requested page. */
  readonly listedDatasetIds: readonly string[];
}

async function askForManifest(
  access: AccessCheck,
  path: ContractName,
  configuration: Configuration,
  facts: Facts,
  signal: AbortSignal,
): Promise<ManifestAnswer> {
  const about = 'manifest';
  const isOfDataset = path.value.includes('{datasetId}');
  const subject = isOfDataset ? datasetToAsk(configuration, facts) : subscriptionToAsk(facts);
  if (subject === null) {
    return { finding: skipped(about, 'There is nothing to ask it about.'), listedDatasetIds: [] };
  }
  const ask = isOfDataset ? access.manifestEntry : access.manifest;
  try {
    const listedDatasetIds = await ask(path, subject, signal);
    return { finding: ok(about, `is there (asked of ${subject})`), listedDatasetIds };
  } catch (error) {
    const isMissing = error instanceof RefusalError && error.refusal.status === NOT_FOUND;
    const finding = isMissing ? missingManifest(path, subject) : troubleOf(about, error);
    return { finding, listedDatasetIds: [] };
  }
}

function missingManifest({ value, source }: ContractName, subject: string): Finding {
  const found = `The service has no manifest of ${subject} at ${value} (404).`;
  const hint =
    source === 'config'
      ? 'Correct service.contract.manifestPath, or leave it out to have it discovered.'
      : 'Ask the service where its manifest is, and set service.contract.manifestPath.';
  return problem('manifest', found, EXIT_CODES.wrongConfiguration, hint);
}

const CLOCK_LIMIT_MS = 1_000;
const WARNING_FROM_MS = 60_000;
/** Standard Webhooks: a receiver rejects a signature whose time differs by more. */
const PROBLEM_FROM_MS = 5 * 60_000;
/** The header states whole seconds, rounded down. */
const RESOLUTION_MS = 1_000;

export const clockCheck: Check = {
  name: 'clock',
  limitMs: CLOCK_LIMIT_MS,
  run: (_checkInput, { answer }) => ({ findings: [judgeClock(answer)] }),
};

/** Returns the finding about the clock. Pure. */
export function judgeClock(answer: AnswerSeen | null): Finding {
  const about = 'clock';
  if (answer === null) return skipped(about, 'There is no answer of the service that could tell its time.');
  if (answer.serviceTime === null) return skipped(about, 'The service did not tell its time (header Date).');
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
