/**
 * The resyncs of operators that tables owe, stored with the mirror: a lost checkpoint, and the instance that takes over a database,
 * know them from there. They are stored as reloads that are owed to nobody's log.
 */

import type { CheckpointReader } from '../checkpoint/checkpoint.ts';
import type { ObservedState, OwedReload, StoredProgress } from '../destination/destination.ts';
import type { DesiredState, Resync } from '../model/desired-state.ts';
import type { Parts } from './parts.ts';
import { OPERATOR, owesResync } from './plan/need.ts';

/** Returns the resyncs that the tables owe, for the destination. The time is that of the request to move the table; null: there is none. */
export function owedResyncs(
  desiredStates: Iterable<DesiredState>,
  { datasets }: Pick<ObservedState, 'datasets'>,
): readonly OwedReload[] {
  return [...desiredStates].flatMap((desired) => {
    const { datasetId, resyncNumber, moveNumber } = desired;
    const table = datasets.get(datasetId);
    if (table === undefined || !owesResync(table, desired)) return [];
    const mark = table.reloads.get(OPERATOR)?.eventNumber ?? 0n;
    const createdAt = moveNumber > mark ? new Date(moveNumber) : null;
    return [
      { datasetId, subscriptionId: OPERATOR, logNumber: 1, eventNumber: BigInt(resyncNumber), createdAt },
    ];
  });
}

/** Returns the stored resyncs of datasets in a subscription that are newer than those of the checkpoint, and that the tables owe. */
export function unknownResyncs(
  { progress, datasets }: ObservedState,
  checkpoint: Pick<CheckpointReader, 'desired'>,
): readonly Resync[] {
  return (progress?.owed ?? [])
    .filter(({ datasetId, subscriptionId, eventNumber }) => {
      if (subscriptionId !== OPERATOR) return false;
      const desired = checkpoint.desired(datasetId);
      if (desired === null || desired.members.size === 0) return false;
      const satisfied = datasets.get(datasetId)?.reloads.get(OPERATOR)?.eventNumber ?? 0n;
      return eventNumber > desired.resyncNumber && eventNumber > satisfied;
    })
    .map(({ datasetId, eventNumber, createdAt }) => ({
      datasetId,
      resyncNumber: Number(eventNumber),
      moveNumber: createdAt?.getTime() ?? 0,
    }));
}

/** Returns the progress with these resyncs in place of earlier ones of their datasets. */
export function withResyncs(progress: StoredProgress | null, resyncs: readonly OwedReload[]): StoredProgress {
  const { subscriptions, members, owed } = progress ?? { subscriptions: [], members: [], owed: [] };
  const datasetIds = new Set(resyncs.map(({ datasetId }) => datasetId));
  const others = owed.filter(
    ({ datasetId, subscriptionId }) => subscriptionId !== OPERATOR || !datasetIds.has(datasetId),
  );
  return { subscriptions, members, owed: [...others, ...resyncs] };
}

/** Stores with the mirror what the tables owe to operators, where another instance may take it over. */
export async function shareResyncs(
  observed: ObservedState,
  { destination, checkpoint }: Pick<Parts, 'destination' | 'checkpoint'>,
): Promise<void> {
  if (destination.keepResyncs === undefined) return;
  const owed = owedResyncs(checkpoint.desiredStates().values(), observed);
  const unknown = owed.filter((resync) => !isStored(resync, observed.progress));
  if (unknown.length > 0) await destination.keepResyncs(unknown);
}

function isStored(resync: OwedReload, progress: StoredProgress | null): boolean {
  return (progress?.owed ?? []).some(
    ({ datasetId, subscriptionId, eventNumber, createdAt }) =>
      datasetId === resync.datasetId &&
      subscriptionId === OPERATOR &&
      eventNumber === resync.eventNumber &&
      createdAt?.getTime() === resync.createdAt?.getTime(),
  );
}
