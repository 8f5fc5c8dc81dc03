/**
 * What a planned step would do, and what the table would be after it, as far as the service's own numbers tell. Pure:
 * a catch-up that foresees its work instead of carrying it out plans on from here, and changes nothing.
 */

import { present, unreachable } from '../lib/assert.ts';
import { type ManifestEntry, snapshotDigest } from '../model/manifest.ts';
import type { Schema, Version } from '../model/records.ts';
import type { HeldColumn, HeldDataset, Retirement } from '../model/write-jobs.ts';
import type { Ground, MakeWorkshop, Work, WorkOutcome } from './execute/executor.ts';
import { originOf } from './execute/steps.ts';
import { listedRows, ROWS_PER_PAGE } from './plan/paths.ts';
import type { Plan } from './plan/step.ts';
import { recordOf, schemaOfSnapshot } from './plan/versions.ts';
import type { Commit } from './result.ts';

/** A step that would be carried out. */
export type ForeseenStep = ForeseenLoad | ForeseenChanges | ForeseenRetirement;

interface ForeseenLoad {
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

interface ForeseenChanges {
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

interface ForeseenRetirement {
  readonly kind: 'retire';
  readonly fromVersion: number;
  readonly how: Retirement;
  /** For people. */
  readonly why: string;
}

interface Foreseen {
  readonly step: ForeseenStep;
  /** Taken for done. */
  readonly outcome: WorkOutcome;
}

/**
 * Changes are taken for recorded and sound, and content for what the service says of it.
 * @throws ContractViolationError where a snapshot's schema is not in the service's list.
 */
function foresee(work: Work, { known: { held }, history }: Ground, how: Retirement, now: Date): Foreseen {
  switch (work.kind) {
    case 'load': {
      const { entry } = work.offer;
      const known = present(history, 'a load is planned with the history');
      const rows = entry.rowCount ?? recordOf(entry.version, known)?.rowCount ?? null;
      const after = loaded(work, schemaOfSnapshot(entry, known), rows, held, now);
      const step = {
        kind: 'load' as const,
        ...movement(held, after),
        why: work.why,
        rows,
        ...download(entry),
      };
      return { step, outcome: committed(step, after, 1) };
    }
    case 'apply': {
      const before = present(held, 'changes are applied to a table');
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
      const { version: fromVersion } = present(held, 'what is retired has a table');
      const step = { kind: 'retire' as const, fromVersion, how, why: work.reason };
      return { step, outcome: { kind: 'retired', table: null } };
    }
    default:
      return unreachable(work);
  }
}

function movement(held: HeldDataset | null, after: HeldDataset) {
  return { fromVersion: held?.version ?? null, toVersion: after.version };
}

function download({ files }: ManifestEntry): Pick<ForeseenLoad, 'bytes' | 'requests'> {
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

function committed(step: ForeseenLoad | ForeseenChanges, held: HeldDataset, versions: number): WorkOutcome {
  const commit: Commit = {
    kind: step.kind === 'load' ? 'snapshot' : 'changes',
    tableName: held.tableName,
    fromVersion: step.fromVersion,
    toVersion: step.toVersion,
    rowCount: held.rowCount,
    net: null,
    versions,
    bytes: 0,
    durationMs: 0,
  };
  return { kind: 'committed', commit, held };
}

/** The table as the snapshot would make it. */
function loaded(
  { offer, reloads }: Extract<Plan, { kind: 'load' }>,
  schema: Schema,
  rows: number | null,
  before: HeldDataset | null,
  now: Date,
): HeldDataset {
  const { entry } = offer;
  return {
    ...tableOf(schema),
    datasetId: entry.datasetId,
    tableName: before?.tableName ?? entry.datasetId,
    version: entry.version,
    rowCount: rows ?? 0,
    snapshotVersion: entry.version,
    // Where the service leaves the digests of files out, the content is known only after it was downloaded.
    snapshotDigest: snapshotDigest(entry.files) ?? '',
    ...originOf(offer),
    publishedAt: null,
    appliedAt: now,
    reloads: new Map([...(before?.reloads ?? []), ...reloads]),
  };
}

/** The table as the changes would make it. */
function applied(
  { versions, schema, addsColumns }: Extract<Plan, { kind: 'apply' }>,
  before: HeldDataset,
  now: Date,
): HeldDataset {
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
function tableOf(schema: Schema): Pick<HeldDataset, 'schemaVersion' | 'keyColumns' | 'columns'> {
  const keys = new Set(schema.keyColumns);
  const columnsAs = (role: 'data' | 'envelope', columns: Schema['columns']): readonly HeldColumn[] =>
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

interface Foresight {
  readonly makeWorkshop: MakeWorkshop;
  /** By dataset id, in order: what would be carried out. Complete when the catch-up has ended. */
  readonly steps: ReadonlyMap<string, readonly ForeseenStep[]>;
}

export function foresight(): Foresight {
  const steps = new Map<string, readonly ForeseenStep[]>();
  return {
    steps,
    makeWorkshop: ({ choices, clock }) => ({
      async open() {},
      async carryOut(work, ground) {
        const { step, outcome } = foresee(work, ground, choices.removedDatasets, clock.now());
        const { datasetId } = ground.known.want;
        steps.set(datasetId, [...(steps.get(datasetId) ?? []), step]);
        return outcome;
      },
      async discard() {},
      async ended() {},
      async storeProgress() {},
    }),
  };
}
