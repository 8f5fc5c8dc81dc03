/** Carries out a load: download the snapshot, have it examined, have it committed. */

import type { DownloadedFile } from '../../feed/feed.ts';
import { assert, present } from '../../lib/assert.ts';
import type { ReloadMark } from '../../model/desired-state.ts';
import { UnusableChangesError } from '../../model/errors.ts';
import { type ManifestEntry, snapshotDigest } from '../../model/manifest.ts';
import type { Schema, Version } from '../../model/records.ts';
import type {
  ChangesUnit,
  HeldDataset,
  RetirementUnit,
  SnapshotUnit,
  VersionChanges,
} from '../../model/write-jobs.ts';
import type { Offers } from '../manifest-cache.ts';
import type { History, Offer, Plan } from '../plan/step.ts';
import { recordOf, schemaNamed, schemaOfSnapshot } from '../plan/versions.ts';
import { commitUnit, type Tools, type WorkOutcome } from './executor.ts';
import { type Fetched, fetchChanges } from './fetch-changes.ts';

interface Load {
  /** Null: there is no table yet. */
  readonly held: HeldDataset | null;
  readonly history: History;
  readonly offer: Offer;
  /** Those that the offer comes from. */
  readonly offers: Offers;
  readonly reloads: ReadonlyMap<string, ReloadMark>;
  /** Reads the logs of the dataset: false where they ask for something else by now. */
  readonly isStillDesired: () => Promise<boolean>;
}

/**
 * `overtaken` where the manifest names something else by now, or a log tells it of files that may be of two contents.
 * @throws ContractViolationError where the schema is not in the service's list.
 */
export async function loadSnapshot(load: Load, tools: Tools): Promise<WorkOutcome> {
  const { parts, staging, signal } = tools;
  const { entry } = load.offer;
  const startedMs = parts.clock.monotonicMs();
  let newest: ManifestEntry | null = entry;
  const download = await parts.feed.download(
    {
      entry,
      directory: await staging.folderOf(entry.datasetId),
      refresh: async () => {
        newest = await load.offers.refresh(newest ?? entry, signal);
        return newest;
      },
      onBytes: (bytes) => parts.progress.downloaded(bytes, entry.datasetId),
    },
    signal,
  );
  if (download.kind === 'superseded') return { kind: 'overtaken' };
  if (!download.isSurelyOneContent && !(await load.isStillDesired())) return { kind: 'overtaken' };
  const bytes = download.files.reduce((sum, file) => sum + file.bytes, 0);
  return commitUnit(snapshotUnit(load, download.files), { versions: 1, bytes, startedMs }, tools);
}

function snapshotUnit(
  { held, history, offer, reloads }: Load,
  files: readonly DownloadedFile[],
): SnapshotUnit {
  const { entry } = offer;
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
    ...originOf(offer),
    expectedRowCounts: stated.flatMap(({ rowCount, statedBy }) =>
      rowCount === null ? [] : [{ rowCount, statedBy }],
    ),
    reloads,
    plannedFrom: held === null ? null : { version: held.version, snapshotDigest: held.snapshotDigest },
  };
}

/** What is known of where a snapshot comes from, beside its version and digest. */
export function originOf({
  entry,
  through,
  readAt,
}: Offer): Pick<SnapshotUnit, 'digestKind' | 'loadedThrough' | 'loadedAt'> {
  const digestKind = snapshotDigest(entry.files) === null ? 'computed' : 'stated';
  return { digestKind, loadedThrough: through, loadedAt: readAt };
}

interface Application {
  readonly held: HeldDataset;
  readonly history: History;
  /** Oldest first, never empty. */
  readonly versions: readonly Version[];
  /** What `held` has after the last of them. */
  readonly schema: Schema;
  readonly addsColumns: boolean;
  /** Once so much is spooled, no further version is begun: the path is cut there, and the next plan goes on. */
  readonly maxSpooledBytes: number;
  /** What is staged of the path never has more bytes: the path is cut before the version that does not fit. */
  readonly maxStagedBytes: number;
}

/**
 * `unusable` where the service recorded none, where they contradict the version's record, or where they do not prove;
 * `oversized` where the first version alone does not fit.
 */
export async function applyChanges(application: Application, tools: Tools): Promise<WorkOutcome> {
  const { held } = application;
  const { parts, staging } = tools;
  const startedMs = parts.clock.monotonicMs();
  try {
    const { fetched, unusable, oversized, ahead } = await fetchChanges(application, tools, (some) =>
      parts.destination.readAhead(changesUnit(application, some, application.schema)),
    );
    if (oversized !== null) return { kind: 'oversized', record: oversized };
    if (unusable.size > 0) return { kind: 'unusable', versions: unusable };
    const bytes = fetched.reduce((sum, one) => sum + one.bytes, 0);
    const unit = { ...changesUnit(application, fetched, schemaAfter(application, fetched)), ahead };
    return await commitUnit(unit, { versions: fetched.length, bytes, startedMs }, tools);
  } catch (error) {
    if (!(error instanceof UnusableChangesError)) throw error;
    return { kind: 'unusable', versions: new Map([[error.version, error.why]]) };
  } finally {
    await staging.discardChanges(held.datasetId);
  }
}

function schemaAfter({ versions, schema, history }: Application, fetched: readonly Fetched[]): Schema {
  if (fetched.length === versions.length) return schema;
  const last = lastOf(fetched);
  return schemaNamed(present(last.schemaVersion, 'a walk stops before a version without one'), last, history);
}

function lastOf(fetched: readonly Fetched[]): Version {
  return present(fetched.at(-1), 'the first version is always fetched').record;
}

function changesUnit(
  { held, addsColumns }: Application,
  fetched: readonly Fetched[],
  schema: Schema,
): ChangesUnit {
  const last = lastOf(fetched);
  return {
    kind: 'changes',
    datasetId: held.datasetId,
    version: last.version,
    publishedAt: last.publishedAt,
    schema,
    addsColumns: addsColumns && schema.schemaVersion !== held.schemaVersion,
    versions: fetched.map(
      ({ record: { version, counts, rowCount }, pages }): VersionChanges => ({
        version,
        pages,
        counts,
        rowCount,
      }),
    ),
    plannedFrom: held,
  };
}

/** What becomes of the table is the user's choice. */
export function retire(
  held: HeldDataset,
  { reason, isApproved, judgedAt }: Omit<Plan & { kind: 'retire' }, 'kind'>,
  tools: Tools,
): Promise<WorkOutcome> {
  const { clock, choices } = tools.parts;
  const unit: RetirementUnit = {
    kind: 'retirement',
    datasetId: held.datasetId,
    how: choices.removedDatasets,
    reason,
    retiredAt: judgedAt,
    isApproved,
    plannedFrom: held,
  };
  return commitUnit(unit, { versions: 0, bytes: 0, startedMs: clock.monotonicMs() }, tools);
}
