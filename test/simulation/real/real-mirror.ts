/** What a reader finds in a real mirror. */

import { existsSync } from 'node:fs';
import { type ExactMirror, openExactly } from '../../support/exact-mirror.ts';
import { readLines } from '../../support/mirror-commits.ts';
import { differencesIn } from '../../support/mirror-comparison.ts';
import { type PastSource, type PastStates, pastOf } from '../../support/past-states.ts';
import { seenIn } from '../../support/table-digest.ts';
import type { MirrorView } from '../stage.ts';

/** Null where there is no mirror. */
export async function readRealMirror<T>(
  mirrorPath: string,
  past: PastStates,
  read: (mirror: MirrorView) => Promise<T>,
): Promise<T | null> {
  if (!existsSync(mirrorPath)) return null;
  const mirror = await openExactly(mirrorPath);
  try {
    const [isMade] = await mirror.rows(
      "SELECT 1::VARCHAR FROM duckdb_schemas() WHERE schema_name = 'feed_sync'",
    );
    if (isMade === undefined) return null;
    return await read(await viewOf({ mirror, source: pastOf(mirror), past, areHashed: true }));
  } finally {
    mirror.close();
  }
}

interface Viewed {
  readonly mirror: ExactMirror;
  readonly source: PastSource;
  readonly past: PastStates;
  /** See `catalogDifferences`. */
  readonly areHashed: boolean;
}

export async function viewOf({ mirror, source, past, areHashed }: Viewed): Promise<MirrorView> {
  const ids = await mirror.rows(`SELECT value FROM feed_sync.meta WHERE "key" = 'subscription_id'`);
  const pinned = await mirror.rows(
    'SELECT dataset_id, commit_number::VARCHAR FROM feed_sync.datasets WHERE pinned_since IS NOT NULL',
  );
  const dropped = await mirror.rows(`SELECT dataset_id FROM feed_sync.datasets WHERE table_name NOT IN
    (SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main') ORDER BY dataset_id`);
  const missing = dropped.map(([id]) => id ?? '');
  return {
    subscriptionIds: ids.map(([id]) => id ?? ''),
    seen: await seenIn(mirror, missing),
    missing,
    lines: await readLines(mirror),
    pinned: new Map(pinned.map(([id, commit]) => [id ?? '', Number(commit)])),
    wrongStates: (altered) => past.compare(source, new Set([...altered, ...missing])),
    differencesFrom: (expected) => differencesIn(mirror, expected, areHashed),
  };
}
