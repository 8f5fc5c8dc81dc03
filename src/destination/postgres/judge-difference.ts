/** Judges a commit by its difference, before any row is written. */

import { type Gate, rowCountsOf } from '../../model/gate.ts';
import { type Judgement, judgeCommit, mayWait, readShownKeys } from '../judge-commit.ts';
import type { Transaction } from './connection.ts';
import { type Difference, lowestKeys } from './difference.ts';
import type { Target } from './stage.ts';
import { countRows } from './write-rows.ts';

interface JudgingDifference {
  /** Undefined: nothing is judged. */
  readonly gate: Gate | undefined;
  readonly target: Target;
  readonly difference: Difference;
  /** Identifies the content. */
  readonly digest: () => Promise<string> | string;
}

/** Values of columns that the table lacks are no changes. @throws PostgresError */
export async function judgeDifference(
  transaction: Transaction,
  { gate, target, difference, digest }: JudgingDifference,
): Promise<Judgement> {
  if (!mayWait(gate)) return null;
  const { added, removed, changedBefore: changed } = difference;
  const before = await countRows(transaction, target.tableName);
  const counts = rowCountsOf(before, before + added - removed, { added, changed, removed });
  const keys = () => readShownKeys((statement) => transaction.rows(statement), lowestKeys(target));
  return await judgeCommit({ gate, counts, digest, keys });
}
