/**
 * A feed and a destination in memory, and a real checkpoint, for catch-ups with incidents that real parts
 * do not make at will. Every call of a port can be made to throw, by its name.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import type { Log, LogFields } from '../../src/lib/log.ts';
import { UnknownColumnsError } from '../../src/model/errors.ts';
import type { Subscription, Version } from '../../src/model/records.ts';
import { catchUp } from '../../src/sync/catch-up.ts';
import type { Parts } from '../../src/sync/parts.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { NOON_CLOCK, openAt, temporaryPath } from './checkpoint-files.ts';
import { ordinaryChoices } from './ordinary-choices.ts';
import { destinationOf, emptyMirror, type Mirror } from './small-destination.ts';
import { emptyService, feedOf, type Service } from './small-feed.ts';
import { entry, event, subscription, version } from './sync-values.ts';

/** Called before every call of a port: `versions parcels`, `commit`, `fail`. Throws what the call shall throw. */
type Intervene = (call: string) => void;

export interface World extends Mirror {
  readonly parts: Parts;
  readonly checkpoint: Checkpoint;
  /** For what other processes of ours do beside it. */
  readonly checkpointPath: string;
  /** What the service says; tests change it as they go. */
  readonly service: Service;
  /** Calls of the service, in order. */
  readonly calls: string[];
  /** What was logged: level, fields, message. */
  readonly logged: (readonly [string, LogFields, string])[];
  intervene: Intervene;
  catchUp(signal?: AbortSignal): Promise<CatchUpResult>;
}

/** A service without subscriptions, that has the given datasets at version 1. */
export async function smallWorld(...datasetIds: string[]): Promise<World> {
  const service = emptyService();
  for (const datasetId of datasetIds) service.snapshots.set(datasetId, entry(datasetId, 1));
  const checkpointPath = temporaryPath('checkpoint.sqlite');
  const stored = await openAt(checkpointPath);
  const stagingDirectory = mkdtempSync(join(tmpdir(), 'feed-sync-small-world-'));
  onTestFinished(() => rmSync(stagingDirectory, { recursive: true, force: true }));
  const choices = ordinaryChoices(stagingDirectory);
  const world: Omit<World, 'parts' | 'catchUp'> = {
    ...emptyMirror(),
    checkpoint: stored,
    checkpointPath,
    service,
    calls: [],
    logged: [],
    intervene: () => {},
  };
  const parts: Parts = {
    feed: feedOf(
      service,
      (call, signal) => {
        signal.throwIfAborted();
        world.calls.push(call);
        world.intervene(call);
      },
      () => parts.clock.now(),
    ),
    destination: destinationOf(world, service.outcomes, (call) => world.intervene(call)),
    checkpoint: intervened(world, stored),
    clock: NOON_CLOCK,
    log: logInto(world.logged),
    progress: silentProgress,
    choices,
    process: { command: 'once', pid: 1, host: 'here' },
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
  service.watermarkCovers.set(subscription.id, { text: 'evt_100', number: 100n });
  for (const datasetId of datasetIds) {
    if (!service.snapshots.has(datasetId)) service.snapshots.set(datasetId, entry(datasetId, 1));
  }
}

export async function oneSubscription(...datasetIds: string[]): Promise<World> {
  const world = await smallWorld();
  subscribe(world, subscription(), ...datasetIds);
  return world;
}

/** `oneSubscription` with a mirror at version 1 of everything, calm again. */
export async function caughtUp(...datasetIds: string[]): Promise<World> {
  const world = await oneSubscription(...datasetIds);
  await world.catchUp();
  calm(world);
  return world;
}

/**
 * Publishes the next version of a dataset, which changes one row, and an event of it in the log of `sub_1`. Its snapshot is not made yet: the
 * manifest lists the one before.
 */
export function publish(world: World, datasetId: string, changed: Partial<Version> = {}): Version {
  const { versions, snapshots, logs } = world.service;
  const first = snapshots.get(datasetId)?.version ?? 1;
  const listed = versions.get(datasetId) ?? [version(datasetId, first)];
  const counts = { added: 0, changed: 1, removed: 0 };
  const next = version(datasetId, (listed[0]?.version ?? 0) + 1, { counts, ...changed });
  versions.set(datasetId, [next, ...listed]);
  const log = logs.get('sub_1') ?? [];
  log.push(event(101 + log.length, 'dataset.updated', { datasetId, version: next.version }));
  logs.set('sub_1', log);
  return next;
}

/** Publishes as `publish` does, and makes the snapshot, which the manifest lists and which reflects every event so far. */
export function publishWithSnapshot(
  world: World,
  datasetId: string,
  changed: Partial<Version> = {},
): Version {
  const next = publish(world, datasetId, changed);
  const listed = { schemaVersion: next.schemaVersion, rowCount: next.rowCount };
  world.service.snapshots.set(datasetId, { ...entry(datasetId, next.version), ...listed });
  const newest = world.service.logs.get('sub_1')?.at(-1)?.id;
  if (newest) world.service.watermarkCovers.set('sub_1', newest);
  return next;
}

/** Time passes. */
export function elapse({ parts }: World, durationMs: number): void {
  const now = new Date(parts.clock.now().getTime() + durationMs);
  Object.assign(parts, { clock: { ...parts.clock, now: () => now } });
}

/** Throws at every call whose name matches. */
export function throwAt(world: World, pattern: RegExp, error: Error): void {
  world.intervene = (call) => {
    if (pattern.test(call)) throw error;
  };
}

/** Content of `parcels` once, and of `permits` each time, has a column that the schema lacks. */
export function throwUnknownColumns(world: World): void {
  let isFirst = true;
  world.intervene = (call) => {
    const isThrown = call === 'prepare permits' || (call === 'prepare parcels' && isFirst);
    if (call === 'prepare parcels') isFirst = false;
    if (isThrown) throw new UnknownColumnsError(call.replace('prepare ', ''), ['zone'], 'The file');
  };
}

export function calm(world: World): void {
  world.intervene = () => {};
  world.calls.length = 0;
}

/** What became of each dataset, and of one that was updated, how: `loaded`, `applied`, `loaded, applied`. */
export function kinds({ datasets }: CatchUpResult): Record<string, string> {
  return Object.fromEntries(
    datasets.map(({ datasetId, kind, commits }) => [
      datasetId,
      kind === 'updated' ? commits.map((commit) => HOW[commit.kind]).join(', ') : kind,
    ]),
  );
}

const HOW = { snapshot: 'loaded', changes: 'applied', rollback: 'rolled back', repair: 'repaired' };

export function versions(world: World): Record<string, number> {
  return Object.fromEntries([...world.tables.values()].map((one) => [one.datasetId, one.version]));
}

/** What a catch-up of `sub_1` asks where no dataset is behind. */
export const CALLS_WITHOUT_NEWS = [
  'subscriptions',
  'discover',
  'events sub_1',
  'events sub_1',
  'manifest sub_1',
  'subscriptions',
];

/** The checkpoint, of which every call can be made to throw, by the name of its method. */
function intervened(world: { readonly intervene: Intervene }, checkpoint: Checkpoint): Checkpoint {
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

function logInto(logged: (readonly [string, LogFields, string])[]): Log {
  const at = (level: string) => (fields: LogFields, message: string) => {
    logged.push([level, fields, message]);
  };
  return { trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
