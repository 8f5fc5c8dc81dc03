/** Opens the dependencies of `once` and `run` from a configuration, and closes them in reverse order, whatever happens. */

import { join } from 'node:path';
import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import {
  acquireInstanceLock,
  holderName,
  type InstanceLock,
  instanceLockPath,
} from '../checkpoint/instance-lock.ts';
import { openCheckpoint } from '../checkpoint/sqlite/open.ts';
import type { Configuration } from '../configuration/configuration.ts';
import type { HistoryOptions } from '../destination/catalog/undo-logs.ts';
import type { UnionOptions } from '../destination/catalog/unions.ts';
import type { Destination } from '../destination/destination.ts';
import type { PublishOptions } from '../destination/duckdb/copies/publish-place.ts';
import { salvageMirror } from '../destination/duckdb/copies/salvage.ts';
import type { ExaminedTable } from '../destination/duckdb/damage/examine.ts';
import { openMirror } from '../destination/duckdb/mirror.ts';
import type { CommitSource, ExportSource, PostCommitSource } from '../destination/publication.ts';
import { createFeed } from '../feed/create-feed.ts';
import type { FeedOptions } from '../feed/http/options.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { feedProgram, runProgram } from '../lib/run-program.ts';
import { placeOfDatabase } from '../lib/secret.ts';
import { BusyError, StorageError } from '../model/errors.ts';
import type { GateLimits } from '../model/gate.ts';
import { schemaNameFor } from '../model/naming.ts';
import type { Occurrence } from '../model/notification.ts';
import { Exporter } from '../post-commit/export/export.ts';
import { EXPORT_LOCK, exportFolder } from '../post-commit/export/folder.ts';
import { Hook, hookEnvironment, type Readers } from '../post-commit/hook.ts';
import { Notifications } from '../post-commit/notifications.ts';
import { stagingFolder, temporaryDirectory } from '../staging/engine/engine.ts';
import { adoptCandidates } from '../sync/candidates.ts';
import { isChosenDataset } from '../sync/follow/subscriptions.ts';
import type { Choices, Parts } from '../sync/parts.ts';
import type { Progress } from '../sync/progress.ts';
import { delivererOf } from './commands/notify.ts';
import type { Context } from './context.ts';
import { type Decision, performDecision } from './decision.ts';
import { ownFolders } from './own-folders.ts';
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
  /** The clock with which the feed, a mirror file and the checkpoint wait; the clock of the context by default. */
  readonly clock?: Clock;
  /** The log of the service's client; `log` by default. */
  readonly feedLog?: Log;
  /** Limits of the service's client; those of the client by default. */
  readonly feedLimits?: FeedOptions['limits'];
  /** Called with every exchange with the service; does nothing by default. */
  readonly onExchange?: FeedOptions['onExchange'];
  /** Called with the holder each time that another instance is found at work; with it, that one is waited for without end. */
  readonly onStandby?: (holder: string) => void;
  /** Called once when another instance has taken over the destination; does nothing by default. */
  readonly onSuperseded?: (error: BusyError) => void;
}

export interface OpenedParts {
  readonly parts: Parts;
  /** Tables of the past, with their schemas, that a damaged mirror has lost, or of which it has other rows than were written. */
  readonly lost: readonly string[];
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
  const { configuration, context, log, progress, command } = options;
  const { identity } = context;
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
  const { suspicion } = lock;
  const lost = suspicion.mirror ? await salvaged(options, checkpoint, clock) : [];
  lock.suspect({ mirror: false, copy: suspicion.copy && configuration.destination.publish !== null });
  const mirror = await openDestination(options, choices, clock, lock);
  const { destination } = mirror;
  opened.defer(() => destination.close());
  await adoptCandidates({ destination, checkpoint });
  await closePast(lost, destination, log);
  const feed = createFeed({
    ...feedOptions(configuration, { ...context, clock }, options.feedLog ?? log),
    ...(options.onExchange === undefined ? {} : { onExchange: options.onExchange }),
    ...(options.feedLimits === undefined ? {} : { limits: options.feedLimits }),
    isKnownOrigin: async () => isKnownOrigin(configuration, await destination.has()),
    remembered: checkpoint.rememberedContract(),
    onContractDiscovered: (contract) => checkpoint.rememberContract(contract),
  });
  opened.defer(() => feed.close());
  const process = { command, pid: identity.pid, host: identity.host };
  const exports = exportsOf(options, mirror.exported, checkpoint);
  opened.defer(() => exports?.release());
  const readers = readersOf(options, mirror, checkpoint, exports);
  const onOccurrence = (occurrence: Occurrence): void => readers.notifications?.note([occurrence]);
  const given = { feed, destination, checkpoint, clock: context.clock, log, progress, choices, process };
  const { decisions } = mirror;
  const parts = { ...given, onOccurrence, ...(decisions === undefined ? {} : { decisions }) };
  const stack = opened.move();
  return { parts, lost: lost.map(({ name }) => name), readers, close: () => stack.disposeAsync() };
}

/** Returns the lost and the altered tables of the past. No table of the mirror is read here before another process has read it. */
async function salvaged(
  { configuration, log, signal }: OpenOptions,
  checkpoint: Checkpoint,
  clock: Clock,
): Promise<readonly ExaminedTable[]> {
  const { destination, duckdb, dataDirectory } = configuration;
  if (destination.postgres !== null) return [];
  const lost = await salvageMirror({
    path: destination.path,
    memoryLimitBytes: duckdb.memoryLimitBytes,
    temporaryDirectory: temporaryDirectory(dataDirectory, 'inspecting'),
    signal,
    clock,
    log,
    onLost: (datasetIds) => void checkpoint.requestResync(datasetIds),
  });
  for (const { name: table, datasetId: dataset, why } of lost) {
    if (dataset !== null) log.error({ dataset, table, why }, 'A table is damaged: it is loaded again.');
    else log.error({ table, why }, 'A table is damaged, and the service does not have it.');
  }
  return lost.filter(({ datasetId }) => datasetId === null);
}

/** Closes the undo logs that the new mirror lacks or has altered: each is reported once. Never throws: `verify` closes them, too. */
async function closePast(lost: readonly ExaminedTable[], destination: Destination, log: Log): Promise<void> {
  const datasetIds = [...new Set(lost.flatMap(({ pastOf }) => pastOf ?? []))];
  if (datasetIds.length === 0) return;
  try {
    await destination.renewChecksums({ datasetIds, unreadable: [] });
  } catch (error) {
    log.error({ why: String(error) }, 'The damaged tables could not be found or marked.');
  }
}

interface OpenedDestination {
  readonly destination: Destination & CommitSource;
  readonly postCommit: PostCommitSource | null;
  readonly decisions?: NonNullable<Parts['decisions']>;
  /** Null: nothing is exported. */
  readonly exported: { readonly source: ExportSource; readonly folder: string } | null;
}

/** Opens the database of the configuration, or the file. */
async function openDestination(
  options: OpenOptions,
  choices: Choices,
  clock: Clock,
  instance: InstanceLock,
): Promise<OpenedDestination> {
  const { configuration, context, log, signal, command } = options;
  const { random, identity, environment } = context;
  const { dataDirectory, duckdb, disk, lock } = configuration;
  const { postgres } = configuration.destination;
  const folder =
    configuration.export === null
      ? null
      : await exportFolder(configuration.export.path, ownFolders(dataDirectory));
  if (postgres !== null) {
    // Loaded only where it is used, like the implementation of a command.
    const [{ openPostgres }, { LIVE_SCHEMA }] = await Promise.all([
      import('../destination/postgres/open.ts'),
      import('../destination/postgres/catalog/names.ts'),
    ]);
    const { schemas } = postgres;
    const destination = await openPostgres({
      ...postgres,
      dataDirectory,
      ...duckdb,
      reserveBytes: disk.reserveBytes,
      lockWaitMs: lock.waitMs,
      token: random.next().toString(36).slice(2),
      holder: holderName({ command, ...identity }),
      schemaOf: (datasetId) => schemaNameFor(datasetId, schemas, LIVE_SCHEMA),
      history: historyOptions(configuration),
      unions: unionOptions(configuration),
      exportFolder: folder,
      onSuperseded: options.onSuperseded ?? (() => {}),
      ...(options.onStandby === undefined ? {} : { onStandby: options.onStandby }),
      runProgram,
      programPath: environment['PATH'] ?? '',
      signal,
      // The pauses between renewals of the lease are no waits of the work on the database.
      clock: context.clock,
      log,
    });
    const decisions = await decisionsOfOthers();
    return { destination, postCommit: null, exported: exportedFrom(destination, folder), decisions };
  }
  const file = await openMirror({
    path: configuration.destination.path,
    dataDirectory,
    ...duckdb,
    reserveBytes: disk.reserveBytes,
    lockWaitMs: lock.waitMs,
    readerGraceMs: options.readerGraceMs ?? 0,
    uid: identity.uid,
    signal,
    history: historyOptions(configuration),
    unions: unionOptions(configuration),
    publish: publishOptions(configuration, choices, instance),
    onSuspect: () => instance.suspect({ mirror: true, copy: false }),
    exportFolder: folder,
    clock,
    random,
    log,
  });
  return {
    destination: file,
    postCommit: file,
    exported: exportedFrom(file, folder),
  };
}

/** The decisions that instances of other data directories may ask of this one, by the command of the request. */
async function decisionsOfOthers(): Promise<NonNullable<Parts['decisions']>> {
  const [{ resyncDecision }, { liftDecision }, { forgetDecision }] = await Promise.all([
    import('./commands/resync.ts'),
    import('./commands/resume.ts'),
    import('./commands/forget.ts'),
  ]);
  return new Map([performing(resyncDecision), performing(liftDecision), performing(forgetDecision)]);
}

function performing<Parameters>(decision: Decision<Parameters>) {
  const perform = (parameters: unknown, checkpoint: Checkpoint): string =>
    performDecision(decision, parameters, checkpoint);
  return [decision.command, perform] as const;
}

function exportedFrom(source: ExportSource, folder: string | null): OpenedDestination['exported'] {
  return folder === null ? null : { source, folder };
}

/**
 * Two instances with data directories of their own would remove each other's files. @throws BusyError when another one exports to this
 * folder; StorageError.
 */
async function lockExport(folder: string, { context, command }: OpenOptions): Promise<InstanceLock> {
  const { pid, host, uid } = context.identity;
  const holder = { pid, host, startedAt: context.clock.now(), command };
  try {
    return await acquireInstanceLock({ path: join(folder, EXPORT_LOCK), uid, holder });
  } catch (error) {
    if (error instanceof StorageError) {
      throw new StorageError(`Nothing can be exported to ${folder}: ${error.message}`, {
        code: 'export_failed',
        hint: error.hint ?? 'Check the folder of export.path, and the space on its disk.',
        cause: error,
      });
    }
    if (!(error instanceof BusyError)) throw error;
    throw new BusyError(`Another feed-sync, with another data directory, exports to ${folder}.`, {
      code: 'instance_running',
      hint: 'Set export.path (FEED_SYNC_EXPORT_PATH) to a folder of its own, or stop the other one.',
      cause: error,
    });
  }
}

function readersOf(
  options: OpenOptions,
  { destination: commits, postCommit }: OpenedDestination,
  checkpoint: Checkpoint,
  exports: Readers['exports'],
) {
  const { configuration, context, log, signal } = options;
  const { environment, clock } = context;
  const { destination, hooks, service } = configuration;
  const { publish } = destination;
  const notifications = notificationsOf(options, checkpoint);
  if (hooks.afterCommit === null) {
    return { postCommit, publish, exports, hook: null, notifications };
  }
  const hook = new Hook({
    command: hooks.afterCommit,
    timeoutMs: hooks.timeoutMs,
    environment: hookEnvironment(environment, service.apiKey),
    mirrorPath: destination.postgres === null ? destination.path : placeOfDatabase(destination.postgres.url),
    publishedPath: publish?.path ?? null,
    postCommit: commits,
    checkpoint,
    run: feedProgram,
    clock,
    log,
    signal,
  });
  return { postCommit, publish, exports, hook, notifications };
}

interface Exports extends NonNullable<Readers['exports']> {
  release(): void;
}

function exportsOf(
  options: OpenOptions,
  exported: OpenedDestination['exported'],
  checkpoint: Checkpoint,
): Exports | null {
  const { configuration, context, signal } = options;
  if (exported === null || configuration.export === null) return null;
  const { path, everyMs, keep } = configuration.export;
  const { place: mirror } = configuration.destination;
  const { reserveBytes } = configuration.disk;
  let held: InstanceLock | null = null;
  const lock = async (): Promise<void> => {
    held ??= await lockExport(exported.folder, options);
  };
  const isAwaited = (datasetId: string): boolean => isToHaveTable(datasetId, configuration, checkpoint);
  const { clock } = context;
  const exporter = new Exporter({ ...exported, mirror, isAwaited, lock, keep, reserveBytes, clock, signal });
  return { path, everyMs, exporter, release: () => held?.release() };
}

/** A dataset without a desired state may be in a subscription that was not read yet since the checkpoint was lost. */
function isToHaveTable(
  datasetId: string,
  { datasets: { include, exclude } }: Configuration,
  checkpoint: Checkpoint,
): boolean {
  if (!isChosenDataset(datasetId, include, exclude)) return false;
  const desired = checkpoint.desired(datasetId);
  if (desired !== null) return desired.members.size > 0;
  const followed = [...checkpoint.followed().values()];
  return followed.length === 0 || followed.some(({ auditedAt }) => auditedAt === null);
}

/** Null: off. */
function notificationsOf(
  { configuration, context, log, signal }: OpenOptions,
  checkpoint: Checkpoint,
): Notifications | null {
  const deliver = delivererOf(configuration, context, [configuration.service.apiKey]);
  return deliver === null
    ? null
    : new Notifications({ deliver, checkpoint, clock: context.clock, log, signal });
}

function historyOptions({ history: { datasets, keepMs } }: Configuration): HistoryOptions {
  return { keeps: (datasetId) => keepsHistory(datasetId, datasets), keepMs };
}

function keepsHistory(datasetId: string, datasets: readonly string[]): boolean {
  return datasets.length > 0 && isChosenDataset(datasetId, datasets, []);
}

function unionOptions({ unions }: Configuration): readonly UnionOptions[] {
  return unions.map(({ name, globs }) => {
    return { name, globs, includes: (datasetId) => isChosenDataset(datasetId, globs, []) };
  });
}

function publishOptions(
  { destination: { publish }, dataDirectory, checkpoint, disk }: Configuration,
  { stagingDirectory }: Choices,
  { suspicion, suspect }: InstanceLock,
): PublishOptions | null {
  if (publish === null) return null;
  const keptPaths = [checkpoint.path, instanceLockPath(dataDirectory), stagingDirectory];
  return {
    path: publish.path,
    keptPaths,
    reserveBytes: disk.reserveBytes,
    isSuspect: suspicion.copy,
    onSound: () => suspect({ mirror: false, copy: false }),
  };
}

export function choicesOf(configuration: Configuration): Choices {
  const { datasets, everyVersion } = configuration.history;
  return {
    subscriptions: configuration.subscriptions,
    ...configuration.datasets,
    schemaChanges: configuration.schemaChanges,
    removedDatasets: configuration.removedDatasets,
    stagingDirectory: stagingFolder(configuration.dataDirectory),
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
