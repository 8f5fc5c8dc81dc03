/** What a catch-up writes down while it works, where nobody watches it: a line for each commit and each ending. */

import type { Hold } from '../checkpoint/checkpoint.ts';
import type { Log } from '../lib/log.ts';
import type { Progress } from '../sync/progress.ts';
import { logCommit, logRetirement, logStep, logWaiting } from '../sync/progress-log.ts';
import type { DatasetResult } from '../sync/result.ts';

export function progressLog(log: Log): Progress {
  return {
    read() {},
    started(datasets) {
      log.info({ datasets }, 'Catching up.');
    },
    began(dataset, step) {
      logStep(log, dataset, step);
    },
    downloaded() {},
    arrived() {},
    committed(dataset, commit) {
      logCommit(log, dataset, commit);
    },
    settled(result) {
      logResult(log, result);
    },
  };
}

/** What was committed is told as it is committed. */
function logResult(log: Log, result: DatasetResult): void {
  const { datasetId: dataset } = result;
  switch (result.kind) {
    case 'updated':
      return;
    case 'current':
      log.debug({ dataset }, 'Nothing to do.');
      return;
    case 'retired':
      logRetirement(log, dataset, result.table);
      return;
    case 'waiting':
      logWaiting(log, dataset, result);
      return;
    case 'held':
      logHold(log, dataset, result.hold);
      return;
    case 'failed':
      log.error({ dataset, error: result.error.name, why: result.error.message }, 'Failed.');
      return;
  }
}

function logHold(log: Log, dataset: string, { refusal: { code } }: Hold): void {
  log.warn({ dataset, ...(code === null ? {} : { code }) }, 'Held: a person has to act.');
}
