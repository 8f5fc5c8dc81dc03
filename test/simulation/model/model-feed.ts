/**
 * The service as the port says it, straight from the pieces of the fixture feed: its records are made by the fixture and
 * decoded by the client's own decoders, without HTTP between them.
 */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { shownEvent } from '../../../fixtures/feed/left-out.ts';
import type { EntryView } from '../../../fixtures/feed/manifest-view.ts';
import type { DatasetVersion, SchemaRecord } from '../../../fixtures/feed/model.ts';
import type { Operation as AskedOperation } from '../../../fixtures/feed/operations.ts';
import { cursorExpired, invalidCursor, notFound } from '../../../fixtures/feed/refusal.ts';
import { notRecorded } from '../../../fixtures/feed/routes/changes.ts';
import { statesLastEventId } from '../../../fixtures/feed/settings.ts';
import { eventId, eventRecord, schemaRecord, versionRecord } from '../../../fixtures/feed/wire-records.ts';
import { whyNotRecorded } from '../../../src/feed/changes.ts';
import type {
  Changes,
  ChangesRequest,
  DatasetManifest,
  Download,
  DownloadedFile,
  DownloadRequest,
  EventPage,
  Feed,
  SubscriptionList,
  VersionList,
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
import {
  decodeEventPage,
  decodeSchemas,
  decodeSubscriptions,
  decodeVersions,
} from '../../../src/feed/wire/records.ts';
import { present } from '../../../src/lib/assert.ts';
import { writeScratch } from '../../../src/lib/files.ts';
import type { Contract } from '../../../src/model/contract.ts';
import { DataError, RefusalError, ServiceUnavailableError } from '../../../src/model/errors.ts';
import { type EventId, parseEventId } from '../../../src/model/event.ts';
import type { Manifest, ManifestEntry } from '../../../src/model/manifest.ts';
import type { Schema, Version } from '../../../src/model/records.ts';
import type { FeedSide } from '../stage.ts';
import type { ModelMachine } from './machine.ts';
import type { FileAnswer, Requests } from './requests.ts';
import type { Snapshots } from './snapshots.ts';
import type { Spool } from './spool.ts';
import { textsOf } from './texts.ts';

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

  async subscriptions(signal: AbortSignal): Promise<SubscriptionList> {
    const { records } = this.#parts.feed;
    const list = (): unknown => ({
      subscriptions: records.listed(true).map(({ record }) => record()),
      nextCursor: null,
    });
    const body = await this.#ask('subscriptions', {}, LIST_SUBSCRIPTIONS, list, signal);
    const { items } = decodeSubscriptions(body, LIST_SUBSCRIPTIONS.title);
    return { subscriptions: items, readAt: this.#now() };
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
    const body = await requests.ask(asked, signal);
    return { ...decodeEventPage(body, operation.title), readAt: this.#now() };
  }

  async versions(datasetId: string, newerThan: number | null, signal: AbortSignal): Promise<VersionList> {
    const operation = listVersions(datasetId);
    const { access, omissions } = this.#parts.feed;
    const list = (): readonly DatasetVersion[] => {
      const { versions } = access.dataset(datasetId);
      const missing = omissions.missingFrom({ list: 'versions', datasetId }, true);
      return versions.filter(({ version }) => !missing.has(String(version)));
    };
    const versions = await this.#ask('versions', { datasetId }, operation, list, signal);
    const newer = versions.filter(({ version }) => version > (newerThan ?? -1));
    return {
      versions: newer.map((version) => decodedVersion(datasetId, version)).reverse(),
      readAt: this.#now(),
    };
  }

  async schemas(datasetId: string, signal: AbortSignal): Promise<readonly Schema[]> {
    const operation = listSchemas(datasetId);
    const list = (): readonly SchemaRecord[] => this.#parts.feed.access.dataset(datasetId).schemas;
    const schemas = await this.#ask('schemas', { datasetId }, operation, list, signal);
    return schemas.map((record) => decodedSchema(datasetId, record)).reverse();
  }

  async changes(request: ChangesRequest, signal: AbortSignal): Promise<Changes> {
    const { datasetId } = request;
    const operation = listChanges(datasetId, request.version);
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

  async manifestEntry(datasetId: string, signal: AbortSignal): Promise<DatasetManifest> {
    const { access, manifest, settings } = this.#parts.feed;
    const operation = readManifestEntry(settings.contract.manifestPath, datasetId);
    const list = (): DatasetManifest => {
      access.dataset(datasetId);
      const version = manifest.versionOf(datasetId);
      if (version === null) throw notFound('manifest of this dataset');
      return { entry: this.#entryOf({ datasetId, version }), readAt: this.#now() };
    };
    return this.#ask('manifest', { datasetId }, operation, list, signal);
  }

  async download(request: DownloadRequest, signal: AbortSignal): Promise<Download> {
    const files: DownloadedFile[] = [];
    let latest = request.entry;
    for (const [position, { sha256: stated, bytes, rowCount }] of request.entry.files.entries()) {
      const path = join(request.directory, stated ?? `part-${position}`);
      let digest = stated ?? '';
      // What was staged without a digest may be another content's.
      if (stated === null || !existsSync(path)) {
        const fetched = await this.#fetchFile({ ...request, entry: latest }, position, path, signal);
        if (fetched.kind === 'superseded') return fetched;
        latest = fetched.entry;
        digest = stated ?? fetched.digest;
      }
      files.push({ path, name: `part-${position}.parquet`, bytes: bytes ?? 0, sha256: digest, rowCount });
    }
    const isStated = request.entry.files.every(({ sha256 }) => sha256 !== null);
    return {
      kind: 'complete',
      files,
      digestKind: isStated ? 'stated' : 'computed',
      isSurelyOneContent: true,
    };
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
    const { access, baseUrl, clock, settings } = this.#parts.feed;
    const query = {
      after: after === null ? null : Number(after.number),
      types: null,
      limit: EVENTS_PER_REQUEST,
      now: clock.now(),
      takesUnknown: settings.answers.unknownPosition === 'taken',
    };
    const page = access.subscription(subscriptionId).log.read(query);
    if (page.kind === 'expired') throw cursorExpired('{base_url}/manifest');
    if (page.kind === 'unknown') {
      throw settings.answers.unknownPosition === 'expired' ? cursorExpired('') : invalidCursor('after');
    }
    const links = { baseUrl, newerThanParameter: 'since' };
    const events = page.events.map((event) =>
      shownEvent(eventRecord(event, subscriptionId, links), settings.answers.leftOut),
    );
    return { events, hasMore: page.hasMore };
  }

  #manifestOf(subscriptionId: string): Manifest {
    const { access, manifest, omissions, settings } = this.#parts.feed;
    const { entries, lastEventNumber } = manifest.ofSubscription(access.subscription(subscriptionId));
    const missing = omissions.missingFrom({ list: 'manifest', subscriptionId }, true);
    const isStated = statesLastEventId(settings, subscriptionId, 'manifest') && lastEventNumber !== null;
    return {
      subscriptionId,
      lastEventId: isStated ? parseEventId(eventId(lastEventNumber)) : null,
      datasets: entries
        .filter(({ datasetId }) => !missing.has(datasetId))
        .map((entry) => this.#entryOf(entry)),
      readAt: this.#now(),
    };
  }

  #now(): Date {
    return this.#parts.feed.clock.now();
  }

  #entryOf({ datasetId, version }: EntryView): ManifestEntry {
    const { feed, snapshots } = this.#parts;
    const expiresMs = feed.clock.now().getTime() + feed.settings.files.urlLifetimeMs;
    return snapshots.entryOf(datasetId, version, expiresMs);
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

  async #spoolChanges(version: DatasetVersion, { pathOf, onBytes }: ChangesRequest): Promise<Changes> {
    const { machine, spool } = this.#parts;
    if (version.notRecordedAs !== null || version.changes === null) {
      return { recorded: false, why: 'the service says that it has not recorded them' };
    }
    machine.useDisk('changes');
    const path = pathOf(0);
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
    | { readonly kind: 'fetched'; readonly entry: ManifestEntry; readonly digest: string }
    | (Download & { kind: 'superseded' })
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
        return { kind: 'fetched', entry: latest, digest: textsOf(found.content).digest };
      }
    }
  }

  #askFile({ datasetId, version, files }: ManifestEntry, position: number, signal: AbortSignal) {
    const { feed, requests, snapshots } = this.#parts;
    const link = files[position]?.url ?? '';
    const facts = { operation: 'file', datasetId, subscriptionId: null, laterPage: false } as const;
    const operation = { ...listChanges(datasetId, version), title: `download ${link}`, path: link };
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

/** Without a digest, a renewed entry counts as other content. */
function isSameContent(left: ManifestEntry, right: ManifestEntry): boolean {
  if (right.files.some(({ sha256 }) => sha256 === null)) return false;
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
