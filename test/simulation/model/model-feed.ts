/**
 * The service as the port says it, straight from the pieces of the fixture feed: its records are made by the fixture and
 * decoded by the client's own decoders, without HTTP between them.
 */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DatasetVersion, SchemaRecord } from '../../../fixtures/feed/model.ts';
import type { Operation as AskedOperation } from '../../../fixtures/feed/operations.ts';
import { cursorExpired, invalidCursor, notFound } from '../../../fixtures/feed/refusal.ts';
import { notRecorded } from '../../../fixtures/feed/routes/changes.ts';
import {
  eventId,
  eventRecord,
  schemaRecord,
  subscriptionRecord,
  versionRecord,
} from '../../../fixtures/feed/wire-records.ts';
import { whyNotRecorded } from '../../../src/feed/changes.ts';
import type {
  Changes,
  ChangesRequest,
  Download,
  DownloadedFile,
  DownloadRequest,
  EventPage,
  Feed,
} from '../../../src/feed/feed.ts';
import { refusalOfLog } from '../../../src/feed/http/refusal.ts';
import {
  DESCRIBE_SERVICE,
  LIST_SUBSCRIPTIONS,
  listChanges,
  listSchemas,
  listVersions,
  type Operation,
  readEvents,
  readManifest,
  readManifestEntry,
} from '../../../src/feed/operations.ts';
import { decodeEventPage } from '../../../src/feed/wire/events.ts';
import { decodeSchemas, decodeSubscriptions, decodeVersions } from '../../../src/feed/wire/records.ts';
import { present } from '../../../src/lib/assert.ts';
import { writeScratch } from '../../../src/lib/files.ts';
import type { Contract } from '../../../src/model/contract.ts';
import { DataError, RefusalError, ServiceUnavailableError } from '../../../src/model/errors.ts';
import { type EventId, parseEventId } from '../../../src/model/event.ts';
import type { Manifest, ManifestEntry } from '../../../src/model/manifest.ts';
import type { Schema } from '../../../src/model/schema.ts';
import type { Subscription } from '../../../src/model/subscription.ts';
import type { Version } from '../../../src/model/version.ts';
import type { FeedSide } from '../stage.ts';
import type { ModelMachine } from './machine.ts';
import type { FileAnswer, Requests } from './requests.ts';
import type { Snapshots } from './snapshots.ts';
import type { Spool } from './spool.ts';

const EVENTS_PER_REQUEST = 500;
/** As the client has them. */
const MAX_WRONG_CONTENTS = 3;
const MAX_EXPIRED_LINKS = 4;

export interface ModelFeedParts {
  readonly feed: FeedSide;
  readonly requests: Requests;
  readonly snapshots: Snapshots;
  readonly spool: Spool;
  readonly machine: ModelMachine;
}

export class ModelFeed implements Feed {
  readonly #parts: ModelFeedParts;

  constructor(parts: ModelFeedParts) {
    this.#parts = parts;
  }

  get origin(): string {
    return new URL(this.#parts.feed.baseUrl).origin;
  }

  manifestShape(): 'subscription' | 'dataset' {
    return this.#parts.feed.settings.contract.manifest;
  }

  async discover(signal: AbortSignal): Promise<Contract> {
    const { contract } = this.#parts.feed.settings;
    const value = contract.manifestPath;
    try {
      await this.#ask('openapi', {}, DESCRIBE_SERVICE, () => contract, signal);
    } catch (error) {
      if (!(error instanceof ServiceUnavailableError)) throw error;
    }
    return { manifestPath: { value, source: 'openapi' }, newerThanParameter: null };
  }

  async subscriptions(signal: AbortSignal): Promise<readonly Subscription[]> {
    const { store } = this.#parts.feed;
    const list = (): unknown => ({
      subscriptions: [...store.subscriptions.values()].map(subscriptionRecord),
      nextCursor: null,
    });
    const body = await this.#ask('subscriptions', {}, LIST_SUBSCRIPTIONS, list, signal);
    return decodeSubscriptions(body, LIST_SUBSCRIPTIONS.title).items;
  }

  async events(subscriptionId: string, after: EventId | null, signal: AbortSignal): Promise<EventPage> {
    const { requests } = this.#parts;
    const operation = readEvents(subscriptionId);
    const facts = {
      operation: 'events',
      datasetId: null,
      subscriptionId,
      laterPage: after !== null,
    } as const;
    const answer = (): unknown => this.#pageOfLog(subscriptionId, after);
    const asked = { facts, operation, scope: 'feeds', answer, refused: refusalOfLog } as const;
    return decodeEventPage(await requests.ask(asked, signal), operation.title);
  }

  async versions(
    datasetId: string,
    newerThan: number | null,
    signal: AbortSignal,
  ): Promise<readonly Version[]> {
    const operation = listVersions(datasetId);
    const list = (): readonly DatasetVersion[] => this.#parts.feed.access.dataset(datasetId).versions;
    const versions = await this.#ask('versions', { datasetId }, operation, list, signal);
    return versions
      .filter(({ version }) => version > (newerThan ?? -1))
      .map((version) => decodedVersion(datasetId, version))
      .reverse();
  }

  async schemas(datasetId: string, signal: AbortSignal): Promise<readonly Schema[]> {
    const operation = listSchemas(datasetId);
    const list = (): readonly SchemaRecord[] => this.#parts.feed.access.dataset(datasetId).schemas;
    const schemas = await this.#ask('schemas', { datasetId }, operation, list, signal);
    return schemas.map((record) => decodedSchema(datasetId, record)).reverse();
  }

  async changes(request: ChangesRequest, signal: AbortSignal): Promise<Changes> {
    const { datasetId } = request;
    const operation = listChanges(datasetId);
    const answer = (): DatasetVersion => this.#versionWithChanges(request);
    const facts = { operation: 'changes', datasetId, subscriptionId: null, laterPage: false } as const;
    try {
      const version = await this.#parts.requests.ask(
        { facts, operation, query: { version: request.version }, scope: 'changes', answer },
        signal,
      );
      return await this.#spoolChanges(version, request);
    } catch (error) {
      const why = error instanceof RefusalError ? whyNotRecorded(error) : null;
      if (why === null) throw error;
      return { recorded: false, why };
    }
  }

  async manifest(subscriptionId: string, signal: AbortSignal): Promise<Manifest> {
    const { contract } = this.#parts.feed.settings;
    const operation = readManifest(contract.manifestPath, subscriptionId);
    const list = (): Manifest => this.#manifestOf(subscriptionId);
    return this.#ask('manifest', { subscriptionId }, operation, list, signal);
  }

  async manifestEntry(datasetId: string, signal: AbortSignal): Promise<ManifestEntry> {
    const { access, settings } = this.#parts.feed;
    const operation = readManifestEntry(settings.contract.manifestPath, datasetId);
    const list = (): ManifestEntry => {
      access.dataset(datasetId);
      const [entry] = this.#entriesOf([datasetId]);
      if (entry === undefined) throw notFound('manifest of this dataset');
      return entry;
    };
    return this.#ask('manifest', { datasetId }, operation, list, signal);
  }

  async download(request: DownloadRequest, signal: AbortSignal): Promise<Download> {
    const files: DownloadedFile[] = [];
    let latest = request.entry;
    for (const [position, { sha256, bytes, rowCount }] of request.entry.files.entries()) {
      const digest = present(sha256, 'a model feed tells the digest of every file');
      const path = join(request.directory, digest);
      if (!existsSync(path)) {
        const fetched = await this.#fetchFile({ ...request, entry: latest }, position, path, signal);
        if (fetched.kind === 'superseded') return fetched;
        latest = fetched.entry;
      }
      files.push({ path, name: `part-${position}.parquet`, bytes: bytes ?? 0, sha256: digest, rowCount });
    }
    return { kind: 'complete', files };
  }

  progress(): number {
    return 0;
  }

  async close(): Promise<void> {}

  #ask<T>(
    asked: AskedOperation,
    about: { readonly datasetId?: string; readonly subscriptionId?: string },
    operation: Operation,
    answer: () => T,
    signal: AbortSignal,
  ): Promise<T> {
    const facts = { operation: asked, datasetId: null, subscriptionId: null, laterPage: false, ...about };
    return this.#parts.requests.ask({ facts, operation, scope: 'feeds', answer }, signal);
  }

  /** @throws Refusal */
  #pageOfLog(subscriptionId: string, after: EventId | null): unknown {
    const { access, baseUrl, clock } = this.#parts.feed;
    const query = {
      after: after === null ? null : Number(after.number),
      types: null,
      limit: EVENTS_PER_REQUEST,
      now: clock.now(),
    };
    const page = access.subscription(subscriptionId).log.read(query);
    if (page.kind === 'expired') throw cursorExpired('{base_url}/manifest');
    if (page.kind === 'unknown') throw invalidCursor('after');
    const links = { baseUrl, newerThanParameter: 'since' };
    const events = page.events.map((event) => eventRecord(event, subscriptionId, links));
    return { events, hasMore: page.hasMore };
  }

  #manifestOf(subscriptionId: string): Manifest {
    const { access, manifest, settings } = this.#parts.feed;
    const { datasetIds, lastEventNumber } = manifest.ofSubscription(access.subscription(subscriptionId));
    const tellsPosition = settings.contract.manifestLastEventId && lastEventNumber !== null;
    return {
      subscriptionId,
      lastEventId: tellsPosition ? parseEventId(eventId(lastEventNumber)) : null,
      datasets: this.#entriesOf(datasetIds),
    };
  }

  #entriesOf(datasetIds: readonly string[]): readonly ManifestEntry[] {
    const { feed, snapshots } = this.#parts;
    const expiresMs = feed.clock.now().getTime() + feed.settings.files.urlLifetimeMs;
    return datasetIds.flatMap((datasetId) => {
      const version = feed.manifest.versionOf(datasetId);
      return version === null ? [] : [snapshots.entryOf(datasetId, version, expiresMs)];
    });
  }

  /** @throws Refusal */
  #versionWithChanges({ datasetId, version: number }: ChangesRequest): DatasetVersion {
    const { versions } = this.#parts.feed.access.dataset(datasetId);
    const version = versions.find((known) => known.version === number);
    if (version === undefined) throw notFound(`version ${number} of this dataset`);
    const { notRecordedAs } = version;
    if (notRecordedAs !== null && notRecordedAs !== 'flag') throw notRecorded(notRecordedAs);
    return version;
  }

  async #spoolChanges(version: DatasetVersion, { directory, onBytes }: ChangesRequest): Promise<Changes> {
    const { machine, spool } = this.#parts;
    if (version.notRecordedAs !== null || version.changes === null) {
      return { recorded: false, why: 'the service says that it has not recorded them' };
    }
    machine.useDisk('changes');
    const path = join(directory, 'changes-00000.json');
    const handle = Buffer.from(spool.handleOf({ kind: 'changes', version }));
    await writeScratch('feed.spool-changes', path, handle);
    onBytes(handle.length);
    const { previousVersion, schemaVersion } = version;
    return { recorded: true, previousVersion, schemaVersion, pages: [path], bytes: handle.length };
  }

  /** @throws DataError, ServiceUnavailableError, StorageError */
  async #fetchFile(
    { entry, refresh, onBytes }: DownloadRequest,
    position: number,
    path: string,
    signal: AbortSignal,
  ): Promise<
    { readonly kind: 'fetched'; readonly entry: ManifestEntry } | (Download & { kind: 'superseded' })
  > {
    const { machine, spool } = this.#parts;
    let latest = entry;
    const spent = { wrongContents: 0, expiredLinks: 0 };
    for (;;) {
      const found = await this.#askFile(latest, position, signal);
      refuseTooMany(found, spent, path);
      if (found === 'expired') {
        const newest = await refresh();
        if (newest === null || !isSameContent(newest, latest)) return { kind: 'superseded', entry: newest };
        latest = newest;
      } else if (found !== 'wrong') {
        machine.useDisk('download');
        const handle = Buffer.from(spool.handleOf({ kind: 'snapshot', content: found.content }));
        await writeScratch('feed.place-download', path, handle);
        onBytes(entry.files[position]?.bytes ?? 0);
        return { kind: 'fetched', entry: latest };
      }
    }
  }

  #askFile({ datasetId, files }: ManifestEntry, position: number, signal: AbortSignal) {
    const { feed, requests, snapshots } = this.#parts;
    const link = files[position]?.url ?? '';
    const facts = { operation: 'file', datasetId, subscriptionId: null, laterPage: false } as const;
    const operation = { ...listChanges(datasetId), title: `download ${link}`, path: link };
    const answer = (): DatasetVersion | 'expired' =>
      snapshots.open(datasetId, link, feed.clock.now().getTime()) ?? 'expired';
    return requests.askFile({ facts, operation, scope: null, answer }, signal);
  }
}

/** @throws DataError, ServiceUnavailableError */
function refuseTooMany(
  found: FileAnswer<DatasetVersion>,
  spent: { wrongContents: number; expiredLinks: number },
  path: string,
): void {
  if (found === 'wrong') spent.wrongContents += 1;
  if (found === 'expired') spent.expiredLinks += 1;
  if (spent.wrongContents === MAX_WRONG_CONTENTS)
    throw new DataError(`The file ${path} differs from what its manifest states.`);
  if (spent.expiredLinks === MAX_EXPIRED_LINKS)
    throw new ServiceUnavailableError(`No link to the file ${path} opens.`);
}

function isSameContent(left: ManifestEntry, right: ManifestEntry): boolean {
  const digests = ({ files }: ManifestEntry): string => files.map(({ sha256 }) => sha256).join(' ');
  return left.version === right.version && digests(left) === digests(right);
}

const versions = new WeakMap<DatasetVersion, Version>();

function decodedVersion(datasetId: string, version: DatasetVersion): Version {
  const body = { versions: [versionRecord(datasetId, version)], nextCursor: null };
  const decoded = versions.get(version) ?? decodeVersions(body, datasetId, 'list versions').items[0];
  versions.set(version, present(decoded, 'a list of one version has it'));
  return present(decoded, 'a list of one version has it');
}

const schemas = new WeakMap<SchemaRecord, Schema>();

function decodedSchema(datasetId: string, record: SchemaRecord): Schema {
  const body = { schemas: [schemaRecord(datasetId, record)], nextCursor: null };
  const decoded = schemas.get(record) ?? decodeSchemas(body, datasetId, 'list schemas').items[0];
  schemas.set(record, present(decoded, 'a list of one schema has it'));
  return present(decoded, 'a list of one schema has it');
}
