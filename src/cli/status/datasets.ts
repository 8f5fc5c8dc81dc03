/** What `status` tells of datasets. Pure. */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import type { HeldDataset } from '../../destination/destination.ts';
import { announcedVersion, type Want } from '../../model/want.ts';
import { holdStatus } from '../../sync/hold-status.ts';
import { holdOfEveryMember } from '../../sync/holds.ts';
import { needOf, owesResync, pendingReloads } from '../../sync/plan/need.ts';
import { retirementReason } from '../../sync/plan/retirement.ts';
import { type Known, stateOf } from '../../sync/plan/state.ts';
import type { CheckpointContent } from './checkpoint-content.ts';
import type { DatasetStatus, RetirementStatus } from './shape.ts';
import { failureStatus, holdOfDataset, holdOfSubscription } from './troubles.ts';

export interface DatasetsInput {
  /** By dataset id; null where the mirror could not be read. */
  readonly tables: ReadonlyMap<string, HeldDataset> | null;
  readonly checkpoint: CheckpointContent;
  readonly isChosen: (datasetId: string) => boolean;
}

/**
 * Those that a subscription holds and those in the mirror, in order of id. Without a checkpoint the mirror speaks for
 * itself.
 */
export function datasetsOf(input: DatasetsInput): readonly DatasetStatus[] {
  const { tables, checkpoint } = input;
  const wanted = [...checkpoint.wants.values()].filter(({ members }) => members.size > 0);
  const ids = new Set([...(tables?.keys() ?? []), ...wanted.map(({ datasetId }) => datasetId)]);
  return [...ids].sort().map((id) => datasetOf(id, input));
}

function datasetOf(id: string, { tables, checkpoint, isChosen }: DatasetsInput): DatasetStatus {
  const { holds, wants, failures } = checkpoint;
  const held = tables?.get(id) ?? null;
  const own = holdOfDataset(id, holds);
  const failure = failures.get(id) ?? null;
  const want = wants.get(id) ?? null;
  const hold = own ?? (want === null ? null : holdAbove(want, holds));
  const wanted =
    want === null ? UNWANTED : wantedStatus({ want, held, hold, failure }, tables !== null, holds);
  return {
    id,
    ...wanted,
    ...(isChosen(id) ? { isChosen: true } : LEFT_OUT),
    ...heldStatus(held),
    hold: own === null ? null : holdStatus(own),
    failure: failure === null ? null : failureStatus(failure),
  };
}

/** What holds it together with others: its subscriptions, all of them, or the workspace. */
function holdAbove({ members }: Want, holds: readonly Hold[]): Hold | null {
  return holdOfEveryMember(members.keys(), (subscriptionId) => holdOfSubscription(subscriptionId, holds));
}

type WantedStatus = Omit<
  DatasetStatus,
  'id' | 'hold' | 'failure' | 'isChosen' | keyof ReturnType<typeof heldStatus>
>;

/** A table that nobody is known to want: the checkpoint is lost or does not know it yet. */
const UNWANTED: WantedStatus = {
  state: 'live',
  need: null,
  subscriptions: [],
  wantedVersion: null,
  isReloadPending: false,
  isResyncPending: false,
  isLookPending: false,
  retirement: null,
};

/** Nothing is done about it, whatever is wanted of it. */
const LEFT_OUT = {
  isChosen: false,
  need: null,
  isReloadPending: false,
  isResyncPending: false,
  isLookPending: false,
  retirement: null,
} as const;

function wantedStatus(known: Known, isMirrorKnown: boolean, holds: readonly Hold[]): WantedStatus {
  const { want, held } = known;
  const state = stateOf(known).kind;
  const isRetired = state === 'retired';
  return {
    state,
    need: isMirrorKnown && !isRetired ? needOf(held, want) : null,
    subscriptions: [...want.members.keys()].sort(),
    wantedVersion: announcedVersion(want),
    isReloadPending: isMirrorKnown ? !isRetired && pendingReloads(held, want).length > 0 : null,
    isResyncPending: isMirrorKnown ? !isRetired && owesResync(held, want) : null,
    isLookPending: !isRetired && want.looksDone < want.looksAsked,
    retirement: isRetired ? retirementStatus(want, holds) : null,
  };
}

function retirementStatus(want: Want, holds: readonly Hold[]): RetirementStatus {
  const isHeld = holds.some(({ refusal }) => refusal.scope.kind === 'retirement');
  return { reason: retirementReason(want), waitsForApproval: isHeld && !want.retirementApproved };
}

function heldStatus(held: HeldDataset | null) {
  return {
    table: held?.tableName ?? null,
    version: held?.version ?? null,
    rows: held?.rowCount ?? null,
    publishedAt: held?.publishedAt?.toISOString() ?? null,
    appliedAt: held?.appliedAt.toISOString() ?? null,
  };
}
