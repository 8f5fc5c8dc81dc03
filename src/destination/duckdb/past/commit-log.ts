/** Decides what a commit does to the undo log of its table: begin it, continue it, close it, or freeze it. Pure. */

import { ALTERED, SWITCHED_OFF } from '../../../model/lost-past.ts';
import type { ObservedTable } from '../../../model/write-jobs.ts';
import { identifier } from '../../../staging/engine/sql.ts';
import type { Checksum } from '../../catalog/cells.ts';
import { type CommittedVersion, freeName, frozenNames, type LoggedTable } from '../../catalog/undo-logs.ts';
import { completeCommit } from '../catalog/recorded-state.ts';
import type { TableAfter } from '../table-after.ts';
import type { Current } from '../tables.ts';
import type { Turn } from '../validate.ts';
import type { LoggedRows } from '../write-net-change.ts';
import {
  addToLog,
  asOfMacros,
  beginLog,
  closeLog,
  copyFrozen,
  dropLog,
  freezeLog,
  logCommit,
} from './history.ts';

/** The statements that one commit makes for an undo log. */
export interface CommitLog {
  /** Before the rows are touched. */
  before(after: TableAfter): readonly string[];
  /** While the touched rows are there as they were. */
  entries(rows: LoggedRows): readonly string[];
  /** After the rows are written. `wereAltered`: the rows before were not those that the commit before left. */
  after(after: TableAfter, wereAltered: boolean): readonly string[];
}

/** Returns null where the table has no log and gets none. `live` is the table before; `taken` are the names in schema `history`. */
export function logOfCommit(
  current: Pick<Current, 'logName' | 'checksum' | 'recordedColumns'>,
  live: ObservedTable,
  turn: Turn,
  { version, publishedAt }: CommittedVersion,
  taken: ReadonlySet<string>,
): CommitLog | null {
  const { logName: known } = current;
  if (!turn.keepsHistory || live.keyColumns.length === 0) {
    return known === null ? null : closedBy(known, live, turn);
  }
  const logName = known ?? freeName(live.tableName, taken);
  // The state that the table has is the first that the log can restore, so that the log begins with the commit before this one.
  const first = { commitNumber: live.commitNumber ?? turn.commitNumber, appliedAt: live.appliedAt };
  const commit = { ...turn, version, publishedAt };
  return {
    before: (after) => [
      ...(known === null ? begun(live, logName, first, current) : []),
      ...addToLog(logName, addedBy(after)),
    ],
    entries: (rows) => logCommit(logName, commit, rows),
    after: (after, wereAltered) => [
      ...renewedMacros(logName, live, after),
      ...(wereAltered ? closeLog(logName, turn, ALTERED) : []),
    ],
  };
}

/** The commit that the log begins with was made without history. */
function begun(
  live: ObservedTable,
  logName: string,
  first: { readonly commitNumber: number; readonly appliedAt: Date },
  { checksum, recordedColumns }: Pick<Current, 'checksum' | 'recordedColumns'>,
): readonly string[] {
  return [
    ...beginLog(live, logName, first),
    ...completeCommit(live, first.commitNumber, checksum, recordedColumns),
  ];
}

function closedBy(logName: string, live: ObservedTable, turn: Turn): CommitLog {
  return {
    before: (after) => addToLog(logName, addedBy(after)),
    entries: () => [],
    after: (after) => [...renewedMacros(logName, live, after), ...closeLog(logName, turn, SWITCHED_OFF)],
  };
}

/** The functions name every column. */
function renewedMacros(
  logName: string,
  { datasetId, tableName }: ObservedTable,
  { columns, alteration }: TableAfter,
): readonly string[] {
  if (alteration.kind === 'none') return [];
  return asOfMacros({ datasetId, tableName, columns, logName, source: `main.${identifier(tableName)}` });
}

function addedBy({ alteration }: TableAfter) {
  return alteration.kind === 'none' ? [] : [...alteration.added];
}

/** The statements around a swap, which replaces the table by another one without comparing the rows. */
export interface SwapLog {
  readonly before: readonly string[];
  readonly after: readonly string[];
}

interface Swap {
  /** The table before; null where there is none. */
  readonly live: ObservedTable | null;
  /** As the catalog knows it of `live`. */
  readonly checksum: Checksum | null;
  /** The table that takes its place. */
  readonly loaded: LoggedTable;
  /** True when the columns of `loaded` are those of `live`, and perhaps more. */
  readonly isSameTable: boolean;
  /** Why the rows of `live` cannot be compared or copied; null where they can. */
  readonly unreadable: string | null;
  /** The names in schema `history`. */
  readonly taken: ReadonlySet<string>;
}

export function logOfSwap(
  logName: string | null,
  turn: Turn,
  { live, checksum, loaded, isSameTable, unreadable, taken }: Swap,
): SwapLog {
  const isLogged = turn.keepsHistory && loaded.columns.some(({ role }) => role === 'key');
  if (logName === null || live === null) {
    return { before: [], after: isLogged ? beginLog(loaded, freeName(loaded.tableName, taken), turn) : [] };
  }
  if (isSameTable) {
    const known = new Set(live.columns.map(({ columnName }) => columnName));
    const added = loaded.columns.filter(({ columnName }) => !known.has(columnName));
    const macros = asOfMacros({ ...loaded, logName, source: `main.${identifier(loaded.tableName)}` });
    const closed = closeLog(logName, turn, unreadable ?? SWITCHED_OFF);
    return { before: [], after: [...addToLog(logName, added), ...macros, ...closed] };
  }
  // The log that ends leaves its name to the one that begins.
  const begin = isLogged ? beginLog(loaded, logName, turn) : [];
  if (unreadable !== null) {
    const closed = isLogged ? closeLog(logName, turn, unreadable) : [];
    return { before: dropLog(logName), after: [...begin, ...closed] };
  }
  const frozen = frozenNames(live.tableName, turn.commitNumber, taken);
  const freeze = freezeLog(live, logName, turn.commitNumber, frozen, checksum);
  return { before: [copyFrozen(live, frozen), ...freeze], after: begin };
}
