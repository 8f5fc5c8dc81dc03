/**
 * Whether the daemon is alive, ready and well, and why not. Pure.
 *
 * An outage of the feed is nobody's reason to restart this process: it fails neither liveness nor readiness, and health
 * only once it has become a stall.
 */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import { formatDuration } from '../../lib/units.ts';
import { BusyError, NoRoomError, StorageError } from '../../model/errors.ts';
import type { DaemonState, StandingTrouble, SubscriptionState } from '../state.ts';
import { LOOP_STUCK_AFTER_MS } from './limits.ts';

/** Why something is not as it should be. Without one, it is. */
export interface Reason {
  readonly kind: ReasonKind;
  /** What it is about: `loop`, `run`, `mirror`, `workspace`, `subscription sub_1`. */
  readonly of: string;
  /** For people. */
  readonly message: string;
  /** Null: not known. */
  readonly since: Date | null;
}

/**
 * - `stuck`: the loop goes round no more.
 * - `starting`: nothing has been caught up with yet.
 * - `draining`: the process is ending or starting anew.
 * - `storage`: the mirror, the checkpoint or the disk cannot be written.
 * - `stalled`: something should move and does not.
 * - `held`: a person has to act before anything is asked of the service.
 */
export type ReasonKind = 'stuck' | 'starting' | 'draining' | 'storage' | 'stalled' | 'held';

/** Whether this process does its work at all. Only a new one would help where it does not. */
export function reasonsNotLive({ loopSilentMs }: Pick<DaemonState, 'loopSilentMs'>): readonly Reason[] {
  if (loopSilentMs <= LOOP_STUCK_AFTER_MS) return [];
  const message = `The loop has not gone round for ${formatDuration(loopSilentMs)}.`;
  return [{ kind: 'stuck', of: 'loop', message, since: null }];
}

/** Whether the mirror is worth reading: it was caught up with once, and can be written. */
export function reasonsNotReady(state: DaemonState): readonly Reason[] {
  return [...unreadyPhase(state), ...state.troubles.filter(isOfStorage).map(storageReason)];
}

/** Whether nobody has to look. */
export function reasonsNotWell(state: DaemonState): readonly Reason[] {
  return [
    ...reasonsNotLive(state),
    ...state.troubles.filter(isOfStorage).map(storageReason),
    ...state.troubles.filter((trouble) => trouble.isStall && !isOfStorage(trouble)).map(stallReason),
    ...[...state.subscriptions.values()].filter(({ standing }) => standing === 'stalled').map(stalled),
    ...state.holds.filter(({ refusal }) => refusal.scope.kind === 'workspace').map(heldReason),
  ];
}

function unreadyPhase({ phase, caughtUpAt, startedAt }: DaemonState): readonly Reason[] {
  if (phase === 'draining') {
    return [{ kind: 'draining', of: 'process', message: 'The process is ending.', since: null }];
  }
  if (caughtUpAt !== null) return [];
  return [
    { kind: 'starting', of: 'mirror', message: 'The first catch-up is not done yet.', since: startedAt },
  ];
}

/** A reader who holds the mirror keeps nobody from reading it: that is trouble of the storage once it lasts. */
function isOfStorage({ error, isStall }: StandingTrouble): boolean {
  return error === StorageError.name || error === NoRoomError.name || (error === BusyError.name && isStall);
}

function storageReason({ of, message, since }: StandingTrouble): Reason {
  return { kind: 'storage', of, message, since };
}

function stallReason({ of, message, since }: StandingTrouble): Reason {
  return { kind: 'stalled', of, message, since };
}

function stalled({ subscriptionId, standingSince }: SubscriptionState): Reason {
  const message = 'It is behind, and nothing has moved for a long time.';
  return { kind: 'stalled', of: `subscription ${subscriptionId}`, message, since: standingSince };
}

function heldReason({ refusal: { message }, heldAt }: Hold): Reason {
  return { kind: 'held', of: 'workspace', message, since: heldAt };
}
