/** The port of the service model. Every request is announced before it is answered, so that something may happen just then. */

import type { Feed } from '../../src/feed/feed.ts';
import { CursorExpiredError, RefusalError } from '../../src/model/errors.ts';
import type { EventId, FeedEvent } from '../../src/model/event.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import type { Schema, Subscription, Version } from '../../src/model/records.ts';
import { digestOf } from '../support/sync-values.ts';
import type { RequestKind } from './history.ts';
import { DATASET, type ListedVersion, type LogEvent, type Service } from './service.ts';
import { type SubscriptionId, subscriptionsOf } from './setting.ts';

const EVENTS_PER_PAGE = 2;
const ROWS = 10;
export const ORIGIN = 'https://feed.example';

const SCHEMA: Schema = {
  datasetId: DATASET,
  schemaVersion: '1',
  firstVersion: 1,
  columns: [{ name: 'id', type: 'string', nullable: false, description: null, sourceName: null }],
  keyColumns: ['id'],
  envelopeColumns: [],
  changeFromPrevious: null,
};

/** Resolves where the answer has to wait; null: it comes at once, in the order of the requests. */
export type Asked = (request: RequestKind) => Promise<void> | null;

/** Whatever the service says is given as a whole: a read is of one moment. `asked` throws where the program is killed. */
export function modelFeed(service: Service, asked: Asked): Feed {
  const readAt = (): Date => new Date(service.nowMs);
  const refuse = (request: RequestKind): void => {
    if (service.isRefusing) throw refusalOf(request);
  };
  const askedOfDataset: Asked = (request) => {
    const waiting = asked(request);
    if (waiting !== null) return waiting.then(() => refuse(request));
    refuse(request);
    return null;
  };
  return {
    origin: ORIGIN,
    async discover() {
      return { manifestPath: { value: '/manifest', source: 'default' }, newerThanParameter: null };
    },
    async subscriptions() {
      const waiting = asked('list');
      if (waiting !== null) await waiting;
      const subscriptions = subscriptionsOf(service.setting).map((id) => recordOf(id, service));
      return { subscriptions, readAt: readAt() };
    },
    async events(subscriptionId, after) {
      const waiting = asked('events');
      if (waiting !== null) await waiting;
      return { ...pageOf(subscriptionOf(subscriptionId), after, service), readAt: readAt() };
    },
    async versions(_datasetId, newerThan) {
      const waiting = askedOfDataset('versions');
      if (waiting !== null) await waiting;
      const newer = service.versions.filter(({ version }) => version > (newerThan ?? 0));
      return { versions: newer.map(versionOf).reverse(), readAt: readAt() };
    },
    async schemas() {
      return [SCHEMA];
    },
    async changes({ version }) {
      const waiting = askedOfDataset('changes');
      if (waiting !== null) await waiting;
      const listed = service.versions.find((one) => one.version === version);
      if (listed === undefined || listed.changes === null)
        return { recorded: false, why: 'they were not recorded' };
      const { previousVersion, changes } = listed;
      return { recorded: true, previousVersion, schemaVersion: '1', pages: [changes], bytes: 1 };
    },
    manifestShape: () => (service.setting.manifest === 'dataset' ? 'dataset' : 'subscription'),
    async manifest(subscriptionId) {
      const waiting = asked('manifest');
      if (waiting !== null) await waiting;
      const { lastNumber, entry } = service.manifestOf(subscriptionOf(subscriptionId));
      const datasets = entry === null ? [] : [entryOf(entry, service)];
      return { subscriptionId, lastEventId: eventId(lastNumber), datasets, readAt: readAt() };
    },
    async manifestEntry() {
      const waiting = askedOfDataset('entry');
      if (waiting !== null) await waiting;
      const { entry } = service.manifestOf(null);
      return { entry: entryOf(entry ?? service.newest, service), readAt: readAt() };
    },
    async download({ entry: { files } }) {
      const waiting = askedOfDataset('download');
      if (waiting !== null) await waiting;
      const isStated = files.every(({ sha256 }) => sha256 !== null);
      return {
        kind: 'complete',
        digestKind: isStated ? 'stated' : 'computed',
        isSurelyOneContent: true,
        files: files.map(({ url, rowCount }) => {
          return { path: url, name: url, bytes: 1, sha256: digestOf(url), rowCount };
        }),
      };
    },
    progress: () => 0,
    async close() {},
  };
}

function refusalOf(request: RequestKind): RefusalError {
  return new RefusalError({
    scope: { kind: 'dataset', datasetId: DATASET },
    operation: request,
    status: 403,
    code: 'outside_coverage',
    message: 'The dataset is not covered.',
    links: new Map(),
  });
}

function subscriptionOf(id: string): SubscriptionId {
  if (id !== 'A' && id !== 'B') throw new Error(`There is no subscription ${id}.`);
  return id;
}

function recordOf(id: SubscriptionId, service: Service): Subscription {
  const datasetIds = service.contains(id) ? [DATASET] : [];
  const lastNumber = service.setting.record === 'id' ? service.lastNumberOf(id) : null;
  return {
    id,
    name: null,
    places: [],
    topics: [],
    datasetIds,
    datasetCount: datasetIds.length,
    lastEventId: eventId(lastNumber),
  };
}

function pageOf(id: SubscriptionId, after: EventId | null, service: Service) {
  const expired = service.expiredUpTo(id);
  if (after !== null && after.number <= BigInt(expired)) {
    throw new CursorExpiredError(`The position ${after.text} is past retention.`);
  }
  const { events } = service.logOf(id);
  const following = events.filter(
    ({ number }) => number > expired && (after === null || BigInt(number) > after.number),
  );
  return {
    events: following.slice(0, EVENTS_PER_PAGE).map(feedEventOf),
    hasMore: following.length > EVENTS_PER_PAGE,
  };
}

function feedEventOf({ number, type, version, createdMs }: LogEvent): FeedEvent {
  return {
    kind: 'event',
    id: { text: `evt_${number}`, number: BigInt(number) },
    type,
    datasetId: DATASET,
    version,
    previousVersion: null,
    schemaVersion: null,
    counts: null,
    reason: null,
    createdAt: new Date(createdMs),
  };
}

function eventId(number: number | null): EventId | null {
  return number === null ? null : { text: `evt_${number}`, number: BigInt(number) };
}

function versionOf({ version, previousVersion, publishedMs }: ListedVersion): Version {
  return {
    datasetId: DATASET,
    version,
    previousVersion,
    schemaVersion: '1',
    rowCount: ROWS,
    counts: { added: 0, changed: 1, removed: 0 },
    resyncRequired: false,
    publishedAt: new Date(publishedMs),
  };
}

/** The address of a file is its content: what it names is never overwritten. */
function entryOf({ version, content }: ListedVersion, { setting }: Service): ManifestEntry {
  const sha256 = setting.digests === 'digest' ? digestOf(content) : null;
  return {
    datasetId: DATASET,
    version,
    schemaVersion: '1',
    rowCount: ROWS,
    files: [{ url: content, bytes: null, rowCount: null, sha256 }],
  };
}
