/**
 * What is wanted of a dataset. Wants are never cleared when met: whether a dataset is behind is computed from what is
 * wanted and what the destination has, so a destination restored from a backup is seen to be behind. What a subscription
 * announced is void once that subscription drops the dataset; a reload it asked for stays owed by the table.
 */

import type { EventId } from './event.ts';

export interface Want {
  readonly datasetId: string;
  /** By subscription id: the subscriptions that contain the dataset. */
  readonly members: ReadonlyMap<string, Member>;
  /** By subscription id: those that contained it and dropped it. */
  readonly formerMembers: ReadonlyMap<string, FormerMember>;
  /** Every reload that was asked for and may be owed still, oldest first within each subscription. */
  readonly reloads: readonly Reload[];
  /** Grows with every resync that an operator asks for; 0: none was. The destination says which one the table satisfies. */
  readonly resyncNumber: number;
  /** Metadata refreshes asked for and done are counted; one is owed while more were asked for. */
  readonly looksAsked: number;
  readonly looksDone: number;
  /** An operator has agreed that the table is retired, however many others are with it. Over once a subscription contains it again. */
  readonly retirementApproved: boolean;
}

/** A subscription that contains the dataset. */
export interface Member {
  /** The event that said so, or the one that the manifest which says so reflects; null: neither is known. */
  readonly eventNumber: bigint | null;
  /** Since when, in service time. */
  readonly since: Date;
  /** At least this version was announced by this subscription; null: none is known. */
  readonly announced: number | null;
}

/** A subscription that dropped the dataset. */
export interface FormerMember {
  /** As of a member. */
  readonly eventNumber: bigint | null;
  /** When it dropped the dataset, in service time. */
  readonly at: Date;
  /** Why, in the service's word; null where it did not say. */
  readonly reason: string | null;
}

/** A reload that an event asked for, or that was asked for at a moment, as if by the newest event of then. */
export interface Reload {
  readonly subscriptionId: string;
  /** Counts the logs that the service has begun for the subscription: numbers of another log are void. */
  readonly logNumber: number;
  readonly eventNumber: bigint;
  /** When the event was created, else the moment, in service time. */
  readonly createdAt: Date;
  /** When it was read, in service time. */
  readonly readAt: Date;
  /** The highest version that was known when it was read: of the table, or announced. Null: not known. */
  readonly knownVersion: number | null;
  /** The newest version of the first list of versions that was read after it. Null: none was. */
  readonly listedVersion: number | null;
  /** The table holds what was withdrawn or restarted: until this is answered it takes no changes. */
  readonly isWithdrawal: boolean;
}

/** What was told, when, and by which event; null: by none. */
interface Told {
  readonly datasetId: string;
  readonly eventNumber: bigint | null;
  /** When the event was created; without an event, the time up to which the manifest reflects events. Service time. */
  readonly at: Date;
}

/** One change of what is wanted, made by one subscription. Made again, or after a later one, it changes nothing. */
export type WantChange =
  /** The subscription contains the dataset. `version`: at least this one is wanted; null: nothing is announced by it. */
  | ({ readonly kind: 'member'; readonly version: number | null } & Told)
  /** The subscription contains it no more. */
  | ({ readonly kind: 'no-member'; readonly reason: string | null } & Told)
  /** At least this version, of a member. */
  | {
      readonly kind: 'at-least';
      readonly datasetId: string;
      readonly version: number;
      readonly eventNumber: bigint;
    }
  /** What was announced is not known any more: the position in the log was lost. */
  | { readonly kind: 'nothing-announced'; readonly datasetId: string }
  /** Loaded from a snapshot that answers it. `version` replaces what the subscription announced; null: it says nothing of it. */
  | ({
      readonly kind: 'reload';
      readonly datasetId: string;
      readonly version: number | null;
    } & Omit<Reload, 'subscriptionId' | 'listedVersion'>)
  /** Versions and schemas are to be read. */
  | { readonly kind: 'look'; readonly datasetId: string };

/** What one step of reading a subscription changes, committed as one. */
export interface FollowStep {
  readonly subscriptionId: string;
  readonly subscriptionName: string | null;
  readonly position: LogPosition;
  /**
   * What is void before the changes are made:
   * - `numbers`: whatever the numbers of the log decided or asked for, because the service has begun it anew.
   * - `everything`: all that the subscription has said, because somebody knows it better.
   */
  readonly voids?: 'numbers' | 'everything';
  /** The record has named the newest event of this log before. Without it, what is stored of that stays. */
  readonly statesLastEvent?: boolean;
  readonly changes: readonly WantChange[];
}

/** Where the log of a subscription is read on. */
export interface LogPosition {
  /** Counts the logs that the service has begun for the subscription, from 1. */
  readonly logNumber: number;
  /** The newest event that was read; null: none was. */
  readonly cursor: EventId | null;
  /** When that event was created; null: not known. */
  readonly cursorCreatedAt: Date | null;
  /**
   * The log is read from its start, and what is not newer than the cursor is skipped: the service keeps nothing at the
   * cursor any more, and nothing newer has come.
   */
  readonly isQuiet: boolean;
  /** Events created up to then are reflected by the manifest that the tables were taken from: they only change who is a member. */
  readonly coveredUntil: Date | null;
  /** When this was read, in service time. */
  readonly readAt: Date;
}

/** Of a dataset that nobody has said anything of. */
export function emptyWant(datasetId: string): Want {
  return {
    datasetId,
    members: new Map(),
    formerMembers: new Map(),
    reloads: [],
    resyncNumber: 0,
    looksAsked: 0,
    looksDone: 0,
    retirementApproved: false,
  };
}

/** The highest version that a subscription which contains the dataset has announced; null: none is known. */
export function announcedVersion(want: Want): number | null {
  return announcedVersions(want).reduce<number | null>(
    (highest, announced) => Math.max(highest ?? announced, announced),
    null,
  );
}

/** Of each subscription that contains the dataset, as far as it has announced one. */
export function announcedVersions({ members }: Want): readonly number[] {
  return [...members.values()].flatMap(({ announced }) => announced ?? []);
}
