/**
 * Takes a subscription from its manifest: at the first start, whenever its position in the log is lost, and where the
 * service has restarted the log. The position is taken before the manifest is read and never lies after what the
 * manifest covers, so no event falls between the two. The position never goes back behind events that were read before
 * it was lost.
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
import { eventAtPosition, lacksKnownEvents } from './log-restart.ts';
import { MAX_PAGES } from './read-log.ts';
import { adoptProgress, EVENTS_KEPT_MS, isChosenDataset } from './subscriptions.ts';

/** The record, the manifest and the log from which a subscription is taken. */
export interface Source {
  /** The record from before the manifest was read, and the service time of that read. */
  readonly record: Subscription;
  readonly recordReadAt: Date;
  /** The newest event that the manifest covers; null: the manifest does not state one. */
  readonly watermarkCovers: EventId | null;
  /** For a manifest without a watermark: it covers the events created up to this service time; null: it surely covers none. */
  readonly coveredUntil: Date | null;
  /** The entries of the manifest, or of the single datasets' manifests. */
  readonly entries: readonly ManifestEntry[];
  /** The datasets that the subscription contains: all listed ones, or those of the record. */
  readonly members: readonly string[];
  /** The newest event that `members` covers; null: only time decides. */
  readonly membersReflect: EventId | null;
  /** When the newest event of the log was created; for a log without events, the latest possible time of its last event. */
  readonly newestCreatedAt: Date;
}

/** The state before the subscription is taken from the manifest. */
export interface Before {
  /** The subscription as it was followed so far; null: it was not followed. */
  readonly followed: Followed | null;
  /** The service has restarted the log, so the old position is void. */
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
 * The log of a subscription that was not followed gets a number above all that the tables know. The tables may know
 * older logs from before the checkpoint was lost, and the reloads they satisfied there say nothing about this log.
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

/**
 * Loads every dataset of the subscription. A dataset whose entry is missing from this manifest is loaded once a later
 * manifest lists it.
 */
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
 * Returns a reload as of the newest event that is known or may have been lost. The event has happened: a future number
 * would swallow the reload of the event that gets this number. The reload is not older than what the members cover,
 * because it would otherwise predate their joining.
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

/** Returns whether the table is this very snapshot: same version, same stated content, no changes applied since. */
export function isLoadedFrom(entry: ManifestEntry, observed: ObservedTable): boolean {
  return (
    observed.version === entry.version &&
    observed.snapshotVersion === entry.version &&
    observed.snapshotDigest === snapshotDigest(entry.files)
  );
}

/** Returns the smaller of the two positions, or the manifest's where only that one is known. */
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
  /** The subscriptions as they were listed after the manifest; null: they were not listed then. */
  readonly listedAfter: SubscriptionList | null;
}

/** Reads a subscription from its manifest. `listed`: the subscription as it was listed before this. */
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

/** Without tables that could be loaded again, the time does not matter. */
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

/** Leaves out the datasets that the service refused and the ones that the user did not choose. */
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
 * Reads the log from its start. Any event that the log no longer keeps is at least as old as the log's retention, which
 * is longer than any manifest lags. The bound grows with each reading, so whatever may have been lost in between is
 * requested again. Where the watermark is a number, the log is not read: the event may have been created at any time up
 * to `readAt`, in service time.
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

/** An event that does not state its creation time counts as created when it was read. */
function createdMs(event: FeedEvent | UnreadableEvent, readAt: Date): number {
  return ((event.kind === 'event' ? event.createdAt : null) ?? readAt).getTime();
}

/** Null: the log keeps nothing after the position. */
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

/**
 * Takes each subscription whose log was replaced from its manifest, and returns their ids. The service is not asked
 * about suspended subscriptions.
 */
export async function takeMovedLogs(
  { subscriptions, readAt }: SubscriptionList,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<readonly string[]> {
  adoptProgress(observed, readAt, parts);
  const suspensions = currentSuspensions(parts);
  const taken: string[] = [];
  for (const record of subscriptions) {
    if (suspensions.ofSubscription(record.id) !== null) continue;
    if (await takeIfAnother({ record, readAt }, observed, parts, signal)) taken.push(record.id);
  }
  return taken;
}

async function takeIfAnother(
  listed: Listed,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<boolean> {
  const { checkpoint } = parts;
  const followed = checkpoint.followed().get(listed.record.id) ?? null;
  if (followed === null) return false;
  const desiredStates = checkpoint.desiredStates();
  const isOther = lacksKnownEvents(listed.record, followed, desiredStates, observed);
  if (!isOther) {
    const { there } = await eventAtPosition(followed, listed.readAt, parts, signal);
    if (there !== 'gone' && there !== 'other') return false;
  }
  const { source } = await readSource(listed, observed, parts, signal);
  checkpoint.commitFollowStep(
    stepFromManifest(source, { followed, isNewLog: true, desiredStates, observed }),
  );
  return true;
}
