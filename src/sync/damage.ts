/**
 * Mends damage: the damaged tables are found and marked to be loaded again, and the next catch-up loads exactly these.
 * Tables that the service does not have are closed: a damaged undo log begins anew, a damaged table of the past is kept under another name.
 * A damaged table is not a wrong one: nothing that cannot be read whole is ever called equal.
 */

import type { DamagedTable } from '../destination/destination.ts';
import { errorCodeOf, StorageError } from '../model/errors.ts';
import { endCandidate } from './candidates.ts';
import { catchUp, type IsAsked } from './catch-up.ts';
import { liveExecutor, type MakeExecutor } from './execute/executor.ts';
import type { Parts } from './parts.ts';
import type { CatchUpResult, DatasetResult } from './result.ts';

/** How often in a row a catch-up is repeated because it met damage. */
const MAX_REPEATS = 3;

/** A catch-up that is repeated where it met damage that another one mends. Never throws. */
export async function catchUpMendingDamage(
  parts: Parts,
  signal: AbortSignal,
  isAsked?: IsAsked,
  makeExecutor: MakeExecutor = liveExecutor,
): Promise<CatchUpResult> {
  let result = await catchUp(parts, signal, makeExecutor, isAsked);
  const lost: string[] = [];
  for (let repeats = 0; repeats < MAX_REPEATS && !signal.aborted; repeats += 1) {
    if (!result.incidents.some(({ error }) => isDamage(error))) break;
    const found = await markDamaged(parts);
    lost.push(...found.lost);
    if (!found.isMendable) break;
    result = together(result, await catchUp(parts, signal, makeExecutor, isAsked));
  }
  return withLost(result, lost);
}

/** Says once, by an incident, which parts of the past were lost. */
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
    await endChangesThatWait(marked, parts);
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
  const past = damaged.filter(({ pastOf }) => pastOf !== null);
  if (past.length === 0) return [];
  await destination.renewChecksums({
    datasetIds: [...new Set(past.flatMap(({ pastOf }) => pastOf ?? []))],
    unreadable: damaged.map(({ tableName }) => tableName),
  });
  return past.map(({ tableName }) => tableName);
}

/** Changes that wait for approval cannot be applied to rows that cannot be read. */
async function endChangesThatWait(datasetIds: readonly string[], parts: Parts): Promise<void> {
  const marked = new Set(datasetIds);
  for (const candidate of parts.checkpoint.candidates()) {
    const { datasetId, content } = candidate;
    if (marked.has(datasetId) && content.kind === 'changes')
      await endCandidate(candidate, 'its table is damaged', parts);
  }
}

function report(
  { tableName: table, datasetId, isPinned, why }: DamagedTable,
  marked: readonly string[],
  log: Parts['log'],
): void {
  if (datasetId !== null && marked.includes(datasetId)) {
    log.error({ dataset: datasetId, table, why }, 'A table is damaged: it is loaded again.');
  } else if (isPinned) {
    log.error({ dataset: datasetId, table, why }, 'A table is damaged, and a rollback keeps it as it is.');
  } else {
    log.error({ table, why }, 'A table is damaged, and the service does not have it.');
  }
}

/** The later of two catch-ups, with the commits of both. */
export function together(earlier: CatchUpResult, later: CatchUpResult): CatchUpResult {
  const before = new Map(earlier.datasets.map((one) => [one.datasetId, one]));
  return {
    ...later,
    datasets: later.datasets.map((one) => withCommits(one, before.get(one.datasetId))),
    durationMs: earlier.durationMs + later.durationMs,
  };
}

function withCommits(later: DatasetResult, earlier: DatasetResult | undefined): DatasetResult {
  if (earlier === undefined || earlier.commits.length === 0) return later;
  const commits = [...earlier.commits, ...later.commits];
  return later.kind === 'current' ? { ...later, kind: 'updated', commits } : { ...later, commits };
}
