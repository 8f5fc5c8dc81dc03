/** `feed-sync once`: catches up with everything published so far, prints a summary, exits. */

import type { Suspension } from '../../checkpoint/checkpoint.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { errorCodeOf, InterruptedError } from '../../model/errors.ts';
import { catchUp } from '../../sync/catch-up.ts';
import type { Parts } from '../../sync/parts.ts';
import { logCommit, logRetirement, logStep, logWaiting, type Progress } from '../../sync/progress.ts';
import type { CatchUpResult, DatasetResult } from '../../sync/result.ts';
import { type Context, write } from '../context.ts';
import { type ExitCode, mostUrgent } from '../exit-codes.ts';
import { openParts } from '../open-parts.ts';
import { LiveView } from '../render/live-view.ts';
import { WorkSeen } from '../render/meter.ts';
import { logFor, screenFor } from '../render/screen.ts';
import { exitCodeOfResult, summarize } from '../render/summary.ts';
import { serveReaders } from '../serve-readers.ts';

/** Service time comes in whole seconds, so the wait adds more than its error. */
const BEYOND_MS = 1_000;

export interface OnceOptions {
  /** How long to stay where a rule waits for time to pass. */
  readonly waitMs: number;
}

/** @throws FeedSyncError when the command cannot begin. */
export async function once(
  configuration: Configuration,
  context: Context,
  { waitMs }: OnceOptions,
): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const screen = screenFor(configuration, terminal, clock);
  const log = logFor(configuration, terminal, screen);
  const work = new WorkSeen(clock);
  const progress = screen === null ? progressLog(log) : work;
  const opened = await openParts({ configuration, context, log, progress, command: 'once', signal });
  try {
    const look = () => ({ work, summary: null });
    const view = screen === null ? null : new LiveView(screen, terminal, clock, look);
    const staying = { waitMs, clock, signal, log };
    const result = await catchUpStaying(opened.parts, staying).finally(() => view?.end());
    const served = await serveReaders(opened.readers, signal);
    await write(terminal.stdout, `${[summarize(result), ...served.reported].join('\n')}\n`);
    return mostUrgent([exitCodeOfResult(result), ...served.codes]);
  } finally {
    await opened.close();
  }
}

interface Staying extends OnceOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** Repeats the catch-up as often as that helps within the time to stay. Returns the last result. */
async function catchUpStaying(parts: Parts, { waitMs, clock, signal, log }: Staying): Promise<CatchUpResult> {
  const untilMs = clock.monotonicMs() + waitMs;
  for (;;) {
    const result = await catchUp(parts, signal);
    const { again } = result;
    if (again === null || signal.aborted) return result;
    const pauseMs = again.inMs + BEYOND_MS;
    if (clock.monotonicMs() + pauseMs > untilMs) return result;
    log.info({ until: again.at.toISOString() }, 'Staying until another catch-up helps.');
    const isOver = await clock.sleep(pauseMs, signal).then(
      () => true,
      () => false,
    );
    if (!isOver) return interrupted(result, signal);
  }
}

/** Adds the interruption to the result: the stay was in vain. */
function interrupted(result: CatchUpResult, { reason }: AbortSignal): CatchUpResult {
  const error =
    reason instanceof Error ? reason : new InterruptedError('It was interrupted while it stayed.');
  return { ...result, incidents: [...result.incidents, { subscriptionId: null, error }] };
}

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

/** Commits are logged as they happen. */
function logResult(log: Log, result: DatasetResult): void {
  const { datasetId: dataset } = result;
  switch (result.kind) {
    case 'updated':
    case 'planned':
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
    case 'pinned':
      log.info({ dataset, version: result.version }, 'Pinned: it takes no new version.');
      return;
    case 'suspended':
      logSuspension(log, dataset, result.suspension);
      return;
    case 'failed':
      log.error({ dataset, error: errorCodeOf(result.error), why: result.error.message }, 'Failed.');
      return;
  }
}

function logSuspension(log: Log, dataset: string, { refusal: { code } }: Suspension): void {
  log.warn({ dataset, ...(code === null ? {} : { code }) }, 'Suspended: an operator must act.');
}
