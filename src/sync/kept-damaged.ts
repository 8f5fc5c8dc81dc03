/**
 * The warning about damaged tables of the past. The incident that closes such a table reports it once, with an exit code. The table
 * stays damaged, so every start warns again: nobody may have read the incident.
 */

import type { ObservedState } from '../destination/destination.ts';
import type { Log } from '../lib/log.ts';

/** Ends the warning about damaged tables of the past. */
export const ENDS_KEEPING =
  'Take their rows from a backup of the mirror where they are needed; drop them, in SQL, where they are not.';

export function warnOfDamagedPast({ keptDamaged = [] }: ObservedState, log: Log): void {
  if (keptDamaged.length === 0) return;
  log.warn(
    { tables: keptDamaged, hint: ENDS_KEEPING },
    'Damaged tables of the past are kept as they were found: the service does not have them.',
  );
}
