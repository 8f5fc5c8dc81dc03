/** Decides what a commit does to the undo log of a model table: begin it, continue it, close it, or freeze it. Pure. */

import { isDeepStrictEqual } from 'node:util';
import type { WriteJob } from '../../../src/model/write-jobs.ts';
import { namedRows, type Table } from './mirror-state.ts';
import { checksumOf, closed, type LeftState, logged, NO_PAST, type Past, type UndoLog } from './undo-log.ts';

export interface PastCommitted {
  readonly kind: WriteJob['kind'];
  readonly commitNumber: number;
  readonly before: Table | null;
  readonly after: Table;
  readonly keepsHistory: boolean;
}

export function pastAfter(past: Past | undefined, commit: PastCommitted): Past {
  const { commitNumber, before, after, keepsHistory } = commit;
  const isLogged = keepsHistory && after.observed.keyColumns.length > 0;
  const known = past ?? NO_PAST;
  const changed =
    before !== null && keepsColumns(commit, before)
      ? { ...known, log: logAfter(known.log, commit, before, isLogged) }
      : begun(known, commit, isLogged);
  const left = new Map(known.left).set(commitNumber, leftBy(after, isLogged));
  const earlier = before === null ? undefined : left.get(before.observed.commitNumber ?? 0);
  // A log that begins now records the commit before it, too.
  if (isLogged && before !== null && earlier !== undefined && known.log === null && changed.log !== null)
    left.set(before.observed.commitNumber ?? 0, { ...earlier, isRecorded: true });
  return { ...changed, left };
}

function leftBy(table: Table, isRecorded: boolean): LeftState {
  const { names } = namedRows(table);
  return { names, rows: table.committed, observed: table.observed, checksum: table.checksum, isRecorded };
}

/** A rollback to other columns, more or fewer, writes another table; a snapshot may add columns. */
function keepsColumns({ kind, after }: PastCommitted, before: Table): boolean {
  const [was, is] = [before.observed, after.observed];
  if (!isDeepStrictEqual(was.keyColumns, is.keyColumns)) return false;
  if (kind === 'rollback') {
    const shape = (table: Table) => table.observed.columns.map(({ name, type, role }) => [name, type, role]);
    return !before.isDamaged && isDeepStrictEqual(shape(before), shape(after));
  }
  return was.columns.every(({ name, type }) =>
    is.columns.some((column) => column.name === name && column.type === type),
  );
}

function logAfter(
  log: UndoLog | null,
  { kind, commitNumber, before: _, after }: PastCommitted,
  before: Table,
  isLogged: boolean,
): UndoLog | null {
  if (!isLogged || before.isDamaged) return log === null ? null : closed(log, commitNumber);
  const isAsCommitted = checksumOf(before.rows.values()) === before.checksum;
  if (kind === 'repair' && !isAsCommitted) {
    const leadsBack = after.checksum === before.checksum;
    return log === null || leadsBack ? log : closed(log, commitNumber);
  }
  const rows = { before: namedRows(before), after: namedRows(after) };
  const continued = logged(log, {
    commitNumber,
    ...rows,
    plannedFrom: before.observed.commitNumber ?? commitNumber,
  });
  // A commit of changes does not read the rows that it leaves alone; where it adds columns, it refuses altered rows.
  return kind !== 'changes' && !isAsCommitted ? closed(continued, commitNumber) : continued;
}

/** Another table takes the place of the one before, which is frozen with its log. */
function begun(past: Past, { commitNumber, before }: PastCommitted, isLogged: boolean): Past {
  const log = isLogged ? { firstCommit: commitNumber, entries: [] } : null;
  return { ...(before === null ? past : frozenBy(past, before, commitNumber)), log };
}

/** The table ends with this commit, by other columns or by its retirement. What cannot be read cannot be copied. */
export function frozenBy(past: Past, before: Table, commitNumber: number): Past {
  const { log, frozen } = past;
  if (log === null || before.isDamaged) return { ...past, log: null };
  const isAltered = checksumOf(before.rows.values()) !== before.checksum;
  const last = { ...log, frozenCommit: commitNumber, newest: namedRows(before), isAltered };
  return { ...past, log: null, frozen: [...frozen, last] };
}
