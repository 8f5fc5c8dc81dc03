/** What is written down of the work on datasets: the same lines for a catch-up and for the daemon. */

import type { Log } from '../lib/log.ts';
import type { Commit, Waiting } from './result.ts';
import { waysToEnd } from './retirement-waits.ts';

export function logStep(log: Log, dataset: string, step: string): void {
  log.debug({ dataset, step }, 'Working.');
}

export function logCommit(log: Log, dataset: string, commit: Commit): void {
  const { kind, fromVersion, toVersion: version, rowCount: rows, versions, net, bytes } = commit;
  const durationMs = Math.round(commit.durationMs);
  if (kind === 'snapshot') {
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

/** `table`: where the rows are now; null where they are gone. */
export function logRetirement(log: Log, dataset: string, table: string | null): void {
  log.info({ dataset, ...(table === null ? {} : { table }) }, 'Retired: no subscription holds it any more.');
}
