/**
 * Commits prepared units inside one window. A batch that fails is undone and repeated one by one, so that one
 * dataset's trouble stays its own.
 */

import { assert, present } from '../../lib/assert.ts';
import { InterruptedError } from '../../model/errors.ts';
import type { HeldDataset, Unit } from '../../model/write-jobs.ts';
import type { Engine, Row } from '../../staging/engine/engine.ts';
import {
  booleanAt,
  moment,
  numberAt,
  numberOrNullAt,
  text,
  textAt,
  textOrNullAt,
} from '../../staging/engine/sql.ts';
import type { Committed } from '../destination.ts';
import { type BookEntry, HISTORY_KINDS, heldAfter, writeEntries } from './catalog/entries.ts';
import { readHeldDatasets } from './catalog/observed-state.ts';
import { book } from './catalog/schema.ts';
import { type Current, readCurrent } from './catalog/tables.ts';
import { placeOf } from './retire.ts';
import type { Deed, Done, PreparedUnit } from './validate.ts';
import { OutcomeUnknownError, WindowLostError, type WriteWindow } from './write-session.ts';

/** `failed` carries the error as it came; its cause in the data is looked for once the mirror is let go. */
type UnitResult =
  | { readonly kind: 'committed'; readonly committed: Committed }
  | { readonly kind: 'retired'; readonly table: string | null }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'overtaken' };

interface CommitContext {
  readonly window: WriteWindow;
  readonly appliedAt: Date;
  readonly signal?: AbortSignal;
}

interface CommittedUnit {
  readonly unit: PreparedUnit;
  readonly result: UnitResult;
}

/** The results as soon as they are certain, in the order of the units. Never throws for a unit. */
export async function* commitUnits(
  context: CommitContext,
  units: readonly PreparedUnit[],
): AsyncGenerator<CommittedUnit> {
  let lost: Error | null = null;
  for (const batch of batches(units, ({ unit }) => unit.datasetId)) {
    let results: readonly UnitResult[] = [];
    try {
      if (lost === null) results = await commitBatch(context, batch);
    } catch (error) {
      if (!(error instanceof WindowLostError)) throw error;
      lost = error.cause;
    }
    for (const [index, unit] of batch.entries())
      yield { unit, result: results[index] ?? { kind: 'failed', error: lost } };
  }
}

async function commitBatch(
  context: CommitContext,
  batch: readonly PreparedUnit[],
): Promise<readonly UnitResult[]> {
  try {
    return await commitTogether(context, batch);
  } catch (error) {
    if (error instanceof WindowLostError) throw error;
    const found = error instanceof OutcomeUnknownError ? await findCommitted(context, batch) : new Map();
    const [only] = batch;
    if (batch.length === 1 && only !== undefined) {
      return [found.get(only.unit.datasetId) ?? { kind: 'failed', error: causeOf(error) }];
    }
    const results: UnitResult[] = [];
    for (const unit of batch) {
      const known = found.get(unit.unit.datasetId);
      if (known !== undefined) results.push(known);
      else results.push(...(await commitBatch(context, [unit])));
    }
    return results;
  }
}

async function commitTogether(
  { window, appliedAt, signal }: CommitContext,
  batch: readonly PreparedUnit[],
): Promise<readonly UnitResult[]> {
  // Asked each time: a batch that was interrupted is not to be repeated one by one.
  if (signal?.aborted) throw new InterruptedError('The commit was interrupted.');
  return await window.transaction(async (engine) => {
    const current = await readCurrent(
      engine,
      batch.map(({ unit }) => unit),
    );
    const entries: BookEntry[] = [];
    const results: UnitResult[] = [];
    for (const each of batch) {
      const ofDataset = present(current.get(each.unit.datasetId), 'every dataset of the batch was read');
      const deed = await each.carryOut(engine, ofDataset, appliedAt);
      if (deed !== null) entries.push(deed.entry);
      results.push(resultOf(deed, ofDataset));
    }
    for (const statement of writeEntries(entries)) await engine.run(statement);
    return results;
  });
}

/** Null: overtaken. */
function resultOf(deed: Deed | null, { live }: Current): UnitResult {
  if (deed === null) return { kind: 'overtaken' };
  const { done, entry } = deed;
  if (done.kind === 'retired') return done;
  assert(entry.kind === 'live', 'what is committed is live');
  return { kind: 'committed', committed: committedFrom(done, heldAfter(entry, live)) };
}

/** After a COMMIT that was refused: which of the units the mirror holds nevertheless, as its books tell. By dataset id. */
async function findCommitted(
  { window, appliedAt }: CommitContext,
  batch: readonly PreparedUnit[],
): Promise<ReadonlyMap<string, UnitResult>> {
  return await window.transaction(async (engine) => {
    const found = await findDone(engine, batch, appliedAt);
    const held = await readHeldDatasets(engine, [...found.keys()]);
    const results = [...found].map(([datasetId, done]): [string, UnitResult] => {
      if (done.kind === 'retired') return [datasetId, done];
      const table = present(held.get(datasetId), 'a table that was committed is live');
      return [datasetId, { kind: 'committed', committed: committedFrom(done, table) }];
    });
    return new Map(results);
  });
}

function committedFrom(
  { fromVersion, net }: Extract<Done, { kind: 'committed' }>,
  held: HeldDataset,
): Committed {
  const { tableName, version, rowCount } = held;
  return { tableName, fromVersion, toVersion: version, rowCount, net, held };
}

function causeOf(error: unknown): unknown {
  return error instanceof OutcomeUnknownError ? error.cause : error;
}

/** The most units of one transaction. */
export const MAX_BATCH_UNITS = 100;
/** The most rows of one transaction that holds more than one unit. */
const MAX_BATCH_ROWS = 500_000;
/** The most bytes of files of one transaction that holds more than one unit. */
const MAX_BATCH_BYTES = 64_000_000;

interface Sized {
  readonly rowCount: number;
  readonly bytes: number;
}

/** The units in their order, cut into runs that keep the limits. A unit above them is alone. */
export function batches<T extends Sized>(
  units: readonly T[],
  datasetIdOf: (unit: T) => string,
): readonly (readonly T[])[] {
  const result: T[][] = [];
  const datasetIds = new Set<string>();
  let rows = 0;
  let bytes = 0;
  for (const unit of units) {
    const current = result.at(-1);
    const datasetId = datasetIdOf(unit);
    rows += unit.rowCount;
    bytes += unit.bytes;
    if (
      current !== undefined &&
      current.length < MAX_BATCH_UNITS &&
      !datasetIds.has(datasetId) &&
      rows <= MAX_BATCH_ROWS &&
      bytes <= MAX_BATCH_BYTES
    ) {
      current.push(unit);
    } else {
      result.push([unit]);
      datasetIds.clear();
      rows = unit.rowCount;
      bytes = unit.bytes;
    }
    datasetIds.add(datasetId);
  }
  return result;
}

/** By dataset id. What is not in it was not done. */
async function findDone(
  engine: Engine,
  batch: readonly PreparedUnit[],
  appliedAt: Date,
): Promise<ReadonlyMap<string, Done>> {
  const rows = await engine.rows(selectLines(batch, appliedAt));
  const done = new Map<string, Done>();
  for (const { unit } of batch) {
    const line = rows.find(
      (row) =>
        textAt(row, 0) === unit.datasetId &&
        textAt(row, 1) === HISTORY_KINDS[unit.kind] &&
        numberAt(row, 2) === versionAfter(unit),
    );
    if (line !== undefined) done.set(unit.datasetId, doneFrom(unit.kind, line));
  }
  return done;
}

/** The lines of this moment, each with where the table of a retired dataset is and whether that is its own. */
function selectLines(batch: readonly PreparedUnit[], appliedAt: Date): string {
  const ids = batch.map(({ unit }) => text(unit.datasetId)).join(', ');
  return `SELECT h.dataset_id, h.kind, h.to_version, h.from_version, h.added, h.changed, h.removed,
      a.table_name, coalesce(a.table_name = n.table_name, FALSE)
    FROM ${book('history')} h
    LEFT JOIN ${book('archived')} a ON a.dataset_id = h.dataset_id AND a.archived_at = h.applied_at
    LEFT JOIN ${book('names')} n ON n.dataset_id = h.dataset_id
    WHERE h.applied_at = ${moment(appliedAt)} AND h.dataset_id IN (${ids})`;
}

function versionAfter(unit: Unit): number {
  return unit.kind === 'retirement' ? unit.plannedFrom.version : unit.version;
}

function doneFrom(kind: Unit['kind'], row: Row): Done {
  if (kind === 'retirement') {
    return { kind: 'retired', table: placeOf(textOrNullAt(row, 7), booleanAt(row, 8)) };
  }
  const counts = {
    added: numberOrNullAt(row, 4),
    changed: numberOrNullAt(row, 5),
    removed: numberOrNullAt(row, 6),
  };
  const { added, changed, removed } = counts;
  const isCounted = added !== null && changed !== null && removed !== null;
  const net = isCounted ? { added, changed, removed } : null;
  return { kind: 'committed', fromVersion: numberOrNullAt(row, 3), net };
}
