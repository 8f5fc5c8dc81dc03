/** How far a destination has followed the service, as it is stored in it. A part of the port. */

import type { ReloadMark } from '../model/reload-mark.ts';

/**
 * How far the destination has followed the service: a lost checkpoint starts from here. Up to the events of
 * `subscriptions` the tables owe nothing but `owed`.
 */
export interface StoredProgress {
  readonly subscriptions: readonly StoredSubscription[];
  readonly members: readonly StoredMember[];
  readonly owed: readonly OwedReload[];
}

/** The position in the log of a subscription. */
export interface StoredSubscription {
  readonly subscriptionId: string;
  readonly name: string | null;
  readonly logNumber: number;
  /** The newest event that was read; null where the log is to be read from its start. */
  readonly eventNumber: bigint | null;
  /** When that event was created; null: not known. Another event under its number is one of another log. */
  readonly eventCreatedAt: Date | null;
  /** When the position was taken or moved last, in service time. Its event was created before that. */
  readonly positionAt: Date;
  /** Whether the record of the subscription has ever named the newest event of this log. */
  readonly statesLastEvent: boolean;
}

/** A dataset that a subscription contains, or dropped while the table is not retired yet. */
export interface StoredMember {
  readonly subscriptionId: string;
  readonly datasetId: string;
  /** The event that added it; null where no event did. */
  readonly addedEvent: bigint | null;
  /** The event that dropped it; null for a member. */
  readonly droppedEvent: bigint | null;
}

/** A reload that a subscription's log asked for and that the table does not satisfy yet. A dataset may owe several. */
export interface OwedReload extends ReloadMark {
  readonly datasetId: string;
  readonly subscriptionId: string;
}
