/** Executes the steps: fetches snapshots and changes, and has them validated and committed. */

import type { DownloadedFile } from '../../feed/feed.ts';
import { assert, present } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ReloadMark } from '../../model/desired-state.ts';
import { InapplicableChangesError } from '../../model/errors.ts';
import { type ManifestEntry, snapshotDigest } from '../../model/manifest.ts';
import type { Schema, Version } from '../../model/records.ts';
import type {
  ChangesJob,
  Fetched,
  ObservedTable,
  RetirementJob,
  SnapshotJob,
  VersionChanges,
} from '../../model/write-jobs.ts';
import type { ListedEntries } from '../manifest-cache.ts';
import { whyOversized } from '../plan/content.ts';
import type { History, ListedEntry, Plan } from '../plan/step.ts';
import { recordOf, schemaNamed, schemaOfSnapshot } from '../plan/versions.ts';
import { commitJob, type StepResult, type Tools } from './executor.ts';
import { type FetchedVersion, fetchChanges } from './fetch-changes.ts';

interface Load {
  /** Null: there is no table yet. */
  readonly observed: ObservedTable | null;
  readonly history: History;
  readonly listedEntry: ListedEntry;
  /** The manifest that the entry comes from. */
  readonly listedEntries: ListedEntries;
  readonly reloads: ReadonlyMap<string, ReloadMark>;
  /** Reads the logs of the dataset: false where they ask for something else by now. */
  readonly isStillDesired: () => Promise<boolean>;
}

/**
 * The plan is stale where the manifest names other content by now, or where a log does and the files may have either
 * content. @throws
 * ContractViolationError where the schema is not in the service's list.
 */
export async function loadSnapshot(load: Load, tools: Tools): Promise<StepResult> {
  const { parts, staging, signal } = tools;
  const { entry } = load.listedEntry;
  const elapsedMs = stopwatch(parts.clock);
  let newest: ManifestEntry | null = entry;
  const download = await parts.feed.download(
    {
      entry,
      directory: await staging.folderOf(entry.datasetId),
      refresh: async () => {
        newest = await load.listedEntries.refresh(newest ?? entry, signal);
        return newest;
      },
      onBytes: (bytes) => parts.progress.downloaded(bytes, entry.datasetId),
    },
    signal,
  );
  const { datasetId } = entry;
  if (download.kind === 'superseded') return { kind: 'stale-plan', datasetId };
  if (!download.isSurelyOneContent && !(await load.isStillDesired()))
    return { kind: 'stale-plan', datasetId };
  const bytes = download.files.reduce((sum, file) => sum + file.bytes, 0);
  return commitJob(snapshotJob(load, download.files, { bytes, elapsedMs }), tools);
}

function snapshotJob(
  { observed, history, listedEntry, reloads }: Load,
  files: readonly DownloadedFile[],
  fetched: Fetched,
): SnapshotJob {
  const { entry } = listedEntry;
  const digest = snapshotDigest(files);
  assert(digest !== null, 'downloaded files have digests');
  const record = recordOf(entry.version, history);
  const stated = [
    { rowCount: record?.rowCount ?? null, statedBy: 'the version record' },
    { rowCount: entry.rowCount, statedBy: 'the manifest' },
  ];
  return {
    kind: 'snapshot',
    datasetId: entry.datasetId,
    version: entry.version,
    publishedAt: record?.publishedAt ?? null,
    schema: schemaOfSnapshot(entry, history),
    files,
    digest,
    ...originOf(listedEntry),
    expectedRowCounts: stated.flatMap(({ rowCount, statedBy }) =>
      rowCount === null ? [] : [{ rowCount, statedBy }],
    ),
    reloads,
    fetched,
    plannedFrom:
      observed === null ? null : { version: observed.version, snapshotDigest: observed.snapshotDigest },
  };
}

/** The known origin of a snapshot, beside its version and digest. */
export function originOf({
  entry,
  through,
  readAt,
}: ListedEntry): Pick<SnapshotJob, 'digestKind' | 'loadedThrough' | 'loadedAt'> {
  const digestKind = snapshotDigest(entry.files) === null ? 'computed' : 'stated';
  return { digestKind, loadedThrough: through, loadedAt: readAt };
}

interface Application {
  readonly observed: ObservedTable;
  readonly history: History;
  /** Oldest first, never empty. */
  readonly versions: readonly Version[];
  /** The schema of the table after the last version. */
  readonly schema: Schema;
  readonly addsColumns: boolean;
  /** Once so many bytes are spooled, no further version is started: the path is cut there, and the next plan continues. */
  readonly maxSpooledBytes: number;
  /** The staged bytes of the path never exceed this: the path is cut before the version that does not fit. */
  readonly maxStagedBytes: number;
}

/**
 * `inapplicable` where the service recorded no changes, where they contradict the version's record or fail the proof, or
 * where the first
 * version alone exceeds the limit.
 */
export async function applyChanges(application: Application, tools: Tools): Promise<StepResult> {
  const { observed } = application;
  const { parts, staging } = tools;
  const elapsedMs = stopwatch(parts.clock);
  try {
    const { fetched, inapplicable, oversized, ahead } = await fetchChanges(application, tools, (some) =>
      parts.destination.readAhead(changesJob(application, some, elapsedMs, application.schema)),
    );
    if (oversized !== null) {
      const versions = new Map([[oversized.version, whyOversized(application.maxStagedBytes)]]);
      return { kind: 'inapplicable', versions, oversized };
    }
    if (inapplicable.size > 0) return { kind: 'inapplicable', versions: inapplicable, oversized: null };
    const schema = schemaAfter(application, fetched);
    return await commitJob({ ...changesJob(application, fetched, elapsedMs, schema), ahead }, tools);
  } catch (error) {
    if (!(error instanceof InapplicableChangesError)) throw error;
    return { kind: 'inapplicable', versions: new Map([[error.version, error.why]]), oversized: null };
  } finally {
    await staging.discardChanges(observed.datasetId);
  }
}

function schemaAfter({ versions, schema, history }: Application, fetched: readonly FetchedVersion[]): Schema {
  if (fetched.length === versions.length) return schema;
  const last = lastOf(fetched);
  return schemaNamed(present(last.schemaVersion, 'a walk stops before a version without one'), last, history);
}

function lastOf(fetched: readonly FetchedVersion[]): Version {
  return present(fetched.at(-1), 'the first version is always fetched').record;
}

function changesJob(
  { observed, addsColumns }: Application,
  fetched: readonly FetchedVersion[],
  elapsedMs: Fetched['elapsedMs'],
  schema: Schema,
): ChangesJob {
  const last = lastOf(fetched);
  return {
    kind: 'changes',
    datasetId: observed.datasetId,
    version: last.version,
    publishedAt: last.publishedAt,
    schema,
    addsColumns: addsColumns && schema.schemaVersion !== observed.schemaVersion,
    versions: fetched.map(
      ({ record: { version, counts, rowCount }, pages }): VersionChanges => ({
        version,
        pages,
        counts,
        rowCount,
      }),
    ),
    fetched: { bytes: fetched.reduce((sum, one) => sum + one.bytes, 0), elapsedMs },
    plannedFrom: observed,
  };
}

function stopwatch(clock: Clock): Fetched['elapsedMs'] {
  const startedMs = clock.monotonicMs();
  return () => clock.monotonicMs() - startedMs;
}

/** The user chooses what happens to the table. */
export function retire(
  observed: ObservedTable,
  { reason, isApproved, judgedAt }: Omit<Plan & { kind: 'retire' }, 'kind'>,
  tools: Tools,
): Promise<StepResult> {
  const { choices } = tools.parts;
  const job: RetirementJob = {
    kind: 'retirement',
    datasetId: observed.datasetId,
    how: choices.removedDatasets,
    reason,
    retiredAt: judgedAt,
    isApproved,
    plannedFrom: observed,
  };
  return commitJob(job, tools);
}
