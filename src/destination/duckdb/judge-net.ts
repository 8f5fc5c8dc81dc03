/** Judges a net change that was written, and selects the keys that an operator is shown. */

import { type Gate, MAX_SHOWN_KEYS, rowCountsOf } from '../../model/gate.ts';
import type { Counts } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { numberAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type Judgement, judgeCommit, MAX_KEY_CHARACTERS, readShownKeys } from '../judge-commit.ts';
import type { TouchedRows } from './write-net-change.ts';

interface JudgingNet {
  /** Undefined: the job is not judged. */
  readonly gate: Gate | undefined;
  /** Identifies the content. */
  readonly digest: () => Promise<string> | string;
  /** The table before. */
  readonly live: ObservedTable;
  readonly rowsBefore: number;
  /** The columns of the table afterwards. */
  readonly columns: readonly PlannedColumn[];
}

/** Judges a net change that was written, while the touched rows are there as they were. Only columns that the table had count. */
export async function judgeNet(
  engine: Engine,
  { gate, digest, live, rowsBefore, columns }: JudgingNet,
  net: Counts,
  rows: TouchedRows,
): Promise<Judgement> {
  if (gate === undefined) return null;
  const known = new Set(live.columns.map(({ columnName }) => columnName));
  const addsColumns = columns.some(({ columnName }) => !known.has(columnName));
  const isCounted = addsColumns && gate.limits.changedRows !== null;
  const [row = []] = isCounted ? await engine.rows(rows.countChangedIn(known)) : [];
  const changed = isCounted ? numberAt(row, 0) : net.changed;
  const counts = rowCountsOf(rowsBefore, rowsBefore + net.added - net.removed, { ...net, changed });
  const keys = () => readShownKeys((statement) => engine.rows(statement), rows.selectKeys(known));
  return judgeCommit({ gate, counts, digest, keys });
}

/** Selects the lowest keys of some rows as texts; `keys` are SQL values, `from` is everything after FROM. */
export function selectLowestKeys(keys: readonly string[], from: string): string {
  const shown = keys.map((key) => `left(${key}::VARCHAR, ${MAX_KEY_CHARACTERS})`);
  return `SELECT ${shown.join(', ')} FROM ${from} ORDER BY ${keys.join(', ')} LIMIT ${MAX_SHOWN_KEYS}`;
}
