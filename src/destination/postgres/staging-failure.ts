/** The failure of DuckDB while it renders the rows of a dataset for the server: its memory, its disk, or DuckDB itself. */

import { type FeedSyncError, InterruptedError, StorageError } from '../../model/errors.ts';
import { type DuckDbError, firstLine, fullDisk, MORE_MEMORY } from '../../staging/engine/errors.ts';

const FREE_SPACE = 'Free space on it: DuckDB spills there what exceeds duckdb.memoryLimit.';

/** `directory` is the data directory. */
export async function stagingFailure(
  error: DuckDbError,
  datasetId: string,
  directory: string,
): Promise<FeedSyncError> {
  const what = `The rows of ${datasetId} could not be written into PostgreSQL`;
  const said = firstLine(error).replace(/[.!]$/, '');
  switch (error.fault) {
    case 'interrupted':
      return new InterruptedError(`The work on the rows of ${datasetId} was interrupted.`, { cause: error });
    case 'disk-full': {
      const { fact, hint } = await fullDisk(directory, directory, FREE_SPACE);
      return new StorageError(`${what}. ${fact}: ${said}.`, { code: 'disk_full', hint, cause: error });
    }
    case 'no-space':
      return new StorageError(`${what}: no more than disk.reserve is left in ${said}.`, {
        code: 'disk_full',
        hint: FREE_SPACE,
        cause: error,
      });
    default:
      return new StorageError(`${what}: ${said}.`, {
        code: 'dataset_storage_failed',
        ...(error.fault === 'out-of-memory' ? { hint: MORE_MEMORY } : {}),
        cause: error,
      });
  }
}
