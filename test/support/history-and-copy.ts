/** Installations with all that a mirror can have beside its live tables. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { CountyFeed } from './county-feed.ts';
import { once } from './expect-mirrored.ts';
import { type Program, program } from './program.ts';

/** An installation that keeps the history of every table and publishes a copy elsewhere, after its first load. */
export async function withHistoryAndCopy({
  feed,
}: Pick<CountyFeed, 'feed'>): Promise<{ readonly installed: Program; readonly copy: string }> {
  const copies = await program();
  mkdirSync(copies.dataDirectory);
  const copy = join(copies.dataDirectory, 'copy.duckdb');
  const environment = { FEED_SYNC_HISTORY_DATASETS: '*', FEED_SYNC_DESTINATION_PUBLISH: copy };
  const installed = await program({ feed, environment });
  await once(installed);
  return { installed, copy };
}
