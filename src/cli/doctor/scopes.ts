/**
 * What the key may do: for one subscription and one dataset the cheapest call of each operation, so that every scope
 * that is missing is named. A key that is not accepted at all (401) ends the asking.
 */

import type { Configuration } from '../../configuration/configuration.ts';
import { type AccessCheck, createAccessCheck } from '../../feed/access-check.ts';
import { RefusalError } from '../../model/errors.ts';
import { isChosenDataset } from '../../sync/follow/selection.ts';
import type { Check, Checked, Learned, Patient } from './check.ts';
import { type Finding, ok, skipped, troubleOf, warning } from './findings.ts';
import { isDatasetHeld, isSubscriptionHeld } from './held.ts';
import { inquiryOptions, KEY_NOT_ACCEPTED, whyNotAsked } from './inquiry.ts';

const LIMIT_MS = 60_000;

export const scopesCheck: Check = { name: 'scopes', limitMs: LIMIT_MS, run: checkScopes };

async function checkScopes(patient: Patient, learned: Learned, signal: AbortSignal): Promise<Checked> {
  const { configuration } = patient.inspection;
  const why = whyNotAsked(configuration, learned);
  if (why !== null || configuration === null) return { findings: [skipped('scopes', why ?? '')] };
  if (learned.subscriptions === null) return { findings: [skipped('scopes', KEY_NOT_ACCEPTED)] };
  const access = createAccessCheck(inquiryOptions(configuration, patient.context, learned.checkpoint));
  try {
    return { findings: await answersTo(questionsTo(access, configuration, learned), signal) };
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
  /** What it is asked about; null where there is nothing. */
  subject(): string | null;
  ask(subject: string, signal: AbortSignal): Promise<Finding>;
}

/** In this order: events may name the dataset that is asked about, and versions the one whose changes are asked for. */
function questionsTo(
  access: AccessCheck,
  configuration: Configuration,
  learned: Learned,
): readonly Question[] {
  let datasetId = datasetToAsk(configuration, learned);
  let newest: number | null = null;
  const ofDataset = { subject: () => datasetId };
  return [
    {
      about: 'events',
      subject: () => subscriptionToAsk(learned),
      async ask(subject, signal) {
        const listedDatasetIds = await access.events(subject, signal);
        datasetId ??= datasetToAsk(configuration, { ...learned, listedDatasetIds });
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

/** A key that may not read changes is good for all else: every new version then costs a whole snapshot. */
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

/** One that is not held. */
export function subscriptionToAsk({ subscriptions, checkpoint }: Learned): string | null {
  return subscriptions?.find(({ id }) => !isSubscriptionHeld(checkpoint, id))?.id ?? null;
}

/** One that a subscription or its manifest names, or that is wanted, and that is neither held nor left out. */
export function datasetToAsk(
  { datasets }: Pick<Configuration, 'datasets'>,
  { subscriptions, checkpoint, listedDatasetIds }: Learned,
): string | null {
  const asked = (subscriptions ?? []).filter(({ id }) => !isSubscriptionHeld(checkpoint, id));
  const wanted = [...(checkpoint?.wants.values() ?? [])].filter(({ members }) =>
    asked.some(({ id }) => members.has(id)),
  );
  const known = [
    ...asked.flatMap(({ datasetIds }) => datasetIds),
    ...wanted.map(({ datasetId }) => datasetId),
    ...listedDatasetIds,
  ];
  const isFit = (id: string): boolean =>
    isChosenDataset(id, datasets.include, datasets.exclude) && !isDatasetHeld(checkpoint, id);
  return known.find(isFit) ?? null;
}
