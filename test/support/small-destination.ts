/**
 * A destination in memory: the catalog entry of each table, and no rows. A commit changes it as the write job
 * says, unless the table is no longer what the unit was planned from.
 */

import { access } from 'node:fs/promises';
import type {
  Destination,
  Enrolment,
  JobQueue,
  JobResult,
  ObservedState,
  StoredProgress,
} from '../../src/destination/destination.ts';
import type { Column, Counts, Schema } from '../../src/model/records.ts';
import type {
  ChangesJob,
  ObservedTable,
  RetirementJob,
  SnapshotJob,
  WriteJob,
} from '../../src/model/write-jobs.ts';
import { takenFromJob } from './loaded-table.ts';
import { NOW, observedColumn } from './sync-values.ts';

const ORDINARY_ROWS = 10;

export interface Mirror {
  /** By dataset id. */
  readonly tables: Map<string, ObservedTable>;
  /** The datasets of tables that somebody has dropped: only the catalog lists them. */
  readonly dropped: Set<string>;
  /** Retirements, in order. */
  readonly retired: RetirementJob[];
  /** Units of changes that were committed, in order. */
  readonly applied: ChangesJob[];
  readonly enrolments: Enrolment[];
  progress: StoredProgress | null;
}

export function emptyMirror(): Mirror {
  return { tables: new Map(), dropped: new Set(), retired: [], applied: [], enrolments: [], progress: null };
}

/**
 * `called` is called for each call, and throws the error that the call shall throw; `outcomes` are those of the next commits, in
 * order.
 */
export function destinationOf(
  mirror: Mirror,
  outcomes: ((job: WriteJob) => JobResult)[],
  called: (call: string) => void,
): Destination {
  return {
    async has() {
      called('has');
      const { enrolments, tables, progress, dropped } = mirror;
      const [service, retired] = [serviceOf(enrolments), mirror.retired.toReversed()];
      return { service, datasets: new Map(tables), progress, retired, missing: [...dropped] };
    },
    async enroll(enrolment) {
      called('enroll');
      mirror.enrolments.push(enrolment);
    },
    async validate(job) {
      called(`prepare ${job.datasetId}`);
      if (job.kind === 'changes') await pagesAreThere(job);
      return { job };
    },
    readAhead: async () => null,
    async unpin(datasetId) {
      const table = mirror.tables.get(datasetId);
      if (table !== undefined) mirror.tables.set(datasetId, { ...table, pinnedSince: null });
    },
    async commit(queue: JobQueue) {
      const jobs = queue.take();
      called('commit');
      for (const one of jobs) queue.report(one, outcomes.shift()?.(one.job) ?? commit(one.job, mirror));
      mirror.progress = (await queue.progressToStore?.()) ?? mirror.progress;
    },
    async storeProgress(progress) {
      called('store progress');
      mirror.progress = progress;
      return true;
    },
    async findDamage() {
      called('find damage');
      return [];
    },
    forgetPast: async () => 'nothing',
    async storeChecksum() {
      called('store checksum');
      return 'stored';
    },
    async renewChecksums() {
      called('renew checksums');
      return { stored: [], closed: [], kept: [] };
    },
    progress: () => 0,
    async close() {},
  };
}

function serviceOf(enrolments: readonly Enrolment[]): ObservedState['service'] {
  const [first] = enrolments;
  if (first === undefined) return null;
  const subscriptionIds = new Set<string>();
  for (const enrolment of enrolments) {
    for (const id of enrolment.subscriptionIds) subscriptionIds.add(id);
    for (const id of enrolment.forgottenSubscriptionIds) subscriptionIds.delete(id);
  }
  return { origin: first.origin, subscriptionIds: [...subscriptionIds] };
}

async function pagesAreThere({ versions }: ChangesJob): Promise<void> {
  for (const { pages } of versions) for (const page of pages) await access(page);
}

function commit(job: WriteJob, mirror: Mirror): JobResult {
  const { datasetId, plannedFrom } = job;
  const before = mirror.tables.get(datasetId) ?? null;
  const isAsPlanned =
    before?.commitNumber === plannedFrom?.commitNumber &&
    before?.version === plannedFrom?.version &&
    before?.snapshotDigest === plannedFrom?.snapshotDigest;
  if (!isAsPlanned) return { kind: 'stale-plan', datasetId };
  switch (job.kind) {
    case 'snapshot':
      return committed(job, loaded(job, before), before, null, mirror);
    case 'changes':
      mirror.applied.push(job);
      return committed(job, changed(job), before, netOf(job), mirror);
    case 'repair':
      return { kind: 'failed', datasetId, error: new Error('a small destination has no rows to repair') };
    case 'retirement':
      mirror.retired.push(job);
      mirror.tables.delete(datasetId);
      mirror.dropped.delete(datasetId);
      return { kind: 'retired', datasetId, table: tableAfter(job) };
    case 'rollback':
      throw new Error('the small destination has no history to roll back');
  }
}

function committed(
  job: SnapshotJob | ChangesJob,
  observed: ObservedTable,
  before: ObservedTable | null,
  net: Counts | null,
  { tables, dropped }: Mirror,
): JobResult {
  const { datasetId, kind, fetched } = job;
  const versions = job.kind === 'changes' ? job.versions.length : 1;
  const { bytes } = fetched;
  tables.set(datasetId, observed);
  dropped.delete(datasetId);
  const { tableName, version: toVersion, rowCount } = observed;
  const fromVersion = before?.version ?? null;
  return {
    kind: 'committed',
    datasetId,
    committed: {
      kind,
      tableName,
      fromVersion,
      toVersion,
      rowCount,
      net,
      versions,
      bytes,
      durationMs: 0,
      observed,
    },
  };
}

function loaded(job: SnapshotJob, before: ObservedTable | null): ObservedTable {
  return {
    ...takenFromJob(job),
    schemaName: 'main',
    tableName: job.datasetId,
    commitNumber: (before?.commitNumber ?? 0) + 1,
    rowCount: job.expectedRowCounts[0]?.rowCount ?? ORDINARY_ROWS,
    appliedAt: NOW,
    pinnedSince: null,
    columns: columnsOf(job.schema),
    reloads: new Map([...(before?.reloads ?? []), ...job.reloads]),
  };
}

/** Where the service states the number of rows, the table has as many: nothing is committed that does not prove. */
function changed(job: ChangesJob): ObservedTable {
  const { plannedFrom, version, schema, addsColumns, publishedAt, versions } = job;
  const { added, removed } = netOf(job);
  return {
    ...plannedFrom,
    commitNumber: (plannedFrom.commitNumber ?? 0) + 1,
    version,
    schemaVersion: schema.schemaVersion,
    rowCount: versions.at(-1)?.rowCount ?? plannedFrom.rowCount + added - removed,
    columns: addsColumns ? columnsOf(schema) : plannedFrom.columns,
    publishedAt,
    appliedAt: NOW,
  };
}

/** As if no key were in two of the versions. */
function netOf({ versions }: ChangesJob): Counts {
  const sum = (kind: keyof Counts): number =>
    versions.reduce((all, { counts }) => all + (counts?.[kind] ?? 0), 0);
  return { added: sum('added'), changed: sum('changed'), removed: sum('removed') };
}

function tableAfter({ datasetId, how, plannedFrom }: RetirementJob): string | null {
  if (how === 'drop') return null;
  return how === 'keep' ? `main.${datasetId}` : `archived.${datasetId}__${plannedFrom.version}`;
}

function columnsOf({ columns, keyColumns, envelopeColumns }: Schema) {
  const typed = ({ name, type }: Column, role: 'key' | 'data' | 'envelope') => {
    if (typeof type !== 'string') throw new Error(`${name} has an unknown type`);
    return observedColumn(name, { type, role });
  };
  return [
    ...columns.map((one) => typed(one, keyColumns.includes(one.name) ? 'key' : 'data')),
    ...envelopeColumns.map((one) => typed(one, 'envelope')),
  ];
}
