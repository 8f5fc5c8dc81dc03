/** `feed-sync status`: what is wanted, what the mirror has, and what is in the way. Works beside a running instance. */

import { statSync } from 'node:fs';
import type {
  CheckpointReader,
  Failure,
  Followed,
  HookRecord,
  Suspension,
} from '../../checkpoint/checkpoint.ts';
import { openCheckpointReader } from '../../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { Absence } from '../../model/absence.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { BusyError } from '../../model/errors.ts';
import { isChosenDataset } from '../../sync/follow/subscriptions.ts';
import { runningInstance } from '../beside.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf } from '../exit-codes.ts';
import { type MirrorSeen, mirrorBytes, mirrorHolders, seeMirror } from '../mirror-seen.ts';
import { jsonText } from '../render/table.ts';
import type { Status } from './shape.ts';
import { renderStatus } from './text.ts';
import { statusOf } from './view.ts';

const NEVER_REPORTED: HookRecord = { reported: null, reportedAt: null, failure: null };

export interface StatusOptions {
  readonly json: boolean;
}

/** @throws FeedSyncError when a store cannot be read. */
export async function status(
  configuration: LocalConfiguration,
  context: Context,
  { json }: StatusOptions,
): Promise<ExitCode> {
  const mirror = await seeMirror(configuration, context);
  const view = look(mirror, configuration, context);
  const { stdout, width } = context.terminal;
  const shownTo = { now: context.clock.now(), width };
  await write(stdout, json ? jsonText(view) : `${renderStatus(view, shownTo)}\n`);
  return mirror instanceof Error && !(mirror instanceof BusyError) ? exitCodeOf(mirror) : EXIT_CODES.caughtUp;
}

function look(mirror: MirrorSeen, configuration: LocalConfiguration, context: Context): Status {
  const instance = runningInstance(configuration, context);
  const { uid } = context.identity;
  const checkpoint = openCheckpointReader({ path: configuration.checkpoint.path, uid });
  try {
    const lockHolders = mirrorHolders(configuration.destination.path, context, instance?.pid ?? null);
    return statusSeen(configuration, { mirror, lockHolders, checkpoint, runningInstance: instance });
  } finally {
    checkpoint?.close();
  }
}

/** What a status is told from: `checkpoint` is null where there is none. */
export interface Seen {
  readonly mirror: MirrorSeen;
  readonly lockHolders: readonly number[];
  readonly checkpoint: CheckpointReader | null;
  readonly runningInstance: Status['runningInstance'];
}

export function statusSeen(
  { datasets: { include, exclude }, dataDirectory, destination, hooks }: LocalConfiguration,
  { mirror, lockHolders, checkpoint, runningInstance }: Seen,
): Status {
  return statusOf({
    dataDirectory,
    mirrorPath: destination.path,
    runningInstance,
    mirror,
    mirrorBytes: mirrorBytes(destination.path),
    lockHolders,
    readers: {
      copy: destination.publish && {
        path: destination.publish.path,
        publishedAt: changedAt(destination.publish.path),
      },
      hook: hooks.afterCommit && (checkpoint?.hook() ?? NEVER_REPORTED),
    },
    checkpoint: checkpoint === null ? null : contentOf(checkpoint),
    isChosen: (datasetId) => isChosenDataset(datasetId, include, exclude),
  });
}

/** Null where there is no such file, or it cannot be looked at. */
function changedAt(path: string): Date | null {
  try {
    return statSync(path).mtime;
  } catch {
    return null;
  }
}

function contentOf(checkpoint: CheckpointReader): CheckpointContent {
  return {
    followed: checkpoint.followed(),
    forgotten: checkpoint.forgotten(),
    desiredStates: checkpoint.desiredStates(),
    absences: checkpoint.absences(),
    suspensions: checkpoint.suspensions(),
    failures: checkpoint.failures(),
  };
}

export interface CheckpointContent {
  readonly followed: ReadonlyMap<string, Followed>;
  readonly forgotten: readonly string[];
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  readonly absences: readonly Absence[];
  readonly suspensions: readonly Suspension[];
  readonly failures: ReadonlyMap<string, Failure>;
}

/** There is none. */
export const NO_CHECKPOINT: CheckpointContent = {
  followed: new Map(),
  forgotten: [],
  desiredStates: new Map(),
  absences: [],
  suspensions: [],
  failures: new Map(),
};
