/** The error of a comparison that found too little space: a comparison writes into a folder of its own, and not into the tables. */

import { type FeedSyncError, StorageError } from '../model/errors.ts';
import type { ObservedTable } from '../model/write-jobs.ts';
import { type DuckDbError, fullDisk, mirrorFailure } from '../staging/engine/errors.ts';

interface Paths {
  /** The file of the mirror, or what stands for it. */
  readonly path: string;
  /** Where the comparison writes. */
  readonly directory: string;
}

const HINT =
  'Free space on it: the content of one table at a time is downloaded there, and about 50 bytes and the key of each row are kept.';

/** Describes the failure of a comparison, for every fault that is not of the rows. */
export async function comparisonFailure(
  error: DuckDbError,
  { tableName }: Pick<ObservedTable, 'tableName'>,
  { path, directory }: Paths,
): Promise<FeedSyncError> {
  const what = `The rows of the table ${tableName} could not be compared`;
  const said = error.message.replace(/[.!]$/, '');
  const about = { code: 'disk_full', hint: HINT, cause: error } as const;
  if (error.fault === 'disk-full') {
    const { fact, hint } = await fullDisk(directory, directory, HINT);
    return new StorageError(`${what}. ${fact}: ${said}.`, { ...about, hint });
  }
  if (error.fault === 'no-space') {
    return new StorageError(`${what}: no more than disk.reserve is left in ${said}.`, about);
  }
  return await mirrorFailure(error, { path });
}
