/** Rules that hold at every moment of every history, whatever happens in it. */

import { existsSync } from 'node:fs';
import type { JournalEntry } from '../../fixtures/feed/request-journal.ts';
import type { Hold } from '../../src/checkpoint/checkpoint.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import { type ExactMirror, openExactly } from '../support/exact-mirror.ts';
import { differencesIn } from '../support/mirror-comparison.ts';
import { readLines } from '../support/mirror-history.ts';
import { everythingPublished, type PublishedDataset } from '../support/published.ts';
import { digestOfContent, seenIn } from '../support/table-digest.ts';
import type { World } from './world.ts';

/** @throws Error where something was asked about what was held before the catch-up and still is. */
export function refuseCallsAboutHeld(
  before: readonly Hold[],
  after: readonly Hold[],
  requests: readonly JournalEntry[],
): void {
  const standing = before.filter(({ refusal, heldAt }) =>
    after.some(
      (hold) =>
        JSON.stringify(hold.refusal.scope) === JSON.stringify(refusal.scope) &&
        hold.heldAt.getTime() === heldAt.getTime(),
    ),
  );
  for (const { refusal } of standing) {
    const about = requests.find((request) => isAbout(refusal.scope, request));
    if (about !== undefined)
      throw new Error(
        `${JSON.stringify(refusal.scope)} is held, and yet ${about.method} ${about.path} was asked.`,
      );
  }
}

function isAbout(scope: RefusalScope, { datasetId, subscriptionId }: JournalEntry): boolean {
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

/**
 * What differs between the mirror and what was published at the versions that the mirror says it has. At any time every
 * dataset is at exactly one of the versions that were ever published, and its books agree with it.
 */
export async function differencesFromSomeVersions(world: World): Promise<readonly string[]> {
  const { feed, published } = world;
  if (!existsSync(world.installation.program.mirrorPath)) return [];
  return await inMirror(world, async (mirror) => {
    const [isMade] = await mirror.rows(
      "SELECT 1::VARCHAR FROM duckdb_schemas() WHERE schema_name = 'feed_sync'",
    );
    if (isMade === undefined) return [];
    const ids = await mirror.rows(`SELECT value FROM feed_sync.meta WHERE "key" = 'subscription_id'`);
    const seen = Object.entries(await seenIn(mirror));
    const datasets = seen.flatMap(([datasetId, { version: number, digest }]): readonly PublishedDataset[] => {
      const known = (published.get(datasetId) ?? []).filter(({ version }) => version === number);
      // A number may stand for several contents.
      const version = known.find(({ content }) => digestOfContent(content) === digest) ?? known.at(-1);
      return version === undefined ? [] : [{ datasetId, version }];
    });
    const subscriptionIds = ids.map(([id]) => id ?? '');
    return await differencesIn(mirror, { ...everythingPublished(feed), subscriptionIds, datasets });
  });
}

/** What differs between the mirror and the newest of everything, and what in its history must not be. */
export async function differencesFromTheNewest(world: World): Promise<readonly string[]> {
  return await inMirror(world, async (mirror) => [
    ...(await differencesIn(mirror, everythingPublished(world.feed))),
    ...(await stepsBack(mirror, world)),
  ]);
}

/**
 * Lines of the mirror's history that lead to a lower version, but for reloads of a dataset whose versions began again.
 */
async function stepsBack(mirror: ExactMirror, world: World): Promise<readonly string[]> {
  const lines = await readLines(mirror);
  return [...lines].flatMap(([datasetId, own]) =>
    own.flatMap(({ from, to, kind }) => {
      if (from === null || Number(to) >= Number(from)) return [];
      world.tally.add('seen: a lower version');
      if (kind === 'snapshot' && world.wentBack.has(datasetId)) return [];
      return [`${datasetId} went back from v${from} to v${to} by ${kind}`];
    }),
  );
}

async function inMirror<T>({ installation }: World, look: (mirror: ExactMirror) => Promise<T>): Promise<T> {
  const mirror = await openExactly(installation.program.mirrorPath);
  try {
    return await look(mirror);
  } finally {
    mirror.close();
  }
}
