/**
 * Judges whether the daemon is alive, ready and healthy, and why not. Pure.
 *
 * An outage of the feed is no reason to restart this process: it affects neither liveness nor readiness, and health only once it has
 * become a stall.
 */

import type { Suspension } from '../../checkpoint/checkpoint.ts';
import { formatDuration } from '../../lib/units.ts';
import type { ErrorCode } from '../../model/error-codes.ts';
import { suspensionJson, suspensionsBeyondDatasets } from '../../reporting/status.ts';
import type {
  DaemonState,
  DatasetActivity,
  OngoingIncident,
  Readiness,
  SubscriptionState,
} from '../state.ts';
import { LOOP_STUCK_AFTER_MS, MAX_NAMED_DATASETS } from './limits.ts';
import { mostPressing } from './metrics.ts';

/** A reason against a verdict. Without a reason the verdict is good. */
export interface Reason {
  readonly kind: ReasonKind;
  /** The subject of the reason: `loop`, `run`, `mirror`, `workspace`, `subscription sub_1`. */
  readonly of: string;
  /** For people. */
  readonly message: string;
  /** Null: unknown. */
  readonly since: Date | null;
}

/**
 * `stuck`: the loop makes no rounds any more. `starting`: nothing was caught up yet. `draining`: the process is ending or restarting.
 * `storage`: the mirror, the checkpoint or the disk cannot be written. `stalled`: progress is due and missing. `suspended`: an operator
 * has to act before the service is asked again. `standby`: another instance works on the database.
 */
type ReasonKind = 'stuck' | 'starting' | 'draining' | 'storage' | 'stalled' | 'suspended' | 'standby';

/** Returns whether this process works at all. If it does not, only a new process helps. */
export function reasonsNotLive({ loopSilentMs }: Pick<DaemonState, 'loopSilentMs'>): readonly Reason[] {
  if (loopSilentMs <= LOOP_STUCK_AFTER_MS) return [];
  const message = `The loop has not gone round for ${formatDuration(loopSilentMs)}.`;
  return [{ kind: 'stuck', of: 'loop', message, since: null }];
}

/** Returns the reason why an instance that stands by is not ready. `holder` names the one that works. */
export function reasonToStandBy(holder: string, since: Date): Reason {
  return {
    kind: 'standby',
    of: 'process',
    message: `Another instance works on the database: ${holder}.`,
    since,
  };
}

/** Returns whether the mirror is worth reading: it was caught up once, and can be written. */
export function reasonsNotReady(state: Readiness): readonly Reason[] {
  return [...unreadyPhase(state), ...state.incidents.filter(isOfStorage).map(incidentReason('storage'))];
}

/** Returns the reasons why an operator has to act. */
export function reasonsNotWell(state: DaemonState): readonly Reason[] {
  return [
    ...reasonsNotLive(state),
    ...state.incidents.filter(isOfStorage).map(incidentReason('storage')),
    ...state.incidents
      .filter((incident) => incident.isStall && !isOfStorage(incident))
      .map(incidentReason('stalled')),
    ...[...state.subscriptions.values()].filter(({ condition }) => condition === 'stalled').map(stalled),
    ...state.suspensions.filter(({ refusal }) => refusal.scope.kind === 'workspace').map(suspensionReason),
  ];
}

function unreadyPhase({ phase, caughtUpAt, startedAt }: Readiness): readonly Reason[] {
  if (phase === 'draining') {
    return [{ kind: 'draining', of: 'process', message: 'The process is ending.', since: null }];
  }
  if (caughtUpAt !== null) return [];
  return [
    { kind: 'starting', of: 'mirror', message: 'The first catch-up is not done yet.', since: startedAt },
  ];
}

const STORAGE_CODES: readonly ErrorCode[] = ['storage_failed', 'mirror_damaged', 'disk_full'];
const BUSY_CODES: readonly ErrorCode[] = ['mirror_busy', 'checkpoint_busy'];

/** A reader that has locked the mirror keeps no other reader out, so the lock is a reason only once it lasts. */
function isOfStorage({ error, isStall }: OngoingIncident): boolean {
  return STORAGE_CODES.includes(error) || (BUSY_CODES.includes(error) && isStall);
}

/** `kind`: the reason that the incident is. */
function incidentReason(kind: ReasonKind) {
  return ({ of, message, since }: OngoingIncident): Reason => ({ kind, of, message, since });
}

function stalled({ subscriptionId, conditionSince }: SubscriptionState): Reason {
  const message = 'It is behind, and nothing has moved for a long time.';
  return { kind: 'stalled', of: `subscription ${subscriptionId}`, message, since: conditionSince };
}

function suspensionReason({ refusal: { message }, suspendedAt }: Suspension): Reason {
  return { kind: 'suspended', of: 'workspace', message, since: suspendedAt };
}

/** Returns the common beginning of all three responses: `ok` where there is no reason against the verdict. */
export function verdictView(reasons: readonly Reason[]) {
  return {
    status: reasons.length === 0 ? 'ok' : 'failing',
    reasons: reasons.map(({ since, ...reason }) => ({ ...reason, since: since?.toISOString() ?? null })),
  };
}

export function healthView(state: DaemonState, version: string) {
  const datasets = [...state.datasets.values()];
  return {
    version,
    now: state.now.toISOString(),
    startedAt: state.startedAt.toISOString(),
    phase: state.phase,
    caughtUpAt: state.caughtUpAt?.toISOString() ?? null,
    lastAuditAt: state.lastAuditAt?.toISOString() ?? null,
    nextAuditAt: state.nextAuditAt.toISOString(),
    nextPollAt: state.nextPollAt.toISOString(),
    subscriptions: [...state.subscriptions.values()].map(subscriptionView),
    datasets: countDatasets(datasets),
    /** The most pressing of the unsettled datasets. */
    datasetsBehind: mostPressing(datasets.filter(isUnsettled), MAX_NAMED_DATASETS).map(datasetView),
    incidents: state.incidents.map(incidentView),
    suspensions: suspensionsBeyondDatasets(state.suspensions).map(suspensionJson),
  };
}

function subscriptionView(subscription: SubscriptionState) {
  return {
    id: subscription.subscriptionId,
    name: subscription.name,
    condition: subscription.condition,
    conditionSince: subscription.conditionSince.toISOString(),
    lastPollAt: subscription.lastPollAt?.toISOString() ?? null,
    lastGoodPollAt: subscription.lastGoodPollAt?.toISOString() ?? null,
    cursor: subscription.cursor,
    lastEventAt: subscription.lastEventAt?.toISOString() ?? null,
    head: subscription.head,
    cursorAgeMs: subscription.cursorAgeMs,
    cursorExpiresAt: subscription.cursorExpiresAt?.toISOString() ?? null,
  };
}

function isUnsettled({ behindSince, failure }: DatasetActivity): boolean {
  return behindSince !== null || failure !== null;
}

function countDatasets(datasets: readonly DatasetActivity[]) {
  const count = (is: (dataset: DatasetActivity) => boolean): number => datasets.filter(is).length;
  return {
    total: datasets.length,
    behind: count(({ behindSince }) => behindSince !== null),
    working: count(({ work }) => work !== null),
    failed: count(({ failure }) => failure !== null),
  };
}

/** Without the words of the failure, which may quote a value of the data: `/status` has them. */
function datasetView(dataset: DatasetActivity) {
  const { work, failure } = dataset;
  return {
    id: dataset.datasetId,
    version: dataset.version,
    targetVersion: dataset.targetVersion,
    behindSince: dataset.behindSince?.toISOString() ?? null,
    work: work === null ? null : { step: work.step, since: work.since.toISOString(), bytes: work.bytes },
    failure: failure === null ? null : { error: failure.error, attempts: failure.attempts },
    retryAt: dataset.retryAt?.toISOString() ?? null,
  };
}

function incidentView({ of, error, message, hint, since, attempts, isStall }: OngoingIncident) {
  return { of, error, message, hint, since: since.toISOString(), attempts, isStall };
}
