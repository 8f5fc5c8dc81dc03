/**
 * A copy of the checkpoint in memory, for trying out what would be stored. Its invariant: whatever is done with it, the
 * file stays as it is.
 */

import Database from 'better-sqlite3';
import type { Checkpoint } from '../checkpoint.ts';
import { connection } from './connection.ts';
import { imageOf } from './image.ts';
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

/**
 * What is stored now, brought to the current format; empty where there is no checkpoint, or a damaged one, which the
 * next start builds anew as well.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does.
 */
export function openCheckpointCopy(options: CheckpointOptions): Checkpoint {
  const place = placeOf(options);
  return withTrouble(place, () => {
    try {
      return copyOf(imageOf(place.path), place, options);
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

function copyOf(image: Buffer | null, place: Place, { clock }: CheckpointOptions): Checkpoint {
  return closingOnError(new Database(image ?? ':memory:'), (database) => {
    refuseForeignAndNewer(identityOf(database), place.path);
    database.pragma('foreign_keys = ON');
    refuseDamage(database);
    migrate(database);
    const copy = connection(database, place);
    return allOperations(copy, tablesOf(copy), clock);
  });
}
