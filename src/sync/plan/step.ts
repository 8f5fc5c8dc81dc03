/** The input of a plan, and the steps that a plan may return. */

import type { Suspension } from '../../checkpoint/checkpoint.ts';
import type { Candidate } from '../../model/candidate.ts';
import type { ReloadMark } from '../../model/desired-state.ts';
import type { GateLimits } from '../../model/gate.ts';
import type { ListedEntry, ManifestEntry } from '../../model/manifest.ts';
import type { Schema, Version } from '../../model/records.ts';
import type { DatasetState } from './dataset-state.ts';
import type { AwaitedSubscription, RetirementVerdict } from './retirement.ts';

export interface PlanInput extends DatasetState {
  /** The entries of the subscriptions that contain the dataset. Null: not read yet. */
  readonly listedEntries: readonly ListedEntry[] | null;
  /** By version: since when the list of versions lacks it while naming only lower versions. */
  readonly absentSince: ReadonlyMap<number, Date>;
  /** Null: not read yet. */
  readonly metadata: Metadata | null;
  /**
   * Versions whose changes were found inapplicable during this run, each with the reason as a clause (`they were not
   * recorded`).
   */
  readonly inapplicable: ReadonlyMap<number, string>;
  /** Whether the table of a dataset that no subscription contains may retire now; meaningless for other datasets. */
  readonly retirement: RetirementVerdict;
  /** The limits of the dataset's gate. */
  readonly limits: GateLimits;
  readonly schemaChanges: 'reload' | 'alter';
  /** How long a manifest without a watermark may lag. */
  readonly manifestLagMs: number;
  /** How many bytes of changes may be staged at once. */
  readonly maxStagedBytes: number;
  /** Whether each version is a commit of its own, as far as changes lead from one to the next. */
  readonly commitsEveryVersion: boolean;
  readonly now: Date;
}

/** One step. */
export type Plan =
  /**
   * Nothing is needed. Pending refreshes are done, because their data was read and the table is at the head. Only this
   * step clears a failure, so that failed content is not fetched again too soon.
   */
  | { readonly kind: 'keep' }
  /** Read versions newer than `newerThan` (null: all there are) and schemas, and plan again with them. */
  | { readonly kind: 'read-metadata'; readonly newerThan: number | null }
  /** Read the manifest entries, and plan again with them: a snapshot is needed, or may cost less. */
  | { readonly kind: 'read-manifest' }
  /**
   * Ask for a reload as of now, in the name of every subscription that contains the dataset, and plan again. `isWithdrawal`: the
   * table's content was withdrawn or restarted, so no changes are applied until the reload is satisfied.
   */
  | { readonly kind: 'ask-reload'; readonly isWithdrawal: boolean; readonly why: string }
  /** Forget that versions above this one were announced, because they are surely withdrawn, and plan again. */
  | { readonly kind: 'void-announced'; readonly above: number }
  /** Load the snapshot. */
  | {
      readonly kind: 'load';
      readonly listedEntry: ListedEntry;
      /** The newest reload of each subscription that the table satisfies afterwards, where the load satisfies any. */
      readonly reloads: ReadonlyMap<string, ReloadMark>;
      /** Why the snapshot was chosen, for the operator: `the changes of version 12 are not recorded`. */
      readonly why: string;
      /** The step commits exactly this candidate; missing where it commits what was planned. */
      readonly candidate?: Candidate;
    }
  /** Apply the changes of these versions as one net change, oldest first; the table has `schema` afterwards. */
  | {
      readonly kind: 'apply';
      readonly versions: readonly Version[];
      readonly schema: Schema;
      /** The schema differs from the table's, so its missing columns are added. */
      readonly addsColumns: boolean;
      /**
       * The gate judges the sum of the first so many versions, then each longer one, and the first that passes is committed;
       * missing where the versions are one net change.
       */
      readonly shortestSum?: number;
      /** The step commits exactly this candidate; missing where it commits what was planned. */
      readonly candidate?: Candidate;
    }
  | {
      readonly kind: 'retire';
      readonly reason: string;
      /** An operator has approved the retirement. */
      readonly isApproved: boolean;
      /** In service time. */
      readonly judgedAt: Date;
    }
  /** `until`: the earliest service time at which trying again helps; null: unknown. */
  | { readonly kind: 'wait'; readonly why: WaitReason; readonly until: Date | null }
  | ({ readonly kind: 'wait'; readonly why: 'entry-differs'; readonly until: Date | null } & DifferingCounts)
  /** The table stays until none of these subscriptions may contain its dataset. */
  | { readonly kind: 'await-subscriptions'; readonly awaited: readonly AwaitedSubscription[] }
  | { readonly kind: 'report-suspension'; readonly suspension: Suspension }
  /** Forget the candidate, which stands no longer, and plan again. `why` is a clause. */
  | { readonly kind: 'drop-candidate'; readonly why: string }
  /** The table stays where it is until an operator resumes it. */
  | { readonly kind: 'report-pin'; readonly pinnedSince: Date }
  /** The content to fetch failed before and is still the same. */
  | { readonly kind: 'report-failure' }
  | { readonly kind: 'leave' };

/** The numbers of rows that the manifest and the list of versions state for one version. */
export interface DifferingCounts {
  readonly version: number;
  readonly entryRows: number;
  readonly listedRows: number;
}

/** Why a dataset waits. The reason `entry-differs` stands beside these, with its counts. */
export type WaitReason =
  /** No usable manifest lists the dataset. */
  | 'not-listed'
  /** The entries are older than the need, or may be. */
  | 'manifest-lags'
  /** The list of versions does not name the version of an entry. */
  | 'entry-unlisted'
  /** The list of versions ends before the announced version. */
  | 'list-lags';

/** The versions and schemas of a dataset, read after every event and manifest that the plan uses. */
export interface Metadata {
  /** `versions` contains only versions newer than this; null: all versions. */
  readonly newerThan: number | null;
  /** Newest first. */
  readonly versions: readonly Version[];
  /** All schemas, newest first. */
  readonly schemas: readonly Schema[];
  /** When the versions were read, in service time. */
  readonly readAt: Date;
  /** The manifest entries that were read before the versions: the list can confirm only these. */
  readonly entriesBefore: ReadonlySet<ManifestEntry>;
}

/** The input, with the manifest entries read so far. */
export type WithEntries = PlanInput & { readonly listedEntries: readonly ListedEntry[] };

/** The earliest service time at which trying again helps; null: unknown. */
export type Until = Date | null;

export const wait = (why: WaitReason, until: Until): Plan => ({ kind: 'wait', why, until });

export const REPORT_FAILURE: Plan = { kind: 'report-failure' };
