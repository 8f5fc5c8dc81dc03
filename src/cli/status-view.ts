/** What `status` tells, as data: the shape of `status --json`, which programs rely on. Pure. */

import type { Failure, Followed, Hold } from '../checkpoint/checkpoint.ts';
import type { InstanceHolder } from '../checkpoint/instance-lock.ts';
import type { Held, HeldDataset } from '../destination/destination.ts';
import type { Want } from '../model/want.ts';
import { type Need, needOf } from '../sync/need.ts';
import { type DatasetStateKind, type Known, stateOf } from '../sync/state.ts';

export interface Status {
  readonly dataDirectory: string;
  readonly mirror: MirrorStatus;
  readonly runningInstance: { readonly pid: number; readonly host: string; readonly command: string } | null;
  readonly subscriptions: readonly SubscriptionStatus[];
  readonly datasets: readonly DatasetStatus[];
  /** Of the workspace and of subscriptions; those of datasets are with the datasets. */
  readonly holds: readonly HoldStatus[];
}

export interface MirrorStatus {
  readonly path: string;
  readonly state: 'present' | 'absent' | 'busy' | 'unusable';
  /** Why it is unusable; null where it is not. */
  readonly trouble: string | null;
}

export interface SubscriptionStatus {
  readonly id: string;
  readonly name: string | null;
  readonly cursor: string | null;
  readonly cursorAt: string;
}

export interface DatasetStatus {
  readonly id: string;
  readonly state: DatasetStateKind;
  /** What is still to be done; null where the mirror could not be read. */
  readonly need: Need | null;
  readonly table: string | null;
  readonly version: number | null;
  readonly wantedVersion: number | null;
  readonly rows: number | null;
  readonly publishedAt: string | null;
  readonly appliedAt: string | null;
  readonly hold: HoldStatus | null;
  readonly failure: FailureStatus | null;
}

export interface HoldStatus {
  readonly scope: 'workspace' | 'subscription' | 'dataset';
  readonly id: string | null;
  readonly operation: string;
  readonly status: number;
  readonly code: string | null;
  readonly message: string;
  readonly links: Readonly<Record<string, string>>;
  readonly since: string;
}

export interface FailureStatus {
  readonly error: string;
  readonly message: string;
  readonly hint: string | null;
  readonly attempts: number;
  readonly failedAt: string;
  readonly retryAt: string;
}

/** What the mirror has; null where there is none; 'busy' where somebody keeps its file; an error where it is unusable. */
export type MirrorSeen = Held | null | 'busy' | Error;

export interface StatusInput {
  readonly dataDirectory: string;
  readonly mirrorPath: string;
  readonly runningInstance: InstanceHolder | null;
  readonly mirror: MirrorSeen;
  readonly checkpoint: {
    readonly followed: ReadonlyMap<string, Followed>;
    readonly wants: ReadonlyMap<string, Want>;
    readonly holds: readonly Hold[];
    readonly failures: ReadonlyMap<string, Failure>;
  } | null;
}

export function statusOf(input: StatusInput): Status {
  const { checkpoint, mirror, runningInstance } = input;
  const holds = checkpoint?.holds ?? [];
  return {
    dataDirectory: input.dataDirectory,
    mirror: mirrorStatus(input.mirrorPath, mirror),
    runningInstance:
      runningInstance === null
        ? null
        : { pid: runningInstance.pid, host: runningInstance.host, command: runningInstance.command },
    subscriptions: [...(checkpoint?.followed.values() ?? [])].map(
      ({ subscriptionId, name, cursor, cursorAt }) => ({
        id: subscriptionId,
        name,
        cursor: cursor?.text ?? null,
        cursorAt: cursorAt.toISOString(),
      }),
    ),
    datasets: datasetsOf(input),
    holds: holds.filter(({ refusal }) => refusal.scope.kind !== 'dataset').map(holdStatus),
  };
}

function mirrorStatus(path: string, mirror: MirrorSeen): MirrorStatus {
  if (mirror === null) return { path, state: 'absent', trouble: null };
  if (mirror === 'busy') return { path, state: 'busy', trouble: null };
  if (mirror instanceof Error) return { path, state: 'unusable', trouble: mirror.message };
  return { path, state: 'present', trouble: null };
}

/** Null where it is not known. */
function tablesOf(mirror: MirrorSeen): ReadonlyMap<string, HeldDataset> | null {
  if (mirror === null) return new Map();
  return mirror === 'busy' || mirror instanceof Error ? null : mirror.datasets;
}

/** Those wanted and those in the mirror, in order of id. Without a checkpoint the mirror speaks for itself. */
function datasetsOf({ mirror, checkpoint }: StatusInput): readonly DatasetStatus[] {
  const tables = tablesOf(mirror);
  const inMirror = tables ?? new Map<string, HeldDataset>();
  const wanted = [...(checkpoint?.wants.values() ?? [])].filter(isMember);
  const wants = new Map(wanted.map((want) => [want.datasetId, want]));
  const ids = new Set([...inMirror.keys(), ...wants.keys()]);
  return [...ids].sort().map((id) => {
    const held = inMirror.get(id) ?? null;
    const hold = checkpoint?.holds.find((candidate) => isOfDataset(candidate, id)) ?? null;
    const failure = checkpoint?.failures.get(id) ?? null;
    const want = wants.get(id) ?? null;
    return {
      id,
      ...(want === null ? UNWANTED : wantedStatus({ want, held, hold, failure }, tables !== null)),
      ...heldStatus(held),
      hold: hold === null ? null : holdStatus(hold),
      failure: failure === null ? null : failureStatus(failure),
    };
  });
}

/** A table that nobody is known to want: the checkpoint is lost or does not know it yet. */
const UNWANTED = { state: 'live', need: null, wantedVersion: null } as const;

function wantedStatus(known: Known, isMirrorKnown: boolean) {
  return {
    state: stateOf(known).kind,
    need: isMirrorKnown ? needOf(known.held, known.want) : null,
    wantedVersion: known.want.atLeastVersion,
  };
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

function isOfDataset({ refusal: { scope } }: Hold, datasetId: string): boolean {
  return scope.kind === 'dataset' && scope.datasetId === datasetId;
}

function isMember({ members }: Want): boolean {
  return members.size > 0;
}

export function holdStatus({
  refusal: { scope, operation, status, code, message, links },
  heldAt,
}: Hold): HoldStatus {
  const id =
    scope.kind === 'workspace' ? null : scope.kind === 'dataset' ? scope.datasetId : scope.subscriptionId;
  return {
    scope: scope.kind,
    id,
    operation,
    status,
    code,
    message,
    links: Object.fromEntries(links),
    since: heldAt.toISOString(),
  };
}

function failureStatus({ error, message, hint, attempts, failedAt, retryAt }: Failure): FailureStatus {
  return { error, message, hint, attempts, failedAt: failedAt.toISOString(), retryAt: retryAt.toISOString() };
}
