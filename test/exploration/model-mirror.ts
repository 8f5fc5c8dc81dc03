/** The destination as a value: of the table what the catalog says of it, and its content as a text. */

import type { Destination, Held, Outcome, StoredProgress } from '../../src/destination/destination.ts';
import { isLaterMark, type ReloadMark } from '../../src/model/desired-state.ts';
import type {
  ChangesUnit,
  HeldDataset,
  RetirementUnit,
  SnapshotUnit,
  Unit,
} from '../../src/model/write-jobs.ts';
import { ORIGIN } from './model-feed.ts';

export interface Table {
  readonly held: HeldDataset;
  readonly content: string;
}

/** Never changed: a commit puts another one in its place. */
export interface MirrorState {
  readonly subscriptionIds: readonly string[] | null;
  readonly table: Table | null;
  readonly progress: StoredProgress | null;
}

export const EMPTY_MIRROR: MirrorState = { subscriptionIds: null, table: null, progress: null };

const ROWS = 10;
const NEVER = new Date(0);

export class ModelMirror {
  state: MirrorState = EMPTY_MIRROR;
  readonly destination: Destination;
  readonly #committed: (unit: Unit, before: Table | null, after: Table | null) => void;

  /** `committed` is told of every commit. */
  constructor(committed: (unit: Unit, before: Table | null, after: Table | null) => void) {
    this.#committed = committed;
    this.destination = {
      has: async () => this.held(),
      enroll: async ({ subscriptionIds }) => {
        const all = new Set([...(this.state.subscriptionIds ?? []), ...subscriptionIds]);
        this.state = { ...this.state, subscriptionIds: [...all] };
      },
      prepare: async (unit) => ({ unit }),
      readAhead: async () => null,
      commit: async (queue) => {
        for (const prepared of queue.take()) queue.tell(prepared, this.#commit(prepared.unit));
      },
      storeProgress: async (progress) => {
        this.state = { ...this.state, progress };
        return true;
      },
      progress: () => 0,
      close: async () => {},
    };
  }

  held(): Held {
    const { subscriptionIds, table, progress } = this.state;
    return {
      service: subscriptionIds === null ? null : { origin: ORIGIN, subscriptionIds },
      datasets: new Map(table === null ? [] : [[table.held.datasetId, table.held]]),
      progress,
      retired: [],
    };
  }

  #commit(unit: Unit): Outcome {
    const { datasetId, plannedFrom } = unit;
    const before = this.state.table;
    const isAsPlanned =
      before?.held.version === plannedFrom?.version &&
      before?.held.snapshotDigest === plannedFrom?.snapshotDigest;
    if (!isAsPlanned) return { kind: 'overtaken', datasetId };
    const table = tableAfter(unit, before);
    const progress = table === null ? withoutTable(this.state.progress) : this.state.progress;
    this.state = { ...this.state, table, progress };
    this.#committed(unit, before, table);
    if (table === null) return { kind: 'retired', datasetId, table: null };
    const { held } = table;
    const { tableName, version: toVersion, rowCount } = held;
    const fromVersion = before?.held.version ?? null;
    const committed = { tableName, fromVersion, toVersion, rowCount, net: null, held };
    return { kind: 'committed', datasetId, committed };
  }
}

function tableAfter(
  unit: Exclude<Unit, RetirementUnit> | RetirementUnit,
  before: Table | null,
): Table | null {
  switch (unit.kind) {
    case 'snapshot':
      return { held: loaded(unit, before), content: unit.files.map(({ path }) => path).join('') };
    case 'changes':
      return { held: changed(unit), content: [before?.content ?? '', ...changesOf(unit)].join('') };
    case 'retirement':
      return null;
  }
}

function changesOf({ versions }: ChangesUnit): readonly string[] {
  return versions.flatMap(({ pages }) => pages);
}

function loaded(unit: SnapshotUnit, before: Table | null): HeldDataset {
  const { datasetId, version, schema, digest, digestKind, loadedThrough, loadedAt, publishedAt } = unit;
  return {
    datasetId,
    tableName: datasetId,
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
    columns: [{ name: 'id', columnName: 'id', type: 'string', role: 'key', crs: null }],
    reloads: newestOf(before?.held.reloads ?? new Map(), unit.reloads),
  };
}

function changed({ plannedFrom, version, publishedAt }: ChangesUnit): HeldDataset {
  return { ...plannedFrom, version, publishedAt };
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
