/** What a step is planned from, and which steps there are. */

import type { Suspension } from '../../checkpoint/checkpoint.ts';
import type { Feed } from '../../feed/feed.ts';
import type { ReloadMark } from '../../model/desired-state.ts';
import type { ManifestEntry, Watermark } from '../../model/manifest.ts';
import type { Schema, Version } from '../../model/records.ts';
import type { DatasetState } from './plan.ts';
import type { AwaitedSubscription, RetirementVerdict } from './retirement.ts';

/** A dataset as the manifest of one subscription, or its own, lists it for that subscription. */
export interface ListedEntry {
  readonly subscriptionId: string;
  /** The log of the subscription that the manifest belongs to, counted as reloads are. */
  readonly logNumber: number;
  /** The manifest it comes from: that of a subscription; null: the dataset's own. */
  readonly through: string | null;
  /** The events of the subscription that it surely reflects. */
  readonly watermark: Watermark;
  /** When the manifest was read, in service time. */
  readonly readAt: Date;
  readonly entry: ManifestEntry;
}

export interface PlanInput extends DatasetState {
  /** Of the subscriptions that contain the dataset. Null: not read yet. */
  readonly listedEntries: readonly ListedEntry[] | null;
  /** By version: since when the list of versions does not name it, while it names lower ones as newest. */
  readonly absentSince: ReadonlyMap<number, Date>;
  /** Null: not read yet. */
  readonly history: History | null;
  /** Versions whose changes cannot be used, learned on the way, with why: a clause (`they were not recorded`). */
  readonly inapplicable: ReadonlyMap<number, string>;
  /** Whether a table that no subscription contains may go now; without meaning for the others. */
  readonly retirement: RetirementVerdict;
  readonly schemaChanges: 'reload' | 'alter';
  /** How long a manifest that does not say how far it goes may lag. */
  readonly manifestLagMs: number;
  /** How many bytes of changes may be staged at once. */
  readonly maxStagedBytes: number;
  readonly now: Date;
}

/** One step. */
export type Plan =
  /**
   * Nothing is needed. Looks that were owed are done: what they ask for was read, and the table is at the head. A
   * failure that stands is over; no other step ends it, so that what failed is not fetched again too soon.
   */
  | { readonly kind: 'keep' }
  /** Read versions newer than `newerThan` (null: all there are) and schemas, and plan again with them. */
  | { readonly kind: 'read-history'; readonly newerThan: number | null }
  /** Read what the manifests offer, and plan again with it: a snapshot is needed, or could be less work. */
  | { readonly kind: 'read-manifest' }
  /**
   * Ask for a reload at this moment, in the name of every subscription that contains the dataset, and plan again.
   * `isWithdrawal`: the table holds what was withdrawn or restarted, and takes no changes until it is answered.
   */
  | { readonly kind: 'ask-reload'; readonly isWithdrawal: boolean; readonly why: string }
  /** Forget that versions above this one were announced, and plan again: they are surely withdrawn. */
  | { readonly kind: 'void-announced'; readonly above: number }
  /** Load the snapshot. */
  | {
      readonly kind: 'load';
      readonly listedEntry: ListedEntry;
      /** The newest reload of each subscription that the table satisfies afterwards, as far as the load answers any. */
      readonly reloads: ReadonlyMap<string, ReloadMark>;
      /** Why it is the snapshot, for people: `the changes of version 12 are not recorded`. */
      readonly why: string;
    }
  /** Apply the changes of these versions as one, oldest first; the table has `schema` afterwards. */
  | {
      readonly kind: 'apply';
      readonly versions: readonly Version[];
      readonly schema: Schema;
      /** The schema is another than the table's: columns of it that the table lacks are added. */
      readonly addsColumns: boolean;
    }
  | {
      readonly kind: 'retire';
      readonly reason: string;
      /** An operator has agreed to it. */
      readonly isApproved: boolean;
      /** In service time. */
      readonly judgedAt: Date;
    }
  /** `until`: when trying again helps at the earliest, in service time; null: nobody knows. */
  | { readonly kind: 'wait'; readonly why: WaitReason; readonly until: Date | null }
  | ({ readonly kind: 'wait'; readonly why: 'entry-differs'; readonly until: Date | null } & DifferingCounts)
  /** The table of a dataset that no subscription contains any more stays until these may not contain it either. */
  | { readonly kind: 'await-subscriptions'; readonly awaited: readonly AwaitedSubscription[] }
  | { readonly kind: 'report-suspension'; readonly suspension: Suspension }
  /** What would be fetched failed before and is the same still. */
  | { readonly kind: 'report-failure' }
  | { readonly kind: 'leave' };

/** How many rows the manifest and the list of versions state for one version. */
export interface DifferingCounts {
  readonly version: number;
  readonly offeredRows: number;
  readonly listedRows: number;
}

/** Beside `offer-differs`: the list of versions states another number of rows for the version that a manifest offers. */
export type WaitReason =
  /** No manifest that may answer lists the dataset. */
  | 'not-listed'
  /** What is offered is older than what is needed, or may be. */
  | 'manifest-lags'
  /** The list of versions does not name the version that a manifest offers. */
  | 'entry-unlisted'
  /** The list of versions ends before what was announced. */
  | 'list-lags';

/** Read after every event and manifest that is planned by. */
export interface History {
  /** What `versions` are newer than; null: they are all there are. */
  readonly newerThan: number | null;
  /** Newest first. */
  readonly versions: readonly Version[];
  /** Newest first, all there are. */
  readonly schemas: readonly Schema[];
  /** When the versions were read, in service time. */
  readonly readAt: Date;
  /** The manifest entries that were read before the versions: only of these does it say whether they count. */
  readonly entriesBefore: ReadonlySet<ManifestEntry>;
}

/** Reads what is newer than `newerThan`; everything where it is null. `entriesBefore`: the manifest entries read so far. */
export async function readHistory(
  feed: Feed,
  datasetId: string,
  newerThan: number | null,
  entriesBefore: ReadonlySet<ManifestEntry>,
  signal: AbortSignal,
): Promise<History> {
  const { versions, readAt } = await feed.versions(datasetId, newerThan, signal);
  const schemas = await feed.schemas(datasetId, signal);
  return { newerThan, versions, schemas, readAt, entriesBefore };
}
