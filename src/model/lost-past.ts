/** Why earlier states of a table are not known any more, although its past is kept, and what an operator can do about it. Pure. */

/** The reasons why an undo log is closed: clauses, as the catalog and its functions repeat them to readers. */
export const SWITCHED_OFF = 'history was switched off';
/** Entries of rows that were altered by hand would pass for rows that a commit left. */
export const ALTERED = 'rows of the table were altered outside feed-sync before';
export const REPAIRED = 'a repair of rows that were altered outside feed-sync changed others, too';
export const BY_HAND = 'the log was dropped or altered by hand';
export const TABLE_MISSING = 'the table was missing';
export const TOO_LITTLE_MEMORY =
  'comparing the rows of the table needed more memory than duckdb.memoryLimit allows';

const BY_OTHERS: ReadonlySet<string> = new Set([ALTERED, REPAIRED, BY_HAND, TABLE_MISSING]);

/** Follows the number of the commit before which nothing is known, and the reason. */
const STAYS = 'Later states are known.';

/** Returns the remedy, in sentences. Any other reason is a table that could not be read, or whose columns were altered. */
export function remedyOfLostPast(reason: string): string {
  if (reason === TOO_LITTLE_MEMORY) {
    return `Raise duckdb.memoryLimit (FEED_SYNC_DUCKDB_MEMORY_LIMIT), or the next such reload loses the past again. ${STAYS}`;
  }
  if (reason === SWITCHED_OFF) {
    return 'Where its past is to be kept, name the dataset in history.datasets (FEED_SYNC_HISTORY_DATASETS).';
  }
  if (BY_OTHERS.has(reason)) return `Let no other program write to the mirror. ${STAYS}`;
  return `Check the disk, and that no other program writes to the mirror: feed-sync verify. ${STAYS}`;
}

/** The closing of an undo log, as the catalog records it. */
export interface Closing {
  /** Null where the log was never closed. */
  readonly commitNumber: number | null;
  readonly reason: string | null;
}

/**
 * Returns why a commit has lost the past before it; null where it has not, or where history was off before. A commit closes the log again
 * and again while history is switched off: only the first one loses something.
 */
export function lostBy(before: Closing | null, after: Closing | null): string | null {
  if (before === null || after === null || after.commitNumber === null) return null;
  if (after.commitNumber === before.commitNumber) return null;
  return after.reason === SWITCHED_OFF && before.reason === SWITCHED_OFF ? null : after.reason;
}
