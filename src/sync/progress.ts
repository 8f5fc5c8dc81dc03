/** The progress that a catch-up reports while it works. Observers only show it; nothing depends on them. */

import type { Log } from '../lib/log.ts';
import type { CommitResult } from '../model/commits.ts';
import type { FeedEvent, UnreadableEvent } from '../model/event.ts';
import type { DatasetResult, Waiting } from './result.ts';
import { waysToEnd } from './retirements.ts';

/** The size of a step, as far as known. */
export interface Extent {
  /** The bytes of a snapshot's files that will be downloaded. Null: unknown, as for changes. */
  readonly bytes: number | null;
  /** The rows of the snapshot, or the rows that the changes list. Null: unknown. */
  readonly rows: number | null;
}

export interface Progress {
  /** Events of a log were read for the first time, and their requests are stored. */
  read(subscriptionId: string, events: readonly (FeedEvent | UnreadableEvent)[]): void;
  /** Notes the start. `datasets`: how many datasets will be reconciled. */
  started(datasets: number): void;
  /** Notes that work on a dataset begins. `step` describes it for the operator: `applying 3 versions`. */
  began(datasetId: string, step: string, extent: Extent): void;
  /** Bytes that arrived for the dataset since the last call. */
  downloaded(bytes: number, datasetId: string): void;
  /** Notes that the downloads of the step are complete: the step is validated, and written when the mirror is free. */
  arrived(datasetId: string): void;
  committed(datasetId: string, commit: CommitResult): void;
  settled(result: DatasetResult): void;
}

export const silentProgress: Progress = {
  read() {},
  started() {},
  began() {},
  downloaded() {},
  arrived() {},
  committed() {},
  settled() {},
};

export function logStep(log: Log, dataset: string, step: string): void {
  log.debug({ dataset, step }, 'Working.');
}

export function logCommit(log: Log, dataset: string, commit: CommitResult): void {
  const { kind, fromVersion, toVersion: version, rowCount: rows, versions, net, bytes } = commit;
  const durationMs = Math.round(commit.durationMs);
  if (kind === 'rollback') {
    log.info({ dataset, fromVersion, version, ...net, rows, durationMs }, 'Rolled back, and pinned.');
  } else if (kind === 'snapshot') {
    log.info({ dataset, version, rows, bytes, durationMs }, 'Loaded a snapshot.');
  } else {
    log.info(
      { dataset, fromVersion, version, versions, ...net, rows, bytes, durationMs },
      'Applied changes.',
    );
  }
}

/** Names the subscriptions that the retirement of a table waits for, and what an operator can do about them. */
export function logWaiting(log: Log, dataset: string, { why, awaited }: Waiting): void {
  const subscriptions = awaited.map(({ subscriptionId }) => subscriptionId);
  const hints = waysToEnd(awaited);
  log.info(
    {
      dataset,
      why,
      ...(subscriptions.length === 0 ? {} : { subscriptions }),
      ...(hints.length === 0 ? {} : { hints }),
    },
    'Waiting.',
  );
}

/** Logs the retirement of a table. `table`: where the rows are now; null where they are gone. */
export function logRetirement(log: Log, dataset: string, table: string | null): void {
  log.info(
    { dataset, ...(table === null ? {} : { table }) },
    'Retired: no subscription contains it any more.',
  );
}
