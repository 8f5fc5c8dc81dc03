/**
 * A mirror in memory, with its rows: what the port says of guards, proofs, names, books and retirements, without SQL. Its
 * state outlives the process (`Disk`); the instance does not.
 */

import { isDeepStrictEqual } from 'node:util';
import type {
  Destination,
  Enrolment,
  Held,
  Outcome,
  Prepared,
  StoredProgress,
  UnitQueue,
} from '../../../src/destination/destination.ts';
import { assert } from '../../../src/lib/assert.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import { BusyError } from '../../../src/model/errors.ts';
import { tableNameFor } from '../../../src/model/naming.ts';
import type { Unit } from '../../../src/model/write-jobs.ts';
import type { TableChange } from '../stage.ts';
import { carryOut } from './carry-out.ts';
import type { Life } from './life.ts';
import type { ModelMachine } from './machine.ts';
import { EMPTY_MIRROR, type MirrorState, progressWithout, seenOf, withAnyRow } from './mirror-state.ts';
import { type PreparedContent, prepareContent } from './prepare-content.ts';
import type { Spool } from './spool.ts';

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
  readonly onCommit: (change: TableChange) => void;
}

interface PreparedUnit extends Prepared {
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

  async has(): Promise<Held> {
    this.#use();
    const { service, tables, progress } = this.#parts.disk.mirror ?? EMPTY_MIRROR;
    const datasets = new Map([...tables].map(([datasetId, { held }]) => [datasetId, held]));
    return { service, datasets, progress, retired: [] };
  }

  async enroll(enrolment: Enrolment): Promise<void> {
    this.#use();
    const { disk, life } = this.#parts;
    this.#enrolment = enrolment;
    const before = disk.mirror;
    const after = enrolled(before ?? EMPTY_MIRROR, enrolment);
    if (before !== null && after === before) return;
    life.passMoment('destination.enroll');
    disk.mirror = after;
    life.passMoment('destination.enroll');
  }

  async prepare(unit: Unit): Promise<Prepared> {
    this.#uses += 1;
    return { unit, content: prepareContent(unit, this.#parts.spool) } as Prepared;
  }

  /** Reads nothing before it is all there. */
  async readAhead(): Promise<null> {
    return null;
  }

  /** Its window stays open as long as units are ready. */
  async commit(queue: UnitQueue): Promise<void> {
    for (let units = queue.take(); units.length > 0; units = queue.take()) {
      for (const [unit, outcome] of this.#commitTogether(units)) queue.tell(unit, outcome);
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

  /** False where there is no mirror. */
  #storeProgress(progress: StoredProgress): boolean {
    const { disk, life } = this.#parts;
    const before = disk.mirror;
    if (before === null) return false;
    if (isDeepStrictEqual(before.progress, progress)) return true;
    life.passMoment('destination.store-progress');
    disk.mirror = { ...before, progress: withAnyRow(progress) };
    life.passMoment('destination.store-progress');
    return true;
  }

  #commitTogether(units: readonly Prepared[]): readonly (readonly [Prepared, Outcome])[] {
    this.#use();
    const { disk, life, machine, clock } = this.#parts;
    life.passCommit('before');
    machine.useDisk('commit');
    let state = disk.mirror ?? EMPTY_MIRROR;
    if (state.service === null && this.#enrolment !== null) state = enrolled(state, this.#enrolment);
    const outcomes: [Prepared, Outcome][] = [];
    for (const prepared of units) {
      const done = this.#carryOut(state, ownPrepared(prepared), clock.now());
      outcomes.push([prepared, done.outcome]);
      state = done.state;
    }
    this.#put(state, units);
    life.passCommit('after');
    machine.useDisk('commit, late');
    return outcomes;
  }

  progress(): number {
    return this.#uses;
  }

  async close(): Promise<void> {}

  /** Each unit fails alone. */
  #carryOut(state: MirrorState, { unit, content }: PreparedUnit, at: Date) {
    try {
      return carryOut(state, unit, content, at);
    } catch (error) {
      assert(error instanceof Error, 'what fails a unit is an error');
      return { state, outcome: { kind: 'failed', datasetId: unit.datasetId, error } as const };
    }
  }

  #put(after: MirrorState, units: readonly Prepared[]): void {
    const { disk, onCommit } = this.#parts;
    const before = disk.mirror ?? EMPTY_MIRROR;
    disk.mirror = after;
    for (const { unit } of units) {
      const { datasetId, kind } = unit;
      const [was, is] = [before.tables.get(datasetId), after.tables.get(datasetId)];
      if (was === is) continue;
      onCommit({
        datasetId,
        kind,
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
  const tables = [...state.tables].map(([datasetId, { held, rows }]) => {
    const reloads = [...held.reloads].filter(([id]) => !subscriptionIds.includes(id));
    return [datasetId, { held: { ...held, reloads: new Map(reloads) }, rows }] as const;
  });
  const progress = progressWithout(state.progress, (row) => subscriptionIds.includes(row.subscriptionId));
  return { ...state, tables: new Map(tables), progress };
}

function ownPrepared(prepared: Prepared): PreparedUnit {
  assert('content' in prepared, 'a unit is committed by the destination that prepared it');
  return prepared as PreparedUnit;
}
