/** Rules that hold at any time in every history, whatever happens in it. A failure begins with the number of its rule. */

import type { RequestRecord } from '../../fixtures/feed/request-log.ts';
import type { Suspension } from '../../src/checkpoint/checkpoint.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import { type Expectation, everythingPublished, type PublishedDataset } from '../support/published.ts';
import type { MirrorView, TableChange } from './stage.ts';
import type { World } from './world.ts';

/** What no history may break. */
export const RULES = {
  calm: 'after a calm run the mirror equals the feed',
  back: 'no version goes back but by a reload',
  absent: 'no dataset is absent to a reader once it was live',
  calls: 'calls stay within the bound',
  observed: 'no call is made about whatever is suspended',
  published: 'each dataset is at one published version',
  idle: 'a catch-up after calm does nothing',
  pinned: 'a table that a rollback keeps stays where it is',
  dropped: 'a table that somebody dropped is not taken for current',
  past: 'every state that a log claims to know is the one that there was',
  verify: 'what is called equal is equal',
  bug: 'all that goes wrong has a class that says what to do about it',
} as const;

export class BrokenRule extends Error {
  readonly rule: keyof typeof RULES;

  constructor(rule: keyof typeof RULES, what: string) {
    super(`Broken: ${RULES[rule]}.\n${what}`);
    this.rule = rule;
  }
}

/** @throws BrokenRule if something was requested about a suspended part that was suspended before the catch-up, too. */
export function refuseCallsAboutSuspended(
  before: readonly Suspension[],
  after: readonly Suspension[],
  requests: readonly RequestRecord[],
): void {
  const standing = before.filter(({ refusal, suspendedAt }) =>
    after.some(
      (suspension) =>
        JSON.stringify(suspension.refusal.scope) === JSON.stringify(refusal.scope) &&
        suspension.suspendedAt.getTime() === suspendedAt.getTime(),
    ),
  );
  for (const { refusal } of standing) {
    const about = requests.find((request) => isAbout(refusal.scope, request));
    if (about !== undefined)
      throw new BrokenRule(
        'observed',
        `${JSON.stringify(refusal.scope)} is suspended, and yet ${about.method} ${about.path} was asked.`,
      );
  }
}

function isAbout(scope: RefusalScope, { datasetId, subscriptionId }: RequestRecord): boolean {
  switch (scope.kind) {
    case 'workspace':
      return true;
    case 'subscription':
      return subscriptionId === scope.subscriptionId;
    case 'dataset':
      return datasetId === scope.datasetId;
    case 'retirement':
      return false;
  }
}

/** Called for every commit, which is checked as readers see it. Violations are kept until they can be thrown. */
export function watchCommits(world: World): void {
  world.stage.watchCommits((change) => {
    for (const broken of brokenBy(change, world)) world.broken.push(broken);
  });
}

function* brokenBy(change: TableChange, world: World): Generator<BrokenRule> {
  const { datasetId, before, after, kind, wasPinned } = change;
  if (wasPinned && after !== null && kind !== 'rollback' && after.digest !== before?.digest)
    yield new BrokenRule('pinned', `${datasetId} is pinned, and gets other rows by ${kind}.`);
  if (before !== null && after === null && !world.mayLeave.has(datasetId))
    yield new BrokenRule('absent', `${datasetId} is gone, though a subscription has it.`);
  if (after === null) return;
  const mayGoBack = kind === 'rollback' || (kind === 'snapshot' && isLedBack(datasetId, world));
  if (before !== null && after.version < before.version && !mayGoBack)
    yield new BrokenRule(
      'back',
      `${datasetId} went from v${before.version} to v${after.version}, by ${kind}.`,
    );
  // Changes keep what they do not touch, and a rollback what changes left on top of altered rows.
  if (world.suspects.has(datasetId) && (kind === 'changes' || kind === 'rollback')) return;
  const contents = (world.published.get(datasetId) ?? []).filter(({ version }) => version === after.version);
  if (!contents.some((version) => world.stage.digestOf(version) === after.digest))
    yield new BrokenRule('published', `${datasetId} has v${after.version} with rows that it never had.`);
}

/** By versions that began again, or by a manifest that is all that is known. */
function isLedBack(datasetId: string, { wentBack, mayGoBack }: World): boolean {
  return wentBack.has(datasetId) || mayGoBack.has(datasetId);
}

/** @throws BrokenRule that was broken meanwhile. */
export function refuseBroken({ broken }: World): void {
  const [first] = broken;
  if (first !== undefined) throw first;
}

/**
 * What differs between the mirror and what was published at the versions that the mirror says it has. At any time every
 * dataset is at exactly one of the versions that were ever published, and its catalog agrees with it.
 */
export async function differencesFromSomeVersions(world: World): Promise<readonly string[]> {
  const { published, stage } = world;
  const differences = await world.installation.readMirror(
    async ({ subscriptionIds, seen, differencesFrom }) => {
      // A number may stand for several contents, and one content may have been published twice under a number.
      const candidates = Object.entries(seen).map(([datasetId, { version: number, digest }]) => {
        const known = (published.get(datasetId) ?? []).filter(({ version }) => version === number);
        const same = known.filter((each) => stage.digestOf(each) === digest);
        return { datasetId, versions: same.length === 0 ? known : same };
      });
      const differencesAt = (index: number): Promise<readonly string[]> => {
        const datasets = candidates.flatMap(({ datasetId, versions }): readonly PublishedDataset[] => {
          const version = versions[index] ?? versions.at(-1);
          return version === undefined ? [] : [{ datasetId, version }];
        });
        return differencesFrom({ ...expectedNow(world), subscriptionIds, datasets });
      };
      const most = Math.max(1, ...candidates.map(({ versions }) => versions.length));
      for (let index = 0; index < most; index += 1) {
        // A manifest that lags may list the older of two versions of one number: until its reload is answered, the table says when
        // the newer one was published.
        const found = (await differencesAt(index)).filter((line) => !line.startsWith('published at of '));
        if (found.length === 0 || index === most - 1) return found;
      }
      return [];
    },
  );
  return differences ?? [];
}

function expectedNow({ feed, formerSubscriptionIds }: World): Expectation {
  return { ...everythingPublished(feed), formerSubscriptionIds: [...formerSubscriptionIds] };
}

/** What the undo logs say wrongly of what there was. */
export async function refuseWrongPast(world: World): Promise<void> {
  const wrong = await world.installation.readMirror((mirror) => mirror.wrongStates(world.suspects));
  if (wrong !== null && wrong.length > 0) throw new BrokenRule('past', wrong.join('\n'));
}

/** @throws BrokenRule where a table that was pinned before is pinned still, and was written since. */
export function refuseMovedPins(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): void {
  const moved = [...before].filter(([datasetId, commit]) => (after.get(datasetId) ?? commit) !== commit);
  if (moved.length > 0) throw new BrokenRule('pinned', `${moved.join('; ')} moved.`);
}

/** What differs between the mirror and the newest of everything, and what in its history must not be. */
export async function differencesFromTheNewest(world: World): Promise<readonly string[]> {
  const expected = expectedNow(world);
  const differences = await world.installation.readMirror(async (mirror) => [
    ...(await mirror.differencesFrom(expected)),
    ...stepsBack(mirror, world),
  ]);
  return differences ?? (expected.datasets.length === 0 ? [] : ['There is no mirror.']);
}

/**
 * Lines of the mirror's history that lead to a lower version, but for reloads of a dataset whose versions began again.
 */
function stepsBack({ lines }: MirrorView, world: World): readonly string[] {
  return [...lines].flatMap(([datasetId, own]) =>
    own.flatMap(({ from, to, kind }) => {
      if (from === null || Number(to) >= Number(from)) return [];
      if (kind === 'rollback') return [];
      world.counters.add('seen: a lower version');
      if (kind === 'reload' && isLedBack(datasetId, world)) return [];
      return [`${datasetId} went back from v${from} to v${to} by ${kind}`];
    }),
  );
}
