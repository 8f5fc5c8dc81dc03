/** The result of a catch-up, for each dataset and as a whole. */

import type { Failure, Suspension } from '../checkpoint/checkpoint.ts';
import { formatCount } from '../lib/units.ts';
import type { CommitResult } from '../model/commits.ts';
import type { Retirement } from '../model/write-jobs.ts';
import type { AwaitedSubscription } from './plan/retirement.ts';
import type { Plan, WaitReason } from './plan/step.ts';

/** The result of one reconciliation. It may have failed after commits; they are listed oldest first. */
export type DatasetResult = {
  readonly datasetId: string;
  readonly commits: readonly CommitResult[];
} & DatasetEnding;

export type DatasetEnding =
  /** There were commits, and nothing is left to do. */
  | ({ readonly kind: 'updated' } & Recheck)
  /** There was nothing to do. */
  | ({ readonly kind: 'current' } & Recheck)
  /** No subscription contains the dataset any more. `table` has its rows now; null where they are gone. */
  | { readonly kind: 'retired'; readonly table: string | null }
  /** A dry run ended before its first step. */
  | { readonly kind: 'planned'; readonly step: PlannedStep }
  | Waiting
  | { readonly kind: 'suspended'; readonly suspension: Suspension }
  /** A rollback keeps the table where it is. */
  | { readonly kind: 'pinned'; readonly version: number; readonly pinnedSince: Date }
  /** Failed now, or failed before with content that the manifest still lists. */
  | { readonly kind: 'failed'; readonly error: Error; readonly failure: Failure | null };

/** The next step of a dataset, with what the service says of its size. */
export type PlannedStep =
  | {
      readonly kind: 'load';
      /** Null: there is no table yet. */
      readonly fromVersion: number | null;
      readonly toVersion: number;
      /** For people. */
      readonly why: string;
      /** Null where the service does not say. */
      readonly rows: number | null;
      /** Bytes of the snapshot's files, including files that are here already. Null where the service does not say. */
      readonly bytes: number | null;
    }
  | {
      readonly kind: 'apply';
      readonly fromVersion: number;
      readonly toVersion: number;
      readonly versions: number;
      readonly addsColumns: boolean;
      /** Rows that the changes list. Null where the service does not say for each version. */
      readonly rows: number | null;
    }
  | {
      readonly kind: 'retire';
      readonly fromVersion: number;
      readonly how: Retirement;
      /** For people. */
      readonly why: string;
    };

/** The result where nothing can be done now; the next catch-up tries again. */
export interface Waiting {
  readonly kind: 'waiting';
  /** For the operator: a clause. */
  readonly why: string;
  /** When trying again helps at the earliest, in service time; null: nobody knows. */
  readonly until: Date | null;
  /** The subscriptions that the retirement of its table waits for. */
  readonly awaited: readonly AwaitedSubscription[];
}

export function waiting(why: string, until: Date | null = null): Waiting {
  return { kind: 'waiting', why, until, awaited: [] };
}

interface Recheck {
  /** From when an absence that no event announced can be confirmed, in service time; null: there is none. */
  readonly recheckAt: Date | null;
}

/** An error of a subscription or of the run as a whole. */
export interface Incident {
  readonly subscriptionId: string | null;
  readonly error: Error;
}

export interface CatchUpResult {
  /** The number of chosen and listed subscriptions. */
  readonly subscriptions: number;
  readonly datasets: readonly DatasetResult[];
  readonly incidents: readonly Incident[];
  /** Those of the workspace, of subscriptions and of retirements; the suspensions of datasets are in `datasets`. */
  readonly suspensions: readonly Suspension[];
  /**
   * When another catch-up helps at the earliest, where a rule waits for time to pass: in service time, and how long after the
   * subscriptions were listed that is. Null: no rule waits.
   */
  readonly again: { readonly at: Date; readonly inMs: number } | null;
  readonly durationMs: number;
}

export const WAITING_FOR: Readonly<Record<WaitReason, string>> = {
  'not-listed': 'no manifest that was read lists it',
  'manifest-lags': 'the manifest is older than what the service has announced, or may be',
  'entry-unlisted': 'the list of versions does not name the version that the manifest offers',
  'list-lags': 'the list of versions ends before what the service has announced',
};

export type Wait = Extract<Plan, { readonly kind: 'wait' }>;

/** Returns the reason of a wait, as a clause. */
export function waitingFor(step: Wait): string {
  if (step.why !== 'entry-differs') return WAITING_FOR[step.why];
  const { version, entryRows, listedRows } = step;
  const stated = `the manifest states a row count of ${formatCount(entryRows)} for version ${version}`;
  return `${stated}, the list of versions ${formatCount(listedRows)}: it is loaded once they agree`;
}
