/**
 * The history of the mirror, read. Lines are only ever appended, so the place of a line is its number; what a line is known
 * by tells whether a position belongs to this history or to that of a mirror that was replaced.
 */

import { assert } from '../../../lib/assert.ts';
import type { HistoryLine, HistoryPosition } from '../../../model/commits.ts';
import type { Engine, Row } from '../../../staging/engine/engine.ts';
import { dateAt, integer, numberAt, numberOrNullAt, textAt } from '../../../staging/engine/sql.ts';
import type { HistoryLimits, HistoryPage } from '../../publication.ts';
import { HISTORY_KINDS } from './entries.ts';
import { catalogTable } from './schema.ts';

const START: HistoryPosition = { lines: 0, last: '' };
export const NO_HISTORY: HistoryPage = { lines: [], position: START, hasMore: false };

const KINDS = Object.values(HISTORY_KINDS);

/** After the newest line. */
export async function readPosition(engine: Engine): Promise<HistoryPosition> {
  const [row] = await engine.rows(`SELECT count(*) FROM ${catalogTable('history')}`);
  const lines = row === undefined ? 0 : numberAt(row, 0);
  return { lines, last: await markOf(engine, lines) };
}

export async function readHistory(
  engine: Engine,
  after: HistoryPosition | null,
  { limit, upTo }: HistoryLimits,
): Promise<HistoryPage> {
  const newest = await readPosition(engine);
  const isOurs = after !== null && (await markOf(engine, after.lines)) === after.last;
  const start = isOurs ? after : START;
  const end = Math.min(newest.lines, upTo ?? newest.lines);
  const count = Math.max(0, Math.min(limit, end - start.lines));
  if (count === 0) return { lines: [], position: start, hasMore: false };
  const rows = await engine.rows(selectLines(start.lines, count));
  const lines = rows.map((row, index) => lineOf(row, start.lines + index + 1));
  const reached = start.lines + lines.length;
  return {
    lines,
    position: { lines: reached, last: await markOf(engine, reached) },
    hasMore: reached < end,
  };
}

/** Empty for no line, and for one that is not there. */
async function markOf(engine: Engine, line: number): Promise<string> {
  if (line === 0) return '';
  const [row] = await engine.rows(selectMark(line));
  return row === undefined ? '' : textAt(row, 0);
}

function selectMark(line: number): string {
  return `SELECT md5(concat_ws(' ', kind, to_version, epoch_us(applied_at), dataset_id)) FROM ${linesFrom(line - 1, 1)}`;
}

/** DuckDB reads rows in the order in which they were put in. To sort them takes ten times as long for a million lines. */
function linesFrom(after: number, count: number): string {
  return `(SELECT rowid AS place, * FROM ${catalogTable('history')} LIMIT ${integer(count)} OFFSET ${integer(after)}) line`;
}

function selectLines(after: number, count: number): string {
  return `SELECT line.dataset_id, names.table_name, line.kind, line.from_version, line.to_version,
      line.added, line.changed, line.removed, datasets.row_count, epoch_ms(line.applied_at)
    FROM ${linesFrom(after, count)}
    LEFT JOIN ${catalogTable('names')} names USING (dataset_id)
    LEFT JOIN ${catalogTable('datasets')} datasets USING (dataset_id)
    ORDER BY line.place`;
}

function lineOf(row: Row, line: number): HistoryLine {
  const kind = KINDS.find((known) => known === row[2]);
  assert(kind !== undefined, `the history holds kinds that are known, not ${row[2]}`);
  const added = numberOrNullAt(row, 5);
  return {
    line,
    datasetId: textAt(row, 0),
    tableName: textAt(row, 1),
    kind,
    fromVersion: numberOrNullAt(row, 3),
    toVersion: numberAt(row, 4),
    net: added === null ? null : { added, changed: numberAt(row, 6), removed: numberAt(row, 7) },
    rowCount: numberOrNullAt(row, 8),
    appliedAt: dateAt(row, 9),
  };
}
