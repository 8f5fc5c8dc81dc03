/**
 * A feed and a destination held in memory, and a real checkpoint, for what a catch-up does with trouble that real parts
 * do not make at will. Every call of a port can be made to throw, by its name.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import type {
  Destination,
  Enrolment,
  HeldDataset,
  Outcome,
  Prepared,
  Unit,
} from '../../src/destination/destination.ts';
import type { Download, DownloadRequest, Feed } from '../../src/feed/feed.ts';
import { silentLog } from '../../src/lib/log.ts';
import { CursorExpiredError } from '../../src/model/errors.ts';
import type { EventId, FeedEvent, UnreadableEvent } from '../../src/model/event.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import type { Subscription } from '../../src/model/subscription.ts';
import type { Version } from '../../src/model/version.ts';
import { catchUp } from '../../src/sync/catch-up.ts';
import type { Choices, Parts } from '../../src/sync/parts.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { NOON_CLOCK, openNew } from './checkpoint-files.ts';
import { digestOf, entry, NOW, schema, subscription, version } from './sync-values.ts';

const EVENTS_PER_PAGE = 2;

/** Called before every call of a port: `versions parcels`, `commit`, `fail`. Throws what the call shall throw. */
type Intervene = (call: string) => void;

export interface World {
  readonly parts: Parts;
  readonly checkpoint: Checkpoint;
  /** What the service says; tests change it as they go. */
  readonly service: Service;
  /** The tables of the mirror, by dataset id. */
  readonly tables: Map<string, HeldDataset>;
  readonly enrolments: Enrolment[];
  /** Calls of the service, in order. */
  readonly calls: string[];
  intervene: Intervene;
  catchUp(signal?: AbortSignal): Promise<CatchUpResult>;
}

export interface Service {
  shape: 'subscription' | 'dataset';
  subscriptions: Subscription[];
  /** By subscription id. */
  readonly logs: Map<string, (FeedEvent | UnreadableEvent)[]>;
  /** Positions before this one are past retention. */
  keepsEventsFrom: bigint;
  /** By subscription id: the datasets it lists. */
  readonly members: Map<string, string[]>;
  /** By subscription id; absent: the manifest does not say. */
  readonly reflects: Map<string, EventId>;
  /** By dataset id: the snapshot that manifests list. */
  readonly snapshots: Map<string, ManifestEntry>;
  /** By dataset id, newest first; absent: the version of the snapshot alone. */
  readonly versions: Map<string, Version[]>;
  /** Answers of downloads, in order; without one, the download is complete. */
  readonly downloads: ((request: DownloadRequest) => Promise<Download>)[];
  /** Outcomes of commits, in order; without one, the unit is committed. */
  readonly outcomes: ((unit: Unit) => Outcome)[];
}

/** One subscription with the given datasets at version 1, every event up to 100 reflected. */
export async function smallWorld(...datasetIds: string[]): Promise<World> {
  const service: Service = {
    shape: 'subscription',
    subscriptions: [],
    logs: new Map(),
    keepsEventsFrom: 0n,
    members: new Map(),
    reflects: new Map(),
    snapshots: new Map(),
    versions: new Map(),
    downloads: [],
    outcomes: [],
  };
  for (const datasetId of datasetIds) service.snapshots.set(datasetId, entry(datasetId, 1));
  const stored = await openNew();
  const stagingDirectory = mkdtempSync(join(tmpdir(), 'feed-sync-small-world-'));
  onTestFinished(() => rmSync(stagingDirectory, { recursive: true, force: true }));
  const choices: Choices = {
    subscriptions: null,
    include: [],
    exclude: [],
    stagingDirectory,
    keyHash: 'key-1',
  };
  const world: Omit<World, 'parts' | 'catchUp'> = {
    checkpoint: stored,
    service,
    tables: new Map(),
    enrolments: [],
    calls: [],
    intervene: () => {},
  };
  const parts: Parts = {
    feed: feedOf(world),
    destination: destinationOf(world),
    checkpoint: intervened(world, stored),
    clock: NOON_CLOCK,
    log: silentLog,
    progress: silentProgress,
    choices,
  };
  return Object.assign(world, {
    parts,
    catchUp: (signal = new AbortController().signal) => catchUp(parts, signal),
  });
}

/** Adds a subscription that lists `datasetIds`, as of event 100. */
export function subscribe(world: World, subscription: Subscription, ...datasetIds: string[]): void {
  const { service } = world;
  service.subscriptions.push(subscription);
  service.members.set(subscription.id, datasetIds);
  service.logs.set(subscription.id, []);
  service.reflects.set(subscription.id, { text: 'evt_100', number: 100n });
  for (const datasetId of datasetIds) {
    if (!service.snapshots.has(datasetId)) service.snapshots.set(datasetId, entry(datasetId, 1));
  }
}

/** Throws at every call whose name matches. */
export function throwAt(world: World, pattern: RegExp, error: Error): void {
  world.intervene = (call) => {
    if (pattern.test(call)) throw error;
  };
}

export function calm(world: World): void {
  world.intervene = () => {};
  world.calls.length = 0;
}

export async function oneSubscription(...datasetIds: string[]): Promise<World> {
  const world = await smallWorld();
  subscribe(world, subscription(), ...datasetIds);
  return world;
}

export function kinds({ datasets }: CatchUpResult): Record<string, string> {
  return Object.fromEntries(datasets.map(({ datasetId, kind }) => [datasetId, kind]));
}

export function versions(world: World): Record<string, number> {
  return Object.fromEntries([...world.tables.values()].map((one) => [one.datasetId, one.version]));
}

type State = Omit<World, 'parts' | 'catchUp'>;

function feedOf(world: State): Feed {
  const { service } = world;
  const called = (call: string, signal: AbortSignal): void => {
    signal.throwIfAborted();
    world.calls.push(call);
    world.intervene(call);
  };
  const contract = {
    manifestPath: { value: '/manifest', source: 'default' },
    newerThanParameter: null,
  } as const;
  const snapshot = (datasetId: string): ManifestEntry[] => {
    const listed = service.snapshots.get(datasetId);
    return listed === undefined ? [] : [listed];
  };
  return {
    origin: 'https://feed.example',
    async discover(signal) {
      called('discover', signal);
      return contract;
    },
    async subscriptions(signal) {
      called('subscriptions', signal);
      return service.subscriptions;
    },
    async events(subscriptionId, after, signal) {
      called(`events ${subscriptionId}`, signal);
      return eventPage(service, subscriptionId, after);
    },
    async versions(datasetId, newerThan, signal) {
      called(`versions ${datasetId}`, signal);
      const listed =
        service.versions.get(datasetId) ?? snapshot(datasetId).map((one) => version(datasetId, one.version));
      return listed.filter((one) => one.version > (newerThan ?? -1));
    },
    async schemas(datasetId, signal) {
      called(`schemas ${datasetId}`, signal);
      return [schema(datasetId)];
    },
    async changes() {
      throw new Error('Changes are not asked for yet.');
    },
    manifestShape: () => service.shape,
    async manifest(subscriptionId, signal) {
      called(`manifest ${subscriptionId}`, signal);
      return {
        subscriptionId,
        lastEventId: service.reflects.get(subscriptionId) ?? null,
        datasets: (service.members.get(subscriptionId) ?? []).flatMap(snapshot),
      };
    },
    async manifestEntry(datasetId, signal) {
      called(`entry ${datasetId}`, signal);
      const [listed] = snapshot(datasetId);
      if (listed === undefined) throw new Error(`no snapshot of ${datasetId}`);
      return listed;
    },
    async download(request, signal) {
      called(`download ${request.entry.datasetId}`, signal);
      const answer = service.downloads.shift();
      return answer === undefined ? complete(request) : answer(request);
    },
    async close() {},
  };
}

function eventPage(service: Service, subscriptionId: string, after: EventId | null) {
  if (after !== null && after.number < service.keepsEventsFrom) {
    throw new CursorExpiredError(`The position ${after.text} is past retention.`);
  }
  const log = service.logs.get(subscriptionId) ?? [];
  const following = log.filter(({ id }) => after === null || id === null || id.number > after.number);
  return { events: following.slice(0, EVENTS_PER_PAGE), hasMore: following.length > EVENTS_PER_PAGE };
}

/** The download of all that the entry lists. */
function complete({ entry: { files, version: number } }: DownloadRequest): Download {
  return {
    kind: 'complete',
    files: files.map((file, index) => ({
      path: `/nowhere/${index}`,
      name: `part-${index}.parquet`,
      bytes: file.bytes ?? 0,
      sha256: file.sha256 ?? digestOf(`v${number}`),
      rowCount: file.rowCount,
    })),
  };
}

function destinationOf(world: State): Destination {
  const { tables, service, enrolments } = world;
  return {
    async has() {
      world.intervene('has');
      const [first] = enrolments;
      return { service: first ?? null, datasets: new Map(tables) };
    },
    async enroll(enrolment) {
      world.intervene('enroll');
      enrolments.push(enrolment);
    },
    async prepare(unit) {
      world.intervene(`prepare ${unit.datasetId}`);
      return { unit };
    },
    async commit(units: readonly Prepared[]) {
      world.intervene('commit');
      return units.map(({ unit }) => service.outcomes.shift()?.(unit) ?? committed(unit, tables));
    },
    async close() {},
  };
}

function committed(unit: Unit, tables: Map<string, HeldDataset>): Outcome {
  const { datasetId, version: number, digest, reloads, schema: columns } = unit;
  const before = tables.get(datasetId) ?? null;
  tables.set(datasetId, {
    datasetId,
    tableName: datasetId,
    version: number,
    schemaVersion: columns.schemaVersion,
    rowCount: 10,
    keyColumns: columns.keyColumns,
    snapshotVersion: number,
    snapshotDigest: digest,
    publishedAt: null,
    appliedAt: NOW,
    reloads,
  });
  const fromVersion = before?.version ?? null;
  return {
    kind: 'committed',
    datasetId,
    committed: { tableName: datasetId, fromVersion, toVersion: number, rowCount: 10 },
  };
}

/** The checkpoint, of which every call can be made to throw, by the name of its method. */
function intervened(world: State, checkpoint: Checkpoint): Checkpoint {
  return new Proxy(checkpoint, {
    get(target, name, receiver) {
      const member: unknown = Reflect.get(target, name, receiver);
      if (typeof member !== 'function') return member;
      return (...parameters: unknown[]) => {
        world.intervene(String(name));
        return Reflect.apply(member, target, parameters);
      };
    },
  });
}
