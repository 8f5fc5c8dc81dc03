/** The destination as a value: of the table what the catalog says of it, and its content as a text. */

import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type {
  DamagedTable,
  Destination,
  JobResult,
  ObservedState,
  StoredProgress,
} from '../../src/destination/destination.ts';
import { isLaterMark, type ReloadMark } from '../../src/model/desired-state.ts';
import { DataError, StorageError, UsageError } from '../../src/model/errors.ts';
import { type JudgedCommit, judge, NO_KEYS, rowCountsOf } from '../../src/model/gate.ts';
import {
  type ChangesJob,
  isPinned,
  type ObservedTable,
  type RetirementJob,
  type RollbackJob,
  type SnapshotJob,
  type VersionContent,
  type WriteJob,
} from '../../src/model/write-jobs.ts';
import { withResyncs } from '../../src/sync/resyncs.ts';
import { takenFromJob } from '../support/loaded-table.ts';
import {
  hold,
  NOTHING_SHARED,
  type SharedPlace,
  type SharedState,
  sharedCandidates,
  sharedRequests,
  superseded,
  withCandidate,
  withCommitted,
} from './model-database.ts';
import { ORIGIN } from './model-feed.ts';

export interface Table {
  readonly observed: ObservedTable;
  readonly content: string;
  /** A part of it cannot be read: only a snapshot takes its place. */
  readonly isDamaged: boolean;
  /** A row was altered by hand, which the content does not show: changes keep it, and a rollback cannot prove its result. */
  readonly isAltered: boolean;
}

/** Never changed: a commit puts another one in its place. */
export interface MirrorState {
  readonly subscriptionIds: readonly string[] | null;
  readonly table: Table | null;
  readonly progress: StoredProgress | null;
  /** The table as its last commits left it, the newest last: a rollback restores one of them. */
  readonly past: readonly Table[];
  readonly shared: SharedState;
}

export const EMPTY_MIRROR: MirrorState = {
  subscriptionIds: null,
  table: null,
  progress: null,
  past: [],
  shared: NOTHING_SHARED,
};

/** More commits than a history makes. */
const MAX_PAST = 20;

const ROWS = 10;
const UNREADABLE = 'A block of the table cannot be read.';
const NEVER = new Date(0);

export class ModelMirror implements SharedPlace {
  state: MirrorState = EMPTY_MIRROR;
  /** Requests and candidates are stored in it, for every instance. */
  readonly isShared: boolean;
  /** Of the instance that holds the lease. */
  epoch = 0;
  readonly #committed: (job: WriteJob, before: Table | null, after: Table | null) => void;

  /** `committed` is called for every commit. */
  constructor(
    isShared: boolean,
    committed: (job: WriteJob, before: Table | null, after: Table | null) => void,
  ) {
    this.isShared = isShared;
    this.#committed = committed;
  }

  get shared(): SharedState {
    return this.state.shared;
  }

  set shared(shared: SharedState) {
    this.state = { ...this.state, shared };
  }

  takeLease(): void {
    this.epoch += 1;
  }

  /** The destination of the instance that holds the lease: it writes until another one takes it. */
  destination(): Destination {
    const { epoch } = this;
    return {
      ...(this.isShared
        ? {
            requests: sharedRequests(this, epoch),
            candidates: sharedCandidates(this, epoch),
            keepResyncs: async (resyncs) => {
              hold(this, epoch);
              this.state = { ...this.state, progress: withResyncs(this.state.progress, resyncs) };
            },
          }
        : {}),
      has: async () => this.observed(),
      enroll: async ({ subscriptionIds }) => {
        hold(this, epoch);
        const all = new Set([...(this.state.subscriptionIds ?? []), ...subscriptionIds]);
        this.state = { ...this.state, subscriptionIds: [...all] };
      },
      validate: async (job) => ({ job }),
      readAhead: async () => null,
      commit: async (queue) => {
        for (const prepared of queue.take()) {
          const { datasetId } = prepared.job;
          const lost: JobResult = { kind: 'failed', datasetId, error: superseded() };
          queue.report(prepared, epoch === this.epoch ? this.#commit(prepared.job) : lost);
        }
      },
      unpin: async () => {
        hold(this, epoch);
        this.unpin();
      },
      storeProgress: async (progress) => {
        hold(this, epoch);
        this.state = { ...this.state, progress };
        return true;
      },
      findDamage: async () => this.#damaged(),
      forgetPast: async () => 'nothing',
      storeChecksum: async () => 'stored',
      renewChecksums: async () => ({ stored: [], closed: [], kept: [] }),
      progress: () => 0,
      close: async () => {},
    };
  }

  damage(): void {
    const { table } = this.state;
    if (table !== null) this.state = { ...this.state, table: { ...table, isDamaged: true } };
  }

  alter(): void {
    const { table } = this.state;
    if (table !== null) this.state = { ...this.state, table: { ...table, isAltered: true } };
  }

  unpin(): void {
    const { table } = this.state;
    if (table === null) return;
    this.state = { ...this.state, table: { ...table, observed: { ...table.observed, pinnedSince: null } } };
  }

  #damaged(): readonly DamagedTable[] {
    const { table } = this.state;
    if (table === null || !table.isDamaged) return [];
    const { datasetId, tableName } = table.observed;
    return [{ datasetId, tableName, pastOf: null, isPinned: isPinned(table.observed), why: UNREADABLE }];
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
    if ((job.kind === 'changes' || job.kind === 'repair') && before?.isDamaged === true)
      return { kind: 'failed', datasetId, error: new StorageError(UNREADABLE, { code: 'mirror_damaged' }) };
    const table = tableAfter(job, before, this.state.past);
    const refused = refusalOf(job, before, table);
    if (refused !== null) return { kind: 'failed', datasetId, error: refused };
    const judged = before === null || table === null ? null : judgedAs(job, before, table);
    if (judged !== null) return { kind: 'awaiting', datasetId, judged };
    const progress =
      table === null
        ? withoutTable(this.state.progress)
        : progressAfter(job, this.state.progress, before, table);
    const past = table === null ? [] : [...this.state.past, table].slice(-MAX_PAST);
    const shared = sharedAfter(this.state.shared, job);
    this.state = { ...this.state, table, progress, past, shared };
    this.#committed(job, before, table);
    if (table === null) return { kind: 'retired', datasetId, table: null };
    const { observed } = table;
    const { tableName, version: toVersion, rowCount } = observed;
    const fromVersion = before?.observed.version ?? null;
    const kind = job.kind === 'retirement' ? ('changes' as const) : job.kind;
    const versions = job.kind === 'changes' ? job.versions.length : 1;
    const measured = { net: null, versions, bytes: 1, durationMs: 0 };
    const committed = { kind, tableName, fromVersion, toVersion, rowCount, ...measured, observed };
    return { kind: 'committed', datasetId, committed };
  }
}

/** A commit ends what waits, and says which approval it used. */
function sharedAfter(shared: SharedState, job: WriteJob): SharedState {
  const left = withCandidate(shared, job.datasetId, []);
  const approved =
    job.kind === 'snapshot' || job.kind === 'changes' ? (job.gate?.approvedDigest ?? null) : null;
  return approved === null ? left : withCommitted(left, job.datasetId, approved);
}

/** What a job does that a gate judges: every row is another one. */
function judgedAs(job: WriteJob, before: Table, after: Table): JudgedCommit | null {
  if ((job.kind !== 'snapshot' && job.kind !== 'changes') || job.gate === undefined) return null;
  // Of a table that cannot be read, only the numbers of rows are compared.
  const isSame = before.isDamaged || before.content === after.content;
  const net = isSame ? { added: 0, changed: 0, removed: 0 } : { added: ROWS, changed: 0, removed: ROWS };
  const counts = rowCountsOf(ROWS, ROWS, net);
  const digest = contentDigest(job);
  if (judge(counts, job.gate.limits).kind !== 'awaiting' || digest === job.gate.approvedDigest) return null;
  return { digest, counts, keys: NO_KEYS };
}

export function contentDigest(job: SnapshotJob | ChangesJob): string {
  const texts = job.kind === 'snapshot' ? job.files.map(({ path }) => path) : changesOf(job);
  return createHash('sha256')
    .update(JSON.stringify([job.kind, texts]))
    .digest('hex');
}

/** A pinned table takes no other rows, but by another rollback. */
function refusalOf(job: WriteJob, before: Table | null, after: Table | null): Error | null {
  if (job.kind === 'rollback' && after === before)
    return new UsageError('That commit is not known any more.');
  if (job.kind === 'rollback' && before?.isAltered === true)
    return new DataError('The rows are not those that the commit left.');
  const mayNotChange =
    before !== null && isPinned(before.observed) && job.kind !== 'rollback' && after !== null;
  if (!mayNotChange || after.content === before.content) return null;
  return new StorageError('The table is pinned.', { code: 'dataset_storage_failed' });
}

/** What the table satisfied before a rollback, and owes again after it. */
function progressAfter(
  job: WriteJob,
  progress: StoredProgress | null,
  before: Table | null,
  { observed: after }: Table,
): StoredProgress | null {
  if (job.kind !== 'rollback' || before === null || progress === null) return progress;
  const { datasetId, reloads } = before.observed;
  const owed = [...reloads].flatMap(([subscriptionId, mark]) => {
    const kept = after.reloads.get(subscriptionId);
    const isLost = subscriptionId !== '' && (kept === undefined || isLaterMark(mark, kept));
    return isLost ? [{ datasetId, subscriptionId, ...mark }] : [];
  });
  const known = progress.owed.filter((one) => !owed.some((again) => isDeepStrictEqual(one, again)));
  return { ...progress, owed: [...known, ...owed] };
}

/** Null: the past does not have the commit. */
function restored({ toCommit }: RollbackJob, before: Table | null, past: readonly Table[]): Table | null {
  const left = past.find(({ observed }) => observed.commitNumber === toCommit);
  if (left === undefined || before === null) return null;
  const commitNumber = (before.observed.commitNumber ?? 0) + 1;
  const observed = { ...left.observed, commitNumber, pinnedSince: NEVER };
  return { observed, content: left.content, isDamaged: false, isAltered: false };
}

function tableAfter(
  job: Exclude<WriteJob, RetirementJob> | RetirementJob,
  before: Table | null,
  past: readonly Table[],
): Table | null {
  switch (job.kind) {
    case 'snapshot':
      return {
        observed: loaded(job, before),
        content: job.files.map(({ path }) => path).join(''),
        isDamaged: false,
        isAltered: false,
      };
    case 'changes':
      return {
        observed: changed(job),
        content: [before?.content ?? '', ...changesOf(job)].join(''),
        isDamaged: false,
        isAltered: before?.isAltered ?? false,
      };
    case 'repair':
      return {
        observed: { ...job.plannedFrom, commitNumber: (job.plannedFrom.commitNumber ?? 0) + 1 },
        content: textOf(job.content),
        isDamaged: false,
        isAltered: false,
      };
    case 'retirement':
      return null;
    case 'rollback':
      return restored(job, before, past) ?? before;
  }
}

/** The rows of the service's content for a version. */
export function textOf({ snapshot, changes }: VersionContent): string {
  const texts = snapshot.files.map(({ path }) => path);
  return [...texts, ...(changes === null ? [] : changesOf(changes))].join('');
}

function changesOf({ versions }: Pick<ChangesJob, 'versions'>): readonly string[] {
  return versions.flatMap(({ pages }) => pages);
}

function loaded(job: SnapshotJob, before: Table | null): ObservedTable {
  return {
    ...takenFromJob(job),
    schemaName: 'main',
    tableName: job.datasetId,
    commitNumber: (before?.observed.commitNumber ?? 0) + 1,
    rowCount: ROWS,
    appliedAt: NEVER,
    pinnedSince: before?.observed.pinnedSince ?? null,
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
