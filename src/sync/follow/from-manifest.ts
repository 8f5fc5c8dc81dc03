/**
 * A subscription taken anew: at the first start, whenever its position in the log is lost, and where the service has begun
 * the log anew. The position is taken before the manifest is read and is never later than what the manifest reflects, so no
 * event falls between the two. It never goes back behind what was read before it was lost. Pure.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { DatasetManifest, SubscriptionList } from '../../feed/feed.ts';
import {
  announcedVersion,
  type DesiredState,
  type DesiredStateChange,
  emptyDesiredState,
  type FollowStep,
} from '../../model/desired-state.ts';
import { CursorExpiredError } from '../../model/errors.ts';
import {
  type EventId,
  earlierEvent,
  type FeedEvent,
  laterEvent,
  type UnreadableEvent,
} from '../../model/event.ts';
import {
  type ManifestEntry,
  snapshotDigest,
  timeOf,
  type Watermark,
  watermarkOf,
} from '../../model/manifest.ts';
import type { Subscription } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { isOfOldLog, readEntries, readManifest } from '../manifest-cache.ts';
import type { Parts } from '../parts.ts';
import { currentSuspensions } from '../suspensions.ts';
import { announcedBy } from './audit.ts';
import { cursorAfter } from './coalesce-events.ts';
import { EVENTS_KEPT_MS } from './connect.ts';
import { MAX_PAGES } from './read-log.ts';
import { isChosenDataset } from './subscriptions.ts';

/** What a subscription is taken from. */
export interface Source {
  /** As it was before the manifest was read, and when that was, in service time. */
  readonly record: Subscription;
  readonly recordReadAt: Date;
  /** The newest event that the manifest reflects; null: it does not say. */
  readonly watermarkCovers: EventId | null;
  /** Without a number: events created up to then are reflected; null: none surely is. Service time. */
  readonly coveredUntil: Date | null;
  /** What the manifest lists, or those of the single datasets. */
  readonly entries: readonly ManifestEntry[];
  /** The datasets that the subscription contains by this: all that are listed, or the record's own. */
  readonly members: readonly string[];
  /** The newest event that `members` reflect; null: only time tells. */
  readonly membersReflect: EventId | null;
  /** When the newest event of the log was created; where the log has none any more, when the last of them can have been. */
  readonly newestCreatedAt: Date;
}

/** What is known without it. */
export interface Before {
  /** The subscription as it was followed so far; null: it was not. */
  readonly followed: Followed | null;
  /** The service has begun the log anew, so that the position is none of its own. */
  readonly isNewLog: boolean;
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  readonly observed: ObservedState;
}

export function stepFromManifest(source: Source, before: Before): FollowStep {
  const { record, recordReadAt, watermarkCovers, coveredUntil } = source;
  const { followed, isNewLog } = before;
  const lost = isNewLog ? null : (followed?.cursor ?? null);
  const taken = watermarkCovers === null ? null : positionOf(record.lastEventId, watermarkCovers);
  const cursor = laterEvent(taken, lost);
  const isMoved = cursor !== null && cursor.number !== lost?.number;
  const logNumber = logNumberOf(record.id, before);
  return {
    subscriptionId: record.id,
    subscriptionName: record.name,
    ...(isNewLog ? { voids: 'numbers' as const } : {}),
    position: {
      logNumber,
      cursor,
      cursorCreatedAt: isMoved || lost === null ? null : (followed?.cursorCreatedAt ?? null),
      isExpiredCursorReplay: !isMoved,
      coveredUntil: watermarkCovers === null ? coveredUntil : null,
      readAt: recordReadAt,
    },
    changes: changesOf(source, before, { logNumber, cursor }),
  };
}

/**
 * The log of a subscription that was not followed is counted after all that the tables know of: theirs may be older ones, from
 * before the checkpoint was lost, and what they have satisfied of these says nothing of this one.
 */
function logNumberOf(subscriptionId: string, { followed, isNewLog, observed }: Before): number {
  if (followed !== null) return followed.logNumber + (isNewLog ? 1 : 0);
  const known = [...observed.datasets.values()].map(
    ({ reloads }) => reloads.get(subscriptionId)?.logNumber ?? 0,
  );
  return Math.max(0, ...known) + 1;
}

interface Taken {
  readonly logNumber: number;
  readonly cursor: EventId | null;
}

/** Every dataset of the subscription is loaded, also one whose entry this reading lacks, once a later one names it. */
function changesOf(source: Source, before: Before, taken: Taken): readonly DesiredStateChange[] {
  const { record, recordReadAt, membersReflect, coveredUntil, members } = source;
  const entries = new Map(source.entries.map((entry) => [entry.datasetId, entry]));
  const known = [...before.desiredStates.values()].filter((desired) => desired.members.has(record.id));
  const listed = new Set(members);
  const others = known.map(({ datasetId }) => datasetId).filter((datasetId) => !listed.has(datasetId));
  const reported = {
    eventNumber: membersReflect?.number ?? null,
    at: coveredUntil ?? recordReadAt,
  };
  const reloadOf = (datasetId: string): readonly DesiredStateChange[] => {
    const desired = before.desiredStates.get(datasetId) ?? emptyDesiredState(datasetId);
    const table = before.observed.datasets.get(datasetId) ?? null;
    const entry = entries.get(datasetId);
    if (table === null || (entry !== undefined && isLoadedFrom(entry, table))) return [];
    return [lastReload(source, desired, table, taken)];
  };
  return [
    ...members.flatMap((datasetId): readonly DesiredStateChange[] => [
      { kind: 'member', datasetId, ...reported, version: null },
      { kind: 'nothing-announced', datasetId },
      ...reloadOf(datasetId),
    ]),
    ...others.flatMap((datasetId): readonly DesiredStateChange[] => [
      { kind: 'nothing-announced', datasetId },
      ...reloadOf(datasetId),
    ]),
  ];
}

/**
 * As if by the newest event that is known, or that may have been lost. It is one that has happened: a number of the future
 * would swallow the reload of the event that gets it. Nor is it older than what the members reflect: that would be one from
 * before they joined.
 */
function lastReload(
  { record, recordReadAt, membersReflect, newestCreatedAt }: Source,
  desired: DesiredState,
  table: ObservedTable,
  { logNumber, cursor }: Taken,
): DesiredStateChange {
  return {
    kind: 'reload',
    datasetId: desired.datasetId,
    version: null,
    logNumber,
    eventNumber: laterEvent(laterEvent(record.lastEventId, membersReflect), cursor)?.number ?? 0n,
    createdAt: newestCreatedAt,
    readAt: recordReadAt,
    knownVersion: Math.max(table.version, announcedVersion(desired) ?? 0),
    isWithdrawal: false,
  };
}

/** True where the table is this very snapshot: same version, same stated content, nothing applied since. */
export function isLoadedFrom(entry: ManifestEntry, observed: ObservedTable): boolean {
  return (
    observed.version === entry.version &&
    observed.snapshotVersion === entry.version &&
    observed.snapshotDigest === snapshotDigest(entry.files)
  );
}

/** The smaller of the two; where only the manifest's is known, that one. */
function positionOf(ofRecord: EventId | null, ofManifest: EventId): EventId {
  return ofRecord === null ? ofManifest : earlierEvent(ofRecord, ofManifest);
}

/** A subscription as it was listed. */
export interface Listed {
  readonly record: Subscription;
  /** In service time. */
  readonly readAt: Date;
}

interface ReadSource {
  readonly source: Source;
  /** The subscriptions as they were listed after the manifest; null: they were not. */
  readonly listedAfter: SubscriptionList | null;
}

/** `listed`: before this. */
export async function readSource(
  listed: Listed,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<ReadSource> {
  return parts.feed.manifestShape() === 'dataset'
    ? { source: await sourceOfEntries(listed, observed, parts, signal), listedAfter: null }
    : await sourceOfManifest(listed, observed, parts, signal);
}

async function sourceOfManifest(
  { record, readAt }: Listed,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<ReadSource> {
  const reading = await readManifest(record.id, true, parts, signal);
  const { manifest, watermark, listedAfter } = reading;
  const watermarkCovers = isOfOldLog(reading) ? null : manifest.lastEventId;
  const source = {
    record,
    recordReadAt: readAt,
    watermarkCovers,
    coveredUntil: watermark.kind === 'time' ? watermark.through : null,
    entries: manifest.datasets,
    members: manifest.datasets.map(({ datasetId }) => datasetId),
    membersReflect: watermarkCovers,
    newestCreatedAt: await createdAtOfNewest({ record, readAt }, watermark, observed, parts, signal),
  };
  return { source, listedAfter };
}

async function sourceOfEntries(
  { record, readAt }: Listed,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<Source> {
  const { checkpoint, feed, choices } = parts;
  const desiredStates = checkpoint.desiredStates();
  const known = [...desiredStates.values()]
    .filter(({ members }) => members.has(record.id))
    .map(({ datasetId }) => datasetId);
  const own = record.datasetIds.filter((id) => desiredStates.get(id)?.formerMembers.has(record.id) !== true);
  const mirrored = [...new Set([...own, ...known])].filter((datasetId) => observed.datasets.has(datasetId));
  const read = await readEntries(feed, askable(mirrored, parts), signal);
  const { manifestLagMs } = choices;
  const watermark = watermarkOf({ lastEventId: null, readAt, manifestLagMs });
  return {
    record,
    recordReadAt: readAt,
    watermarkCovers: null,
    coveredUntil: announcedBy(watermark, readAt).at,
    entries: readable(read),
    members: own,
    membersReflect: record.lastEventId,
    newestCreatedAt: await createdAtOfNewest({ record, readAt }, watermark, observed, parts, signal),
  };
}

/** Nobody has to know where there are no tables that could be loaded again. */
async function createdAtOfNewest(
  { record, readAt }: Listed,
  watermark: Watermark,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<Date> {
  if (observed.datasets.size === 0) return readAt;
  return await newestCreatedAt(record.id, watermark, readAt, parts, signal);
}

/** Nothing is asked of the service for what it refused or the user did not choose. */
export function askable(datasetIds: readonly string[], parts: Parts): readonly string[] {
  const { include, exclude } = parts.choices;
  const suspensions = currentSuspensions(parts);
  return datasetIds.filter(
    (datasetId) => suspensions.ofDataset(datasetId) === null && isChosenDataset(datasetId, include, exclude),
  );
}

export function readable(read: ReadonlyMap<string, DatasetManifest | Error>): readonly ManifestEntry[] {
  return [...read.values()].flatMap((one) => (one instanceof Error ? [] : [one.entry]));
}

/**
 * Reads the log from its start. An event that the log keeps no more may be as young as the log allows: that is older than any
 * manifest lags, and later with each reading, so that what may have been lost since the one before is asked for again. Where
 * numbers tell what the manifest reflects, nothing is read: the event may have been created at any time up to `readAt`, in
 * service time.
 */
async function newestCreatedAt(
  subscriptionId: string,
  watermark: Watermark,
  readAt: Date,
  { feed }: Parts,
  signal: AbortSignal,
): Promise<Date> {
  if (watermark.kind === 'number') return timeOf(readAt);
  let after: EventId | null = null;
  let newest = new Date(readAt.getTime() - EVENTS_KEPT_MS);
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await pageAfter(subscriptionId, after, feed, signal);
    if (page === null) return newest;
    newest = new Date(
      Math.max(newest.getTime(), ...page.events.map((event) => createdMs(event, page.readAt))),
    );
    after = cursorAfter(page.events, after);
    if (!page.hasMore) return newest;
  }
  return newest;
}

/** An event that does not say when it was created is taken for created as it was read. */
function createdMs(event: FeedEvent | UnreadableEvent, readAt: Date): number {
  return ((event.kind === 'event' ? event.createdAt : null) ?? readAt).getTime();
}

/** Null: the log keeps nothing from there on. */
async function pageAfter(
  subscriptionId: string,
  after: EventId | null,
  feed: Parts['feed'],
  signal: AbortSignal,
) {
  try {
    return await feed.events(subscriptionId, after, signal);
  } catch (error) {
    if (!(error instanceof CursorExpiredError)) throw error;
    return null;
  }
}
