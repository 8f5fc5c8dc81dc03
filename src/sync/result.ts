/** How a catch-up ended, for each dataset and as a whole. */

import type { Failure, Suspension } from '../checkpoint/checkpoint.ts';
import type { CommitResult } from '../model/commits.ts';
import type { AwaitedSubscription } from './plan/retirement.ts';

/** What became of a dataset, and what was committed for it on the way, oldest first: trouble may come after a commit. */
export type DatasetResult = {
  readonly datasetId: string;
  readonly commits: readonly CommitResult[];
} & DatasetEnding;

export type DatasetEnding =
  /** Something was committed, and nothing more is to be done. */
  | ({ readonly kind: 'updated' } & Recheck)
  /** There was nothing to do. */
  | ({ readonly kind: 'current' } & Recheck)
  /** No subscription holds it any more. `table` is where the rows are now; null where they are gone. */
  | { readonly kind: 'retired'; readonly table: string | null }
  | Waiting
  | { readonly kind: 'suspended'; readonly suspension: Suspension }
  /** Failed now, or failed before with content that the service still offers. */
  | { readonly kind: 'failed'; readonly error: Error; readonly failure: Failure | null };

/** Nothing can be done about it now. The next catch-up tries again. */
export interface Waiting {
  readonly kind: 'waiting';
  /** For people: a clause. */
  readonly why: string;
  /** When trying again helps at the earliest, in service time; null: nobody knows. */
  readonly until: Date | null;
  /** The subscriptions that the retirement of its table waits for; none where it waits for something else. */
  readonly awaited: readonly AwaitedSubscription[];
}

export function waiting(why: string, until: Date | null = null): Waiting {
  return { kind: 'waiting', why, until, awaited: [] };
}

interface Recheck {
  /** What is absent without an event that says so can be confirmed from then on, in service time; null: nothing is. */
  readonly recheckAt: Date | null;
}

/** Trouble that is not a dataset's own: of a subscription, of the run as a whole. */
export interface Incident {
  readonly subscriptionId: string | null;
  readonly error: Error;
}

export interface CatchUpResult {
  /** Those that were chosen and seen. */
  readonly subscriptions: number;
  readonly datasets: readonly DatasetResult[];
  readonly incidents: readonly Incident[];
  /** Holds of the workspace, of subscriptions and of retirements; those of single datasets are in `datasets`. */
  readonly suspensions: readonly Suspension[];
  /**
   * When running again helps at the earliest, where a rule waits for time to pass: in service time, and how long after the
   * subscriptions were listed that is. Null: no rule does.
   */
  readonly again: { readonly at: Date; readonly inMs: number } | null;
  readonly durationMs: number;
}
