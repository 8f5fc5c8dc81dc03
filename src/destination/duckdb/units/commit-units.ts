/**
 * Commits prepared units inside one window. A batch that fails is undone and repeated one by one, so that one
 * dataset's trouble stays its own.
 */

import { assert, present } from '../../../lib/assert.ts';
import { InterruptedError } from '../../../model/errors.ts';
import type { Committed, HeldDataset } from '../../destination.ts';
import { type BookEntry, heldAfter } from '../books/book-entry.ts';
import { writeEntries } from '../books/book-sql.ts';
import { type Current, readCurrent } from '../books/current-table.ts';
import { readHeldDatasets } from '../books/held.ts';
import { OutcomeUnknownError, WindowLostError, type WriteWindow } from '../window/attach-window.ts';
import { batches } from './batches.ts';
import { findDone } from './find-done.ts';
import type { Deed, Done, PreparedUnit } from './prepared.ts';

/** `failed` carries the error as it came; its cause in the data is looked for once the mirror is let go. */
export type UnitResult =
  | { readonly kind: 'committed'; readonly committed: Committed }
  | { readonly kind: 'retired'; readonly table: string | null }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'overtaken' };

export interface CommitContext {
  readonly window: WriteWindow;
  readonly appliedAt: Date;
  readonly signal?: AbortSignal;
}

export interface CommittedUnit {
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
