/** The content of the service that a table is compared with, and its repair, in any destination. */

import type { DatasetVersion } from '../../fixtures/feed/model.ts';
import type { RepairJob, VersionContent } from '../../src/model/write-jobs.ts';
import type { PublishedCourse } from './duckdb-changes.ts';
import type { DestinationAtWork } from './mirror-at-work.ts';

/** Alters each of three people otherwise: one row is changed, one removed, one added. */
export const ALTERED = [
  "UPDATE parcels SET name = 'TWO' WHERE id = 2",
  'DELETE FROM parcels WHERE id = 3',
  "INSERT INTO parcels VALUES (4, 'four')",
];

/** The snapshot of `from`, and the changes after it. */
export async function contentFrom(
  from: DatasetVersion,
  course: PublishedCourse,
  world: DestinationAtWork,
): Promise<VersionContent> {
  const { datasetId } = course;
  const { version, rowCount } = course.newest();
  const snapshot = await course.snapshot(from, null);
  const table = { ...(await world.observed(datasetId)), version: from.version };
  const changes = from.version === version ? null : await course.changes(table);
  return { datasetId, version, snapshot, changes, rowCount };
}

/** The repair of the table as it is now. */
export async function repairJob(world: DestinationAtWork, content: VersionContent): Promise<RepairJob> {
  const plannedFrom = await world.observed(content.datasetId);
  const { datasetId, version } = plannedFrom;
  const { fetched } = content.snapshot;
  return { kind: 'repair', datasetId, version, content, fetched, plannedFrom };
}
