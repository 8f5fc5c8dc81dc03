/**
 * What is done about damage: the damaged tables are found and marked to be loaded again, and the next catch-up loads exactly these.
 * A damaged table is not a wrong one: nothing that cannot be read whole is ever called equal.
 */

import type { DamagedTable } from '../destination/destination.ts';
import { errorCodeOf } from '../model/errors.ts';
import { endCandidate } from './candidates.ts';
import { catchUp, type IsAsked } from './catch-up.ts';
import { liveExecutor } from './execute/executor.ts';
import type { Parts } from './parts.ts';
import type { CatchUpResult, DatasetResult } from './result.ts';

/** How often in a row a catch-up is repeated because it met damage. */
const MAX_REPEATS = 3;

/** A catch-up that is repeated where it met damage that another one mends. Never throws. */
export async function catchUpMendingDamage(
  parts: Parts,
  signal: AbortSignal,
  isAsked?: IsAsked,
): Promise<CatchUpResult> {
  let result = await catchUp(parts, signal, liveExecutor, isAsked);
  for (let repeats = 0; repeats < MAX_REPEATS && !signal.aborted; repeats += 1) {
    if (!result.incidents.some(({ error }) => isDamage(error))) break;
    if (!(await markDamaged(parts))) break;
    result = together(result, await catchUp(parts, signal, liveExecutor, isAsked));
  }
  return result;
}

export function isDamage(error: unknown): boolean {
  return errorCodeOf(error) === 'mirror_damaged';
}

/** Marks the damaged tables to be loaded again. Resolves to whether a catch-up can mend anything. Never throws. */
export async function markDamaged(parts: Parts): Promise<boolean> {
  const { destination, checkpoint, log } = parts;
  try {
    const damaged = await destination.findDamage();
    if (damaged === null) return true;
    const datasetIds = damaged.flatMap(({ datasetId, isPinned }) => (isPinned ? [] : (datasetId ?? [])));
    const marked = checkpoint.requestResync(datasetIds);
    endChangesThatWait(marked, parts);
    for (const table of damaged) {
      report(table, marked, log);
      const text = 'a part of it cannot be read';
      parts.onOccurrence?.({ kind: 'damaged', subject: `table ${table.tableName}`, text });
    }
    return marked.length > 0;
  } catch (error) {
    log.error({ why: String(error) }, 'The damaged tables could not be found or marked.');
    return false;
  }
}

/** Changes that wait for approval cannot be applied to rows that cannot be read. */
function endChangesThatWait(datasetIds: readonly string[], parts: Parts): void {
  const marked = new Set(datasetIds);
  for (const candidate of parts.checkpoint.candidates()) {
    const { datasetId, content } = candidate;
    if (marked.has(datasetId) && content.kind === 'changes')
      endCandidate(candidate, 'its table is damaged', parts);
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
