/**
 * Commits prepared units inside one window. A batch that fails is undone and repeated one by one, so that one
 * dataset's trouble stays its own.
 */

import { InterruptedError } from '../../model/errors.ts';
import type { Committed } from '../destination.ts';
import { OutcomeUnknownError, WindowLostError, type WriteWindow } from './attach-window.ts';
import { batches } from './batches.ts';
import { loadSnapshot } from './load-snapshot.ts';
import { book } from './mirror-schema.ts';
import type { PreparedSnapshot } from './prepare.ts';
import { moment, text } from './quoting.ts';
import { numberAt, numberOrNullAt, textAt } from './rows.ts';

/** `failed` carries the error as it came; its cause in the data is looked for once the mirror is let go. */
export type UnitResult =
  | { readonly kind: 'committed'; readonly committed: Committed }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'overtaken' };

export interface CommitContext {
  readonly window: WriteWindow;
  readonly appliedAt: Date;
  readonly signal?: AbortSignal;
}

/** The results in the order of the units. Never throws for a unit. */
export async function commitUnits(
  context: CommitContext,
  units: readonly PreparedSnapshot[],
): Promise<readonly UnitResult[]> {
  const results: UnitResult[] = [];
  let lost: Error | null = null;
  for (const batch of batches(units)) {
    try {
      if (lost === null) results.push(...(await commitBatch(context, batch)));
    } catch (error) {
      if (!(error instanceof WindowLostError)) throw error;
      lost = error.cause;
    }
    while (lost !== null && results.length < units.length) results.push({ kind: 'failed', error: lost });
  }
  return results;
}

async function commitBatch(
  context: CommitContext,
  batch: readonly PreparedSnapshot[],
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
  batch: readonly PreparedSnapshot[],
): Promise<readonly UnitResult[]> {
  // Asked each time: a batch that was interrupted is not to be repeated one by one.
  if (signal?.aborted) throw new InterruptedError('The commit was interrupted.');
  return await window.transaction(async (engine) => {
    const results: UnitResult[] = [];
    for (const unit of batch) {
      const committed = await loadSnapshot(engine, unit, appliedAt);
      results.push(committed === null ? { kind: 'overtaken' } : { kind: 'committed', committed });
    }
    return results;
  });
}

/** After a COMMIT that was refused: which of the units the mirror holds nevertheless. By dataset id. */
async function findCommitted(
  { window, appliedAt }: CommitContext,
  batch: readonly PreparedSnapshot[],
): Promise<ReadonlyMap<string, UnitResult>> {
  const ids = batch.map(({ unit }) => text(unit.datasetId)).join(', ');
  const rows = await window.transaction((engine) =>
    engine.rows(`SELECT d.dataset_id, d.table_name, d.version, d.row_count, h.from_version
      FROM ${book('datasets')} d JOIN ${book('history')} h
        ON h.dataset_id = d.dataset_id AND h.to_version = d.version AND h.applied_at = d.applied_at
      WHERE d.applied_at = ${moment(appliedAt)} AND d.dataset_id IN (${ids})`),
  );
  return new Map(
    rows.map((row) => [
      textAt(row, 0),
      {
        kind: 'committed',
        committed: {
          tableName: textAt(row, 1),
          fromVersion: numberOrNullAt(row, 4),
          toVersion: numberAt(row, 2),
          rowCount: numberAt(row, 3),
        },
      },
    ]),
  );
}

function causeOf(error: unknown): unknown {
  return error instanceof OutcomeUnknownError ? error.cause : error;
}
