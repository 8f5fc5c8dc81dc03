/** What most tests of the program end with. */

import { expect } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { mirrorDifferences } from './mirror-comparison.ts';
import type { Ended, Program } from './program.ts';
import { everythingPublished } from './published.ts';

/** Expects the mirror to equal the published content of the feed, or a chosen part of it. */
export async function expectMirrored(
  { mirrorPath }: Program,
  feed: FixtureFeed,
  ...choice: readonly [Parameters<typeof everythingPublished>[1]?]
): Promise<void> {
  expect(await mirrorDifferences(mirrorPath, everythingPublished(feed, choice[0]))).toEqual([]);
}

/** Runs `once` and expects it to end with this exit code; what it printed is in the failure. */
export async function once(installed: Program, exitCode = 0): Promise<Ended> {
  const ended = await installed.run('once');
  expect(ended).toMatchObject({ exitCode });
  return ended;
}

/** The datasets whose files were asked for since the log of requests was cleared, one entry for each request. */
export function downloadsOf(feed: FixtureFeed): readonly (string | null)[] {
  return feed.requests.entries('file').map(({ datasetId }) => datasetId);
}

/** The operations requested since the log of requests was cleared, in order, without repetitions. */
export function operationsOf(feed: FixtureFeed): readonly string[] {
  return [...new Set(feed.requests.entries().map(({ operation }) => operation))];
}
