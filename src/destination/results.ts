/** The results of jobs, from what a destination knows after their transaction. Pure. */

import { assert } from '../lib/assert.ts';
import type { CommitResult } from '../model/commits.ts';
import type { ObservedTable, WriteJob } from '../model/write-jobs.ts';
import type { JobResult } from './destination.ts';

export function committed(
  job: WriteJob,
  fromVersion: number | null,
  net: CommitResult['net'],
  observed: ObservedTable,
  lostPast: string | null = null,
): JobResult {
  assert(job.kind !== 'retirement', 'a retired table is not live');
  const { datasetId, kind, fetched } = job;
  const { tableName, version: toVersion, rowCount } = observed;
  const versions = job.kind === 'changes' ? job.versions.length : 1;
  const { bytes } = fetched;
  const durationMs = fetched.elapsedMs();
  return {
    kind: 'committed',
    datasetId,
    committed: {
      kind,
      tableName,
      fromVersion,
      toVersion,
      rowCount,
      net,
      versions,
      bytes,
      ...(lostPast === null ? {} : { lostPast }),
      durationMs,
      observed,
    },
  };
}

/** Returns the version that a commit of the job has. */
export function versionAfter(job: WriteJob): number {
  return job.kind === 'retirement' ? job.plannedFrom.version : job.version;
}
