/**
 * Sorts errors by their scope. A refusal is stored as a suspension. An error of the whole run (the workspace is
 * refused, the disk is full, the mirror is busy) halts the run, so that the service is not asked any further. Every
 * other error, bugs included, stays with its dataset or subscription.
 */

import type { Failure, Suspension } from '../checkpoint/checkpoint.ts';
import { unreachable } from '../lib/assert.ts';
import { sourceStack } from '../lib/source-stack.ts';
import { shellWord } from '../lib/text.ts';
import {
  asError,
  errorCodeOf,
  errorEntryOf,
  FeedSyncError,
  InterruptedError,
  type Refusal,
  RefusalError,
  type RefusalScope,
} from '../model/errors.ts';
import { approveCommand } from './candidates.ts';
import { failureOf, toRemember } from './failures.ts';
import type { Parts } from './parts.ts';
import { refusedContents } from './plan/content.ts';
import type { DatasetState } from './plan/dataset-state.ts';
import { type DatasetEnding, type Incident, waiting } from './result.ts';
import { storeSuspension } from './suspensions.ts';

export interface Incidents {
  /** Aborted when the run is halted, or when the caller's own signal is aborted. */
  readonly signal: AbortSignal;
  readonly incidents: readonly Incident[];
  /** Records an error of a subscription, or of the run where `subscriptionId` is null. Never throws. */
  record(error: unknown, subscriptionId: string | null): void;
  /** Records an error of a dataset and returns the dataset's result. Never throws. */
  recordForDataset(error: unknown, known: DatasetState): DatasetEnding;
}

const STOPPED = 'the run ended before it was done';
const REFUSED_ABOVE = 'the service refused what it belongs to';

/** Collects the incidents of a run. `reportBug` is called with every bug at once; by default the bug is logged. */
export function watchIncidents(
  parts: Parts,
  callerSignal: AbortSignal,
  reportBug: (error: Error) => void = (error) => logBug(parts, error),
): Incidents {
  const halt = new AbortController();
  const incidents: Incident[] = [];

  const add = (error: Error, subscriptionId: string | null): void => {
    const incident = { subscriptionId: concernsTheRun(error) ? null : subscriptionId, error };
    if (error instanceof InterruptedError && halt.signal.aborted) return;
    if (incidents.some((reported) => isSameIncident(reported, incident))) return;
    incidents.push(incident);
    if (!(error instanceof FeedSyncError)) reportBug(error);
    const isHalting = concernsTheRun(error) && !(error instanceof InterruptedError);
    if (isHalting) halt.abort(new InterruptedError('The run was halted.'));
  };

  /** Null where the suspension could not be stored, which is an incident, too. */
  const suspension = (error: RefusalError): Suspension | null => {
    if (error.refusal.scope.kind === 'workspace') {
      halt.abort(new InterruptedError('The workspace is refused.'));
    }
    const stored = attempt(() => storeSuspension(parts, error.refusal));
    if (stored === null) add(error, null);
    return stored;
  };

  /** An error of a store while an error is recorded is an incident of the run. */
  const attempt = <T>(effect: () => T): T | null => {
    try {
      return effect();
    } catch (error) {
      add(asError(error), null);
      return null;
    }
  };

  const resultOf = (
    error: Error,
    { desired: { datasetId }, failure: previous }: DatasetState,
  ): DatasetEnding => {
    if (concernsTheRun(error)) {
      add(error, null);
      return waiting(STOPPED);
    }
    if (error instanceof RefusalError) {
      const stored = suspension(error);
      if (error.refusal.scope.kind !== 'dataset') return waiting(REFUSED_ABOVE);
      if (stored === null) return { kind: 'failed', error, failure: null };
      attempt(() => forgetFailure(datasetId, previous, parts));
      return { kind: 'suspended', suspension: stored };
    }
    if (!(error instanceof FeedSyncError)) reportBug(error);
    const failure = failureOf(datasetId, error, [], previous, parts.clock.now());
    attempt(() => parts.checkpoint.fail(toRemember(failure, previous)));
    return { kind: 'failed', error, failure };
  };

  return {
    signal: AbortSignal.any([callerSignal, halt.signal]),
    incidents,
    record(error, subscriptionId) {
      if (error instanceof RefusalError) suspension(error);
      else add(asError(error), subscriptionId);
    },
    recordForDataset: (error, known) => resultOf(asError(error), known),
  };
}

/** Nothing of a suspended dataset is tried again. The record of bad content stays. */
function forgetFailure(datasetId: string, failure: Failure | null, { checkpoint, clock }: Parts): void {
  if (failure === null || refusedContents(failure, clock.now()).length > 0) return;
  checkpoint.clearFailure(datasetId);
}

/** Returns whether the error concerns one dataset alone, so that the other datasets and their requests may go on. */
export function isOfOneDataset(error: unknown): error is Error {
  if (error instanceof RefusalError) return error.refusal.scope.kind === 'dataset';
  return !concernsTheRun(error);
}

/** A lock on the mirror or the checkpoint would make every other dataset wait just as long. */
function concernsTheRun(error: unknown): boolean {
  return errorEntryOf(error).scope === 'run';
}

/** Only the stack helps with a bug. */
function logBug({ log }: Parts, error: Error): void {
  log.error({ stack: sourceStack(error) }, 'A bug in feed-sync: this should not happen.');
}

/** One cause strikes many datasets at once and is reported once. Any number of stopped parts are one stop. */
function isSameIncident(left: Incident, right: Incident): boolean {
  const isSameCode = errorCodeOf(left.error) === errorCodeOf(right.error);
  if (left.subscriptionId !== right.subscriptionId || !isSameCode) return false;
  return left.error instanceof InterruptedError || left.error.message === right.error.message;
}

/** The operation of the suspension of a subscription that the service lists and the configuration leaves out. */
export const SELECT_SUBSCRIPTIONS = 'select subscriptions';

const LIST_SUBSCRIPTIONS = 'list subscriptions';
const NOT_FOUND = 404;

/** Returns another possible cause of a refusal than the service's message, or null: a base URL with a wrong path answers, too. */
export function possibleCause({ operation, status }: Pick<Refusal, 'operation' | 'status'>): string | null {
  if (operation !== LIST_SUBSCRIPTIONS || status !== NOT_FOUND) return null;
  return 'The path of service.baseUrl (FEED_SYNC_BASE_URL) may be wrong: check it, and correct it where it is.';
}

/** Returns what an operator can do about a suspension, the most likely wish first. */
export function waysOutOf({
  refusal,
  candidate,
}: Pick<Suspension, 'refusal' | 'candidate'>): readonly string[] {
  if (candidate === undefined) return waysOut(refusal);
  if (candidate.approvedAt !== null) return ['It is approved: the next catch-up commits it.'];
  return [`To commit exactly this: ${approveCommand(candidate)}`];
}

/** Returns what an operator can do after a refusal, the most likely wish first. */
export function waysOut(refusal: Pick<Refusal, 'status' | 'scope' | 'operation'>): readonly string[] {
  if (refusal.status === null) return waysOutOfOurs(refusal);
  const cause = possibleCause(refusal);
  return [...(cause === null ? [] : [cause]), afterActing(refusal.scope)];
}

/**
 * Returns what an operator can do about a subscription that is not followed any more. `isListed`: the service still lists the
 * subscription.
 */
export function waysOutOfMissing(subscriptionId: string, isListed: boolean): readonly string[] {
  const options = resumeOptions({ kind: 'subscription', subscriptionId });
  const condition = isListed
    ? 'Once the setting subscriptions (FEED_SYNC_SUBSCRIPTIONS) selects it again'
    : 'When it is there again';
  return [
    `${condition}: feed-sync resume ${options}`,
    `To give it up, and retire what only it contains: feed-sync forget ${options}`,
  ];
}

/** When an operator may lift the suspension after a refusal. */
export const ONCE_ACTED = 'Once you have acted on it';

function afterActing(scope: RefusalScope): string {
  return `${ONCE_ACTED}: feed-sync resume ${resumeOptions(scope)}`;
}

/** Ways out where feed-sync itself stopped: a subscription is missing, or more tables would retire than may without approval. */
function waysOutOfOurs({ scope, operation }: Pick<Refusal, 'scope' | 'operation'>): readonly string[] {
  switch (scope.kind) {
    case 'subscription':
      return waysOutOfMissing(scope.subscriptionId, operation === SELECT_SUBSCRIPTIONS);
    case 'retirement':
      return [`Where that is right: feed-sync resume ${resumeOptions(scope)}`];
    case 'workspace':
    case 'dataset':
      return [afterActing(scope)];
    default:
      return unreachable(scope);
  }
}

function resumeOptions(scope: RefusalScope): string {
  switch (scope.kind) {
    case 'workspace':
      return '--workspace (or give another key)';
    case 'subscription':
      return `--subscription ${shellWord(scope.subscriptionId)}`;
    case 'dataset':
      return `--dataset ${shellWord(scope.datasetId)}`;
    case 'retirement':
      return '--retire';
    default:
      return unreachable(scope);
  }
}
