/**
 * Judges a commit inside its transaction, once its difference is known: counts what the limits concern, and reads what an operator
 * is shown of a commit that waits.
 */

import { createHash } from 'node:crypto';
import {
  type Gate,
  hasLimits,
  type JudgedCommit,
  judge,
  type KeyTexts,
  MAX_SHOWN_KEYS,
  type RowCounts,
  rowCountsOf,
  type ShownKeys,
} from '../../model/gate.ts';
import type { Counts } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { netColumn, PRESENT } from '../../staging/changes/net-change.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { bigintOrNullAt, numberAt, textAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { NetRows, TouchedRows } from './write-net-change.ts';

/** The commit waits: its transaction must be rolled back. */
export interface Awaiting {
  readonly kind: 'awaiting';
  readonly judged: JudgedCommit;
}

interface Judging {
  /** Undefined: the job is not judged. */
  readonly gate: Gate | undefined;
  readonly counts: RowCounts;
  /** Identifies the content. */
  readonly digest: () => Promise<string> | string;
  readonly keys: () => Promise<ShownKeys>;
}

/** Returns null where the commit may go on. An approval holds for exactly the approved content. */
export async function judgeCommit({ gate, counts, digest, keys }: Judging): Promise<Awaiting | null> {
  if (gate === undefined || judge(counts, gate.limits).kind !== 'awaiting') return null;
  const found = await digest();
  if (found === gate.approvedDigest) return null;
  return { kind: 'awaiting', judged: { digest: found, counts, keys: await keys() } };
}

/** Whether a commit of the job can wait: then the rows that it touches are read. */
export function mayWait(gate: Gate | undefined): boolean {
  return gate !== undefined && hasLimits(gate.limits);
}

interface JudgingNet extends Pick<Judging, 'gate' | 'digest'> {
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
): Promise<Awaiting | null> {
  if (gate === undefined) return null;
  const known = new Set(live.columns.map(({ columnName }) => columnName));
  const addsColumns = columns.some(({ columnName }) => !known.has(columnName));
  const isCounted = addsColumns && gate.limits.changedRows !== null;
  const [row = []] = isCounted ? await engine.rows(rows.countChangedIn(known)) : [];
  const changed = isCounted ? numberAt(row, 0) : net.changed;
  const counts = rowCountsOf(rowsBefore, rowsBefore + net.added - net.removed, { ...net, changed });
  return judgeCommit({ gate, counts, digest, keys: () => readShownKeys(engine, rows.selectKeys(known)) });
}

/** The most characters of a key's column that an operator is shown. */
const MAX_KEY_CHARACTERS = 80;

/** Selects the lowest keys of some rows as texts; `keys` are SQL values, `from` is everything after FROM. */
export function selectLowestKeys(keys: readonly string[], from: string): string {
  const shown = keys.map((key) => `left(${key}::VARCHAR, ${MAX_KEY_CHARACTERS})`);
  return `SELECT ${shown.join(', ')} FROM ${from} ORDER BY ${keys.join(', ')} LIMIT ${MAX_SHOWN_KEYS}`;
}

/** The statements are those of `selectLowestKeys`. */
export async function readShownKeys(
  engine: Engine,
  statements: Readonly<Record<keyof ShownKeys, string | null>>,
): Promise<ShownKeys> {
  const read = async (statement: string | null): Promise<readonly KeyTexts[]> => {
    const rows = statement === null ? [] : await engine.rows(statement);
    return rows.map((row) => row.map((_, index) => textAt(row, index)));
  };
  return {
    added: await read(statements.added),
    changed: await read(statements.changed),
    removed: await read(statements.removed),
  };
}

/**
 * Identifies the content of a net change, whatever the order of its rows and the pages that they came in. Of a removed row the key
 * alone counts: nothing else of it has an effect.
 */
export async function digestOfNetChange(
  engine: Engine,
  net: NetRows,
  columns: readonly PlannedColumn[],
): Promise<string> {
  const parts = columns.map(({ type, role }, position) => {
    const column = netColumn(position);
    const written = type === 'geometry' ? `hex(ST_AsWKB(${column}))` : `${column}::VARCHAR`;
    // Each value is hashed by itself, because no character can part texts that may hold any.
    const value = `coalesce(md5(${written}), '-')`;
    return role === 'key' ? value : `CASE WHEN ${PRESENT} THEN ${value} END`;
  });
  const hashed = `concat_ws(',', ${[PRESENT, ...parts].join(', ')})`;
  const [row = []] =
    await engine.rows(`SELECT count(*), sum(md5_number_lower(h)::HUGEINT), sum(md5_number_upper(h)::HUGEINT)
    FROM (SELECT ${hashed} AS h FROM ${net.from})`);
  const sums = [1, 2].map((index) => String(bigintOrNullAt(row, index) ?? 0n));
  const described = columns.map(({ column, type, role }) => [column.name, type, role]);
  return createHash('sha256')
    .update(JSON.stringify([described, numberAt(row, 0), sums]))
    .digest('hex');
}
