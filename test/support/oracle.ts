/**
 * The oracle of every fault: whatever happened, the mirror is the feed's own model at versions that were published, none of
 * them older than what was committed before; and after the next calm catch-up at the newest.
 */

import { join } from 'node:path';
import { expect } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { inMirror } from './duckdb-mirror.ts';
import { mirrorDifferences } from './mirror-comparison.ts';
import { everythingPublished } from './published.ts';
import type { ServedWorld } from './served-world.ts';

/** By dataset, the version in the mirror's catalog. */
export type Versions = Readonly<Record<string, number>>;

export interface MirroredWorld {
  readonly feed: FixtureFeed;
  /** Where `mirror.duckdb` lies. */
  readonly folder: string;
}

/** The newest version of every dataset of the feed. */
export function newestVersions({ feed }: Pick<MirroredWorld, 'feed'>): Versions {
  const datasets = [...feed.store.datasets.values()];
  return Object.fromEntries(
    datasets.map(({ datasetId, versions }) => [datasetId, versions.at(-1)?.version ?? 0]),
  );
}

/** Expects every table to be its dataset at a version that was published, and none older than in `since`. */
export async function expectPublished({ feed, folder }: MirroredWorld, since: Versions): Promise<Versions> {
  const reported = await inMirror(folder, 'SELECT dataset_id, version::INTEGER FROM feed_sync.datasets');
  const versions = Object.fromEntries(reported.map(([id, version]) => [String(id), Number(version)]));
  for (const [datasetId, version] of Object.entries(since)) {
    expect(versions[datasetId], datasetId).toBeGreaterThanOrEqual(version);
  }
  const at = Object.fromEntries(
    Object.entries(versions).flatMap(([datasetId, version]) => {
      const published = feed.store.dataset(datasetId).versions.find((one) => one.version === version);
      return published === undefined ? [] : [[datasetId, published]];
    }),
  );
  const expected = everythingPublished(feed, { at, only: (datasetId) => datasetId in versions });
  expect(await mirrorDifferences(join(folder, 'mirror.duckdb'), expected)).toEqual([]);
  return versions;
}

/** Expects the mirror to be all that is published now. */
export async function expectNewest({ feed, folder }: MirroredWorld): Promise<void> {
  expect(await mirrorDifferences(join(folder, 'mirror.duckdb'), everythingPublished(feed))).toEqual([]);
}

/** Nothing goes wrong any more, and one catch-up later everything is mirrored. */
export async function expectCalm(world: ServedWorld & MirroredWorld): Promise<void> {
  world.feed.faults.clear();
  world.feed.manifest.thaw();
  expect(await world.catchUp()).toMatchObject({ incidents: [], suspensions: [] });
  await expectNewest(world);
}
