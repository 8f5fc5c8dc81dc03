/**
 * Sorts trouble by what it belongs to. A refusal is stored as a hold; what concerns the whole run (the workspace is
 * refused, the disk is full, the mirror is busy) halts it, so that nothing more is asked of the service; all else, a
 * bug among it, stays with the dataset or subscription it struck.
 */

import type { Hold } from '../checkpoint/checkpoint.ts';
import { unreachable } from '../lib/assert.ts';
import { shellWord } from '../lib/text.ts';
import {
  BusyError,
  ConfigurationError,
  DatasetStorageError,
  FeedSyncError,
  InterruptedError,
  type Refusal,
  RefusalError,
  type RefusalScope,
  StorageError,
} from '../model/errors.ts';
import { failureOf, toRemember } from './failures.ts';
import type { Parts } from './parts.ts';
import type { Known } from './plan/plan.ts';
import { type Ending, type Trouble, waiting } from './result.ts';
import { storeHold } from './suspensions.ts';

export interface Troubles {
  /** Aborted when the run is halted or the caller's own signal is. */
  readonly signal: AbortSignal;
  readonly troubles: readonly Trouble[];
  /** Trouble of a subscription, or of the run where `subscriptionId` is null. Never throws. */
  record(error: unknown, subscriptionId: string | null): void;
  /** Trouble of a dataset, as what became of it. Never throws. */
  recordForDataset(error: unknown, known: Known): Ending;
}

const STOPPED = 'the run ended before it was done';
const REFUSED_ABOVE = 'the service refused what it belongs to';

/** `tellBug` is told of every bug at once; by default it is logged. */
export function watchTroubles(
  parts: Parts,
  callerSignal: AbortSignal,
  tellBug: (error: Error) => void = (error) => logBug(parts, error),
): Troubles {
  const halt = new AbortController();
  const troubles: Trouble[] = [];

  const add = (error: Error, subscriptionId: string | null): void => {
    const isOfTheRun = concernsTheRun(error) || error instanceof InterruptedError;
    const trouble = { subscriptionId: isOfTheRun ? null : subscriptionId, error };
    if (error instanceof InterruptedError && halt.signal.aborted) return;
    if (troubles.some((told) => isSameTrouble(told, trouble))) return;
    troubles.push(trouble);
    if (!(error instanceof FeedSyncError)) tellBug(error);
    if (concernsTheRun(error)) halt.abort(new InterruptedError('The run was halted.'));
  };

  /** Null where the hold could not be stored; that is trouble too. */
  const hold = (error: RefusalError): Hold | null => {
    if (error.refusal.scope.kind === 'workspace') {
      halt.abort(new InterruptedError('The workspace is refused.'));
    }
    const stored = attempt(() => storeHold(parts, error.refusal));
    if (stored === null) add(error, null);
    return stored;
  };

  /** What a store says while trouble is written down is trouble of the run. */
  const attempt = <T>(effect: () => T): T | null => {
    try {
      return effect();
    } catch (error) {
      add(asError(error), null);
      return null;
    }
  };

  const resultOf = (error: Error, { want: { datasetId }, failure: previous }: Known): Ending => {
    if (error instanceof InterruptedError || concernsTheRun(error)) {
      add(error, null);
      return waiting(STOPPED);
    }
    if (error instanceof RefusalError) {
      const stored = hold(error);
      if (error.refusal.scope.kind !== 'dataset') return waiting(REFUSED_ABOVE);
      if (stored === null) return { kind: 'failed', error, failure: null };
      return { kind: 'held', hold: stored };
    }
    if (!(error instanceof FeedSyncError)) tellBug(error);
    const failure = failureOf(datasetId, error, [], previous, parts.clock.now());
    attempt(() => parts.checkpoint.fail(toRemember(failure, previous)));
    return { kind: 'failed', error, failure };
  };

  return {
    signal: AbortSignal.any([callerSignal, halt.signal]),
    troubles,
    record(error, subscriptionId) {
      if (error instanceof RefusalError) hold(error);
      else add(asError(error), subscriptionId);
    },
    recordForDataset: (error, known) => resultOf(asError(error), known),
  };
}

/** Whether the trouble is of one dataset alone: others may go on, and what is asked for them too. */
export function isOfOneDataset(error: unknown): error is Error {
  if (error instanceof RefusalError) return error.refusal.scope.kind === 'dataset';
  return !concernsTheRun(error) && !(error instanceof InterruptedError);
}

/** What holds the mirror or the checkpoint would make every other dataset wait for it just as long. */
function concernsTheRun(error: unknown): boolean {
  if (error instanceof DatasetStorageError) return false;
  return error instanceof StorageError || error instanceof BusyError || error instanceof ConfigurationError;
}

/** Of a bug, the stack is what helps. */
function logBug({ log }: Parts, error: Error): void {
  log.error({ stack: error.stack }, 'A bug in feed-sync: this should not happen.');
}

/** One thing wrong strikes many datasets at once; it is told once. However many parts were stopped, it is one stop. */
function isSameTrouble(left: Trouble, right: Trouble): boolean {
  if (left.subscriptionId !== right.subscriptionId || left.error.name !== right.error.name) return false;
  return left.error instanceof InterruptedError || left.error.message === right.error.message;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** The operation of the hold of a subscription that the service lists and the configuration leaves out. */
export const SELECT_SUBSCRIPTIONS = 'select subscriptions';

const LIST_SUBSCRIPTIONS = 'list subscriptions';
const NOT_FOUND = 404;

/** What else may have led to a refusal than what the service says: an address whose path is wrong answers, too. Or null. */
export function possibleCause({ operation, status }: Pick<Refusal, 'operation' | 'status'>): string | null {
  if (operation !== LIST_SUBSCRIPTIONS || status !== NOT_FOUND) return null;
  return 'The path of service.baseUrl (FEED_SYNC_BASE_URL) may be wrong: check it, and correct it where it is.';
}

/** How to go on after a refusal, in the order in which people will want to. */
export function waysOut(refusal: Pick<Refusal, 'status' | 'scope' | 'operation'>): readonly string[] {
  if (refusal.status === null) return waysOutOfOurs(refusal);
  const cause = possibleCause(refusal);
  return [...(cause === null ? [] : [cause]), afterActing(refusal.scope)];
}

/** How to go on with a subscription that was followed and is not any more. `isListed`: the service has it still. */
export function waysOutOfMissing(subscriptionId: string, isListed: boolean): readonly string[] {
  const options = resumeOptions({ kind: 'subscription', subscriptionId });
  const condition = isListed
    ? 'Once the setting subscriptions (FEED_SYNC_SUBSCRIPTIONS) selects it again'
    : 'When it is there again';
  return [
    `${condition}: feed-sync resume ${options}`,
    `To give it up, and retire what only it holds: feed-sync forget ${options}`,
  ];
}

function afterActing(scope: RefusalScope): string {
  return `Once you have acted on it: feed-sync resume ${resumeOptions(scope)}`;
}

/** Where the program itself has stopped: a subscription is gone, or more tables would retire than it retires unasked. */
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
