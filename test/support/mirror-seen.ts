/** A mirror as a report sees it. */

import type { ObservedTable } from '../../src/model/write-jobs.ts';
import type { MirrorContent } from '../../src/reporting/stores.ts';

/** A mirror with these tables, of which nothing else is known. */
export function mirrorOf(...tables: readonly ObservedTable[]): MirrorContent {
  return {
    datasets: new Map(tables.map((observed) => [observed.datasetId, observed])),
    service: null,
    progress: null,
    retired: [],
    bytes: null,
    freeBytes: 0,
    pastLogs: [],
    unions: [],
    leaseHolder: null,
  };
}
