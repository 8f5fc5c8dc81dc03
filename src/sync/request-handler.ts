/** How a request of an operator is performed: what a handler gets, and what it answers. */

import type { OperatorRequest, RequestAnswer } from '../checkpoint/requests.ts';
import { errorCodeOf, FeedSyncError } from '../model/errors.ts';
import type { ForRequests } from './execute/step-tools.ts';
import type { Parts } from './parts.ts';
import type { DatasetState } from './plan/dataset-state.ts';
import type { DatasetResult } from './result.ts';

/** The tools of a handler. */
export interface Performing extends ForRequests {
  readonly parts: Parts;
  /** The dataset as both stores know it; null: no subscription contains it and it has no table, or it is not chosen. */
  readonly known: DatasetState | null;
  /** Stores with the mirror what its tables owe to operators. */
  readonly shareResyncs: () => Promise<void>;
}

/** Returns the answer to a request once the dataset was reconciled. */
export type AnswerAfter = (result: DatasetResult) => RequestAnswer;

/** The function that performs a request; an error that the handler throws is the answer. */
export type Handler = (
  request: OperatorRequest,
  performing: Performing,
) => Promise<RequestAnswer | AnswerAfter>;

/** Returns an error as an answer; the command that asked throws it again. */
export function refusalOf(error: unknown): RequestAnswer {
  const message = error instanceof Error ? error.message : String(error);
  const hint = error instanceof FeedSyncError ? error.hint : null;
  return { kind: 'refused', error: errorCodeOf(error), message, hint };
}
