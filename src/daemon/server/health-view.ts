/** What `/healthz` tells, as data. Pure. Fields are only ever added. */

import { holdStatus } from '../../sync/hold-status.ts';
import type { DaemonState, DatasetState, StandingTrouble, SubscriptionState } from '../state.ts';
import type { Reason } from './health.ts';
import { mostPressing } from './labels.ts';
import { MAX_NAMED_DATASETS } from './limits.ts';

/** What every one of the three answers begins with: `ok` where there is no reason against it. */
export function verdictView(reasons: readonly Reason[]) {
  return { status: reasons.length === 0 ? 'ok' : 'failing', reasons: reasons.map(reasonView) };
}

export function healthView(state: DaemonState, version: string) {
  const datasets = [...state.datasets.values()];
  return {
    version,
    now: state.now.toISOString(),
    startedAt: state.startedAt.toISOString(),
    phase: state.phase,
    caughtUpAt: isoOrNull(state.caughtUpAt),
    lastAuditAt: isoOrNull(state.lastAuditAt),
    nextAuditAt: state.nextAuditAt.toISOString(),
    nextPollAt: state.nextPollAt.toISOString(),
    subscriptions: [...state.subscriptions.values()].map(subscriptionView),
    datasets: countDatasets(datasets),
    /** The most pressing of those that are not where they should be. */
    datasetsBehind: mostPressing(datasets.filter(isUnsettled), MAX_NAMED_DATASETS).map(datasetView),
    troubles: state.troubles.map(troubleView),
    holds: state.holds.filter(({ refusal }) => refusal.scope.kind !== 'dataset').map(holdStatus),
  };
}

function reasonView({ kind, of, message, since }: Reason) {
  return { kind, of, message, since: isoOrNull(since) };
}

function subscriptionView(subscription: SubscriptionState) {
  return {
    id: subscription.subscriptionId,
    name: subscription.name,
    standing: subscription.standing,
    standingSince: subscription.standingSince.toISOString(),
    lastPollAt: isoOrNull(subscription.lastPollAt),
    lastGoodPollAt: isoOrNull(subscription.lastGoodPollAt),
    cursor: subscription.cursor,
    lastEventAt: isoOrNull(subscription.lastEventAt),
    head: subscription.head,
    cursorAgeMs: subscription.cursorAgeMs,
    cursorExpiresAt: isoOrNull(subscription.cursorExpiresAt),
  };
}

function isUnsettled({ behindSince, failure }: DatasetState): boolean {
  return behindSince !== null || failure !== null;
}

function countDatasets(datasets: readonly DatasetState[]) {
  const count = (is: (dataset: DatasetState) => boolean): number => datasets.filter(is).length;
  return {
    total: datasets.length,
    behind: count(({ behindSince }) => behindSince !== null),
    working: count(({ work }) => work !== null),
    failed: count(({ failure }) => failure !== null),
  };
}

/** Without the words of its failure, which may quote a value of the data: `/status` has them. */
function datasetView(dataset: DatasetState) {
  const { work, failure } = dataset;
  return {
    id: dataset.datasetId,
    version: dataset.version,
    wantedVersion: dataset.wantedVersion,
    behindSince: isoOrNull(dataset.behindSince),
    work: work === null ? null : { step: work.step, since: work.since.toISOString(), bytes: work.bytes },
    failure: failure === null ? null : { error: failure.error, attempts: failure.attempts },
    retryAt: isoOrNull(dataset.retryAt),
  };
}

function troubleView({ of, error, message, hint, since, attempts, isStall }: StandingTrouble) {
  return { of, error, message, hint, since: since.toISOString(), attempts, isStall };
}

function isoOrNull(at: Date | null): string | null {
  return at === null ? null : at.toISOString();
}
