/**
 * Has a request of an operator performed: by the program that works on the data directory or the database, or else by this process.
 * Invariant: nothing is requested any more once the command has stopped waiting, unless it was begun before.
 */

import {
  MAX_SILENCE_MS,
  type OperatorRequest,
  type RequestAnswer,
  type Requests,
} from '../checkpoint/requests.ts';
import type { Configuration, LocalConfiguration } from '../configuration/configuration.ts';
import { BusyError, DestinationError, InterruptedError, RequestRefusedError } from '../model/errors.ts';
import { Engine } from '../sync/engine.ts';
import { liveExecutor } from '../sync/execute/executor.ts';
import { watchIncidents } from '../sync/incidents.ts';
import { type Parts, requestsOf } from '../sync/parts.ts';
import { silentProgress } from '../sync/progress.ts';
import { WorkQueue } from '../sync/work-queue.ts';
import { WorkerPool } from '../sync/worker-pool.ts';
import { type Context, writeMessage } from './context.ts';
import { openParts } from './open-parts.ts';
import { logFor } from './render/screen.ts';
import { nothingHere, openRequestPlace, type RequestPlace } from './request-place.ts';

/** How often the answer is polled. */
const POLL_EVERY_MS = 200;
/** How often a command that waits asks again: far more often than its request would be given up. */
const ASK_EVERY_MS = 10_000;

export type Requested = Omit<OperatorRequest, 'requestId'>;

/**
 * Returns what was done, for people. @throws RequestRefusedError with the error of the program that performed it.
 * @throws InterruptedError when the command was asked to stop. @throws UsageError where no catch-up has run here yet.
 */
export async function performRequest(
  requested: Requested,
  configuration: Configuration,
  context: Context,
): Promise<string> {
  const place = await openRequestPlace(configuration, context);
  try {
    for (;;) {
      const worker = await place.worker();
      const answer =
        worker === null
          ? await performHere(requested, configuration, context).catch(noAnswerIfRunning)
          : await askRunning(requested, worker, place, context);
      if (answer !== null) return textOf(answer);
    }
  } finally {
    await place.close();
  }
}

/**
 * Asks the instance of another data directory that works on the database. Returns its answer; null where there is none, or it ended
 * without having begun. @throws as `performRequest`
 */
export async function askElsewhere(
  requested: Requested,
  configuration: LocalConfiguration,
  context: Context,
): Promise<string | null> {
  if (configuration.destination.postgres === null) return null;
  const place = await openRequestPlace(configuration, context);
  try {
    for (;;) {
      const worker = (await place.isElsewhere()) ? await place.worker() : null;
      if (worker === null) return null;
      const answer = await askRunning(requested, worker, place, context);
      if (answer !== null) return textOf(answer);
    }
  } finally {
    await place.close();
  }
}

/** @throws RequestRefusedError */
function textOf(answer: RequestAnswer): string {
  if (answer.kind === 'done') return answer.text;
  const { error: code, message, hint } = answer;
  throw new RequestRefusedError(message, { code, ...(hint === null ? {} : { hint }) });
}

/** No other request has this id, on whichever machine it was made. */
function withId(
  requested: Requested,
  { clock, identity: { host, pid }, random }: Pick<Context, 'clock' | 'identity' | 'random'>,
): OperatorRequest {
  return {
    requestId: [host, pid, requested.command, clock.now().toISOString(), random.next()].join(' '),
    ...requested,
  };
}

/** Another instance has begun since this process checked. */
function noAnswerIfRunning(error: unknown): null {
  if (error instanceof BusyError && error.code === 'instance_running') return null;
  throw error;
}

/** Returns null where the running program has ended without having begun. */
async function askRunning(
  requested: Requested,
  worker: string,
  place: RequestPlace,
  context: Context,
): Promise<RequestAnswer | null> {
  const { clock, terminal } = context;
  const request = withId(requested, context);
  await place.requests().ask(request, clock.now());
  if (terminal.isWatched) {
    await writeMessage(terminal, `${worker}: it was asked, and answers once it has done it.\n`);
  }
  return await answerOf(request, place, context);
}

/** A database that is not available for a while is asked again: its instance goes on once it is back. */
async function answerOf(
  request: OperatorRequest,
  place: RequestPlace,
  context: Context,
): Promise<RequestAnswer | null> {
  const { clock, signal } = context;
  let askedMs = clock.monotonicMs();
  for (;;) {
    try {
      const end = await endOf(request, place, signal);
      if (end !== 'awaited') return end;
      if (clock.monotonicMs() - askedMs > ASK_EVERY_MS) {
        await place.requests().ask(request, clock.now());
        askedMs = clock.monotonicMs();
      }
    } catch (error) {
      if (!(error instanceof DestinationError)) throw error;
      if (signal.aborted || clock.monotonicMs() - askedMs > MAX_SILENCE_MS) throw withoutAnswer(error);
    }
    await clock.sleep(POLL_EVERY_MS, signal).catch(() => {});
  }
}

/** Returns the answer; null where the request is withdrawn, because the program that would perform it has ended. */
async function endOf(
  { requestId }: OperatorRequest,
  place: RequestPlace,
  signal: AbortSignal,
): Promise<RequestAnswer | 'awaited' | null> {
  const requests = place.requests();
  const isStillRunning = (await place.worker()) !== null;
  const state = await requests.state(requestId);
  if (state?.kind === 'done' || state?.kind === 'refused') return state;
  if (state === null) return null;
  if (!isStillRunning) {
    const { kind } = await requests.withdraw(requestId);
    if (kind === 'removed') return null;
    throw endedWithoutAnswer();
  }
  if (signal.aborted) throw await stopped(requests, requestId);
  return 'awaited';
}

function withoutAnswer(cause: DestinationError): DestinationError {
  return new DestinationError(`${cause.message} An instance may perform the request all the same.`, {
    code: cause.code,
    hint: ALL_OR_NOTHING,
    cause,
  });
}

async function stopped(requests: Requests, requestId: string): Promise<InterruptedError> {
  const withdrawal = await requests.withdraw(requestId);
  if (withdrawal.kind === 'removed') {
    return withdrawal.wasBegun
      ? new InterruptedError(
          'The command was stopped. An instance had begun its request and ended before it answered; no other one begins it.',
          { hint: ALL_OR_NOTHING },
        )
      : new InterruptedError('The command was stopped before its request was begun. Nothing was done.');
  }
  return new InterruptedError('The command was stopped. The running program goes on with its request.', {
    hint: 'feed-sync status shows what came of it.',
  });
}

const ALL_OR_NOTHING = 'It either did all of it or nothing: see feed-sync status.';

function endedWithoutAnswer(): InterruptedError {
  return new InterruptedError('The running program ended before it answered.', { hint: ALL_OR_NOTHING });
}

/** @throws BusyError where another instance works on the data directory. */
async function performHere(
  requested: Requested,
  configuration: Configuration,
  context: Context,
): Promise<RequestAnswer> {
  const { terminal, signal } = context;
  const log = logFor(configuration, terminal);
  const { command } = requested;
  const { parts, close } = await openParts({
    configuration,
    context,
    log,
    progress: silentProgress,
    command,
    signal,
  });
  try {
    return await performWith(parts, requested, context);
  } finally {
    await close();
  }
}

/** Works on the one dataset alone, and asks the service only if the request does. */
export async function performWith(
  parts: Parts,
  requested: Requested,
  context: Pick<Context, 'clock' | 'identity' | 'random' | 'signal'>,
): Promise<RequestAnswer> {
  const { random, signal } = context;
  const requests = requestsOf(parts);
  const engine = new Engine(parts);
  const observed = await engine.mirror.refresh(true);
  if (observed.service === null) throw nothingHere();
  const request = withId(requested, context);
  await requests.ask(request, parts.clock.now());
  const incidents = watchIncidents(engine.parts, signal);
  const pool = new WorkerPool({
    engine,
    queue: new WorkQueue(random),
    signal: incidents.signal,
    makeExecutor: liveExecutor,
    watch: () => incidents,
    sourceOf: () => engine.entriesSince(Number.NEGATIVE_INFINITY, () => true),
    isAtHead: () => false,
    verdictOf: () => ({ kind: 'logs-unread', awaited: [] }),
    onSettled() {},
    onGone() {},
    onPerformed() {},
    onError: (error) => incidents.record(error, null),
  });
  pool.perform([requested.datasetId]);
  await pool.drain();
  const state = await requests.state(request.requestId);
  if (state?.kind === 'done' || state?.kind === 'refused') return state;
  await requests.withdraw(request.requestId);
  throw incidents.incidents[0]?.error ?? new InterruptedError('The request was not performed.');
}
