/** The destination as a value: of the table what the catalog says of it, and its content as a text. */

import type {
  DamagedTable,
  Destination,
  JobResult,
  ObservedState,
  StoredProgress,
} from '../../src/destination/destination.ts';
import { isLaterMark, type ReloadMark } from '../../src/model/desired-state.ts';
import { StorageError } from '../../src/model/errors.ts';
import type {
  ChangesJob,
  ObservedTable,
  RetirementJob,
  SnapshotJob,
  WriteJob,
} from '../../src/model/write-jobs.ts';
import { ORIGIN } from './model-feed.ts';

export interface Table {
  readonly observed: ObservedTable;
  readonly content: string;
  /** A part of it cannot be read: only a snapshot takes its place. */
  readonly isDamaged: boolean;
}

/** Never changed: a commit puts another one in its place. */
export interface MirrorState {
  readonly subscriptionIds: readonly string[] | null;
  readonly table: Table | null;
  readonly progress: StoredProgress | null;
}

export const EMPTY_MIRROR: MirrorState = { subscriptionIds: null, table: null, progress: null };

const ROWS = 10;
const UNREADABLE = 'A block of the table cannot be read.';
const NEVER = new Date(0);

export class ModelMirror {
  state: MirrorState = EMPTY_MIRROR;
  readonly destination: Destination;
  readonly #committed: (job: WriteJob, before: Table | null, after: Table | null) => void;

  /** `committed` is told of every commit. */
  constructor(committed: (job: WriteJob, before: Table | null, after: Table | null) => void) {
    this.#committed = committed;
    this.destination = {
      has: async () => this.observed(),
      enroll: async ({ subscriptionIds }) => {
        const all = new Set([...(this.state.subscriptionIds ?? []), ...subscriptionIds]);
        this.state = { ...this.state, subscriptionIds: [...all] };
      },
      validate: async (job) => ({ job }),
      readAhead: async () => null,
      commit: async (queue) => {
        for (const prepared of queue.take()) queue.report(prepared, this.#commit(prepared.job));
      },
      unpin: async () => {},
      storeProgress: async (progress) => {
        this.state = { ...this.state, progress };
        return true;
      },
      findDamage: async () => this.#damaged(),
      forgetPast: async () => 'nothing',
      storeChecksum: async () => true,
      renewChecksums: async () => ({ stored: [], closed: [], kept: [] }),
      progress: () => 0,
      close: async () => {},
    };
  }

  damage(): void {
    const { table } = this.state;
    if (table !== null) this.state = { ...this.state, table: { ...table, isDamaged: true } };
  }

  #damaged(): readonly DamagedTable[] {
    const { table } = this.state;
    if (table === null || !table.isDamaged) return [];
    const { datasetId, tableName } = table.observed;
    return [{ datasetId, tableName, pastOf: null, isPinned: false, why: UNREADABLE }];
  }

  observed(): ObservedState {
    const { subscriptionIds, table, progress } = this.state;
    return {
      service: subscriptionIds === null ? null : { origin: ORIGIN, subscriptionIds },
      datasets: new Map(table === null ? [] : [[table.observed.datasetId, table.observed]]),
      progress,
      retired: [],
    };
  }

  #commit(job: WriteJob): JobResult {
    const { datasetId, plannedFrom } = job;
    const before = this.state.table;
    const isAsPlanned =
      before?.observed.commitNumber === plannedFrom?.commitNumber &&
      before?.observed.version === plannedFrom?.version &&
      before?.observed.snapshotDigest === plannedFrom?.snapshotDigest;
    if (!isAsPlanned) return { kind: 'stale-plan', datasetId };
    if (job.kind === 'changes' && before?.isDamaged === true)
      return { kind: 'failed', datasetId, error: new StorageError(UNREADABLE, { code: 'mirror_damaged' }) };
    const table = tableAfter(job, before);
    const progress = table === null ? withoutTable(this.state.progress) : this.state.progress;
    this.state = { ...this.state, table, progress };
    this.#committed(job, before, table);
    if (table === null) return { kind: 'retired', datasetId, table: null };
    const { observed } = table;
    const { tableName, version: toVersion, rowCount } = observed;
    const fromVersion = before?.observed.version ?? null;
    const kind = job.kind === 'snapshot' ? ('snapshot' as const) : ('changes' as const);
    const versions = job.kind === 'changes' ? job.versions.length : 1;
    const measured = { net: null, versions, bytes: 1, durationMs: 0 };
    const committed = { kind, tableName, fromVersion, toVersion, rowCount, ...measured, observed };
    return { kind: 'committed', datasetId, committed };
  }
}

function tableAfter(
  job: Exclude<WriteJob, RetirementJob> | RetirementJob,
  before: Table | null,
): Table | null {
  switch (job.kind) {
    case 'snapshot':
      return {
        observed: loaded(job, before),
        content: job.files.map(({ path }) => path).join(''),
        isDamaged: false,
      };
    case 'changes':
      return {
        observed: changed(job),
        content: [before?.content ?? '', ...changesOf(job)].join(''),
        isDamaged: false,
      };
    case 'repair':
      return before;
    case 'retirement':
      return null;
    case 'rollback':
      throw new Error('the exploration rolls nothing back');
  }
}

function changesOf({ versions }: ChangesJob): readonly string[] {
  return versions.flatMap(({ pages }) => pages);
}

function loaded(job: SnapshotJob, before: Table | null): ObservedTable {
  const { datasetId, version, schema, digest, digestKind, loadedThrough, loadedAt, publishedAt } = job;
  return {
    datasetId,
    tableName: datasetId,
    commitNumber: (before?.observed.commitNumber ?? 0) + 1,
    version,
    schemaVersion: schema.schemaVersion,
    rowCount: ROWS,
    keyColumns: schema.keyColumns,
    snapshotVersion: version,
    snapshotDigest: digest,
    digestKind,
    loadedThrough,
    loadedAt,
    publishedAt,
    appliedAt: NEVER,
    pinnedSince: null,
    columns: [{ name: 'id', columnName: 'id', type: 'string', role: 'key', crs: null }],
    reloads: newestOf(before?.observed.reloads ?? new Map(), job.reloads),
  };
}

function changed({ plannedFrom, version, publishedAt }: ChangesJob): ObservedTable {
  return { ...plannedFrom, commitNumber: (plannedFrom.commitNumber ?? 0) + 1, version, publishedAt };
}

/** A mark that is older than what the table satisfies already changes nothing. */
function newestOf(
  before: ReadonlyMap<string, ReloadMark>,
  marks: ReadonlyMap<string, ReloadMark>,
): ReadonlyMap<string, ReloadMark> {
  const newest = new Map(before);
  for (const [id, mark] of marks) {
    const had = newest.get(id);
    if (had === undefined || isLaterMark(mark, had)) newest.set(id, mark);
  }
  return newest;
}

/** What is stored of the members and owed reloads of a table goes with it. */
function withoutTable(progress: StoredProgress | null): StoredProgress | null {
  return progress === null ? null : { ...progress, members: [], owed: [] };
}
