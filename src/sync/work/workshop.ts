/** Where planned work is done: in earnest here, only foreseen in foresee.ts. Nothing else in a catch-up tells them apart. */

import pLimit from 'p-limit';
import type { StoredProgress } from '../../destination/stored-progress.ts';
import type { Parts } from '../parts.ts';
import { isSatisfied } from '../plan/need.ts';
import type { Known } from '../plan/state.ts';
import { carryOut, descriptionOf, extentOf, type Ground, isLarge, type Work } from './carry-out.ts';
import { VERSIONS_AT_ONCE } from './fetch-changes.ts';
import { openStaging } from './staging.ts';
import type { WorkOutcome } from './work.ts';
import { startWriter } from './writer.ts';

/** Steps for which much is staged, at once: it fills the disk until they are committed, one after another. */
const LARGE_AT_ONCE = 32;

export interface Workshop {
  /**
   * Before any work on them: the destination learns of the datasets, and what was staged for others goes, but for those
   * that are worked on.
   */
  open(known: readonly Known[], underWay?: Iterable<string>): Promise<void>;
  carryOut(work: Work, ground: Ground): Promise<WorkOutcome>;
  /** What was staged for the dataset is of no use any more. */
  discard(datasetId: string): Promise<void>;
  /** Resolves once nothing is committed any more: how work ended is known before the destination is let go. */
  ended(): Promise<void>;
  /** Stores how far the service was followed, where the destination is free. */
  storeProgress(progress: StoredProgress): Promise<void>;
}

/** `onTrouble` is told of trouble that struck when all work had ended already. */
export type MakeWorkshop = (
  parts: Parts,
  signal: AbortSignal,
  onTrouble: (error: unknown) => void,
) => Workshop;

export const inEarnest: MakeWorkshop = (parts, signal, onTrouble) => {
  const staging = openStaging(parts.choices.stagingDirectory);
  const writer = startWriter({ ...parts, onTrouble });
  const large = pLimit(LARGE_AT_ONCE);
  const withLargeFiles = new Set<string>();
  const isLargeUnderWay = () => large.activeCount + large.pendingCount > 0;
  const tools = { parts, staging, writer, fetching: pLimit(VERSIONS_AT_ONCE), signal };
  return {
    async open(known, underWay = []) {
      await staging.keepOnly([...memberIds(known), ...underWay]);
      await enroll(known, parts);
    },
    carryOut(work, ground) {
      const { datasetId } = ground.known.want;
      // Told only now: one that waits for its turn is not under way.
      const begin = () => {
        parts.progress.began(datasetId, descriptionOf(work), extentOf(work, ground));
        return carryOut(work, ground, tools);
      };
      if (!isLarge(work, ground)) return begin();
      if (work.kind === 'load') withLargeFiles.add(datasetId);
      return large(begin);
    },
    async discard(datasetId) {
      // To remove large files can keep a disk busy for as long as a load, and a checkpoint that waits for the disk keeps readers out. While
      // other large ones are under way these need the room at once; what the last one had can wait.
      if (withLargeFiles.delete(datasetId) && !isLargeUnderWay()) await writer.letGo();
      await staging.discard(datasetId);
    },
    ended: () => writer.ended(),
    async storeProgress(progress) {
      await parts.destination.storeProgress(progress, 'if-free');
    },
  };
};

/** Of one that left, neither what was staged is of use, nor a name. */
function memberIds(known: readonly Known[]): readonly string[] {
  return known.filter(({ want }) => want.members.size > 0).map(({ want }) => want.datasetId);
}

/** Those that are given up are named by the destination no more, and only then forgotten to have been. */
async function enroll(known: readonly Known[], { feed, destination, checkpoint }: Parts): Promise<void> {
  const forgottenSubscriptionIds = checkpoint.forgotten();
  await destination.enroll({
    origin: feed.origin,
    subscriptionIds: [...checkpoint.followed().keys()],
    forgottenSubscriptionIds,
    datasetIds: memberIds(known),
  });
  if (forgottenSubscriptionIds.length === 0) return;
  const heldBefore = new Map(known.map(({ want, held }) => [want.datasetId, held]));
  checkpoint.clearForgotten(forgottenSubscriptionIds, (reload, datasetId) =>
    isSatisfied(reload, heldBefore.get(datasetId) ?? null),
  );
}
