/** Rules that hold at every moment of every history, whatever happens in it. */

import { existsSync } from 'node:fs';
import type { JournalEntry } from '../../fixtures/feed/request-journal.ts';
import type { Hold } from '../../src/checkpoint/checkpoint.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import { openExactly } from '../support/exact-mirror.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { readLines } from '../support/mirror-history.ts';
import { everythingPublished, type PublishedDataset } from '../support/published.ts';
import { digestOfContent, type Seen, seenIn } from '../support/table-digest.ts';
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
  const { feed, installation, published } = world;
  const { mirrorPath } = installation.program;
  const present = await presentIn(mirrorPath);
  if (present === null) return [];
  const datasets = Object.entries(present.seen).flatMap(([datasetId, seen]): readonly PublishedDataset[] => {
    const known = (published.get(datasetId) ?? []).filter(({ version }) => version === seen.version);
    // A number may stand for several contents.
    const version = known.find(({ content }) => digestOfContent(content) === seen.digest) ?? known.at(-1);
    return version === undefined ? [] : [{ datasetId, version }];
  });
  const { subscriptionIds } = present;
  return await mirrorDifferences(mirrorPath, { ...everythingPublished(feed), subscriptionIds, datasets });
}

interface Present {
  readonly seen: Readonly<Record<string, Seen>>;
  readonly subscriptionIds: readonly string[];
}

/** Null where there is no mirror yet, or nothing in it. */
async function presentIn(mirrorPath: string): Promise<Present | null> {
  if (!existsSync(mirrorPath)) return null;
  const mirror = await openExactly(mirrorPath);
  try {
    const [schema] = await mirror.rows(
      "SELECT schema_name FROM duckdb_schemas() WHERE schema_name = 'feed_sync'",
    );
    if (schema === undefined) return null;
    const ids = await mirror.rows(`SELECT value FROM feed_sync.meta WHERE "key" = 'subscription_id'`);
    return { seen: await seenIn(mirror), subscriptionIds: ids.map(([id]) => id ?? '') };
  } finally {
    mirror.close();
  }
}

/** Lines of the mirror's history that lead to a lower version, though its dataset's versions never began again. */
export async function stepsBack(world: World): Promise<readonly string[]> {
  const mirror = await openExactly(world.installation.program.mirrorPath);
  try {
    const lines = await readLines(mirror);
    return [...lines].flatMap(([datasetId, own]) =>
      own.flatMap(({ from, to, kind }) => {
        const isBack = from !== null && Number(to) < Number(from);
        if (!isBack) return [];
        world.tally.add('seen: a lower version');
        const isReload = kind === 'snapshot' && world.wentBack.has(datasetId);
        return isReload ? [] : [`${datasetId} went back from v${from} to v${to} by ${kind}`];
      }),
    );
  } finally {
    mirror.close();
  }
}
