/**
 * Checks the permissions of the key: makes the cheapest call of each operation for one subscription and one dataset, so
 * that every
 * missing scope is named. A key that is not accepted at all (401) ends the check.
 */

import type { Configuration } from '../../configuration/configuration.ts';
import { type AccessCheck, createAccessCheck } from '../../feed/access-check.ts';
import { formatCount } from '../../lib/units.ts';
import { RefusalError } from '../../model/errors.ts';
import type { Subscription } from '../../model/records.ts';
import {
  chosenSubscriptions,
  isChosenDataset,
  refuseForeignMirror,
} from '../../sync/follow/subscriptions.ts';
import { waysOutOfMissing } from '../../sync/incidents.ts';
import { EXIT_CODES } from '../exit-codes.ts';
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

const SCOPES_LIMIT_MS = 60_000;

export const scopesCheck: Check = { name: 'scopes', limitMs: SCOPES_LIMIT_MS, run: checkScopes };

async function checkScopes(checkInput: CheckInput, facts: Facts, signal: AbortSignal): Promise<Checked> {
  const { configuration } = checkInput.inspection;
  const why = whyNotAsked(configuration, facts);
  if (why !== null || configuration === null) return { findings: [skipped('scopes', why ?? '')] };
  if (facts.subscriptions === null) return { findings: [skipped('scopes', KEY_NOT_ACCEPTED)] };
  const access = createAccessCheck(probeOptions(configuration, checkInput.context, facts.checkpoint));
  try {
    return { findings: await answersTo(questionsTo(access, configuration, facts), signal) };
  } finally {
    await access.close();
  }
}

async function answersTo(questions: readonly Question[], signal: AbortSignal): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const question of questions) {
    const { finding, isAboutKey } = await answerTo(question, signal);
    findings.push(finding);
    if (isAboutKey) break;
  }
  return findings;
}

interface Question {
  readonly about: string;
  /** The subject of the request; null where there is none. */
  subject(): string | null;
  ask(subject: string, signal: AbortSignal): Promise<Finding>;
}

/**
 * The order matters: events may name the dataset of the later requests, and versions name the version whose changes are
 * requested.
 */
function questionsTo(access: AccessCheck, configuration: Configuration, facts: Facts): readonly Question[] {
  let datasetId = datasetToAsk(configuration, facts);
  let newest: number | null = null;
  const ofDataset = { subject: () => datasetId };
  return [
    {
      about: 'events',
      subject: () => subscriptionToAsk(facts),
      async ask(subject, signal) {
        const listedDatasetIds = await access.events(subject, signal);
        datasetId ??= datasetToAsk(configuration, { ...facts, listedDatasetIds });
        return ok('events', mayBeRead(subject));
      },
    },
    {
      about: 'versions',
      ...ofDataset,
      async ask(subject, signal) {
        newest = await access.newestVersion(subject, signal);
        return ok('versions', mayBeRead(subject));
      },
    },
    {
      about: 'schemas',
      ...ofDataset,
      async ask(subject, signal) {
        await access.schemas(subject, signal);
        return ok('schemas', mayBeRead(subject));
      },
    },
    {
      about: 'changes',
      ...ofDataset,
      async ask(subject, signal) {
        if (newest !== null) return askForChanges(access, subject, newest, signal);
        return skipped('changes', 'No version is known whose changes could be asked for.');
      },
    },
  ];
}

function mayBeRead(subject: string): string {
  return `may be read (asked of ${subject})`;
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
    return ok(
      about,
      why === null ? `may be read (asked of ${of})` : `may be read, but not those of ${of}: ${why}`,
    );
  } catch (error) {
    if (!(error instanceof RefusalError) || error.refusal.code !== 'insufficient_scope') throw error;
    const { message, links } = error.refusal;
    const said = `The service refused to list changes (403 insufficient_scope).\nIt says: ${message}`;
    const found = `${said}\nUntil it has it, every new version loads a whole snapshot.`;
    const hint = 'Set a key that has the scope, if downloads are to be small.';
    return { ...warning(about, found, hint), links: Object.fromEntries(links) };
  }
}

async function answerTo(
  { about, subject, ask }: Question,
  signal: AbortSignal,
): Promise<{ readonly finding: Finding; readonly isAboutKey: boolean }> {
  const asked = subject();
  if (asked === null)
    return { finding: skipped(about, 'There is nothing to ask it about.'), isAboutKey: false };
  try {
    return { finding: await ask(asked, signal), isAboutKey: false };
  } catch (error) {
    const isAboutKey = error instanceof RefusalError && error.refusal.status === 401;
    return { finding: troubleOf(about, error), isAboutKey };
  }
}

/** Chooses a subscription that is not suspended. */
export function subscriptionToAsk({ subscriptions, checkpoint }: Facts): string | null {
  const { ofSubscription } = suspensionsOf(checkpoint, null);
  return subscriptions?.find(({ id }) => ofSubscription(id) === null)?.id ?? null;
}

/** Chooses a dataset that a subscription, its manifest or the desired state names, and that is neither suspended nor left out. */
export function datasetToAsk(
  { datasets }: Pick<Configuration, 'datasets'>,
  { subscriptions, checkpoint, listedDatasetIds }: Facts,
): string | null {
  const { ofSubscription, ofDataset } = suspensionsOf(checkpoint, null);
  const asked = (subscriptions ?? []).filter(({ id }) => ofSubscription(id) === null);
  const wanted = [...(checkpoint?.desiredStates.values() ?? [])].filter(({ members }) =>
    asked.some(({ id }) => members.has(id)),
  );
  const known = [
    ...asked.flatMap(({ datasetIds }) => datasetIds),
    ...wanted.map(({ datasetId }) => datasetId),
    ...listedDatasetIds,
  ];
  const isFit = (id: string): boolean =>
    isChosenDataset(id, datasets.include, datasets.exclude) && ofDataset(id) === null;
  return known.find(isFit) ?? null;
}

const SUBSCRIPTIONS_LIMIT_MS = 5_000;
/** The most subscriptions that are reported one by one; the rest is counted. */
const MAX_LISTED = 20;

export const subscriptionsCheck: Check = {
  name: 'subscriptions',
  limitMs: SUBSCRIPTIONS_LIMIT_MS,
  run: checkSubscriptions,
};

function checkSubscriptions({ inspection }: CheckInput, facts: Facts): Checked {
  const { configuration } = inspection;
  const { subscriptions } = facts;
  if (configuration === null || subscriptions === null) {
    return { findings: [skipped('seen', 'The service was not asked, see key.')] };
  }
  return { findings: judgeSubscriptions(subscriptions, configuration, facts) };
}

/** Returns the findings about the subscriptions that the key can see. */
export function judgeSubscriptions(
  seen: readonly Subscription[],
  configuration: Configuration,
  { checkpoint, mirror }: Pick<Facts, 'checkpoint' | 'mirror'>,
): readonly Finding[] {
  const findings: Finding[] = [];
  const followed = checkpoint?.followed ?? new Map();
  let chosen: readonly Subscription[] = [];
  try {
    chosen = chosenSubscriptions(seen, configuration.subscriptions, namesOf(checkpoint));
    findings.push(...seenFindings(seen, chosen));
  } catch (error) {
    findings.push(...seenFindings(seen, []), troubleOf('chosen', error));
  }
  const missing = [...followed.keys()].filter((id) => !chosen.some((one) => one.id === id));
  findings.push(...missing.map((id) => missingFinding(id, seen)));
  if (mirror === null) return findings;
  try {
    const origin = new URL(configuration.service.baseUrl).origin;
    refuseForeignMirror(mirror, origin, seen, checkpoint?.forgotten ?? []);
  } catch (error) {
    findings.push(troubleOf('mirror', error));
  }
  return findings;
}

function namesOf(checkpoint: Facts['checkpoint']): ReadonlyMap<string, string | null> {
  return new Map([...(checkpoint?.followed ?? [])].map(([id, { name }]) => [id, name]));
}

function seenFindings(seen: readonly Subscription[], chosen: readonly Subscription[]): readonly Finding[] {
  if (seen.length === 0) {
    const hint = 'Subscriptions are made in the web application of the service.';
    return [warning('seen', 'This API key sees no subscriptions: there is nothing to mirror.', hint)];
  }
  const reported = seen.slice(0, MAX_LISTED).map((one) => {
    const { id, name, datasetCount, datasetIds } = one;
    const state = chosen.includes(one) ? 'chosen' : 'not chosen';
    const datasets = counted(datasetCount ?? datasetIds.length, 'dataset');
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
