/** `feed-sync once`: catches up with everything published so far, prints a summary, exits. */

import type { Suspension } from '../../checkpoint/checkpoint.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { causeIn } from '../../lib/text.ts';
import { errorCodeOf, InterruptedError, ServiceUnavailableError } from '../../model/errors.ts';
import { currentConditions, type ReportedIncident } from '../../reporting/conditions.ts';
import { catchUpMendingDamage, type IsAsked, together } from '../../sync/catch-up.ts';
import { markDamaged, withLost } from '../../sync/damage.ts';
import type { Parts } from '../../sync/parts.ts';
import { logCommit, logRetirement, logStep, logWaiting, type Progress } from '../../sync/progress.ts';
import type { CatchUpResult, DatasetResult } from '../../sync/result.ts';
import { askedBy, unknownAmong } from '../asked-datasets.ts';
import { type Context, write, writeMessage } from '../context.ts';
import { type ExitCode, mostUrgent } from '../exit-codes.ts';
import { type OpenedParts, openParts } from '../open-parts.ts';
import { jsonText } from '../render/formats.ts';
import { LiveView } from '../render/live-view.ts';
import { WorkSeen } from '../render/meter.ts';
import { logFor, screenFor } from '../render/screen.ts';
import { exitCodeOfResult, summarize } from '../render/summary.ts';
import { summaryJson } from '../render/summary-json.ts';
import { serveReaders } from '../serve-readers.ts';

/** Service time comes in whole seconds, so the wait adds more than its error. */
const BEYOND_MS = 1_000;

export interface OnceOptions {
  /** How long to stay where a rule waits for time to pass. */
  readonly waitMs: number;
  /** Ids and globs of the datasets that are asked for; none: all of them. */
  readonly names: readonly string[];
  readonly json: boolean;
}

/** Catches up once. @throws FeedSyncError when the command cannot begin. */
export async function once(
  configuration: Configuration,
  context: Context,
  { waitMs, names, json }: OnceOptions,
): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const screen = screenFor(configuration, terminal, clock);
  const log = logFor(configuration, terminal, screen);
  const work = new WorkSeen(clock);
  const progress = screen === null ? progressLog(log) : work;
  const opened = await openParts({ configuration, context, log, progress, command: 'once', signal });
  try {
    const readState = () => ({ work, summary: null });
    const view = screen === null ? null : new LiveView(screen, terminal, clock, readState);
    const staying = { waitMs, isAsked: askedBy(names), clock, signal, log };
    const caughtUp = await catchUpStaying(opened.parts, staying).finally(() => view?.end());
    const { result, served } = await servingReaders(withLost(caughtUp, opened.lost), opened, signal);
    await notify(result, opened, signal);
    const unknown = unknownAmong(names, opened.parts, configuration);
    const exitCode = mostUrgent([
      exitCodeOfResult(result),
      ...served.codes,
      ...(unknown ? [unknown.exitCode] : []),
    ]);
    if (json) {
      await write(terminal.stdout, jsonText(summaryJson(result, exitCode)));
      if (served.reported.length > 0) await writeMessage(terminal, `${served.reported.join('\n')}\n`);
    } else {
      await write(terminal.stdout, `${[summarize(result), ...served.reported].join('\n')}\n`);
    }
    if (unknown !== null) await writeMessage(terminal, unknown.text);
    return exitCode;
  } finally {
    await opened.close();
  }
}

/** Damage that only the reading of a new copy has met is mended at once. */
async function servingReaders(caughtUp: CatchUpResult, { parts, readers }: OpenedParts, signal: AbortSignal) {
  const served = await serveReaders(readers, signal);
  if (!served.hasMetDamage) return { result: caughtUp, served };
  const { isMendable, lost } = await markDamaged(parts);
  if (!isMendable) return { result: caughtUp, served };
  const result = together(caughtUp, await catchUpMendingDamage(parts, signal));
  return { result: withLost(result, lost), served: await serveReaders(readers, signal) };
}

/** Notifications change no exit code: what cannot be delivered, or is interrupted, stays due, and the log says so. */
async function notify(
  { datasets, incidents }: CatchUpResult,
  { parts, readers: { notifications } }: OpenedParts,
  signal: AbortSignal,
): Promise<void> {
  if (notifications === null) return;
  const loud = (of: string, error: Error): ReportedIncident => ({
    of,
    error: errorCodeOf(error),
    isLoud: true,
  });
  const met = [
    ...incidents.map(({ subscriptionId: id, error }) =>
      loud(id === null ? 'run' : `subscription ${id}`, error),
    ),
    ...datasets.flatMap((one) => (one.kind === 'failed' ? loud(`dataset ${one.datasetId}`, one.error) : [])),
  ];
  try {
    if (signal.aborted) notifications.keep();
    else await notifications.notify(currentConditions(parts, met), incidents.length === 0);
  } catch (error) {
    parts.log.warn({ error: errorCodeOf(error), why: String(error) }, 'An operator could not be notified.');
  }
}

interface Staying extends Pick<OnceOptions, 'waitMs'> {
  readonly isAsked: IsAsked | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** Repeats the catch-up as often as that helps within the time to stay. Returns the last result. */
async function catchUpStaying(
  parts: Parts,
  { waitMs, isAsked, clock, signal, log }: Staying,
): Promise<CatchUpResult> {
  const untilMs = clock.monotonicMs() + waitMs;
  for (;;) {
    const result = await catchUpMendingDamage(parts, signal, isAsked);
    const { again } = result;
    if (again === null || signal.aborted) return result;
    const pauseMs = again.inMs + BEYOND_MS;
    if (clock.monotonicMs() + pauseMs > untilMs) return result;
    log.info({ until: again.at.toISOString() }, 'Waiting until another catch-up helps.');
    const isOver = await clock.sleep(pauseMs, signal).then(
      () => true,
      () => false,
    );
    if (!isOver) return interrupted(result, signal);
  }
}

/** Adds the interruption to the result: the wait was in vain. */
function interrupted(result: CatchUpResult, { reason }: AbortSignal): CatchUpResult {
  const error =
    reason instanceof Error ? reason : new InterruptedError('The wait of --wait was interrupted.');
  return { ...result, incidents: [...result.incidents, { subscriptionId: null, error }] };
}

/** Returns what logs a catch-up without a view: each cause of failures once, loudly, with the first dataset that it met. */
export function progressLog(log: Log): Progress {
  const causes = new Set<string>();
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
      logResult(log, result, causes);
    },
  };
}

/** Commits are logged as they happen. */
function logResult(log: Log, result: DatasetResult, causes: Set<string>): void {
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
      logFailure(log, dataset, result.error, causes);
      return;
  }
}

/** `causes`: those that were logged. The client of the service logs by itself that requests are refused for their number. */
function logFailure(log: Log, dataset: string, error: Error, causes: Set<string>): void {
  const fields = { dataset, error: errorCodeOf(error), why: error.message };
  const cause = causeIn(`${fields.error} ${fields.why}`, dataset);
  const isLogged = causes.has(cause) || (error instanceof ServiceUnavailableError && error.isThrottled);
  causes.add(cause);
  if (isLogged) log.debug(fields, 'Failed.');
  else log.error(fields, 'Failed.');
}

function logSuspension(log: Log, dataset: string, { refusal: { code } }: Suspension): void {
  log.warn({ dataset, ...(code === null ? {} : { code }) }, 'Suspended: an operator must act.');
}
