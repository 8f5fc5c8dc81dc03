/**
 * How much may be asked of the service. The bound of a catch-up follows from what ends its loops (src/sync/README.md):
 *
 * - once each: the subscriptions, the description of the service;
 * - of a subscription: its log, page by page, from its start at the worst, and three requests that a position has
 *   expired; its manifest twice where it is taken anew, twice in the audit, and again for links that have expired;
 * - of a dataset with a manifest of its own: that, twice for each subscription that may hold it, and again for links;
 * - of a dataset that is behind: versions and schemas once, once more where they do not reach back far enough, where
 *   columns are unknown, and after each step that was overtaken; the changes of a version once, and once more for each
 *   version that gave way to a snapshot; a file for each load, and each load that was overtaken.
 *
 * Each of them is attempted three times, a link four times, wrong content three times.
 */

import type { JournalEntry } from '../../fixtures/feed/request-journal.ts';
import { BrokenRule } from './rules.ts';
import type { World } from './world.ts';

const ATTEMPTS = 3;
const EXPIRED_POSITIONS = 3;
const MANIFESTS = 4;
const ENTRIES_FOR_EACH_SUBSCRIPTION = 2;
const OVERTAKEN = 4;
const HISTORIES = 3 + OVERTAKEN;
const ATTEMPTS_AT_A_FILE = ATTEMPTS + 4 + 3;

/** What a catch-up did with a dataset, as far as the bound depends on it. */
export interface DatasetEffort {
  readonly commits: number;
  /** Versions of which the changes gave way to a snapshot. */
  readonly gaveWay: number;
}

/** `efforts`: by dataset id. @throws BrokenRule */
export function refuseTooManyCalls(
  requests: readonly JournalEntry[],
  efforts: ReadonlyMap<string, DatasetEffort>,
  world: World,
): void {
  for (const [about, those] of Map.groupBy(requests, subjectOf)) {
    const [first] = those;
    if (first === undefined) continue;
    const most = mostOf(first, requests, efforts, world);
    if (those.length > most)
      throw new BrokenRule('calls', `${about}: ${those.length} requests, and the bound is ${most}.`);
  }
}

/**
 * After calm, with so many polls and audits, of which each polls, too: a page of each log, or all of one that is read from
 * its start because it is quiet. Of an audit besides: the subscriptions, the description, and of each subscription its
 * manifest, or the manifests of its datasets. @throws BrokenRule
 */
export async function refuseCallsInIdleness(
  requests: readonly JournalEntry[],
  { polls, audits }: { readonly polls: number; readonly audits: number },
  world: World,
): Promise<void> {
  const { checkpoint } = await world.installation.parts();
  const followed = checkpoint.followed();
  const subscriptions = [...world.feed.store.subscriptions.values()];
  const pages = subscriptions.map(({ subscriptionId }) => {
    const isQuiet = (followed.get(subscriptionId)?.quietReadAt ?? null) !== null;
    return isQuiet ? pagesOf(subscriptionId, world) : 1;
  });
  const isShared = world.settings.manifest === 'subscription';
  const manifests = subscriptions.map(({ members }) => (isShared ? 1 : members.size));
  refuseMore('polls', requests.filter(isPoll), (polls + audits) * total(pages));
  refuseMore(
    'other requests',
    requests.filter((request) => !isPoll(request)),
    audits * (2 + total(manifests)),
  );
}

function refuseMore(what: string, { length }: readonly JournalEntry[], most: number): void {
  if (length > most)
    throw new BrokenRule('calls', `${length} ${what} in idleness, and the bound is ${most}.`);
}

function isPoll({ operation }: JournalEntry): boolean {
  return operation === 'events';
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function subjectOf({ operation, datasetId, subscriptionId, query }: JournalEntry): string {
  const version = query['version'];
  const subject = datasetId ?? subscriptionId ?? 'the service';
  return `${operation} of ${subject}${version === undefined ? '' : ` v${version}`}`;
}

function mostOf(
  { operation, datasetId, subscriptionId }: JournalEntry,
  requests: readonly JournalEntry[],
  efforts: ReadonlyMap<string, DatasetEffort>,
  world: World,
): number {
  const { commits, gaveWay } = efforts.get(datasetId ?? '') ?? { commits: 0, gaveWay: 0 };
  const files = requests.filter((request) => request.operation === 'file');
  switch (operation) {
    case 'events':
      return ATTEMPTS * (pagesOf(subscriptionId ?? '', world) + EXPIRED_POSITIONS);
    case 'manifest': {
      if (datasetId === null) return ATTEMPTS * (MANIFESTS + files.length);
      const links = files.filter((file) => file.datasetId === datasetId).length;
      const holders = world.feed.store.subscriptions.size;
      return ATTEMPTS * (ENTRIES_FOR_EACH_SUBSCRIPTION * holders + links);
    }
    case 'versions':
    case 'schemas':
      return ATTEMPTS * HISTORIES;
    case 'changes':
      return ATTEMPTS * (1 + gaveWay);
    case 'file':
      return ATTEMPTS_AT_A_FILE * (1 + commits + OVERTAKEN);
    default:
      return ATTEMPTS;
  }
}

/** The last of them may be empty, and what comes twice is in no page more. */
function pagesOf(subscriptionId: string, { feed, logs, settings }: World): number {
  if (!feed.store.subscriptions.has(subscriptionId)) return 1;
  return Math.ceil(logs.kept(subscriptionId).length / settings.eventsPerPage) + 1;
}
