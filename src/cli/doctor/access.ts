/**
 * Checks the key: whether the service accepts it, the names that the interface leaves open, and the permissions. The
 * cheapest call of each operation is made for one subscription and one dataset, so that every missing scope is named.
 */

import type { Configuration } from '../../configuration/configuration.ts';
import { type AccessCheck, createAccessCheck } from '../../feed/access-check.ts';
import { silentLog } from '../../lib/log.ts';
import { formatCount, plural } from '../../lib/units.ts';
import type { ContractName, ContractSource } from '../../model/contract.ts';
import { RefusalError } from '../../model/errors.ts';
import type { Subscription } from '../../model/records.ts';
import {
  chosenSubscriptions,
  isChosenDataset,
  refuseForeignMirror,
} from '../../sync/follow/subscriptions.ts';
import { waysOutOfMissing } from '../../sync/incidents.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { feedOptions, isKnownOrigin } from '../service-client.ts';
import {
  type Facts,
  type Finding,
  findingOf,
  ok,
  problem,
  skipped,
  suspensionsOf,
  warning,
} from './check.ts';

/** Asks the service with the key. */
interface Probe {
  readonly access: AccessCheck;
  readonly configuration: Configuration;
  readonly facts: Facts;
  readonly signal: AbortSignal;
}

/** Returns a check that is skipped, as `about`, where the service may not be asked with the key. */
export function asking(about: string, run: (probe: Probe) => Promise<readonly Finding[]>) {
  return async (facts: Facts, signal: AbortSignal): Promise<readonly Finding[]> => {
    const { configuration } = facts.inspection;
    if (configuration === null) {
      return [skipped(about, 'The configuration is not good for it, see configuration.')];
    }
    if (suspensionsOf(facts.checkpoint, configuration).workspace !== null) {
      const why =
        'It is suspended, see checkpoint: nothing is asked of the service until you have acted on it.';
      return [skipped(about, why)];
    }
    if (!facts.isReachable) {
      return [skipped(about, 'There is no trusted connection to the service, see connection.')];
    }
    facts.access ??= openAccess(configuration, facts);
    return run({ access: facts.access, configuration, facts, signal });
  };
}

/** Asks like `asking`, for the requests after the list of subscriptions, which fails by a refusal of the key or by an outage. */
export function askingFurther(about: string, run: (probe: Probe) => Promise<readonly Finding[]>) {
  return asking(about, async (probe) => {
    const isAccepted = probe.facts.subscriptions !== null;
    return isAccepted ? run(probe) : [skipped(about, 'The subscriptions could not be listed, see key.')];
  });
}

/** An operator waits: a service that does not answer is reported after two attempts. */
const MAX_ATTEMPTS = 2;
const MAX_SILENCE_MS = 10_000;
const MAX_DELAY_MS = 1_000;
/** A service that asks to wait is reported, not waited for. */
const MAX_RETRY_AFTER_MS = 0;

/** Opens a client that is less patient than that of a catch-up. Facts about the service are not stored. */
function openAccess(configuration: Configuration, { context, checkpoint, mirror }: Facts): AccessCheck {
  const { http, retry, ...options } = feedOptions(configuration, context, silentLog);
  return createAccessCheck({
    ...options,
    ...(checkpoint === null ? {} : { remembered: checkpoint.contract }),
    isKnownOrigin: async () => mirror !== null && isKnownOrigin(configuration, mirror),
    http: {
      ...http,
      timeoutMs: Math.min(http.timeoutMs, MAX_SILENCE_MS),
      maxRetryAfterMs: MAX_RETRY_AFTER_MS,
    },
    retry: {
      maxAttempts: Math.min(retry.maxAttempts, MAX_ATTEMPTS),
      baseDelayMs: Math.min(retry.baseDelayMs, MAX_DELAY_MS),
      maxDelayMs: Math.min(retry.maxDelayMs, MAX_DELAY_MS),
    },
  });
}

export async function checkKey({ access, facts, signal }: Probe): Promise<readonly Finding[]> {
  const subscriptions = await access.subscriptions(signal);
  facts.subscriptions = subscriptions;
  return [ok('key', `accepted; it sees ${plural(subscriptions.length, 'subscription')}`)];
}

const NOTHING_TO_ASK = 'There is nothing to ask it about.';
const NOT_FOUND = 404;
const SOURCES: Readonly<Record<ContractSource, string>> = {
  config: 'from the configuration',
  openapi: 'from what the service says of itself',
  remembered: 'from what the service said of itself before',
  default: 'the default: the service does not describe itself',
};

export async function checkContract(probe: Probe): Promise<readonly Finding[]> {
  const { manifestPath, newerThanParameter } = await probe.access.contract(probe.signal);
  const named = ({ value, source }: ContractName): string => `${value} (${SOURCES[source]})`;
  return [
    ok('manifest path', named(manifestPath)),
    ok('newer than', newerThanParameter === null ? 'not used' : named(newerThanParameter)),
    await askForManifest(manifestPath, probe),
  ];
}

async function askForManifest(path: ContractName, probe: Probe): Promise<Finding> {
  const about = 'manifest';
  const { access, configuration, facts, signal } = probe;
  const isOfDataset = path.value.includes('{datasetId}');
  const subject = isOfDataset ? datasetToAsk(configuration, facts) : subscriptionToAsk(facts);
  if (subject === null) return skipped(about, NOTHING_TO_ASK);
  try {
    const ask = isOfDataset ? access.manifestEntry : access.manifest;
    facts.listedDatasetIds = await ask(path, subject, signal);
    return ok(about, `is there (asked of ${subject})`);
  } catch (error) {
    if (!(error instanceof RefusalError) || error.refusal.status !== NOT_FOUND)
      return findingOf(about, error);
    const found = `The service has no manifest of ${subject} at ${path.value} (404).`;
    const hint =
      path.source === 'config'
        ? 'Correct service.contract.manifestPath, or leave it out to have it discovered.'
        : 'Ask the service where its manifest is, and set service.contract.manifestPath.';
    return problem(about, found, EXIT_CODES.wrongConfiguration, hint);
  }
}

interface Question {
  readonly about: string;
  /** The subject of the request; null where there is none. */
  subject(): string | null;
  /** Returns nothing where the subject may be read. */
  ask(subject: string): Promise<Finding | undefined>;
}

/** Checks the scopes of the key. A key that is not accepted at all (401) ends the check. */
export async function checkScopes(probe: Probe): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const { about, subject, ask } of questionsTo(probe)) {
    const asked = subject();
    if (asked === null) {
      findings.push(skipped(about, NOTHING_TO_ASK));
      continue;
    }
    try {
      findings.push((await ask(asked)) ?? ok(about, `may be read (asked of ${asked})`));
    } catch (error) {
      findings.push(findingOf(about, error));
      if (error instanceof RefusalError && error.refusal.status === 401) break;
    }
  }
  return findings;
}

/**
 * The order matters: events may name the dataset of the later requests, and versions name the version whose changes are
 * requested.
 */
function questionsTo({ access, configuration, facts, signal }: Probe): readonly Question[] {
  const dataset = (): string | null => datasetToAsk(configuration, facts);
  let newest: number | null = null;
  return [
    {
      about: 'events',
      subject: () => subscriptionToAsk(facts),
      async ask(subject) {
        facts.listedDatasetIds = [...facts.listedDatasetIds, ...(await access.events(subject, signal))];
        return undefined;
      },
    },
    {
      about: 'versions',
      subject: dataset,
      async ask(subject) {
        newest = await access.newestVersion(subject, signal);
        return undefined;
      },
    },
    {
      about: 'schemas',
      subject: dataset,
      async ask(subject) {
        await access.schemas(subject, signal);
        return undefined;
      },
    },
    {
      about: 'changes',
      subject: dataset,
      async ask(subject) {
        if (newest !== null) return askForChanges(access, subject, newest, signal);
        return skipped('changes', 'No version is known whose changes could be asked for.');
      },
    },
  ];
}

/** A key without access to changes still works, but every new version then costs a whole snapshot. */
async function askForChanges(
  access: AccessCheck,
  datasetId: string,
  version: number,
  signal: AbortSignal,
): Promise<Finding> {
  const about = 'changes';
  try {
    const why = await access.changes(datasetId, version, signal);
    const of = `version ${version} of ${datasetId}`;
    if (why !== null) return ok(about, `may be read, but not those of ${of}: ${why}`);
    return ok(about, `may be read (asked of ${of})`);
  } catch (error) {
    if (!(error instanceof RefusalError) || error.refusal.code !== 'insufficient_scope') throw error;
    const { message, links } = error.refusal;
    const said = `The service refused to list changes (403 insufficient_scope).\nIt says: ${message}`;
    const found = `${said}\nUntil it has it, every new version loads a whole snapshot.`;
    const hint = 'Set a key that has the scope, if downloads are to be small.';
    return { ...warning(about, found, hint), links: Object.fromEntries(links) };
  }
}

/** Chooses a subscription that is not suspended. */
function subscriptionToAsk({ subscriptions, checkpoint }: Facts): string | null {
  const { ofSubscription } = suspensionsOf(checkpoint, null);
  return subscriptions?.find(({ id }) => ofSubscription(id) === null)?.id ?? null;
}

/** Chooses a dataset that a subscription, its manifest or the desired state names, and that is neither suspended nor left out. */
export function datasetToAsk(
  { datasets }: Pick<Configuration, 'datasets'>,
  {
    subscriptions,
    checkpoint,
    listedDatasetIds,
  }: Pick<Facts, 'subscriptions' | 'checkpoint' | 'listedDatasetIds'>,
): string | null {
  const { ofSubscription, ofDataset } = suspensionsOf(checkpoint, null);
  const asked = (subscriptions ?? []).filter(({ id }) => ofSubscription(id) === null);
  const desired = [...(checkpoint?.desiredStates.values() ?? [])].filter(({ members }) =>
    asked.some(({ id }) => members.has(id)),
  );
  const known = [
    ...asked.flatMap(({ datasetIds }) => datasetIds),
    ...desired.map(({ datasetId }) => datasetId),
    ...listedDatasetIds,
  ];
  const isFit = (id: string): boolean =>
    isChosenDataset(id, datasets.include, datasets.exclude) && ofDataset(id) === null;
  return known.find(isFit) ?? null;
}

/** The most subscriptions that are reported one by one; the rest is counted. */
const MAX_LISTED = 20;

export function checkSubscriptions(facts: Facts): readonly Finding[] {
  const { configuration } = facts.inspection;
  const { subscriptions } = facts;
  if (configuration === null || subscriptions === null) {
    return [skipped('seen', 'The service was not asked, see key.')];
  }
  return judgeSubscriptions(subscriptions, configuration, facts);
}

/** Returns the findings about the subscriptions that the key can see. */
export function judgeSubscriptions(
  seen: readonly Subscription[],
  configuration: Configuration,
  { checkpoint, mirror }: Pick<Facts, 'checkpoint' | 'mirror'>,
): readonly Finding[] {
  const findings: Finding[] = [];
  const followed = [...(checkpoint?.followed ?? [])];
  const names = new Map(followed.map(([id, { name }]) => [id, name]));
  let chosen: readonly Subscription[] = [];
  try {
    chosen = chosenSubscriptions(seen, configuration.subscriptions, names);
    findings.push(...seenFindings(seen, chosen));
  } catch (error) {
    findings.push(...seenFindings(seen, []), findingOf('chosen', error));
  }
  const missing = [...names.keys()].filter((id) => !chosen.some((one) => one.id === id));
  findings.push(...missing.map((id) => missingFinding(id, seen)));
  if (mirror === null) return findings;
  try {
    const { origin } = new URL(configuration.service.baseUrl);
    refuseForeignMirror(mirror, origin, seen, checkpoint?.forgotten ?? []);
  } catch (error) {
    findings.push(findingOf('mirror', error));
  }
  return findings;
}

function seenFindings(seen: readonly Subscription[], chosen: readonly Subscription[]): readonly Finding[] {
  if (seen.length === 0) {
    const hint = 'Subscriptions are made in the web application of the service.';
    return [warning('seen', 'This API key sees no subscriptions: there is nothing to mirror.', hint)];
  }
  const reported = seen.slice(0, MAX_LISTED).map((one) => {
    const { id, name, datasetCount, datasetIds } = one;
    const state = chosen.includes(one) ? 'chosen' : 'not chosen';
    const datasets = plural(datasetCount ?? datasetIds.length, 'dataset');
    return ok(id, `${name === null ? '' : `${name}: `}${datasets}, ${state}`);
  });
  const rest = seen.length - reported.length;
  return rest === 0 ? reported : [...reported, ok('seen', `and ${formatCount(rest)} more`)];
}

function missingFinding(id: string, seen: readonly Subscription[]): Finding {
  const isListed = seen.some((one) => one.id === id);
  const why = isListed ? 'the setting subscriptions leaves it out' : 'the key does not see it';
  const found = `It was followed, and ${why}. Its datasets stay as they are.`;
  return problem(id, found, EXIT_CODES.operatorMustAct, ...waysOutOfMissing(id, isListed));
}
