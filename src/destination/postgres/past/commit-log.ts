/** The effect of a commit on the undo log of its table: the commit begins, continues, closes or freezes the log. */

import { ALTERED, BY_HAND, SWITCHED_OFF } from '../../../model/lost-past.ts';
import type { ObservedTable } from '../../../model/write-jobs.ts';
import type { Checksum } from '../../catalog/cells.ts';
import { type CommittedVersion, freeName, type LoggedColumn } from '../../catalog/undo-logs.ts';
import type { Current } from '../catalog/observed-state.ts';
import { completeCommit } from '../catalog/recorded-state.ts';
import type { Turn } from '../job.ts';
import {
  addToLog,
  beginLog,
  closeLog,
  copyFrozen,
  createLog,
  dropLog,
  freezeLog,
  liveLog,
  logCommit,
  namesInHistory,
  newLogName,
  type PlacedTable,
  placedFrozenNames,
  recordEntries,
  replaceRemains,
} from './history.ts';

/** The statements that one commit makes for an undo log. */
export interface CommitLog {
  /** Whether the difference is written into the log: then it has to keep the rows as they were. */
  readonly keepsRows: boolean;
  /** Before the table is altered or written. */
  readonly before: readonly string[];
  /** After the rows are written and proven. */
  readonly after: readonly string[];
}

export const NO_LOG: CommitLog = { keepsRows: false, before: [], after: [] };

interface Logging {
  readonly current: Pick<
    Current,
    'log' | 'checksum' | 'recordedColumns' | 'schemaName' | 'tableName' | 'isDistributed'
  >;
  /** The table before; null where the dataset has none. */
  readonly live: ObservedTable | null;
  /** The columns afterwards. */
  readonly columns: readonly LoggedColumn[];
  /** Whether rows are compared by the key that both have. */
  readonly isCompared: boolean;
  /** Why the rows of `live` are not those that the commit before left; null where they are. */
  readonly lost: string | null;
  readonly version: CommittedVersion & { readonly datasetId: string };
}

export async function logOfCommit(turn: Turn, logging: Logging): Promise<CommitLog> {
  const { current, live, columns } = logging;
  const { datasetId } = logging.version;
  const isLogged = turn.keepsHistory && columns.some(({ role }) => role === 'key');
  if (current.log === null && !isLogged) return NO_LOG;
  const taken = await namesInHistory(turn.transaction, current);
  const { schemaName, tableName } = current;
  const table = { datasetId, schemaName, tableName, columns };
  if (live !== null && keepsColumns(live, columns))
    return await logOfSame(turn, logging, live, isLogged, taken);
  const { log } = current;
  if (log === null || live === null) {
    const logName = newLogName(current, taken);
    return { ...NO_LOG, after: isLogged ? beginLog(table, logName, turn, turn.postgis) : [] };
  }
  return logOfOther(turn, logging, { live, logName: log.logName, table, isLogged, taken });
}

/** The columns are those of the table, and perhaps more, with the same key. */
function keepsColumns(live: ObservedTable, columns: readonly LoggedColumn[]): boolean {
  const after = new Map(columns.map((column) => [column.columnName, column]));
  const keys = columns.filter(({ role }) => role === 'key').length;
  return (
    live.columns.filter(({ role }) => role === 'key').length === keys &&
    live.columns.every(({ columnName, type, role }) => {
      const other = after.get(columnName);
      return other?.type === type && (other.role === 'key') === (role === 'key');
    })
  );
}

async function logOfSame(
  turn: Turn,
  { current, columns, isCompared, lost, version }: Logging,
  live: ObservedTable,
  isLogged: boolean,
  taken: ReadonlySet<string>,
): Promise<CommitLog> {
  const { postgis } = turn;
  // The state that the table has is the first that the log can restore, so that the log begins with the commit before this one.
  const first = { commitNumber: live.commitNumber ?? turn.commitNumber, appliedAt: live.appliedAt };
  const logName = current.log?.logName ?? newLogName(current, taken);
  const log = liveLog({ ...current, columns }, logName);
  const known = new Set(live.columns.map(({ columnName }) => columnName));
  const begun =
    current.log === null
      ? [...beginLog(live, logName, first, postgis), ...completeCommit(live, first.commitNumber, current)]
      : unusable(current.log, live, first, turn, taken);
  const extended = [...begun, ...addToLog(log, known, postgis)];
  const reason = isLogged ? (lost ?? (isCompared ? null : ALTERED)) : SWITCHED_OFF;
  if (reason !== null) {
    return { ...NO_LOG, after: [...extended, ...closeLog(logName, columns, turn, reason)] };
  }
  return {
    keepsRows: true,
    before: [],
    after: [...extended, ...logCommit(logName, turn, version, columns)],
  };
}

/** A log that was dropped or altered by hand begins anew at the state of its table. The rest of the old log keeps another name. */
function unusable(
  { logName, state }: NonNullable<Current['log']>,
  live: ObservedTable,
  first: Parameters<typeof closeLog>[2],
  { postgis }: Turn,
  taken: ReadonlySet<string>,
): readonly string[] {
  if (state === 'usable') return [];
  return [
    ...replaceRemains(logName, state === 'missing' ? null : freeName(`${logName}_unusable`, taken)),
    ...createLog(liveLog(live, logName), postgis),
    ...closeLog(logName, live.columns, first, BY_HAND),
    recordEntries(logName, live.columns),
  ];
}

interface Other {
  readonly live: ObservedTable;
  readonly logName: string;
  readonly table: PlacedTable;
  readonly isLogged: boolean;
  readonly taken: ReadonlySet<string>;
}

/** The table gets other columns: the log that ends leaves its name to the one that begins. */
function logOfOther(
  turn: Turn,
  { current, lost }: Logging,
  { live, logName, table, isLogged, taken }: Other,
): CommitLog {
  const { postgis, commitNumber } = turn;
  const begin = isLogged ? beginLog(table, logName, turn, postgis) : [];
  const reason = lost ?? (current.log?.state === 'usable' ? null : BY_HAND);
  if (reason !== null) {
    const closed = isLogged ? closeLog(logName, table.columns, turn, reason) : [];
    return { ...NO_LOG, after: [...dropLog(logName), ...begin, ...closed] };
  }
  const frozen = placedFrozenNames(current, commitNumber, taken);
  return {
    ...NO_LOG,
    before: copyFrozen(live, frozen),
    after: [...freezeLog(live, logName, commitNumber, frozen, current.checksum, postgis), ...begin],
  };
}

/** Returns whether the recorded checksum says that rows were altered by hand. */
export function isAltered(recorded: Checksum | null, found: Checksum): boolean {
  return recorded !== null && recorded.version === found.version && recorded.sum !== found.sum;
}
