/**
 * Decides which subscriptions may contain a dataset by their records, although every subscription is known to have dropped it.
 * Pure.
 *
 * A record that names such a dataset says that it came back without an event. From then on no event says that it left, so one
 * record that lacks it proves nothing: its absence has to be confirmed like any other.
 */

import type { Mention } from '../../checkpoint/checkpoint.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { covers, watermarkOf } from '../../model/manifest.ts';
import type { Subscription } from '../../model/records.ts';

export interface RecordReading {
  /** The subscriptions as they were listed last. */
  readonly records: readonly Subscription[];
  /** When they were listed, in service time. */
  readonly readAt: Date;
  readonly manifestLagMs: number;
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  /** By dataset id. */
  readonly tables: ReadonlyMap<string, unknown>;
  readonly earlier: readonly Mention[];
}

interface MentionsRead {
  /** The mentions in the records now. */
  readonly named: readonly Mention[];
  /** Mentions to remember: datasets with a table that no subscription is known to contain. */
  readonly news: readonly Mention[];
  /** Earlier mentions whose records name the dataset again. */
  readonly shown: readonly Mention[];
  /** Earlier mentions whose records lack the dataset now; they count until the absence is confirmed. */
  readonly lacking: readonly Mention[];
  /** Earlier mentions that do not matter any more. */
  readonly over: readonly Mention[];
}

/** Reads the mentions of datasets in records. A subscription that was not listed now says nothing, so its earlier mentions stay. */
export function readMentions(reading: RecordReading): MentionsRead {
  const { records, earlier } = reading;
  const named = records.flatMap((record) =>
    [...new Set(record.datasetIds)]
      .map((datasetId): Mention => ({ subscriptionId: record.id, datasetId }))
      .filter((mention) => !isBeforeDrop(mention, record, reading)),
  );
  const isOver = ({ datasetId }: Mention): boolean => !isDropped(datasetId, reading);
  // Each lookup is by key: there may be as many mentions as datasets, in the records and remembered.
  const namedKeys = new Set(named.map(keyOf));
  const earlierKeys = new Set(earlier.map(keyOf));
  const recordsById = new Map(records.map((record) => [record.id, record]));
  const isNamed = (mention: Mention): boolean => namedKeys.has(keyOf(mention));
  const saysNothing = (mention: Mention): boolean => {
    const record = recordsById.get(mention.subscriptionId);
    return record === undefined || isBeforeDrop(mention, record, reading);
  };
  const counting = earlier.filter((mention) => !isOver(mention));
  return {
    named,
    news: named.filter((mention) => !isOver(mention) && !earlierKeys.has(keyOf(mention))),
    shown: counting.filter(isNamed),
    lacking: counting.filter((mention) => !isNamed(mention) && !saysNothing(mention)),
    over: earlier.filter(isOver),
  };
}

function keyOf({ subscriptionId, datasetId }: Mention): string {
  return JSON.stringify([subscriptionId, datasetId]);
}

/** Returns whether there is a table of the dataset, and no subscription contains it. */
function isDropped(datasetId: string, { desiredStates, tables }: RecordReading): boolean {
  return tables.has(datasetId) && desiredStates.get(datasetId)?.members.size === 0;
}

/** A record without a newest event may be later than the drop, so it counts. */
function isBeforeDrop(
  { subscriptionId, datasetId }: Mention,
  { lastEventId }: Subscription,
  { readAt, manifestLagMs, desiredStates }: RecordReading,
): boolean {
  const drop = desiredStates.get(datasetId)?.formerMembers.get(subscriptionId);
  const watermark = watermarkOf({ lastEventId, readAt, manifestLagMs });
  if (drop === undefined || watermark.kind !== 'number') return false;
  return !covers(watermark, { eventNumber: drop.eventNumber, createdAt: drop.at });
}
