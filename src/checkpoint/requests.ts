/**
 * The port of the requests of operators: commands ask the program that works on the destination, and it answers.
 *
 * Invariants: a request is begun once. One whose command no longer waits for the answer is never begun: a command that
 * waits asks again now and then, and takes its request back when it stops waiting. Every call may throw `StorageError` and `BusyError`.
 */

import type { ErrorCode } from '../model/error-codes.ts';

export interface OperatorRequest {
  readonly requestId: string;
  /** Empty: the request is of no single dataset. */
  readonly datasetId: string;
  /** The command that asks: `rollback`. */
  readonly command: string;
  /** The parameters of the command, as JSON; decoded by whoever performs it, which may be another version of the program. */
  readonly parameters: unknown;
  /** The approval that it asks for was used by a commit, under a holder of the database that ended before it answered. */
  readonly isCommitted?: boolean;
}

export type RequestAnswer =
  /** The report for people: sentences. */
  | { readonly kind: 'done'; readonly text: string }
  | {
      readonly kind: 'refused';
      readonly error: ErrorCode;
      readonly message: string;
      readonly hint: string | null;
    };

/** The state of a request. `waiting`: not begun. `begun`: the program works on it, or ended meanwhile. */
export type RequestState = { readonly kind: 'waiting' } | { readonly kind: 'begun' } | RequestAnswer;

/** The result of a withdrawal. `removed`: nobody begins it any more. `kept`: it is begun, or answered, or not known any more. */
export type Withdrawal =
  /** `wasBegun`: an instance began it and has ended before it answered, so that it may be done. */
  { readonly kind: 'removed'; readonly wasBegun: boolean } | { readonly kind: 'kept' };

export interface Requests {
  /** Stores the request; of a request that is stored already, that its command still waits. */
  ask(request: OperatorRequest, at: Date): Promise<void>;

  /** Removes a request that waits. */
  withdraw(requestId: string): Promise<Withdrawal>;

  /** Returns null for a request that is not known any more. */
  state(requestId: string): Promise<RequestState | null>;

  /** Returns the datasets of requests that wait and whose commands still waited lately, the oldest request first. */
  waitingDatasets(now: Date): Promise<readonly string[]>;

  /** Takes the oldest such request of the dataset, which is begun from then on; null: there is none. */
  begin(datasetId: string, now: Date): Promise<OperatorRequest | null>;

  answer(requestId: string, answer: RequestAnswer): Promise<void>;
}

/** In place of the dataset of a request that is of no single one. */
export const NO_DATASET = '';

/** A command that has not asked again for so long waits no longer. */
export const MAX_SILENCE_MS = 60_000;

/** The oldest requests are dropped. */
export const MAX_REQUESTS = 1_000;
