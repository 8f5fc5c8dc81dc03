/** The summary of a catch-up as JSON, for programs; `outputs.md` documents every field. Pure. */

import type { CommitResult } from '../../model/commits.ts';
import { errorCodeOf, FeedSyncError } from '../../model/errors.ts';
import { suspensionJson } from '../../reporting/status.ts';
import type { CatchUpResult, DatasetResult } from '../../sync/result.ts';
import type { ExitCode } from '../exit-codes.ts';

export function summaryJson(
  { subscriptions, datasets, incidents, suspensions, again, durationMs }: CatchUpResult,
  exitCode: ExitCode,
) {
  return {
    exitCode,
    durationMs: Math.round(durationMs),
    subscriptions,
    datasets: datasets.map(datasetJson),
    incidents: incidents.map(({ subscriptionId, error }) => ({ subscriptionId, ...errorJson(error) })),
    suspensions: suspensions.map(suspensionJson),
    againAt: again?.at.toISOString() ?? null,
  };
}

function datasetJson(result: DatasetResult) {
  return {
    id: result.datasetId,
    result: result.kind,
    commits: result.commits.map(commitJson),
    why: result.kind === 'waiting' ? result.why : null,
    error: result.kind === 'failed' ? errorJson(result.error) : null,
    retryAt: result.kind === 'failed' ? (result.failure?.retryAt.toISOString() ?? null) : null,
    suspension: result.kind === 'suspended' ? suspensionJson(result.suspension) : null,
  };
}

function commitJson({
  kind,
  fromVersion,
  toVersion,
  versions,
  rowCount,
  net,
  bytes,
  lostPast,
}: CommitResult) {
  return {
    kind,
    fromVersion,
    toVersion,
    versions,
    rows: rowCount,
    added: net?.added ?? null,
    changed: net?.changed ?? null,
    removed: net?.removed ?? null,
    bytes,
    lostPast: lostPast ?? null,
  };
}

function errorJson(error: Error) {
  const hint = error instanceof FeedSyncError ? error.hint : null;
  return { error: errorCodeOf(error), message: error.message, hint };
}
