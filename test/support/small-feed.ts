/** A feed in memory: the answers of the service, which tests change as they go, and the port that gives them. */

import { writeFile } from 'node:fs/promises';
import type { JobResult } from '../../src/destination/destination.ts';
import type { Changes, ChangesRequest, Download, DownloadRequest, Feed } from '../../src/feed/feed.ts';
import { CursorExpiredError } from '../../src/model/errors.ts';
import { type EventId, type FeedEvent, laterEvent, type UnreadableEvent } from '../../src/model/event.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import type { Schema, Subscription, Version } from '../../src/model/records.ts';
import type { WriteJob } from '../../src/model/write-jobs.ts';
import { digestOf, schema, version } from './sync-values.ts';

const EVENTS_PER_PAGE = 2;

export interface Service {
  shape: 'subscription' | 'dataset';
  /** A record that names its newest event names that of its log where this is newer. */
  subscriptions: Subscription[];
  /** By subscription id. */
  readonly logs: Map<string, (FeedEvent | UnreadableEvent)[]>;
  /** Positions and events before this one are past retention. */
  keepsEventsFrom: bigint;
  /** By subscription id: the datasets it lists. */
  readonly members: Map<string, string[]>;
  /** By subscription id; absent: the manifest does not say. */
  readonly watermarkCovers: Map<string, EventId>;
  /** By dataset id: the snapshot that manifests list. */
  readonly snapshots: Map<string, ManifestEntry>;
  /** By dataset id, newest first; absent: the version of the snapshot alone. */
  readonly versions: Map<string, Version[]>;
  /** By dataset id, newest first; absent: the one of `schema()`. */
  readonly schemas: Map<string, Schema[]>;
  /** By dataset id and version (`parcels 2`); absent: one page, which says of the version what its record says. */
  readonly changes: Map<string, (request: ChangesRequest, signal: AbortSignal) => Promise<Changes>>;
  /** Answers of downloads, in order; without one, the download is complete. */
  readonly downloads: ((request: DownloadRequest) => Promise<Download>)[];
  /** Outcomes of commits, in order; without one, the write job is committed. */
  readonly outcomes: ((job: WriteJob) => JobResult)[];
  /** What the client has got on with beside what arrives. */
  progress: number;
}

export function emptyService(): Service {
  return {
    shape: 'subscription',
    subscriptions: [],
    logs: new Map(),
    keepsEventsFrom: 0n,
    members: new Map(),
    watermarkCovers: new Map(),
    snapshots: new Map(),
    versions: new Map(),
    schemas: new Map(),
    changes: new Map(),
    downloads: [],
    outcomes: [],
    progress: 0,
  };
}

/** Recorded changes: one page in the folder that was asked for. */
export async function recorded(
  { pathOf, onBytes, onStaging }: ChangesRequest,
  says: { previousVersion?: number | null; schemaVersion?: string | null } = {},
): Promise<Changes> {
  const path = pathOf(0);
  const page = '{"changes":[],"nextCursor":null}';
  onBytes(page.length);
  await onStaging?.(page.length);
  await writeFile(path, page);
  return {
    recorded: true,
    previousVersion: null,
    schemaVersion: null,
    pages: [path],
    bytes: page.length,
    ...says,
  };
}

export async function notRecorded(): Promise<Changes> {
  return { recorded: false, why: 'the service says that it has not recorded them' };
}

/** `called` is called for each request, and throws the error that the request shall throw. `now` is service time. */
export function feedOf(
  service: Service,
  called: (call: string, signal: AbortSignal) => void,
  now: () => Date,
): Feed {
  const snapshot = (datasetId: string): ManifestEntry[] => {
    const listed = service.snapshots.get(datasetId);
    return listed === undefined ? [] : [listed];
  };
  const versionsUpTo = ({ datasetId, version: newest }: ManifestEntry): readonly Version[] =>
    Array.from({ length: newest }, (_, index) => version(datasetId, newest - index));
  const versionsOf = (datasetId: string): readonly Version[] =>
    service.versions.get(datasetId) ?? snapshot(datasetId).flatMap(versionsUpTo);
  return {
    origin: 'https://feed.example',
    async discover(signal) {
      called('discover', signal);
      return { manifestPath: { value: '/manifest', source: 'default' }, newerThanParameter: null };
    },
    async subscriptions(signal) {
      called('subscriptions', signal);
      const subscriptions = service.subscriptions.map((record) =>
        asOfItsLog(record, service.logs.get(record.id) ?? []),
      );
      return { subscriptions, readAt: now() };
    },
    async events(subscriptionId, after, signal) {
      called(`events ${subscriptionId}`, signal);
      return { ...eventPage(service, subscriptionId, after), readAt: now() };
    },
    async versions(datasetId, newerThan, signal) {
      called(`versions ${datasetId}`, signal);
      const versions = versionsOf(datasetId).filter((one) => one.version > (newerThan ?? -1));
      return { versions, readAt: now() };
    },
    async schemas(datasetId, signal) {
      called(`schemas ${datasetId}`, signal);
      return service.schemas.get(datasetId) ?? [schema(datasetId)];
    },
    async changes(request, signal) {
      const { datasetId, version: number } = request;
      called(`changes ${datasetId} ${number}`, signal);
      const answer = service.changes.get(`${datasetId} ${number}`);
      if (answer !== undefined) return answer(request, signal);
      const record = versionsOf(datasetId).find((one) => one.version === number);
      if (record === undefined) throw new Error(`changes of ${datasetId} ${number}, which is not listed`);
      return recorded(request, record);
    },
    manifestShape: () => service.shape,
    async manifest(subscriptionId, signal) {
      called(`manifest ${subscriptionId}`, signal);
      return {
        subscriptionId,
        lastEventId: service.watermarkCovers.get(subscriptionId) ?? null,
        datasets: (service.members.get(subscriptionId) ?? []).flatMap(snapshot),
        readAt: now(),
      };
    },
    async manifestEntry(datasetId, signal) {
      called(`entry ${datasetId}`, signal);
      const [listed] = snapshot(datasetId);
      if (listed === undefined) throw new Error(`no snapshot of ${datasetId}`);
      return { entry: listed, readAt: now() };
    },
    async download(request, signal) {
      called(`download ${request.entry.datasetId}`, signal);
      const answer = service.downloads.shift();
      return answer === undefined ? complete(request) : answer(request);
    },
    progress: () => service.progress,
    async close() {},
  };
}

/** The record once its log has these events. */
export function asOfItsLog(
  record: Subscription,
  log: readonly Pick<FeedEvent | UnreadableEvent, 'id'>[],
): Subscription {
  if (record.lastEventId === null) return record;
  const lastEventId = log.reduce<EventId | null>(
    (newest, { id }) => laterEvent(newest, id),
    record.lastEventId,
  );
  return { ...record, lastEventId };
}

function eventPage(service: Service, subscriptionId: string, after: EventId | null) {
  if (after !== null && after.number < service.keepsEventsFrom) {
    throw new CursorExpiredError(`The position ${after.text} is past retention.`);
  }
  const log = service.logs.get(subscriptionId) ?? [];
  const kept = log.filter(({ id }) => id === null || id.number >= service.keepsEventsFrom);
  const following = kept.filter(({ id }) => after === null || id === null || id.number > after.number);
  return { events: following.slice(0, EVENTS_PER_PAGE), hasMore: following.length > EVENTS_PER_PAGE };
}

/** The download of all that the entry lists. */
function complete({ entry: { files, version: number } }: DownloadRequest): Download {
  return {
    kind: 'complete',
    digestKind: files.every(({ sha256 }) => sha256 !== null) ? 'stated' : 'computed',
    isSurelyOneContent: true,
    files: files.map((file, index) => ({
      path: `/nowhere/${index}`,
      name: `part-${index}.parquet`,
      bytes: file.bytes ?? 0,
      sha256: file.sha256 ?? digestOf(`v${number}`),
      rowCount: file.rowCount,
    })),
  };
}
