/**
 * What a planned step would do, and what the table would be after it, as far as the service's own numbers tell. Pure:
 * a catch-up that foresees its work instead of carrying it out plans on from here, and changes nothing.
 */

import { present, unreachable } from '../lib/assert.ts';
import type { CommitResult } from '../model/commits.ts';
import { type ManifestEntry, snapshotDigest } from '../model/manifest.ts';
import type { Schema, Version } from '../model/records.ts';
import type { ObservedColumn, ObservedTable, Retirement } from '../model/write-jobs.ts';
import type { MakeExecutor, StepDependencies, StepResult, Work } from './execute/executor.ts';
import { originOf } from './execute/steps.ts';
import { listedRows, ROWS_PER_PAGE } from './plan/paths.ts';
import type { Plan } from './plan/step.ts';
import { recordOf, schemaOfSnapshot } from './plan/versions.ts';

/** A step that would be carried out. */
export type SimulatedOutcome = SimulatedLoad | SimulatedChanges | SimulatedRetirement;

interface SimulatedLoad {
  readonly kind: 'load';
  /** Null: there is no table yet. */
  readonly fromVersion: number | null;
  readonly toVersion: number;
  /** For people. */
  readonly why: string;
  /** Null where the service does not say. */
  readonly rows: number | null;
  /** Of the files, whatever of them is here already; null where the service does not say of each. */
  readonly bytes: number | null;
  readonly requests: number;
}

interface SimulatedChanges {
  readonly kind: 'apply';
  readonly fromVersion: number;
  readonly toVersion: number;
  readonly versions: number;
  readonly addsColumns: boolean;
  /** Rows listed as added, changed or removed; null where the service does not say of each version. */
  readonly rows: number | null;
  /** At least. */
  readonly requests: number;
}

interface SimulatedRetirement {
  readonly kind: 'retire';
  readonly fromVersion: number;
  readonly how: Retirement;
  /** For people. */
  readonly why: string;
}

interface SimulatedStep {
  readonly step: SimulatedOutcome;
  /** Taken for done. */
  readonly outcome: StepResult;
}

/**
 * Changes are taken for recorded and sound, and content for what the service says of it.
 * @throws ContractViolationError where a snapshot's schema is not in the service's list.
 */
function simulateStep(
  work: Work,
  { known: { desired, observed }, history }: StepDependencies,
  how: Retirement,
  now: Date,
): SimulatedStep {
  switch (work.kind) {
    case 'load': {
      const { entry } = work.listedEntry;
      const known = present(history, 'a load is planned with the history');
      const rows = entry.rowCount ?? recordOf(entry.version, known)?.rowCount ?? null;
      const after = loaded(work, schemaOfSnapshot(entry, known), rows, observed, now);
      const step = {
        kind: 'load' as const,
        ...movement(observed, after),
        why: work.why,
        rows,
        ...download(entry),
      };
      return { step, outcome: committed(step, after, 1) };
    }
    case 'apply': {
      const before = present(observed, 'changes are applied to a table');
      const after = applied(work, before, now);
      const { length: versions } = work.versions;
      const step = {
        kind: 'apply' as const,
        fromVersion: before.version,
        toVersion: after.version,
        versions,
        addsColumns: work.addsColumns,
        rows: work.versions.every(({ counts }) => counts !== null) ? listed(work.versions) : null,
        requests: work.versions.reduce((sum, version) => sum + pagesOf(version), 0),
      };
      return { step, outcome: committed(step, after, versions) };
    }
    case 'retire': {
      const { version: fromVersion } = present(observed, 'what is retired has a table');
      const step = { kind: 'retire' as const, fromVersion, how, why: work.reason };
      return { step, outcome: { kind: 'retired', datasetId: desired.datasetId, table: null } };
    }
    default:
      return unreachable(work);
  }
}

function movement(observed: ObservedTable | null, after: ObservedTable) {
  return { fromVersion: observed?.version ?? null, toVersion: after.version };
}

function download({ files }: ManifestEntry): Pick<SimulatedLoad, 'bytes' | 'requests'> {
  const sizes = files.map(({ bytes }) => bytes).filter((bytes) => bytes !== null);
  const bytes = sizes.length < files.length ? null : sizes.reduce((sum, size) => sum + size, 0);
  return { bytes, requests: files.length };
}

function listed(versions: readonly Version[]): number {
  return versions.reduce((sum, version) => sum + listedRows(version), 0);
}

function pagesOf(version: Version): number {
  return Math.max(1, Math.ceil(listedRows(version) / ROWS_PER_PAGE));
}

function committed(
  step: SimulatedLoad | SimulatedChanges,
  observed: ObservedTable,
  versions: number,
): StepResult {
  const commit: CommitResult = {
    kind: step.kind === 'load' ? 'snapshot' : 'changes',
    tableName: observed.tableName,
    fromVersion: step.fromVersion,
    toVersion: step.toVersion,
    rowCount: observed.rowCount,
    net: null,
    versions,
    bytes: 0,
    durationMs: 0,
    observed,
  };
  return { kind: 'committed', datasetId: observed.datasetId, committed: commit };
}

/** The table as the snapshot would make it. */
function loaded(
  { listedEntry, reloads }: Extract<Plan, { kind: 'load' }>,
  schema: Schema,
  rows: number | null,
  before: ObservedTable | null,
  now: Date,
): ObservedTable {
  const { entry } = listedEntry;
  return {
    ...tableOf(schema),
    datasetId: entry.datasetId,
    tableName: before?.tableName ?? entry.datasetId,
    version: entry.version,
    rowCount: rows ?? 0,
    snapshotVersion: entry.version,
    // Where the service leaves the digests of files out, the content is known only after it was downloaded.
    snapshotDigest: snapshotDigest(entry.files) ?? '',
    ...originOf(listedEntry),
    publishedAt: null,
    appliedAt: now,
    reloads: new Map([...(before?.reloads ?? []), ...reloads]),
  };
}

/** The table as the changes would make it. */
function applied(
  { versions, schema, addsColumns }: Extract<Plan, { kind: 'apply' }>,
  before: ObservedTable,
  now: Date,
): ObservedTable {
  const last = present(versions.at(-1), 'a path has versions');
  const grown = versions.reduce(
    (sum, { counts }) => sum + (counts === null ? 0 : counts.added - counts.removed),
    0,
  );
  return {
    ...before,
    ...(addsColumns ? tableOf(schema) : { schemaVersion: schema.schemaVersion }),
    version: last.version,
    rowCount: last.rowCount ?? before.rowCount + grown,
    publishedAt: last.publishedAt,
    appliedAt: now,
  };
}

/** A type that this program does not know fails the real load; which one stands here for it decides nothing. */
function tableOf(schema: Schema): Pick<ObservedTable, 'schemaVersion' | 'keyColumns' | 'columns'> {
  const keys = new Set(schema.keyColumns);
  const columnsAs = (role: 'data' | 'envelope', columns: Schema['columns']): readonly ObservedColumn[] =>
    columns.map(({ name, type }) => ({
      name,
      columnName: name,
      type: typeof type === 'string' ? type : 'string',
      role: keys.has(name) ? 'key' : role,
      crs: null,
    }));
  return {
    schemaVersion: schema.schemaVersion,
    keyColumns: schema.keyColumns,
    columns: [...columnsAs('data', schema.columns), ...columnsAs('envelope', schema.envelopeColumns)],
  };
}

interface Simulation {
  readonly makeExecutor: MakeExecutor;
  /** By dataset id, in order: what would be carried out. Complete when the catch-up has ended. */
  readonly steps: ReadonlyMap<string, readonly SimulatedOutcome[]>;
}

export function simulatingExecutor(): Simulation {
  const steps = new Map<string, readonly SimulatedOutcome[]>();
  return {
    steps,
    makeExecutor: ({ choices, clock }) => ({
      async open() {},
      async execute(work, dependencies) {
        const { step, outcome } = simulateStep(work, dependencies, choices.removedDatasets, clock.now());
        const { datasetId } = dependencies.known.desired;
        steps.set(datasetId, [...(steps.get(datasetId) ?? []), step]);
        return outcome;
      },
      async discard() {},
      async ended() {},
      async storeProgress() {},
    }),
  };
}
