/**
 * Sorts trouble by what it belongs to. A refusal is stored as a hold; what concerns the whole run (the workspace is
 * refused, the disk is full, a bug) halts it, so that nothing more is asked of the service; all else stays with the
 * dataset or subscription it struck.
 */

import type { Hold } from '../checkpoint/checkpoint.ts';
import {
  ConfigurationError,
  FeedSyncError,
  InterruptedError,
  RefusalError,
  StorageError,
} from '../model/errors.ts';
import { failureOf } from './failures.ts';
import { storeHold } from './holds.ts';
import type { Parts } from './parts.ts';
import type { DatasetResult, Trouble } from './result.ts';
import type { Known } from './state.ts';

export interface Troubles {
  /** Aborted when the run is halted or the caller's own signal is. */
  readonly signal: AbortSignal;
  readonly troubles: readonly Trouble[];
  /** Trouble of a subscription, or of the run where `subscriptionId` is null. */
  record(error: unknown, subscriptionId: string | null): void;
  /** Trouble of a dataset, as its result. */
  recordForDataset(error: unknown, known: Known): DatasetResult;
}

const STOPPED = 'the run ended before its turn';

export function watchTroubles(parts: Parts, callerSignal: AbortSignal): Troubles {
  const halt = new AbortController();
  const troubles: Trouble[] = [];

  const storeRefusal = (error: RefusalError): Hold => {
    const hold = storeHold(parts, error.refusal);
    if (error.refusal.scope.kind === 'workspace')
      halt.abort(new InterruptedError('The workspace is refused.'));
    return hold;
  };

  const record = (error: unknown, subscriptionId: string | null): void => {
    if (error instanceof RefusalError) {
      storeRefusal(error);
      return;
    }
    if (halt.signal.aborted && error instanceof InterruptedError) return;
    troubles.push({ subscriptionId, error: asError(error) });
    if (concernsTheRun(error)) halt.abort(new InterruptedError('The run was halted.'));
  };

  return {
    signal: AbortSignal.any([callerSignal, halt.signal]),
    troubles,
    record,
    recordForDataset(error, { want: { datasetId }, failure: previous }) {
      if (error instanceof InterruptedError) return { kind: 'waiting', datasetId, why: STOPPED };
      if (error instanceof RefusalError) {
        const hold = storeRefusal(error);
        return { kind: 'held', datasetId, hold };
      }
      if (concernsTheRun(error)) {
        record(error, null);
        return { kind: 'waiting', datasetId, why: STOPPED };
      }
      const failed = asError(error);
      const failure = failureOf(datasetId, failed, null, previous, parts.clock.now());
      parts.checkpoint.fail(failure);
      return { kind: 'failed', datasetId, error: failed, failure };
    },
  };
}

function concernsTheRun(error: unknown): boolean {
  return (
    error instanceof StorageError || error instanceof ConfigurationError || !(error instanceof FeedSyncError)
  );
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
