/**
 * A mirror in memory, with its rows: what the port says of guards, proofs, names, catalog and retirements, without SQL. Its
 * state outlives the process (`Disk`); the instance does not.
 */

import { isDeepStrictEqual } from 'node:util';
import type {
  DamagedTable,
  Destination,
  Enrolment,
  JobQueue,
  JobResult,
  ObservedState,
  StoredChecksum,
  StoredProgress,
  TableChecksum,
  ValidatedJob,
} from '../../../src/destination/destination.ts';
import { assert } from '../../../src/lib/assert.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import { BusyError } from '../../../src/model/errors.ts';
import { tableNameFor } from '../../../src/model/naming.ts';
import { isPinned, type WriteJob } from '../../../src/model/write-jobs.ts';
import type { TableChange } from '../stage.ts';
import { execute, type Turn } from './execute-job.ts';
import type { Life } from './life.ts';
import type { ModelMachine } from './machine.ts';
import { EMPTY_MIRROR, type MirrorState, progressWithout, seenOf, withAnyRow } from './mirror-state.ts';
import { type PreparedContent, prepareContent } from './prepare-content.ts';
import type { Spool } from './spool.ts';
import { closed, NO_PAST } from './undo-log.ts';
import { contentRows } from './version-content.ts';

/** Where the state of the mirror lies; null: there is no mirror. */
export interface Disk {
  mirror: MirrorState | null;
}

export interface ModelDestinationParts {
  readonly disk: Disk;
  readonly spool: Spool;
  readonly life: Life;
  readonly machine: ModelMachine;
  readonly clock: Clock;
  readonly keepsHistory: () => boolean;
  readonly onCommit: (change: TableChange) => void;
}

interface ValidatedWrite extends ValidatedJob {
  readonly content: PreparedContent;
}

export class ModelDestination implements Destination {
  readonly #parts: ModelDestinationParts;
  #uses = 0;
  /** A mirror that has to be built anew in the middle of a run gets the same names. */
  #enrolment: Enrolment | null = null;

  constructor(parts: ModelDestinationParts) {
    this.#parts = parts;
  }

  async has(): Promise<ObservedState> {
    this.#use();
    const { service, tables, progress } = this.#parts.disk.mirror ?? EMPTY_MIRROR;
    const datasets = new Map([...tables].map(([datasetId, { observed }]) => [datasetId, observed]));
    const missing = [...tables].flatMap(([datasetId, { isDropped }]) => (isDropped ? datasetId : []));
    return { service, datasets, progress, retired: [], missing };
  }

  async unpin(datasetId: string): Promise<void> {
    this.#use();
    const { disk, life } = this.#parts;
    const mirror = disk.mirror ?? EMPTY_MIRROR;
    const table = mirror.tables.get(datasetId);
    if (table === undefined) return;
    const observed = { ...table.observed, pinnedSince: null };
    life.passEffect('destination.unpin');
    disk.mirror = { ...mirror, tables: new Map([...mirror.tables, [datasetId, { ...table, observed }]]) };
    life.passEffect('destination.unpin');
  }

  async enroll(enrolment: Enrolment): Promise<void> {
    this.#use();
    const { disk, life } = this.#parts;
    this.#enrolment = enrolment;
    const before = disk.mirror;
    const after = enrolled(before ?? EMPTY_MIRROR, enrolment);
    if (before !== null && after === before) return;
    life.passEffect('destination.enroll');
    disk.mirror = after;
    life.passEffect('destination.enroll');
  }

  async validate(job: WriteJob): Promise<ValidatedJob> {
    this.#uses += 1;
    const { spool } = this.#parts;
    const content: PreparedContent =
      job.kind === 'repair'
        ? { kind: 'repair', content: contentRows(job.content, job.plannedFrom, spool) }
        : prepareContent(job, spool);
    return { job, content } as ValidatedJob;
  }

  /** Reads nothing before it is all there. */
  async readAhead(): Promise<null> {
    return null;
  }

  /** Its write session stays open as long as write jobs are ready. */
  async commit(queue: JobQueue): Promise<void> {
    for (let jobs = queue.take(); jobs.length > 0; jobs = queue.take()) {
      for (const [job, outcome] of this.#commitTogether(jobs)) queue.report(job, outcome);
    }
    const progress = (await queue.progressToStore?.()) ?? null;
    if (progress !== null) this.#storeProgress(progress);
  }

  async storeProgress(progress: StoredProgress, mode: 'wait' | 'if-free'): Promise<boolean> {
    try {
      this.#use();
      return this.#storeProgress(progress);
    } catch (error) {
      if (mode === 'if-free' && error instanceof BusyError) return false;
      throw error;
    }
  }

  async findDamage(): Promise<readonly DamagedTable[]> {
    this.#use();
    const { tables } = this.#parts.disk.mirror ?? EMPTY_MIRROR;
    const damaged = [...tables].filter(([, { isDamaged, isDropped }]) => isDamaged && !isDropped);
    return damaged.map(([datasetId, { observed }]) => ({
      tableName: `main.${observed.tableName}`,
      datasetId,
      pastOf: null,
      isPinned: isPinned(observed),
      why: 'a block cannot be read',
    }));
  }

  /** A table whose rows no commit left has a past that nobody knows. */
  async storeChecksum({ datasetId, commitNumber, sum }: TableChecksum): Promise<StoredChecksum> {
    this.#use();
    const { disk } = this.#parts;
    const before = disk.mirror ?? EMPTY_MIRROR;
    const table = before.tables.get(datasetId);
    const past = before.pasts.get(datasetId) ?? NO_PAST;
    if (table === undefined || commitNumber === null || table.observed.commitNumber !== commitNumber)
      return 'stale';
    const left = past.left.get(commitNumber);
    const log = past.log === null || table.checksum === sum ? past.log : closed(past.log, commitNumber);
    const known =
      left === undefined ? past.left : new Map(past.left).set(commitNumber, { ...left, checksum: sum });
    disk.mirror = {
      ...before,
      tables: new Map(before.tables).set(datasetId, { ...table, checksum: sum }),
      pasts: new Map(before.pasts).set(datasetId, { ...past, log, left: known }),
    };
    return log === past.log ? 'stored' : 'log-closed';
  }

  /** The past is kept for ever. */
  async forgetPast() {
    return 'nothing' as const;
  }

  async renewChecksums() {
    this.#use();
    return { stored: [], closed: [], kept: [] };
  }

  /** False where there is no mirror. */
  #storeProgress(progress: StoredProgress): boolean {
    const { disk, life } = this.#parts;
    const before = disk.mirror;
    if (before === null) return false;
    if (isDeepStrictEqual(before.progress, progress)) return true;
    life.passEffect('destination.store-progress');
    disk.mirror = { ...before, progress: withAnyRow(progress) };
    life.passEffect('destination.store-progress');
    return true;
  }

  #commitTogether(jobs: readonly ValidatedJob[]): readonly (readonly [ValidatedJob, JobResult])[] {
    this.#use();
    const { disk, life, machine, clock, keepsHistory } = this.#parts;
    life.passCommit('before');
    machine.useDisk('commit');
    let state = disk.mirror ?? EMPTY_MIRROR;
    if (state.service === null && this.#enrolment !== null) state = enrolled(state, this.#enrolment);
    const outcomes: [ValidatedJob, JobResult][] = [];
    for (const prepared of jobs) {
      const done = this.#execute(state, ownValidated(prepared), {
        at: clock.now(),
        keepsHistory: keepsHistory(),
      });
      outcomes.push([prepared, done.outcome]);
      state = done.state;
    }
    this.#put(state, jobs);
    life.passCommit('after');
    machine.useDisk('commit, late');
    return outcomes;
  }

  progress(): number {
    return this.#uses;
  }

  async close(): Promise<void> {}

  /** Each write job fails alone. */
  #execute(state: MirrorState, { job, content }: ValidatedWrite, turn: Turn) {
    try {
      return execute(state, job, content, turn);
    } catch (error) {
      assert(error instanceof Error, 'a write job fails with an error');
      return { state, outcome: { kind: 'failed', datasetId: job.datasetId, error } as const };
    }
  }

  #put(after: MirrorState, jobs: readonly ValidatedJob[]): void {
    const { disk, onCommit } = this.#parts;
    const before = disk.mirror ?? EMPTY_MIRROR;
    disk.mirror = after;
    for (const { job } of jobs) {
      const { datasetId, kind } = job;
      const [was, is] = [before.tables.get(datasetId), after.tables.get(datasetId)];
      if (was === is) continue;
      onCommit({
        datasetId,
        kind,
        wasPinned: was !== undefined && isPinned(was.observed),
        before: was === undefined ? null : seenOf(was),
        after: is === undefined ? null : seenOf(is),
      });
    }
  }

  #use(): void {
    this.#uses += 1;
    this.#parts.machine.useMirror();
  }
}

/** The same state where all of it is there already. */
function enrolled(state: MirrorState, enrolment: Enrolment): MirrorState {
  const { origin, subscriptionIds, forgottenSubscriptionIds, datasetIds } = enrolment;
  const given = forgottenSubscriptionIds.filter((id) => !subscriptionIds.includes(id));
  const seen = new Set([...(state.service?.subscriptionIds ?? []), ...subscriptionIds]);
  for (const id of given) seen.delete(id);
  const names = new Map(state.names);
  const taken = new Set(names.values());
  for (const datasetId of datasetIds) {
    if (names.has(datasetId)) continue;
    const name = tableNameFor(datasetId, taken);
    names.set(datasetId, name);
    taken.add(name);
  }
  const isSame =
    state.service?.origin === origin &&
    [...seen].join('\n') === state.service.subscriptionIds.join('\n') &&
    names.size === state.names.size;
  if (isSame) return state;
  return { ...withoutTraceOf(state, given), service: { origin, subscriptionIds: [...seen] }, names };
}

/** What a subscription that was given up asked for counts no more, and its progress is gone. */
function withoutTraceOf(state: MirrorState, subscriptionIds: readonly string[]): MirrorState {
  if (subscriptionIds.length === 0) return state;
  const tables = [...state.tables].map(([datasetId, table]) => {
    const { observed } = table;
    const reloads = [...observed.reloads].filter(([id]) => !subscriptionIds.includes(id));
    return [datasetId, { ...table, observed: { ...observed, reloads: new Map(reloads) } }] as const;
  });
  const progress = progressWithout(state.progress, (row) => subscriptionIds.includes(row.subscriptionId));
  return { ...state, tables: new Map(tables), progress };
}

function ownValidated(prepared: ValidatedJob): ValidatedWrite {
  assert('content' in prepared, 'a write job is committed by the destination that validated it');
  return prepared as ValidatedWrite;
}
