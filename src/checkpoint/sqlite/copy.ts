/**
 * A copy of the checkpoint in memory, for trying out what would be stored. Its invariant: whatever is done with it, the
 * file stays as it is.
 */

import { statSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { Checkpoint } from '../checkpoint.ts';
import { connectForReading, connection } from './connection.ts';
import { identityOf, migrate } from './migrations.ts';
import {
  type CheckpointOptions,
  closingOnError,
  isDamage,
  placeOf,
  refuseDamage,
  refuseForeignAndNewer,
} from './open.ts';
import { allOperations, tablesOf } from './operations.ts';
import { type Place, withTrouble } from './trouble.ts';

/** Where a file says how it is written and read: in both places 1 is without a write-ahead log. */
const WRITE_VERSION_AT = 18;
const READ_VERSION_AT = 19;
const WITHOUT_LOG = 1;

/**
 * What is stored now, brought to the current format; empty where there is no checkpoint, or a damaged one, which the
 * next start builds anew as well.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does.
 */
export function openCheckpointCopy(options: CheckpointOptions): Checkpoint {
  const place = placeOf(options);
  return withTrouble(place, () => {
    try {
      return copyOf(imageOf(place), place, options);
    } catch (error) {
      if (!isDamage(error)) throw error;
      options.log.warn(
        { path: place.path },
        'The checkpoint is damaged: it will be set aside and built anew.',
      );
      return copyOf(null, place, options);
    }
  });
}

/** The bytes of the file with what its write-ahead log holds; null where there is nothing yet. */
function imageOf({ path }: Place): Buffer | null {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return null;
  const database = connectForReading(path);
  try {
    refuseForeignAndNewer(identityOf(database), path);
    const image = database.serialize();
    if (image.length === 0) return null;
    // What is in memory cannot have a log, so a copy that says it has one could not be opened.
    image[WRITE_VERSION_AT] = WITHOUT_LOG;
    image[READ_VERSION_AT] = WITHOUT_LOG;
    return image;
  } finally {
    database.close();
  }
}

function copyOf(image: Buffer | null, place: Place, { clock }: CheckpointOptions): Checkpoint {
  return closingOnError(new Database(image ?? ':memory:'), (database) => {
    database.pragma('foreign_keys = ON');
    refuseDamage(database);
    migrate(database);
    const copy = connection(database, place);
    return allOperations(copy, tablesOf(copy), clock);
  });
}
