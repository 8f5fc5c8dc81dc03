/** What `status` tells, as data. Pure. */

import type { Followed, HookRecord, Suspension } from '../../checkpoint/checkpoint.ts';
import { unreachable } from '../../lib/assert.ts';
import { printable } from '../../lib/text.ts';
import { formatCount } from '../../lib/units.ts';
import { type Absence, absenceKey, confirmedAt } from '../../model/absence.ts';
import { BusyError, FeedSyncError } from '../../model/errors.ts';
import { suspensionStatus } from '../../sync/suspensions.ts';
import { isWorthCompacting, type MirrorContent, type MirrorSeen, tablesOf } from '../mirror-seen.ts';
import { formatTime, formatTimeFrom } from '../render/messages.ts';
import { datasetsOf, suspensionOfSubscription } from './datasets.ts';
import type {
  AbsenceStatus,
  AfterCommitStatus,
  MirrorStatus,
  PublishedCopyStatus,
  Status,
  SubscriptionStatus,
} from './shape.ts';
import { type CheckpointContent, NO_CHECKPOINT } from './status.ts';

interface StatusInput {
  readonly dataDirectory: string;
  readonly mirrorPath: string;
  readonly runningInstance: Status['runningInstance'];
  readonly mirror: MirrorSeen;
  /** Of its file and log; 0 where there is none, or it cannot be looked at. */
  readonly mirrorBytes: number;
  readonly lockHolders: readonly number[];
  readonly readers: ReadersSeen;
  readonly checkpoint: CheckpointContent | null;
  /** Whether the configuration lets a dataset be mirrored. */
  readonly isChosen: (datasetId: string) => boolean;
}

export function statusOf(input: StatusInput): Status {
  const { dataDirectory, mirror, runningInstance } = input;
  const checkpoint = input.checkpoint ?? NO_CHECKPOINT;
  return {
    dataDirectory,
    mirror: mirrorStatus(input),
    ...readersStatus(input.readers),
    runningInstance:
      runningInstance === null
        ? null
        : { pid: runningInstance.pid, host: runningInstance.host, command: runningInstance.command },
    subscriptions: [...checkpoint.followed.values()].map((followed) =>
      subscriptionStatus(followed, checkpoint.suspensions),
    ),
    forgottenSubscriptions: checkpoint.forgotten,
    datasets: datasetsOf({
      tables: tablesOf(mirror),
      service: isPresent(mirror) ? mirror.service : null,
      checkpoint,
      isChosen: input.isChosen,
    }),
    absences: absencesStatus(checkpoint.absences),
    suspensions: checkpoint.suspensions
      .filter(({ refusal }) => refusal.scope.kind !== 'dataset')
      .map(suspensionStatus),
  };
}

function mirrorStatus({
  mirrorPath: path,
  mirror,
  mirrorBytes: bytes,
  lockHolders,
}: StatusInput): MirrorStatus {
  const freeBytes = isPresent(mirror) ? mirror.freeBytes : null;
  return {
    path,
    state: phaseOf(mirror),
    problem: mirror instanceof Error ? mirror.message : null,
    hint: mirror instanceof FeedSyncError ? mirror.hint : null,
    lockHolders,
    bytes,
    freeBytes,
    isWorthCompacting: freeBytes === null ? null : isWorthCompacting({ bytes, freeBytes }),
  };
}

function phaseOf(mirror: MirrorSeen): MirrorStatus['state'] {
  if (mirror === null) return 'absent';
  if (mirror === 'busy' || mirror instanceof BusyError) return 'busy';
  return mirror instanceof Error ? 'unusable' : 'present';
}

function isPresent(mirror: MirrorSeen): mirror is MirrorContent {
  return phaseOf(mirror) === 'present';
}

function subscriptionStatus(
  { subscriptionId, name, cursor, cursorAt, replayedAt }: Followed,
  suspensions: readonly Suspension[],
): SubscriptionStatus {
  const suspension = suspensionOfSubscription(subscriptionId, suspensions);
  const suspensionState = suspension?.refusal.status === null ? 'missing' : 'refused';
  return {
    id: subscriptionId,
    name,
    cursor: cursor?.text ?? null,
    cursorAt: cursorAt.toISOString(),
    replayedAt: replayedAt?.toISOString() ?? null,
    state: suspension === null ? 'followed' : suspensionState,
    isSuspended: suspension !== null,
  };
}

const NAMED_BY_NOTHING = { subscriptionId: null, datasetId: null, version: null };

/** In an order that does not depend on when they were noted. */
function absencesStatus(absences: readonly Absence[]): readonly AbsenceStatus[] {
  const sorted = absences.toSorted((left, right) =>
    absenceKey(left.subject) < absenceKey(right.subject) ? -1 : 1,
  );
  return sorted.map((absence) => {
    const { kind, subscriptionId, datasetId, version } = { ...NAMED_BY_NOTHING, ...absence.subject };
    return {
      kind,
      subscriptionId,
      datasetId,
      version,
      since: absence.since.toISOString(),
      confirmedAfter: confirmedAt(absence).toISOString(),
    };
  });
}

/** Null where nothing is absent. */
export function absencesText(absences: readonly AbsenceStatus[]): string | null {
  const lines = absences.map((absence) => {
    const { since, confirmedAfter } = absence;
    return `${absentWords(absence)} since ${formatTime(since)}, confirmed after ${formatTime(confirmedAfter)}.`;
  });
  return lines.length === 0 ? null : lines.join('\n');
}

function absentWords({ kind, subscriptionId, datasetId, version }: AbsenceStatus): string {
  const subscription = printable(subscriptionId ?? '');
  const dataset = printable(datasetId ?? '');
  switch (kind) {
    case 'member':
      return `Dataset ${dataset} is absent from subscription ${subscription}`;
    case 'subscription':
      return `Subscription ${subscription} is absent from the list of subscriptions`;
    case 'log':
      return `The newest event that was read is absent from the log of subscription ${subscription}`;
    case 'version':
      return `Version ${version} of dataset ${dataset} is absent from the list of versions`;
    case 'table':
      return `Dataset ${dataset}, which has a table, is absent from every subscription`;
    default:
      return unreachable(kind);
  }
}

interface ReadersSeen {
  /** Null: no copy is to be published. `publishedAt`: when the file that is there was; null: there is none. */
  readonly copy: { readonly path: string; readonly publishedAt: Date | null } | null;
  /** Null: no command is to be run. */
  readonly hook: HookRecord | null;
}

function readersStatus({ copy, hook }: ReadersSeen): {
  readonly publishedCopy: PublishedCopyStatus | null;
  readonly afterCommit: AfterCommitStatus | null;
} {
  return {
    publishedCopy: copy && { path: copy.path, publishedAt: copy.publishedAt?.toISOString() ?? null },
    afterCommit: hook && {
      reportedAt: hook.reportedAt?.toISOString() ?? null,
      failure: hook.failure && { ...hook.failure, failedAt: hook.failure.failedAt.toISOString() },
    },
  };
}

/** Null where nothing is done for them. */
export function readersText({ publishedCopy, afterCommit }: Status, now: Date): string | null {
  const lines = [
    ...(publishedCopy === null ? [] : [copyLine(publishedCopy, now)]),
    ...(afterCommit === null ? [] : commandLines(afterCommit, now)),
  ];
  return lines.length === 0 ? null : lines.join('\n');
}

function copyLine({ path, publishedAt }: PublishedCopyStatus, now: Date): string {
  if (publishedAt === null) return `No copy is published yet at ${path}.`;
  return `The copy ${path} was published at ${formatTimeFrom(now, publishedAt)}.`;
}

function commandLines({ reportedAt, failure }: AfterCommitStatus, now: Date): readonly string[] {
  if (failure === null) {
    return reportedAt === null
      ? ['The command after commits was told of nothing yet.']
      : [`The command after commits was last told at ${formatTimeFrom(now, reportedAt)}.`];
  }
  const times = failure.attempts === 1 ? '' : ` ${formatCount(failure.attempts)} times, last`;
  return [
    `The command after commits failed${times} at ${formatTimeFrom(now, failure.failedAt)}:`,
    ...failure.message.split('\n').map((line) => `  ${printable(line)}`),
    '→ A running instance tells it again by itself; without one: feed-sync once',
  ];
}
