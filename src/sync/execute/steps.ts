/** Executes the steps: fetches snapshots and changes, and has them validated and committed. */

import type { Download, DownloadedFile } from '../../feed/feed.ts';
import { assert, present } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Candidate } from '../../model/candidate.ts';
import { InapplicableChangesError } from '../../model/errors.ts';
import { hasLimits } from '../../model/gate.ts';
import { type ListedEntry, type ManifestEntry, snapshotDigest } from '../../model/manifest.ts';
import type { Schema, Version } from '../../model/records.ts';
import type {
  ChangesJob,
  Fetched,
  ObservedTable,
  RetirementJob,
  SnapshotJob,
  VersionChanges,
} from '../../model/write-jobs.ts';
import { standingCandidate } from '../candidates.ts';
import type { ListedEntries } from '../manifest-cache.ts';
import { identitiesOfEntry, identitiesOfPath } from '../plan/candidate.ts';
import { pathContentOf, whyOversized } from '../plan/content.ts';
import { movesWith } from '../plan/need.ts';
import type { Metadata } from '../plan/step.ts';
import { recordOf, schemaNamed, schemaOfSnapshot } from '../plan/versions.ts';
import { type FetchedVersion, fetchChanges } from './fetch-changes.ts';
import { keepChanges, keepSnapshot, keptFiles, keptVersions } from './keep-candidate.ts';
import {
  type Awaiting,
  type FetchTools,
  type StepDependencies,
  type StepResult,
  type Tools,
  validateAndCommit,
  type WorkOf,
} from './step-tools.ts';

/**
 * Loads the snapshot of a dataset. The plan is stale where the manifest names other content by now, or where a log does and the files may
 * have either content. @throws ContractViolationError where the schema is not in the service's list.
 */
export async function loadSnapshot(
  work: WorkOf<'load'>,
  dependencies: StepDependencies,
  tools: Tools,
): Promise<StepResult> {
  const { listedEntry } = work;
  const elapsedMs = stopwatch(tools.parts.clock);
  const kept = await keptFiles(work, tools.staging);
  if (kept !== null) return commitSnapshot(work, dependencies, kept, elapsedMs, tools);
  const listed =
    work.candidate === undefined ? listedEntry : await listedNow(work.candidate, dependencies, tools);
  if (listed === null) return superseded(work);
  const download = await downloadSnapshot(listed, dependencies.listedEntries.manifestOf(listed), tools);
  if (download === null) return superseded(work);
  const isSurelyRight = download.isSurelyOneContent || isOfCandidate(download.files, work.candidate);
  if (!isSurelyRight && !(await dependencies.isStillDesired())) return superseded(work);
  return commitSnapshot(work, dependencies, download.files, elapsedMs, tools);
}

/** Returns the entry that has the content of the candidate, with links of today. Null: no manifest lists it any more. */
async function listedNow(
  candidate: Candidate,
  { known: { desired }, listedEntries, metadata }: StepDependencies,
  { signal }: Tools,
): Promise<ListedEntry | null> {
  const read = present(metadata, 'a load is planned with the metadata');
  const find = (): ListedEntry | null =>
    listedEntries.of(desired)?.find((one) => identitiesOfEntry(one, read)[0] === candidate.identity) ?? null;
  const known = find();
  if (known !== null) return known;
  await listedEntries.read(desired, signal);
  return find();
}

function isOfCandidate(files: readonly DownloadedFile[], candidate: Candidate | undefined): boolean {
  return candidate !== undefined && snapshotDigest(files) === candidate.judged.digest;
}

/** Returns null where the manifest names other content by now. */
async function downloadSnapshot(
  { entry }: ListedEntry,
  manifest: ListedEntries,
  { parts, staging, signal }: FetchTools,
): Promise<Extract<Download, { readonly kind: 'complete' }> | null> {
  let newest: ManifestEntry | null = entry;
  const download = await parts.feed.download(
    {
      entry,
      directory: await staging.folderOf(entry.datasetId),
      refresh: async () => {
        newest = await manifest.refresh(newest ?? entry, signal);
        return newest;
      },
      onBytes: (bytes) => parts.progress.downloaded(bytes, entry.datasetId),
    },
    signal,
  );
  return download.kind === 'superseded' ? null : download;
}

/**
 * Returns the first load of a table from the snapshot; null where the manifest names other content by now, or where the files may be
 * of several contents.
 * @throws ContractViolationError where the schema is not in the service's list.
 */
export async function fetchSnapshot(
  listedEntry: ListedEntry,
  metadata: Metadata,
  manifest: ListedEntries,
  tools: FetchTools,
): Promise<SnapshotJob | null> {
  const elapsedMs = stopwatch(tools.parts.clock);
  const download = await downloadSnapshot(listedEntry, manifest, tools);
  if (download === null || !download.isSurelyOneContent) return null;
  const bytes = download.files.reduce((sum, file) => sum + file.bytes, 0);
  return snapshotJob(listedEntry, metadata, download.files, { bytes, elapsedMs });
}

/** Content of a candidate that the service does not offer any more is gone for good. */
function superseded({ listedEntry: { entry }, candidate }: WorkOf<'load'>): StepResult {
  if (candidate === undefined) return { kind: 'stale-plan', datasetId: entry.datasetId };
  return {
    kind: 'candidate-gone',
    why: `the service offers other content than that of version ${entry.version}`,
  };
}

async function commitSnapshot(
  work: WorkOf<'load'>,
  dependencies: StepDependencies,
  files: readonly DownloadedFile[],
  elapsedMs: Fetched['elapsedMs'],
  tools: Tools,
): Promise<StepResult> {
  const { listedEntry, reloads } = work;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const metadata = present(dependencies.metadata, 'a load is planned with the metadata');
  const loaded = snapshotJob(listedEntry, metadata, files, { bytes, elapsedMs });
  const { observed, desired } = dependencies.known;
  const moves = movesWith(reloads, observed, desired);
  const job = { ...loaded, reloads, moves, plannedFrom: observed };
  const result = await validateAndCommit(withGate(job, work, dependencies, tools), tools);
  if (result.kind !== 'awaiting') return result;
  const candidate = standingCandidate(dependencies.known, work);
  const awaiting = {
    version: job.version,
    judged: result.judged,
    identities: identitiesOfEntry(listedEntry, metadata),
    content: candidate === null ? await keepSnapshot(files, listedEntry, reloads, tools) : null,
  };
  return { kind: 'awaiting', awaiting: [awaiting] };
}

function snapshotJob(
  listedEntry: ListedEntry,
  metadata: Metadata,
  files: readonly DownloadedFile[],
  fetched: Fetched,
): SnapshotJob {
  const { entry } = listedEntry;
  const digest = snapshotDigest(files);
  assert(digest !== null, 'downloaded files have digests');
  const record = recordOf(entry.version, metadata);
  const stated = [
    { rowCount: record?.rowCount ?? null, statedBy: 'the version record' },
    { rowCount: entry.rowCount, statedBy: 'the manifest' },
  ];
  return {
    kind: 'snapshot',
    datasetId: entry.datasetId,
    version: entry.version,
    publishedAt: record?.publishedAt ?? null,
    schema: schemaOfSnapshot(entry, metadata),
    files,
    digest,
    ...originOf(listedEntry),
    expectedRowCounts: stated.flatMap(({ rowCount, statedBy }) =>
      rowCount === null ? [] : [{ rowCount, statedBy }],
    ),
    reloads: new Map(),
    fetched,
    plannedFrom: null,
  };
}

/** Returns the known origin of a snapshot, beside its version and digest. */
export function originOf({
  entry,
  through,
  readAt,
}: ListedEntry): Pick<SnapshotJob, 'digestKind' | 'loadedThrough' | 'loadedAt'> {
  const digestKind = snapshotDigest(entry.files) === null ? 'computed' : 'stated';
  return { digestKind, loadedThrough: through, loadedAt: readAt };
}

/**
 * Fetches the changes of the path and commits them. No further version is started once `maxSpooledBytes` are spooled: the path
 * is cut there, and the next plan continues. Where sums of versions are judged, the shortest that passes is committed, and all of
 * them are judged from the same fetched pages. `inapplicable` where the service recorded no changes, where they contradict the
 * version's record or fail the proof, or where the first version alone exceeds the limit of staged bytes.
 */
export async function fetchAndApply(
  work: WorkOf<'apply'>,
  maxSpooledBytes: number,
  dependencies: StepDependencies,
  tools: Tools,
): Promise<StepResult> {
  const { parts, staging } = tools;
  const { known, metadata } = dependencies;
  const { maxStagedBytes } = parts.choices;
  const observed = present(known.observed, 'changes are applied to a table');
  // A candidate has exactly the versions that it was judged with.
  const most = work.candidate === undefined ? maxSpooledBytes : Number.POSITIVE_INFINITY;
  const path = { versions: work.versions, maxSpooledBytes: most, maxStagedBytes };
  const elapsedMs = stopwatch(parts.clock);
  try {
    const kept = await keptVersions(work, observed.datasetId, staging);
    const { fetched, inapplicable, oversized, ahead } =
      kept ??
      (await fetchChanges(path, tools, (some) =>
        work.shortestSum === undefined
          ? parts.destination.readAhead(changesJob(work, observed, some, elapsedMs, work.schema))
          : Promise.resolve(null),
      ));
    if (oversized !== null) {
      const versions = new Map([[oversized.version, whyOversized(maxStagedBytes)]]);
      return { kind: 'inapplicable', versions, oversized };
    }
    if (inapplicable.size > 0) return { kind: 'inapplicable', versions: inapplicable, oversized: null };
    const awaiting: Awaiting[] = [];
    for (const some of sumsOf(fetched, work.shortestSum)) {
      tools.signal.throwIfAborted();
      const schema = schemaAfter(work, some, present(metadata, 'changes are planned with the metadata'));
      const job = { ...changesJob(work, observed, some, elapsedMs, schema), ahead };
      const result = await validateAndCommit(withGate(job, work, dependencies, tools), tools);
      if (result.kind !== 'awaiting') return result;
      const isLast = some.length === fetched.length;
      const content =
        standingCandidate(known, work) === null ? await keepChanges(observed.datasetId, some, tools) : null;
      // The versions that were planned need not be fetched again, also where the path was cut on the way.
      const planned = isLast ? work.versions : some.map(({ record }) => record);
      const identities = [pathContentOf(some.map(({ record }) => record)), ...identitiesOfPath(planned)];
      awaiting.push({ version: job.version, judged: result.judged, identities, content });
    }
    return { kind: 'awaiting', awaiting };
  } catch (error) {
    if (!(error instanceof InapplicableChangesError)) throw error;
    return { kind: 'inapplicable', versions: new Map([[error.version, error.why]]), oversized: null };
  } finally {
    await staging.discardChanges(observed.datasetId);
  }
}

/** Returns the sums of versions that are judged, one after another; each begins with the first version. */
function sumsOf(
  fetched: readonly FetchedVersion[],
  shortest = fetched.length,
): readonly (readonly FetchedVersion[])[] {
  const least = Math.min(shortest, fetched.length);
  return fetched.slice(least - 1).map((_, further) => fetched.slice(0, least + further));
}

function schemaAfter(
  { versions, schema }: WorkOf<'apply'>,
  fetched: readonly FetchedVersion[],
  metadata: Metadata,
): Schema {
  if (fetched.length === versions.length) return schema;
  const last = lastOf(fetched);
  return schemaNamed(
    present(last.schemaVersion, 'a path stops before a version without one'),
    last,
    metadata,
  );
}

function lastOf(fetched: readonly FetchedVersion[]): Version {
  return present(fetched.at(-1), 'the first version is always fetched').record;
}

function changesJob(
  { addsColumns }: WorkOf<'apply'>,
  observed: ObservedTable,
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
    versions: changesOf(fetched),
    fetched: { bytes: fetched.reduce((sum, one) => sum + one.bytes, 0), elapsedMs },
    plannedFrom: observed,
  };
}

export function changesOf(fetched: readonly FetchedVersion[]): readonly VersionChanges[] {
  return fetched.map(({ record: { version, counts, rowCount }, pages }) => ({
    version,
    pages,
    counts,
    rowCount,
  }));
}

export function stopwatch(clock: Clock): Fetched['elapsedMs'] {
  const startedMs = clock.monotonicMs();
  return () => clock.monotonicMs() - startedMs;
}

/** A first load is not judged, and neither is what no limit concerns. */
function withGate<Job extends SnapshotJob | ChangesJob>(
  job: Job,
  { candidate }: WorkOf<'load' | 'apply'>,
  { known }: StepDependencies,
  { parts }: Tools,
): Job {
  const limits = parts.choices.limitsOf(job.datasetId);
  if (known.observed === null || !hasLimits(limits)) return job;
  const isApproved = candidate !== undefined && candidate.approvedAt !== null;
  return { ...job, gate: { limits, approvedDigest: isApproved ? candidate.judged.digest : null } };
}

/** Retires a table, in the way that the setting `removedDatasets` chooses. */
export async function retire(
  { reason, isApproved, judgedAt }: WorkOf<'retire'>,
  { known }: StepDependencies,
  tools: Tools,
): Promise<StepResult> {
  const observed = present(known.observed, 'what is retired has a table');
  const job: RetirementJob = {
    kind: 'retirement',
    datasetId: observed.datasetId,
    how: tools.parts.choices.removedDatasets,
    reason,
    retiredAt: judgedAt,
    isApproved,
    plannedFrom: observed,
  };
  const result = await validateAndCommit(job, tools);
  assert(result.kind !== 'awaiting', 'a retirement is not judged');
  return result;
}
