/**
 * The content of a checkpoint as bytes, for working on a copy in memory. Its invariant: taking it leaves nothing behind.
 * SQLite itself, opening a file that has a write-ahead log, makes the log and its index beside it, also for reading; so
 * a file that nobody has open is read without it.
 */

import { readFileSync, statSync } from 'node:fs';
import { connectForReading } from './connection.ts';

/** Where a file says how it is written and read: in both places 1 is without a write-ahead log. */
const WRITE_VERSION_AT = 18;
const READ_VERSION_AT = 19;
const WITHOUT_LOG = 1;

/** The bytes of the file with what its write-ahead log holds; null where it is missing or empty. */
export function imageOf(path: string): Buffer | null {
  const before = statSync(path, { throwIfNoEntry: false });
  if (before === undefined || before.size === 0) return null;
  const alone = hasLog(path) ? null : readFileSync(path);
  // Whoever opened it meanwhile may have written between two parts of what was read.
  const isWhole = alone !== null && !hasLog(path) && statSync(path).mtimeMs === before.mtimeMs;
  return withoutLog(isWhole ? alone : imageBesideOthers(path));
}

function hasLog(path: string): boolean {
  return statSync(`${path}-wal`, { throwIfNoEntry: false }) !== undefined;
}

function imageBesideOthers(path: string): Buffer {
  const database = connectForReading(path);
  try {
    return database.serialize();
  } finally {
    database.close();
  }
}

/** What is in memory cannot have a log, so a copy that says it has one could not be opened. */
function withoutLog(image: Buffer): Buffer | null {
  if (image.length === 0) return null;
  if (image.length > READ_VERSION_AT) {
    image[WRITE_VERSION_AT] = WITHOUT_LOG;
    image[READ_VERSION_AT] = WITHOUT_LOG;
  }
  return image;
}
