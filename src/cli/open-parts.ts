/** Opens the dependencies of `once` and `run` from a configuration, and closes them in reverse order, whatever happens. */

import { join } from 'node:path';
import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { acquireInstanceLock, instanceLockPath } from '../checkpoint/instance-lock.ts';
import { openCheckpoint } from '../checkpoint/sqlite/open.ts';
import type { Configuration } from '../configuration/configuration.ts';
import { type HistoryOptions, openMirror } from '../destination/duckdb/mirror.ts';
import type { PublishOptions } from '../destination/duckdb/publish.ts';
import type { PostCommitSource } from '../destination/publication.ts';
import { createFeed } from '../feed/create-feed.ts';
import type { FeedOptions } from '../feed/http/options.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { feedProgram } from '../lib/run-program.ts';
import type { GateLimits } from '../model/gate.ts';
import { Hook, hookEnvironment, type Readers } from '../post-commit/hook.ts';
import { isChosenDataset } from '../sync/follow/subscriptions.ts';
import type { Choices, Parts } from '../sync/parts.ts';
import type { Progress } from '../sync/progress.ts';
import type { Context } from './context.ts';
import { feedOptions, isKnownOrigin, keyHashOf } from './service-client.ts';

export interface OpenOptions {
  readonly configuration: Configuration;
  readonly context: Context;
  readonly log: Log;
  readonly progress: Progress;
  /** The name of the command that holds the instance lock, for people. */
  readonly command: string;
  /** Interrupts the mirror and the command after commits when aborted. */
  readonly signal: AbortSignal;
  /** How long the mirror is left to readers between two write sessions; no time by default. */
  readonly readerGraceMs?: number;
  /** The clock with which the feed, the mirror and the checkpoint wait; the clock of the context by default. */
  readonly clock?: Clock;
  /** The log of the service's client; `log` by default. */
  readonly feedLog?: Log;
  /** Called with every exchange with the service; does nothing by default. */
  readonly onExchange?: FeedOptions['onExchange'];
}

interface OpenedParts {
  readonly parts: Parts;
  readonly readers: Readers;
  readonly close: () => Promise<void>;
}

/**
 * Returns the parts, and the stack that closes them. @throws BusyError when another instance works on the same data
 * directory. @throws StorageError when the data directory or a store cannot be used. @throws ConfigurationError when a
 * newer program wrote a store.
 */
export async function openParts(options: OpenOptions): Promise<OpenedParts> {
  await using opened = new AsyncDisposableStack();
  const { configuration, context, log, progress, command, signal } = options;
  const { random, identity } = context;
  const { clock = context.clock } = options;
  const { dataDirectory } = configuration;
  const lock = await acquireInstanceLock({
    path: instanceLockPath(dataDirectory),
    uid: identity.uid,
    holder: { pid: identity.pid, host: identity.host, startedAt: clock.now(), command },
  });
  opened.defer(() => lock.release());
  const checkpoint = await openCheckpoint({
    path: configuration.checkpoint.path,
    uid: identity.uid,
    clock,
    log,
  });
  opened.defer(() => checkpoint.close());
  const choices = choicesOf(configuration);
  const destination = await openMirror({
    path: configuration.destination.path,
    dataDirectory,
    ...configuration.duckdb,
    reserveBytes: configuration.disk.reserveBytes,
    lockWaitMs: configuration.lock.waitMs,
    readerGraceMs: options.readerGraceMs ?? 0,
    uid: identity.uid,
    signal,
    history: historyOptions(configuration),
    publish: publishOptions(configuration, choices),
    clock,
    random,
    log,
  });
  opened.defer(() => destination.close());
  const feed = createFeed({
    ...feedOptions(configuration, { ...context, clock }, options.feedLog ?? log),
    ...(options.onExchange === undefined ? {} : { onExchange: options.onExchange }),
    isKnownOrigin: async () => isKnownOrigin(configuration, await destination.has()),
    remembered: checkpoint.rememberedContract(),
    onContractDiscovered: (contract) => checkpoint.rememberContract(contract),
  });
  opened.defer(() => feed.close());
  const parts = { feed, destination, checkpoint, clock: context.clock, log, progress, choices };
  const readers = readersOf(options, destination, checkpoint);
  const stack = opened.move();
  return { parts, readers, close: () => stack.disposeAsync() };
}

function readersOf(
  { configuration, context: { environment, clock }, log, signal }: OpenOptions,
  postCommit: PostCommitSource,
  checkpoint: Checkpoint,
): Readers {
  const { destination, hooks, service } = configuration;
  const { publish } = destination;
  if (hooks.afterCommit === null) return { postCommit, publish, hook: null };
  const hook = new Hook({
    command: hooks.afterCommit,
    timeoutMs: hooks.timeoutMs,
    environment: hookEnvironment(environment, service.apiKey),
    mirrorPath: destination.path,
    publishedPath: publish?.path ?? null,
    postCommit,
    checkpoint,
    run: feedProgram,
    clock,
    log,
    signal,
  });
  return { postCommit, publish, hook };
}

function historyOptions({ history: { datasets, keepMs } }: Configuration): HistoryOptions {
  return { keeps: (datasetId) => keepsHistory(datasetId, datasets), keepMs };
}

function keepsHistory(datasetId: string, datasets: readonly string[]): boolean {
  return datasets.length > 0 && isChosenDataset(datasetId, datasets, []);
}

function publishOptions(
  { destination: { publish }, dataDirectory, checkpoint, disk }: Configuration,
  { stagingDirectory }: Choices,
): PublishOptions | null {
  if (publish === null) return null;
  const keptPaths = [checkpoint.path, instanceLockPath(dataDirectory), stagingDirectory];
  return { path: publish.path, keptPaths, reserveBytes: disk.reserveBytes };
}

export function choicesOf(configuration: Configuration): Choices {
  const { datasets, everyVersion } = configuration.history;
  return {
    subscriptions: configuration.subscriptions,
    ...configuration.datasets,
    schemaChanges: configuration.schemaChanges,
    removedDatasets: configuration.removedDatasets,
    stagingDirectory: join(configuration.dataDirectory, 'staging'),
    manifestLagMs: configuration.service.contract.manifestLagMs,
    maxStagedBytes: configuration.changes.maxStagedBytes,
    commitsEveryVersion: (datasetId) => everyVersion && keepsHistory(datasetId, datasets),
    limitsOf: (datasetId) => limitsOf(configuration.gates, datasetId),
    keepCandidatesBytes: configuration.gates.keepCandidatesBytes,
    keyHash: keyHashOf(configuration.service),
  };
}

/** The first rule that matches counts; the general limits stand for those that it leaves out. */
function limitsOf({ limits, rules }: Configuration['gates'], datasetId: string): GateLimits {
  const rule = rules.find(({ datasets }) => isChosenDataset(datasetId, datasets, []));
  if (rule === undefined) return limits;
  const { removedRows = limits.removedRows, changedRows = limits.changedRows, emptied } = rule;
  return {
    removedRows,
    changedRows,
    emptied: emptied === undefined ? limits.emptied : emptied === 'suspend',
  };
}
