/**
 * The report of `status` and of the status server's `/status`, and its JSON. `cli/outputs.md` documents every field of the
 * JSON.
 */

import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Failure, HookRecord, Suspension } from '../checkpoint/checkpoint.ts';
import { holderName, type InstanceHolder } from '../checkpoint/instance-lock.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import type { ReadFile } from '../configuration/file.ts';
import type { RecordedUnion } from '../destination/catalog/unions.ts';
import type { PastLog } from '../destination/reader.ts';
import { type Absence, absenceKey, confirmedAt } from '../model/absence.ts';
import { type Candidate, shownDigest } from '../model/candidate.ts';
import { announcedVersion } from '../model/desired-state.ts';
import { BusyError, FeedSyncError, type RefusalScope } from '../model/errors.ts';
import { isRekeyed, type RowCounts } from '../model/gate.ts';
import type { ScrubRecord } from '../model/scrub.ts';
import { MANIFEST } from '../post-commit/export/generation.ts';
import { approveCommand, keysAsTexts } from '../sync/candidates.ts';
import { isOfContent } from '../sync/plan/content.ts';
import {
  type DatasetReport,
  type Report,
  reportOf,
  type ServiceReport,
  type SubscriptionReport,
} from './report.ts';
import {
  type CheckpointContent,
  isWorthCompacting,
  type MirrorContent,
  type MirrorSeen,
  mirrorBytes,
  mirrorLocks,
} from './stores.ts';

/** The stores, and their surroundings. */
export interface Status extends Report {
  readonly dataDirectory: string;
  readonly mirrorFile: {
    readonly path: string;
    /** The size of the file and its log, or of the tables of a database; 0 where there is none, or it was not examined. */
    readonly bytes: number;
    /** Foreign processes that have the file open: a commit waits for them. */
    readonly lockHolders: readonly number[];
  };
  /** `standsBy`: it waits for the lease of the database, which another instance holds. */
  readonly runningInstance: (RunningInstance & { readonly standsBy: boolean }) | null;
  /** Names the instance that holds the lease of the database; null where none does, it is not known, or the mirror is a file. */
  readonly leaseHolder: string | null;
  /** Null: publishing is off. */
  readonly publishedCopy: { readonly path: string; readonly publishedAt: Date | null } | null;
  /** Null: nothing is exported. `exportedAt`: when the newest generation was; null where there is none. */
  readonly export: { readonly path: string; readonly exportedAt: Date | null } | null;
  /** Null: no command after commits is configured. */
  readonly hook: HookRecord | null;
  readonly scrub: ScrubRecord;
}

type RunningInstance = Pick<InstanceHolder, 'pid' | 'host' | 'command'>;

export interface StatusInput {
  readonly mirror: MirrorSeen;
  readonly checkpoint: CheckpointContent | null;
  readonly runningInstance: RunningInstance | null;
  /** The id of this process. */
  readonly pid: number;
  readonly readFile: ReadFile;
}

export function statusOf(
  { datasets, dataDirectory, destination, export: exported, hooks }: LocalConfiguration,
  { mirror, checkpoint, runningInstance, pid: ownPid, readFile }: StatusInput,
): Status {
  const { path, place, postgres, publish } = destination;
  const leaseHolder = contentOf(mirror)?.leaseHolder ?? null;
  const report = reportOf({ mirror, checkpoint, choices: datasets, keyHash: null });
  const lockHolders = (postgres === null ? mirrorLocks(path, readFile) : [])
    .map(({ pid }) => pid)
    .filter((pid) => pid !== ownPid && pid !== runningInstance?.pid);
  return {
    ...report,
    dataDirectory,
    mirrorFile: {
      path: place,
      bytes: postgres === null ? mirrorBytes(path) : (contentOf(mirror)?.bytes ?? 0),
      lockHolders,
    },
    runningInstance: runningInstance && {
      ...runningInstance,
      standsBy: leaseHolder !== null && leaseHolder !== holderName(runningInstance),
    },
    leaseHolder,
    publishedCopy: publish && { path: publish.path, publishedAt: changedAt(publish.path) },
    export: exported && { path: exported.path, exportedAt: changedAt(join(exported.path, MANIFEST)) },
    hook: hooks.afterCommit && report.checkpoint.hook,
    scrub: report.checkpoint.scrub,
  };
}

function contentOf(mirror: MirrorSeen): MirrorContent | null {
  return mirror !== null && mirror !== 'unread' && !(mirror instanceof Error) ? mirror : null;
}

/** Null where there is no such file, or it cannot be examined. */
function changedAt(path: string): Date | null {
  try {
    return statSync(path).mtime;
  } catch {
    return null;
  }
}

export type StatusJson = ReturnType<typeof statusJson>;

export function statusJson(status: Status) {
  const { dataDirectory, runningInstance, leaseHolder, publishedCopy, hook, scrub, checkpoint } = status;
  const { export: exported } = status;
  return {
    dataDirectory,
    mirror: mirrorJson(status),
    publishedCopy: publishedCopy && {
      path: publishedCopy.path,
      publishedAt: publishedCopy.publishedAt?.toISOString() ?? null,
    },
    export: exported && {
      path: exported.path,
      exportedAt: exported.exportedAt?.toISOString() ?? null,
    },
    afterCommit: hook && {
      reportedAt: hook.reportedAt?.toISOString() ?? null,
      failure: hook.failure && { ...hook.failure, failedAt: hook.failure.failedAt.toISOString() },
    },
    scrub: scrubJson(scrub),
    runningInstance: runningInstance && {
      pid: runningInstance.pid,
      host: runningInstance.host,
      command: runningInstance.command,
      standsBy: runningInstance.standsBy,
    },
    leaseHolder,
    service: serviceJson(status.service),
    subscriptions: status.subscriptions.map(subscriptionJson),
    forgottenSubscriptions: checkpoint.forgotten,
    datasets: [...status.datasets.values()].map(datasetJson),
    absences: sortedAbsences(checkpoint.absences).map(absenceJson),
    history: pastLogsOf(status)?.map(pastLogJson) ?? null,
    unions: unionsOf(status)?.map(unionJson) ?? null,
    suspensions: suspensionsBeyondDatasets(status.suspensions.all).map(suspensionJson),
  };
}

function scrubJson({ beganAt, completedAt }: ScrubRecord) {
  return beganAt && { beganAt: beganAt.toISOString(), completedAt: completedAt?.toISOString() ?? null };
}

export function mirrorState(mirror: MirrorSeen): 'present' | 'absent' | 'busy' | 'unusable' {
  if (mirror === null) return 'absent';
  if (mirror === 'unread' || mirror instanceof BusyError) return 'busy';
  return mirror instanceof Error ? 'unusable' : 'present';
}

/** Returns unused bytes of the mirror's file, and whether to compact it; null where the file was not opened for this report. */
export function mirrorSpace({ mirror, mirrorFile: { bytes } }: Status) {
  const freeBytes = contentOf(mirror)?.freeBytes ?? null;
  const isWorthIt = freeBytes === null ? null : isWorthCompacting({ bytes, freeBytes });
  return { freeBytes, isWorthCompacting: isWorthIt };
}

/** Returns the undo logs, the largest first; null where the file was not opened for this report. */
export function pastLogsOf({ mirror }: Status): readonly PastLog[] | null {
  const logs = contentOf(mirror)?.pastLogs ?? null;
  return logs?.toSorted((left, right) => (right.rowCount ?? 0) - (left.rowCount ?? 0)) ?? null;
}

/** Returns the unions; null where they are not known. */
export function unionsOf({ mirror }: Pick<Status, 'mirror'>): readonly RecordedUnion[] | null {
  return contentOf(mirror)?.unions ?? null;
}

function unionJson({ name, members, leftOut, unusable }: RecordedUnion) {
  return {
    name,
    tables: members,
    leftOutColumns: leftOut.map(({ columnName, kinds }) => ({
      column: columnName,
      kinds: kinds.map(({ kind, members: tables, example }) => ({ kind, tables, example })),
    })),
    leftOutDatasets: unusable,
  };
}

function pastLogJson({ datasetId, logName, rowCount, firstCommit, firstTime, ...end }: PastLog) {
  return {
    dataset: datasetId,
    log: logName,
    entries: rowCount,
    firstCommit,
    since: firstTime.toISOString(),
    closedReason: end.closedReason,
    frozenCommit: end.frozenCommit,
  };
}

function mirrorJson(status: Status) {
  const { mirror, mirrorFile } = status;
  return {
    path: mirrorFile.path,
    state: mirrorState(mirror),
    problem: mirror instanceof Error ? mirror.message : null,
    hint: mirror instanceof FeedSyncError ? mirror.hint : null,
    lockHolders: mirrorFile.lockHolders,
    bytes: mirrorFile.bytes,
    ...mirrorSpace(status),
  };
}

function serviceJson({ reached, outages, dataAsOf }: ServiceReport) {
  return {
    reachedAt: reached?.at.toISOString() ?? null,
    reachedBy: reached && { ...reached.process },
    dataAsOf: dataAsOf?.toISOString() ?? null,
    outages: outages.map(({ since, at, ...outage }) => ({
      ...outage,
      since: since.toISOString(),
      failedAt: at.toISOString(),
    })),
  };
}

/** Returns the state of a subscription. A suspension without a response of the service means that the subscription is missing. */
export function subscriptionState({ suspension }: SubscriptionReport): 'followed' | 'refused' | 'missing' {
  if (suspension === null) return 'followed';
  return suspension.refusal.status === null ? 'missing' : 'refused';
}

function subscriptionJson(subscription: SubscriptionReport) {
  const { subscriptionId, name, cursor, cursorAt, replayedAt } = subscription.followed;
  return {
    id: subscriptionId,
    name,
    cursor: cursor?.text ?? null,
    cursorAt: cursorAt.toISOString(),
    replayedAt: replayedAt?.toISOString() ?? null,
    readAt: subscription.poll?.success?.at.toISOString() ?? null,
    state: subscriptionState(subscription),
    isSuspended: subscription.suspension !== null,
  };
}

function datasetJson(dataset: DatasetReport) {
  const { desired, observed, failure, retirement } = dataset;
  const suspension = ownSuspension(dataset);
  return {
    id: dataset.id,
    state: dataset.phase,
    need: dataset.need,
    subscriptions: desired === null ? [] : [...desired.members.keys()].sort(),
    targetVersion: desired === null ? null : announcedVersion(desired),
    isReloadPending: dataset.isReloadPending,
    isResyncPending: dataset.isResyncPending,
    isRefreshPending: dataset.isRefreshPending,
    retirement: retirement && {
      ...retirement,
      waitsFor: retirement.waitsFor.map(({ subscriptionId, reason }) => ({ subscriptionId, reason })),
    },
    isChosen: dataset.isChosen,
    table: observed?.tableName ?? null,
    version: observed?.version ?? null,
    rows: observed?.rowCount ?? null,
    publishedAt: observed?.publishedAt?.toISOString() ?? null,
    appliedAt: observed?.appliedAt?.toISOString() ?? null,
    pinnedSince: observed?.pinnedSince?.toISOString() ?? null,
    suspension: suspension && suspensionJson(suspension),
    awaitingApproval: suspension?.candidate === undefined ? null : candidateJson(suspension.candidate),
    failure: failure && failureJson(failure),
  };
}

/** Returns the candidate as JSON: the effect of the commit that waits for approval, and the content that waits behind it. */
export function candidateJson(candidate: Candidate) {
  const { version, judged, since, approvedAt, later } = candidate;
  return {
    version,
    content: shownDigest(judged),
    digest: judged.digest,
    since: since.toISOString(),
    approvedAt: approvedAt?.toISOString() ?? null,
    ...countsJson(judged.counts),
    keys: keysAsTexts(judged.keys),
    command: approveCommand(candidate),
    later: later.map((one) => ({
      version: one.version,
      content: shownDigest(one),
      ...countsJson(one.counts),
    })),
  };
}

function countsJson(counts: RowCounts) {
  const { before, after, added, changed, removed, isByKey } = counts;
  return {
    rowsBefore: before,
    rowsAfter: after,
    added,
    changed,
    removed,
    isByKey,
    isRekeyed: isRekeyed(counts),
  };
}

/** Returns the dataset's own suspension; null also where the dataset is suspended with its subscriptions or the workspace. */
export function ownSuspension({ suspension }: DatasetReport): Suspension | null {
  return suspension?.refusal.scope.kind === 'dataset' ? suspension : null;
}

/** Returns the suspensions of the workspace, of subscriptions and of retirements. */
export function suspensionsBeyondDatasets(suspensions: readonly Suspension[]): readonly Suspension[] {
  return suspensions.filter(({ refusal }) => refusal.scope.kind !== 'dataset');
}

/** Returns the absences in an order that does not depend on the time of each note. */
export function sortedAbsences(absences: readonly Absence[]): readonly Absence[] {
  return absences.toSorted((left, right) => (absenceKey(left.subject) < absenceKey(right.subject) ? -1 : 1));
}

const NAMED_BY_NOTHING = { subscriptionId: null, datasetId: null, version: null };

function absenceJson(absence: Absence) {
  const { kind, subscriptionId, datasetId, version } = { ...NAMED_BY_NOTHING, ...absence.subject };
  const since = absence.since.toISOString();
  return {
    kind,
    subscriptionId,
    datasetId,
    version,
    since,
    confirmedAfter: confirmedAt(absence).toISOString(),
  };
}

function failureJson(failure: Failure) {
  const { error, message, hint, attempts, failedAt, retryAt } = failure;
  return {
    error,
    message,
    hint,
    attempts,
    failedAt: failedAt.toISOString(),
    retryAt: retryAt.toISOString(),
    isOfContent: isOfContent(failure),
  };
}

/** Returns a suspension as JSON. A null status: feed-sync itself found the cause, and code and message are its own. */
export function suspensionJson({ refusal, suspendedAt }: Suspension) {
  const { scope, operation, status, code, message, links } = refusal;
  return {
    scope: scope.kind,
    id: idOf(scope),
    operation,
    status,
    code,
    message,
    links: Object.fromEntries(links),
    since: suspendedAt.toISOString(),
  };
}

function idOf(scope: RefusalScope): string | null {
  switch (scope.kind) {
    case 'subscription':
      return scope.subscriptionId;
    case 'dataset':
      return scope.datasetId;
    case 'workspace':
    case 'retirement':
      return null;
  }
}
