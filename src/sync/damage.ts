/**
 * Damage: the damaged tables are found and marked to be loaded again, and the next catch-up loads exactly these.
 * Tables that the service does not have are closed: a damaged undo log begins anew, a damaged table of the past is kept under another name.
 * A damaged table is not a wrong one: nothing that cannot be read whole is ever called equal.
 */

import { type DamagedTable, isOfPast, type ObservedState } from '../destination/destination.ts';
import type { Log } from '../lib/log.ts';
import { errorCodeOf, StorageError } from '../model/errors.ts';
import { isPinned, type ObservedTable } from '../model/write-jobs.ts';
import { endCandidate } from './candidates.ts';
import type { Parts } from './parts.ts';
import { owesResync } from './plan/need.ts';
import type { CatchUpResult } from './result.ts';

/** Adds an incident that names once which parts of the past were lost. */
export function withLost(result: CatchUpResult, lost: readonly string[]): CatchUpResult {
  if (lost.length === 0) return result;
  const error = new StorageError(
    `Damaged, and the service does not have it: ${lost.join(', ')}. It was closed; everything else goes on.`,
    {
      code: 'mirror_damaged',
      hint: 'Check the disk. Earlier states of these tables are not known any more, unless a backup has them.',
    },
  );
  return { ...result, incidents: [...result.incidents, { subscriptionId: null, error }] };
}

export function isDamage(error: unknown): boolean {
  return errorCodeOf(error) === 'mirror_damaged';
}

export interface MarkedDamage {
  /** Another catch-up can mend something, or goes on without what was closed. */
  readonly isMendable: boolean;
  /** The undo logs, frozen and archived tables that were closed, with their schema. */
  readonly lost: readonly string[];
}

/** Marks the damaged tables to be loaded again, and closes those of the past. Never throws. */
export async function markDamaged(parts: Parts): Promise<MarkedDamage> {
  const { destination, checkpoint, log } = parts;
  try {
    const damaged = await destination.findDamage();
    if (damaged === null) return { isMendable: true, lost: [] };
    // The logs go first: the load that follows could neither continue them nor close them.
    const lost = await closePast(damaged, parts);
    const datasetIds = damaged.flatMap(({ datasetId, isPinned }) => (isPinned ? [] : (datasetId ?? [])));
    const marked = checkpoint.requestResync(datasetIds);
    await endChangesThatWait(marked, 'its table is damaged', parts);
    for (const table of damaged) {
      report(table, marked, log);
      const text = 'a part of it cannot be read';
      parts.onOccurrence?.({ kind: 'damaged', subject: `table ${table.tableName}`, text });
    }
    return { isMendable: marked.length > 0 || lost.length > 0, lost };
  } catch (error) {
    log.error({ why: String(error) }, 'The damaged tables could not be found or marked.');
    return { isMendable: false, lost: [] };
  }
}

/** Returns the names of the tables that were closed. */
async function closePast(
  damaged: readonly DamagedTable[],
  { destination }: Parts,
): Promise<readonly string[]> {
  // The rest of a log that was closed before is of no dataset.
  const past = damaged.filter(({ pastOf, tableName }) => pastOf !== null || isOfPast(tableName));
  if (past.length === 0) return [];
  await destination.renewChecksums({
    datasetIds: [...new Set(past.flatMap(({ pastOf }) => pastOf ?? []))],
    unreadable: damaged.map(({ tableName }) => tableName),
  });
  return past.map(({ tableName }) => tableName);
}

/** Changes that wait for approval cannot be applied to rows that cannot be read. `why` is a clause. */
async function endChangesThatWait(datasetIds: readonly string[], why: string, parts: Parts): Promise<void> {
  const marked = new Set(datasetIds);
  for (const candidate of parts.checkpoint.candidates()) {
    const { datasetId, content } = candidate;
    if (marked.has(datasetId) && content.kind === 'changes') await endCandidate(candidate, why, parts);
  }
}

function report(
  { tableName: table, datasetId, isPinned, why }: DamagedTable,
  marked: readonly string[],
  log: Log,
): void {
  if (datasetId !== null && marked.includes(datasetId)) {
    log.error({ dataset: datasetId, table, why }, 'A table is damaged: it is loaded again.');
  } else if (isPinned) {
    log.error({ dataset: datasetId, table, why }, 'A table is damaged, and a rollback keeps it as it is.');
  } else {
    log.error({ table, why }, 'A table is damaged, and the service does not have it.');
  }
}

/** What was reported of a dropped table. */
export interface ReportedMissing {
  /** The newest commit of the table: after another one it was there again, and was dropped again. */
  readonly commitNumber: number | null;
  /** A pin may end, and a subscription may contain the dataset later: until then no reload is requested. */
  readonly isRequested: boolean;
}

/** Requests a reload of each table that somebody dropped, and reports it. `reported`: by dataset id, for which that is done. */
export async function reloadMissing(
  { missing = [], datasets }: ObservedState,
  reported: Map<string, ReportedMissing>,
  parts: Parts,
): Promise<void> {
  for (const datasetId of reported.keys()) if (!missing.includes(datasetId)) reported.delete(datasetId);
  for (const table of missing.flatMap((datasetId) => datasets.get(datasetId) ?? [])) {
    const { datasetId, commitNumber } = table;
    const before = reported.get(datasetId);
    const isKnown = before?.commitNumber === commitNumber;
    if (isKnown && before?.isRequested === true) continue;
    const isRequested = !isPinned(table) && requestReload(table, parts);
    reported.set(datasetId, { commitNumber, isRequested });
    if (isRequested || !isKnown) reportMissing(table, isRequested, parts.log);
    if (isRequested) await endChangesThatWait([datasetId], 'its table was dropped', parts);
  }
}

/** Returns false where no subscription contains the dataset. A reload that is owed already is not requested again. */
function requestReload(table: ObservedTable, { checkpoint }: Parts): boolean {
  const desired = checkpoint.desired(table.datasetId);
  if (desired !== null && owesResync(table, desired)) return true;
  return checkpoint.requestResync([table.datasetId]).length > 0;
}

function reportMissing(
  { datasetId: dataset, tableName: table }: ObservedTable,
  isRequested: boolean,
  log: Log,
): void {
  if (isRequested) log.error({ dataset, table }, 'A table was dropped: its reload is requested.');
  else log.error({ dataset, table }, 'A table was dropped, and nothing loads it again.');
}

/** Ends the warning about damaged tables of the past. */
export const ENDS_KEEPING =
  'Take their rows from a backup of the mirror where they are needed; drop them, in SQL, where they are not.';

/**
 * Warns of damaged tables of the past. The incident that closes a table reports the table once, with an exit code. The table stays damaged,
 * so every start warns again: nobody may have read the incident.
 */
export function warnOfDamagedPast({ keptDamaged = [] }: ObservedState, log: Log): void {
  if (keptDamaged.length === 0) return;
  log.warn(
    { tables: keptDamaged, hint: ENDS_KEEPING },
    'Damaged tables of the past are kept as they were found: the service does not have them.',
  );
}
