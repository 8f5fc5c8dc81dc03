/**
 * `feed-sync verify --deep`: compares every value of the tables with the content that the service has for their versions. Works
 * beside a running instance: the mirror is read in slices, and downloads lie in a folder of their own.
 */

import { realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import pLimit from 'p-limit';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Comparer, ContentComparison } from '../../destination/comparer.ts';
import { openComparer } from '../../destination/duckdb/compare-table.ts';
import type { Log } from '../../lib/log.ts';
import { runProgram } from '../../lib/run-program.ts';
import { FeedSyncError, InapplicableChangesError, InterruptedError } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Report } from '../../reporting/report.ts';
import { readMirror } from '../../reporting/stores.ts';
import { VERSIONS_AT_ONCE } from '../../sync/execute/fetch-changes.ts';
import { fetchContent, findContent } from '../../sync/execute/fetch-content.ts';
import { openStaging } from '../../sync/execute/staging-folder.ts';
import type { FetchTools } from '../../sync/execute/step-tools.ts';
import { KeptManifests } from '../../sync/manifest-cache.ts';
import type { Context } from '../context.ts';
import { runningInstance } from '../data-directory.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { openReadOnlyParts } from '../read-only-parts.ts';
import { logFor, screenFor } from '../render/screen.ts';
import type { ContentFinding } from './content-findings.ts';
import type { Finding, Findings } from './findings.ts';
import { type ComparisonFolder, openComparisonFolder } from './finished.ts';
import { ComparisonProgress } from './progress.ts';

/** How often a table is compared anew because something was committed to it meanwhile. */
const MAX_BEGINNINGS = 5;
/** How often the mirror is read while a table is to reach the version of the manifest. */
const POLL_EVERY_MS = 2_000;

/**
 * Compares the contents, and returns the findings by dataset id; a dataset without a table, or of which nothing is compared, has no
 * finding.
 */
export async function compareContents(
  { datasets, workspaceSuspension, problem }: Findings,
  report: Report,
  configuration: Configuration,
  context: Context,
  waitMs: number,
): Promise<ReadonlyMap<string, ContentFinding>> {
  const found = new Map<string, ContentFinding>();
  const tables: ObservedTable[] = [];
  for (const one of datasets) {
    const isWorkspaceSuspended = workspaceSuspension !== null;
    const decided = decidedBefore(one, isWorkspaceSuspended, problem);
    if (decided === 'compare' && one.counted !== null) tables.push(one.counted.observed);
    else if (decided !== null && decided !== 'compare') found.set(one.datasetId, decided);
  }
  if (tables.length === 0) return found;
  await using opened = new AsyncDisposableStack();
  const folder = await openComparisonFolder(configuration.dataDirectory, context);
  let isWhole = false;
  opened.defer(() => folder.close(isWhole));
  const { terminal, clock, signal } = context;
  const progress = new ComparisonProgress(tables, clock);
  const screen = screenFor(configuration, terminal, clock);
  const log = logFor(configuration, terminal, screen);
  const { parts, close } = openReadOnlyParts(configuration, context, log, progress);
  opened.defer(close);
  const comparer = await comparerOf(configuration, context, folder.path, log);
  opened.defer(() => comparer.close());
  if (screen !== null) opened.defer(progress.show(screen, terminal));
  await parts.feed.discover(signal);
  const staging = openStaging(join(folder.path, 'downloads'));
  const tools = { parts, staging, fetching: pLimit(VERSIONS_AT_ONCE), signal };
  const deep = new DeepComparison(configuration, context, report, {
    tools,
    comparer,
    folder,
    progress,
    manifests: new KeptManifests(parts),
  });
  const compared = await deep.compareAll(tables, waitMs).catch(interrupted);
  for (const [datasetId, finding] of compared) found.set(datasetId, finding);
  isWhole = true;
  return found;
}

/** The reason of the signal speaks of a catch-up, which this is not. */
function interrupted(cause: unknown): never {
  if (!(cause instanceof InterruptedError)) throw cause;
  const hint = 'Run it again within 24 hours: what was found equal is not compared again.';
  throw new InterruptedError('The comparison was interrupted before every table was compared.', {
    hint,
    cause,
  });
}

async function comparerOf(
  { destination, duckdb, disk, lock }: Configuration,
  { clock, random, signal, environment }: Context,
  directory: string,
  log: Log,
): Promise<Comparer> {
  const options = { directory, ...duckdb, reserveBytes: disk.reserveBytes, clock, signal };
  if (destination.postgres !== null) {
    const { url } = destination.postgres;
    // Loaded only where it is used, like the implementation of a command.
    const { openPostgresComparer } = await import('../../destination/postgres/compare-table.ts');
    return await openPostgresComparer({
      ...options,
      url,
      runProgram,
      programPath: environment['PATH'] ?? '',
    });
  }
  const path = await realpath(destination.path).catch(() => resolve(destination.path));
  return await openComparer({ ...options, path, waitMs: lock.waitMs, random, log });
}

/** Null: nothing is compared, and the findings say why. */
function decidedBefore(
  { comparison, counted, answer }: Finding,
  isWorkspaceSuspended: boolean,
  problem: FeedSyncError | null,
): ContentFinding | 'compare' | null {
  if (counted === null || problem !== null || answer instanceof FeedSyncError) return null;
  const isMissing = counted.table === null && counted.damage === null;
  if (isMissing) return null;
  if (comparison.kind === 'suspended' || isWorkspaceSuspended) {
    const why = 'it waits for an operator: see feed-sync status';
    return { kind: 'not-comparable', why, exitCode: EXIT_CODES.operatorMustAct };
  }
  if (comparison.kind !== 'followed') return null;
  const { pinnedSince } = counted.observed;
  if (pinnedSince === null) return 'compare';
  const why = `it is pinned to an earlier state since ${pinnedSince.toISOString()}`;
  return { kind: 'not-comparable', why, exitCode: EXIT_CODES.caughtUp };
}

interface Parts {
  readonly tools: FetchTools;
  readonly comparer: Comparer;
  readonly folder: ComparisonFolder;
  readonly progress: ComparisonProgress;
  readonly manifests: KeptManifests;
}

/** The table waits until the program that runs has brought it to this version. */
interface Awaited {
  readonly kind: 'awaited';
  readonly version: number;
}

type Moved = Extract<ContentComparison, { readonly kind: 'moved' }>;

class DeepComparison {
  readonly #configuration: Configuration;
  readonly #context: Context;
  readonly #report: Report;
  readonly #parts: Parts;

  constructor(configuration: Configuration, context: Context, report: Report, parts: Parts) {
    this.#configuration = configuration;
    this.#context = context;
    this.#report = report;
    this.#parts = parts;
  }

  async compareAll(
    tables: readonly ObservedTable[],
    waitMs: number,
  ): Promise<ReadonlyMap<string, ContentFinding>> {
    const { clock } = this.#context;
    const untilMs = clock.monotonicMs() + waitMs;
    const found = new Map<string, ContentFinding>();
    const awaited: (readonly [ObservedTable, number])[] = [];
    for (const table of tables) {
      const finding = await this.#compare(table);
      if (finding.kind === 'awaited') awaited.push([table, finding.version]);
      else found.set(table.datasetId, finding);
    }
    for (const [table, version] of awaited) {
      found.set(table.datasetId, await this.#compareOnce(table, version, untilMs));
    }
    return found;
  }

  /** Compares the table once it has reached the version. */
  async #compareOnce(table: ObservedTable, version: number, untilMs: number): Promise<ContentFinding> {
    const { clock, signal } = this.#context;
    for (let reached = version; ; ) {
      const isRunning = runningInstance(this.#configuration, this.#context)?.command === 'run';
      const now = await this.#tableNow(table.datasetId);
      if (now !== null && now.version >= reached) {
        const finding = await this.#compare(now);
        if (finding.kind !== 'awaited') return finding;
        reached = finding.version;
      }
      if (!isRunning || clock.monotonicMs() + POLL_EVERY_MS > untilMs) return newer(now ?? table, reached);
      await clock.sleep(POLL_EVERY_MS, signal);
    }
  }

  async #tableNow(datasetId: string): Promise<ObservedTable | null> {
    const observed = await readMirror(this.#configuration, this.#context);
    return observed?.datasets.get(datasetId) ?? null;
  }

  async #compare(given: ObservedTable): Promise<ContentFinding | Awaited> {
    const { datasetId } = given;
    let table = given;
    try {
      for (let beginning = 1; beginning <= MAX_BEGINNINGS; beginning += 1) {
        const finding = await this.#compareCommit(table);
        if (finding.kind !== 'moved') return finding;
        const now = await this.#tableNow(datasetId);
        if (now === null) return notNow('its table was retired meanwhile');
        table = now;
      }
      return notNow(`it changed ${MAX_BEGINNINGS} times while it was compared`);
    } catch (error) {
      if (error instanceof InapplicableChangesError) {
        return notNow(`the changes of version ${error.version} cannot be used: ${error.why}`);
      }
      if (error instanceof InterruptedError || !(error instanceof FeedSyncError)) throw error;
      return { kind: 'failed', error };
    } finally {
      this.#parts.progress.ended(datasetId);
      await this.#parts.tools.staging.discard(datasetId);
    }
  }

  async #compareCommit(table: ObservedTable): Promise<Moved | ContentFinding | Awaited> {
    const { tools, comparer, folder, progress, manifests } = this.#parts;
    const { datasetId, commitNumber } = table;
    const desired = this.#report.datasets.get(datasetId)?.desired ?? null;
    if (desired === null) return notNow('no catch-up has recorded its subscriptions here');
    progress.began(datasetId, `version ${table.version}`, { bytes: null, rows: table.rowCount });
    const source = manifests.sourceSince(tools.parts.clock.monotonicMs(), () => true);
    const found = await findContent(table, desired, source, tools);
    if (found.kind === 'newer') return { kind: 'awaited', version: found.version };
    if (found.kind === 'none') return notNow(found.why);
    const finished = { datasetId, commitNumber, content: found.identity };
    if (folder.isFinished(finished)) return { kind: 'equal', unrecorded: null, commitNumber };
    const content = await fetchContent(table, found, source, tools);
    if (typeof content === 'string') return notNow(content);
    const compared = await comparer.compare(table, content, (rows) => progress.readRows(rows));
    if (compared.kind === 'equal' && compared.unrecorded === null) await folder.finish(finished);
    if (compared.kind === 'equal') return { ...compared, commitNumber };
    if (compared.kind !== 'different') return compared;
    const { version: snapshotVersion, digest: snapshotDigest } = content.snapshot;
    return { ...compared, commitNumber, snapshotVersion, snapshotDigest };
  }
}

function notNow(why: string): ContentFinding {
  return { kind: 'not-comparable', why, exitCode: EXIT_CODES.tryAgainLater };
}

function newer({ version }: ObservedTable, listed: number): ContentFinding {
  return notNow(
    `the table has version ${version}, and the oldest snapshot of the service is version ${listed}`,
  );
}
