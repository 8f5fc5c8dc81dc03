/**
 * How much may be asked of the service. The bound of a catch-up follows from what ends its loops (src/sync/README.md):
 *
 * - up to three rounds, where one saw that a dataset was dropped; in each of them:
 * - the subscriptions, the description of the service; and the subscriptions once more after each manifest;
 * - of a subscription: its log, page by page, from its start at the worst, once more for the time of its newest event, and once
 *   more for a reload that is asked for; three requests that a position has expired, and one for the event at the position; its
 *   manifest once if the position is taken from it and once in the audit, both twice after a log restart;
 * - beside the rounds: manifests, and the subscriptions after them, again for links that have expired, and for each dataset
 *   of which a reload is asked for;
 * - of a dataset with a manifest of its own: that, twice for each subscription that may contain it, and again for links;
 * - of a dataset that is behind: versions and schemas once, once more where they do not reach back far enough, where
 *   columns are unknown, and after each stale plan; the changes of a version once, and once more for each
 *   version that fell back to the snapshot, and, where each version is a commit of its own and a gate judges it, twice more for
 *   each commit, because a version that would wait is judged alone and with all later ones; a file for each load, and each load with a stale plan.
 *
 * Each of them is attempted three times, a link four times, wrong content three times.
 */

import type { RequestRecord } from '../../fixtures/feed/request-log.ts';
import { BrokenRule } from './rules.ts';
import type { World } from './world.ts';

const ATTEMPTS = 3;
const EXPIRED_POSITIONS = 3;
const MANIFESTS = 4;
const ENTRIES_FOR_EACH_SUBSCRIPTION = 2;
const ROUNDS = 3;
/** Of one dataset in one catch-up: it is withdrawn, and a subscription that asked for a reload has left. */
const RELOADS_ASKED = 2;
const OVERTAKEN = 4;
const HISTORIES = 4 + RELOADS_ASKED + OVERTAKEN;
const ATTEMPTS_AT_A_FILE = ATTEMPTS + 4 + 3;

/** What a catch-up did with a dataset, as far as the bound depends on it. */
export interface DatasetEffort {
  readonly commits: number;
  /** Versions whose changes fell back to the snapshot. */
  readonly fellBack: number;
}

/** `efforts`: by dataset id. `times`: catch-ups, of which one after damage is another. @throws BrokenRule */
export function refuseTooManyCalls(
  requests: readonly RequestRecord[],
  efforts: ReadonlyMap<string, DatasetEffort>,
  world: World,
  times: number,
): void {
  // Ranges of a file are requested side by side; the attempt that they belong to is counted by its stream.
  const counted = requests.filter(({ range }) => range === null || range.endsWith('-'));
  for (const [about, those] of Map.groupBy(counted, subjectOf)) {
    const [first] = those;
    if (first === undefined) continue;
    const most = times * mostOf(first, counted, efforts, world);
    if (those.length > most)
      throw new BrokenRule('calls', `${about}: ${those.length} requests, and the bound is ${most}.`);
  }
}

/**
 * After calm, with so many polls and audits, of which each polls, too: a page of each log, or all of one that is read from
 * its start because it is quiet. Of an audit besides: the subscriptions, the description, and of each subscription its
 * manifest, or the manifests of its datasets. `probes`: requests in an audit for the events at the positions.
 * @throws BrokenRule
 */
export async function refuseCallsInIdleness(
  requests: readonly RequestRecord[],
  { polls, audits, probes }: { readonly polls: number; readonly audits: number; readonly probes: number },
  world: World,
): Promise<void> {
  const { checkpoint } = await world.installation.parts();
  const followed = checkpoint.followed();
  const subscriptions = [...world.feed.store.subscriptions.values()];
  const pages = subscriptions.map(({ subscriptionId }) => {
    const isExpiredCursorReplay = (followed.get(subscriptionId)?.replayedAt ?? null) !== null;
    return isExpiredCursorReplay ? pagesOf(subscriptionId, world) : 1;
  });
  const isShared = world.settings.manifest === 'subscription';
  const manifests = subscriptions.map(({ members }) => (isShared ? 1 : members.size));
  refuseMore('polls', requests.filter(isPoll), (polls + audits) * total(pages) + audits * probes);
  refuseMore(
    'other requests',
    requests.filter((request) => !isPoll(request)),
    audits * (2 + total(manifests) + (isShared ? manifests.length : 0)),
  );
}

/** The requests of one audit for the events at the positions; one that was never seen is searched from the start of the log, too. */
export async function probesOf(world: World): Promise<number> {
  const { checkpoint } = await world.installation.parts();
  const followed = checkpoint.followed();
  const isSeen = (id: string): boolean => (followed.get(id)?.cursorCreatedAt ?? null) !== null;
  return total([...world.feed.store.subscriptions.keys()].map((id) => (isSeen(id) ? 1 : 2)));
}

function refuseMore(what: string, { length }: readonly RequestRecord[], most: number): void {
  if (length > most)
    throw new BrokenRule('calls', `${length} ${what} in idleness, and the bound is ${most}.`);
}

function isPoll({ operation }: RequestRecord): boolean {
  return operation === 'events';
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function subjectOf({ operation, datasetId, subscriptionId, query }: RequestRecord): string {
  const version = query['version'];
  const subject = datasetId ?? subscriptionId ?? 'the service';
  return `${operation} of ${subject}${version === undefined ? '' : ` v${version}`}`;
}

function mostOf(
  { operation, datasetId, subscriptionId }: RequestRecord,
  requests: readonly RequestRecord[],
  efforts: ReadonlyMap<string, DatasetEffort>,
  world: World,
): number {
  const { commits, fellBack } = efforts.get(datasetId ?? '') ?? { commits: 0, fellBack: 0 };
  const files = requests.filter((request) => request.operation === 'file');
  const asked = RELOADS_ASKED * world.feed.store.datasets.size;
  const subscriptions = Math.max(1, world.feed.store.subscriptions.size);
  switch (operation) {
    case 'subscriptions':
      return ATTEMPTS * (ROUNDS * (1 + MANIFESTS * subscriptions) + asked + files.length);
    case 'events': {
      const pages = pagesOf(subscriptionId ?? '', world);
      return ATTEMPTS * (ROUNDS * (3 * pages + EXPIRED_POSITIONS + 2) + asked * pages);
    }
    case 'manifest': {
      if (datasetId === null) return ATTEMPTS * (ROUNDS * MANIFESTS + asked + files.length);
      const links = files.filter((file) => file.datasetId === datasetId).length;
      const holders = world.feed.store.subscriptions.size;
      return ATTEMPTS * (ROUNDS * ENTRIES_FOR_EACH_SUBSCRIPTION * holders + RELOADS_ASKED + links);
    }
    case 'versions':
    case 'schemas':
      return ATTEMPTS * HISTORIES;
    case 'changes':
      return ATTEMPTS * (1 + fellBack) + judgedAgain(commits, world);
    case 'file':
      return ATTEMPTS_AT_A_FILE * (1 + commits + OVERTAKEN);
    default:
      return ATTEMPTS;
  }
}

/** Judging is no attempt: what was fetched for a commit that would wait is fetched again for the next one. */
function judgedAgain(commits: number, { settings: { isGated, commitsEveryVersion } }: World): number {
  return isGated && commitsEveryVersion ? 2 * commits : 0;
}

/** The last of them may be empty, and what comes twice is in no page more. */
function pagesOf(subscriptionId: string, { feed, logs, settings }: World): number {
  if (!feed.store.subscriptions.has(subscriptionId)) return 1;
  return Math.ceil(logs.kept(subscriptionId).length / settings.eventsPerPage) + 1;
}
