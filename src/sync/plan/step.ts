/** What a step is planned from, and which steps there are. */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import type { Schema } from '../../model/schema.ts';
import type { Version } from '../../model/version.ts';
import type { History } from './history.ts';
import type { RetirementVerdict } from './retirement.ts';
import type { Known } from './state.ts';

/** A dataset as the manifest of one subscription lists it. */
export interface Offer {
  readonly subscriptionId: string;
  /** Every event of that subscription up to this number is reflected; null where the manifest does not say. */
  readonly reflects: bigint | null;
  readonly entry: ManifestEntry;
}

/** A reload that no event asked for, wanted by one subscription. */
export interface ReloadChange {
  readonly subscriptionId: string;
  readonly eventNumber: bigint;
  readonly version: number;
}

export interface PlanInput extends Known {
  /** Of the subscriptions that hold the dataset. Null: not read yet. */
  readonly offers: readonly Offer[] | null;
  /** By subscription id: up to which event its log was read. */
  readonly cursors: ReadonlyMap<string, bigint>;
  /** Null: not read yet. */
  readonly history: History | null;
  /** Versions whose changes cannot be used, learned on the way, with why: a clause (`they were not recorded`). */
  readonly unusable: ReadonlyMap<number, string>;
  /** Whether a table that no subscription holds may go now; without meaning for the others. */
  readonly retirement: RetirementVerdict;
  readonly schemaChanges: 'reload' | 'alter';
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
  | { readonly kind: 'read-offers' }
  /**
   * Want these reloads, and plan again: the versions of the dataset have begun anew. They could not be wanted where a
   * log was not read to its head; then the next audit sees the same.
   */
  | { readonly kind: 'want-reload'; readonly reloads: readonly ReloadChange[] }
  /** Load the snapshot. Once it is committed, the resyncs that were asked for when it was planned are done. */
  | {
      readonly kind: 'load';
      readonly offer: Offer;
      /** The reload events that the snapshot satisfies, by subscription id. */
      readonly reloads: ReadonlyMap<string, bigint>;
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
  | { readonly kind: 'retire'; readonly reason: string }
  | { readonly kind: 'wait'; readonly why: WaitReason }
  | { readonly kind: 'report-hold'; readonly hold: Hold }
  /** What would be fetched failed before and is the same still. */
  | { readonly kind: 'report-failure' }
  | { readonly kind: 'leave' };

export type WaitReason =
  /** No manifest that may answer lists the dataset. */
  | 'not-offered'
  /** What is offered is older than what is needed. */
  | 'offer-lags'
  /** The list of versions ends before what was announced. */
  | 'list-lags'
  /** The table of a dataset that nobody holds any more stays until all logs are read. */
  | 'logs-unread';
