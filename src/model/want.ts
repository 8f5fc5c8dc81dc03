/**
 * What is wanted of a dataset. Wants are never cleared when met: whether a dataset is behind is computed from what is
 * wanted and what the destination has, so a destination restored from a backup is seen to be behind. Of a version that was
 * announced nothing is left once nobody holds the dataset, its position is lost, or who may have announced it was given up.
 */

import type { EventId } from './event.ts';

export interface Want {
  readonly datasetId: string;
  /** Subscriptions that hold the dataset. */
  readonly members: ReadonlySet<string>;
  /** Subscriptions that held it and dropped it, with the number of the event that said so; null where it was no event. */
  readonly formerMembers: ReadonlyMap<string, bigint | null>;
  /** By subscription id: why it dropped the dataset, in the service's word; absent where it did not say. */
  readonly removalReasons: ReadonlyMap<string, string>;
  readonly atLeastVersion: number | null;
  /** By subscription id: the number of the newest event that asked for a reload. */
  readonly reloadAfter: ReadonlyMap<string, bigint>;
  /** By subscription id: when that event was read. */
  readonly reloadAskedAt: ReadonlyMap<string, Date>;
  /** Reloads that a person asked for, counted like looks. */
  readonly resyncsAsked: number;
  readonly resyncsDone: number;
  /** Looks asked for and looks done are counted; a look is owed while more were asked for. */
  readonly looksAsked: number;
  readonly looksDone: number;
  /** A person has agreed that the table is retired, however many others are with it. Over once a subscription holds it again. */
  readonly retirementApproved: boolean;
}

/**
 * One change of what is wanted, made by one subscription. `eventNumber` is that of the event that said so, absent
 * where it was no event (the manifest, an audit). With it, an old event that comes again cannot undo a later one.
 */
export type WantChange =
  /** The subscription holds the dataset. Changes nothing where a later event of it decided already. */
  | { readonly kind: 'member'; readonly datasetId: string; readonly eventNumber?: bigint }
  /** The subscription holds it no more. Changes nothing where a later event of it decided already. */
  | {
      readonly kind: 'no-member';
      readonly datasetId: string;
      readonly eventNumber?: bigint;
      /** Why, in the service's word. */
      readonly reason?: string;
    }
  /** At least this version; a lower one changes nothing, nor does an event from before the subscription's newest reload. */
  | {
      readonly kind: 'at-least';
      readonly datasetId: string;
      readonly version: number;
      readonly eventNumber?: bigint;
    }
  /**
   * This version was announced, whatever was announced before the position in the log was taken; null: what was announced
   * is not known any more.
   */
  | { readonly kind: 'announced'; readonly datasetId: string; readonly version: number | null }
  /** Loaded from a snapshot that reflects the event. `version` replaces what was wanted before, because a reload may bring a lower one. */
  | {
      readonly kind: 'reload';
      readonly datasetId: string;
      readonly eventNumber: bigint;
      readonly version: number | null;
    }
  /** Versions and schemas are to be read. */
  | { readonly kind: 'look'; readonly datasetId: string };

/** What one step of reading a subscription changes, committed as one. */
export interface FollowStep {
  readonly subscriptionId: string;
  readonly subscriptionName: string | null;
  /** The position to read on from; null: from the start of the log. */
  readonly cursor: EventId | null;
  /**
   * The service keeps nothing at the cursor any more, and nothing newer has come: the log is read from its start, and
   * what is not newer than the cursor is skipped.
   */
  readonly isQuiet: boolean;
  readonly changes: readonly WantChange[];
}
