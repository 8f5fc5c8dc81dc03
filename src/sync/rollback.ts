/** Performs what operators request of the past of a dataset: a rollback, and the end of the pin that it leaves. */

import type { OperatorRequest, RequestAnswer } from '../checkpoint/requests.ts';
import { shellWord } from '../lib/text.ts';
import { plural } from '../lib/units.ts';
import type { CommitResult } from '../model/commits.ts';
import type { Reload } from '../model/desired-state.ts';
import { BusyError, UsageError } from '../model/errors.ts';
import { isPinned, type ObservedTable } from '../model/write-jobs.ts';
import { stopwatch } from './execute/steps.ts';
import { noteRollback } from './execute/sync-runs.ts';
import { noteLostPast } from './occurrences.ts';
import type { Parts } from './parts.ts';
import { OPERATOR } from './plan/need.ts';
import type { Performing } from './request-handler.ts';

/** The parameters of the request `rollback`. */
export interface RollbackParameters {
  readonly commitNumber: number;
  /** The version that the commit left. */
  readonly version: number;
}

/** Performs a rollback. @throws the error that refuses the rollback: nothing is changed then. */
export async function performRollback(
  { datasetId, parameters }: OperatorRequest,
  { parts, known, commit }: Pick<Performing, 'parts' | 'known' | 'commit'>,
): Promise<RequestAnswer> {
  const { commitNumber: toCommit, version } = decoded(parameters);
  const plannedFrom = known?.observed ?? null;
  if (known === null || plannedFrom === null || known.desired.members.size === 0) {
    throw new UsageError(`${datasetId} has no table that versions are committed to.`, {
      hint: 'feed-sync status lists the datasets.',
    });
  }
  // Before the commit: a process that is killed between the two stores still knows what an older table owes.
  parts.checkpoint.oweAgain(datasetId, satisfiedReloads(plannedFrom, parts));
  const fetched = { bytes: 0, elapsedMs: stopwatch(parts.clock) };
  const result = await commit({ kind: 'rollback', datasetId, toCommit, version, fetched, plannedFrom });
  if (result.kind === 'failed') throw result.error;
  if (result.kind !== 'committed') {
    throw new BusyError(`The table of ${datasetId} changed meanwhile. Nothing was rolled back.`, {
      hint: 'Check its current state, and try again.',
    });
  }
  parts.progress.committed(datasetId, result.committed);
  noteRollback(datasetId, result.committed, parts);
  noteLostPast(result.committed, parts);
  return { kind: 'done', text: sentenceOf(datasetId, toCommit, result.committed) };
}

function sentenceOf(datasetId: string, toCommit: number, { toVersion, rowCount }: CommitResult): string {
  return (
    `Rolled back: ${datasetId} is as commit ${toCommit} left it, at version ${toVersion} with ${plural(rowCount, 'row')}. ` +
    `It stays there until "feed-sync resume --dataset ${shellWord(datasetId)}".`
  );
}

/** @throws UsageError */
function decoded(parameters: unknown): RollbackParameters {
  const { commitNumber, version } = (parameters ?? {}) as Partial<Record<keyof RollbackParameters, unknown>>;
  if (typeof commitNumber === 'number' && typeof version === 'number') return { commitNumber, version };
  throw new UsageError('The request does not say which state to roll back to.');
}

/** Returns the reloads that the table satisfies now. A number of an earlier log is void: no manifest would ever cover it. */
function satisfiedReloads({ reloads }: ObservedTable, { checkpoint, clock }: Parts): readonly Reload[] {
  const followed = checkpoint.followed();
  const readAt = clock.now();
  return [...reloads]
    .filter(([subscriptionId]) => subscriptionId !== OPERATOR)
    .filter(([id, { logNumber }]) => (followed.get(id)?.logNumber ?? logNumber) === logNumber)
    .map(([subscriptionId, { logNumber, eventNumber, createdAt }]) => ({
      subscriptionId,
      logNumber,
      eventNumber,
      createdAt: createdAt ?? new Date(0),
      readAt,
      knownVersion: null,
      listedVersion: null,
      isWithdrawal: false,
    }));
}

/**
 * Ends the pin of a dataset, which another request may have ended before. The pin is in the destination: a lost checkpoint, or a
 * dataset that is not chosen any more, must not hide it.
 */
export async function performUnpin(
  { datasetId }: OperatorRequest,
  { parts }: Pick<Performing, 'parts'>,
): Promise<RequestAnswer> {
  const { datasets, missing = [] } = await parts.destination.has();
  const table = datasets.get(datasetId) ?? null;
  if (table === null || !isPinned(table)) return { kind: 'done', text: `${datasetId} is not pinned.` };
  await parts.destination.unpin(datasetId);
  parts.log.info({ dataset: datasetId, version: table.version }, 'The pin was lifted.');
  // The pin was all that kept a dropped table from being loaded again.
  if (missing.includes(datasetId)) parts.checkpoint.requestResync([datasetId]);
  return { kind: 'done', text: `Lifted the pin of ${datasetId}, which is at version ${table.version}.` };
}
