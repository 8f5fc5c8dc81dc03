/**
 * What is wanted though no event asked for it: found by an audit, in the mirror, or in the list of versions. It is stored
 * while the position in the log stays where it is.
 */

import type { HeldDataset } from '../../destination/destination.ts';
import { present } from '../../lib/assert.ts';
import type { Want, WantChange } from '../../model/want.ts';
import type { Parts } from '../parts.ts';
import type { History } from '../plan/history.ts';
import { needOf } from '../plan/need.ts';

/** The position of the subscription stays as it is. */
export function wantUnasked(
  subscriptionId: string,
  changes: readonly WantChange[],
  { checkpoint }: Parts,
): void {
  if (changes.length === 0) return;
  const followed = present(checkpoint.followed().get(subscriptionId), 'a log that was read is followed');
  const {
    name: subscriptionName,
    logNumber,
    cursor,
    cursorCreatedAt,
    cursorAt,
    quietReadAt,
    coveredUntil,
  } = followed;
  checkpoint.commitFollowStep({
    subscriptionId,
    subscriptionName,
    position: {
      logNumber,
      cursor,
      cursorCreatedAt,
      isQuiet: quietReadAt !== null,
      coveredUntil,
      readAt: quietReadAt ?? cursorAt,
    },
    changes,
  });
}

/**
 * What the table lacks that only versions and schemas tell. They are read only where something is wanted: the next
 * catch-up would not know of it.
 */
export function onlyTold(
  by: History,
  { want, held }: { readonly want: Want; readonly held: HeldDataset | null },
): readonly WantChange[] {
  if (needOf(held, want) !== 'nothing') return [];
  const { datasetId } = want;
  const need = needOf(held, want, by);
  return need === 'schema' || need === 'version' ? [{ kind: 'look', datasetId }] : [];
}
