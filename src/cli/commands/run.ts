/**
 * `feed-sync run`: follow the subscriptions until it is stopped. The daemon is opened, runs, and is closed; asked to
 * start anew, or after a standstill, it is opened again inside this process.
 *
 * Invariant: a configuration that is wrong never replaces one that works.
 */

import type { Configuration } from '../../configuration/configuration.ts';
import { Daemon, type End } from '../../daemon/daemon.ts';
import { createNotifier, type Notifier } from '../../daemon/notify.ts';
import { type StatusServer, startStatusServer } from '../../daemon/server/server.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Log, turnedDown } from '../../lib/log.ts';
import { runProgram } from '../../lib/run-program.ts';
import { statusJson, statusOf } from '../../reporting/status.ts';
import { contentOf } from '../../reporting/stores.ts';
import type { Parts } from '../../sync/parts.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { readersOf } from '../for-readers.ts';
import { logFor, screenFor } from '../log-for.ts';
import { openParts } from '../open-parts.ts';
import { type LiveState, LiveView } from '../render/live-view.ts';
import { formatError, formatSuspension } from '../render/messages.ts';
import { WorkSeen } from '../render/meter.ts';
import type { Screen } from '../render/screen.ts';

/** A reader of the mirror that tries again every 10 ms gets in between two windows, also where the machine is busy. */
const READER_GRACE_MS = 50;

/** Reads the configuration as it is by now. @throws ConfigurationError */
type Configure = () => Configuration;

interface Opened {
  readonly parts: Parts;
  readonly daemon: Daemon;
  readonly close: () => Promise<void>;
}

/** @throws FeedSyncError when it cannot even begin. */
export async function run(configure: Configure, version: string, context: Context): Promise<ExitCode> {
  const runner = new Runner(configure, version, context);
  return runner.run();
}

class Runner {
  readonly #configure: Configure;
  readonly #version: string;
  readonly #context: Context;
  readonly #screen: Screen | null;
  #log: Log;
  /** Of the daemon that is shown. */
  #work: WorkSeen;
  readonly #notifier: Notifier;
  #configuration: Configuration;
  /** What to start anew with. */
  #next: Configuration | null = null;
  /** What worked before the one that was just started with; null: that is the first, or has worked. */
  #previous: Configuration | null = null;
  /** What is started with has worked before in this process. */
  #isProven = false;
  #daemon: Daemon | null = null;

  constructor(configure: Configure, version: string, context: Context) {
    this.#configure = configure;
    this.#version = version;
    this.#context = context;
    this.#configuration = configure();
    this.#screen = screenFor(this.#configuration, context.terminal, context.clock);
    this.#log = logFor(this.#configuration, context.terminal, this.#screen);
    this.#work = new WorkSeen(context.clock);
    const { environment, identity, clock, microsecondsSinceBoot } = context;
    this.#notifier = createNotifier({
      environment,
      pid: identity.pid,
      run: runProgram,
      clock,
      microsecondsSinceBoot,
      log: this.#log,
    });
  }

  async run(): Promise<ExitCode> {
    const { signal, requests, terminal, clock } = this.#context;
    const stop = (): void => {
      this.#notifier.stopping();
      this.#daemon?.stop();
    };
    signal.addEventListener('abort', stop);
    const view =
      this.#screen === null ? null : new LiveView(this.#screen, terminal, clock, () => this.#look());
    requests.onReload(() => this.#reload());
    requests.onPoll(() => this.#daemon?.pollNow());
    try {
      for (;;) {
        const code = await this.#conclude(await this.#follow());
        if (code !== null) return code;
      }
    } finally {
      await view?.end();
      signal.removeEventListener('abort', stop);
      this.#notifier.stopping();
      await this.#notifier.settled();
    }
  }

  /** Null: there is no daemon to look at. */
  #look(): Omit<LiveState, 'nowMs'> | null {
    if (this.#daemon === null) return null;
    const summary = this.#daemon.summary();
    if (summary.underWay + summary.due === 0) this.#work.restartCount();
    return { work: this.#work, summary };
  }

  /** Null: start anew. */
  async #conclude(end: End): Promise<ExitCode | null> {
    switch (end.kind) {
      case 'stuck':
        this.#log.error({}, 'What is under way does not end: the process does.');
        await this.#notifier.settled();
        this.#context.endAtOnce(EXIT_CODES.bug);
        return EXIT_CODES.bug;
      case 'misconfigured':
        if (this.#previous === null) throw end.error;
        this.#reportWrong(end.error);
        this.#configuration = this.#previous;
        this.#isProven = true;
        return null;
      case 'refused':
        await write(
          this.#context.terminal.stderr,
          `feed-sync: ${end.suspensions.map(formatSuspension).join('\n')}\n`,
        );
        return EXIT_CODES.operatorMustAct;
      case 'standstill':
        this.#isProven = true;
        return this.#context.signal.aborted ? EXIT_CODES.caughtUp : null;
      case 'stopped':
        return this.#next === null || this.#context.signal.aborted ? EXIT_CODES.caughtUp : null;
    }
  }

  /** One life of the daemon, from opening to closing. */
  async #follow(): Promise<End> {
    const opened = await this.#open();
    const { daemon, parts } = opened;
    this.#daemon = daemon;
    const { dataDirectory } = this.#configuration;
    this.#log.info({ service: parts.feed.origin, dataDirectory }, 'Following the subscriptions.');
    if (this.#context.signal.aborted) daemon.stop();
    const end = await daemon.run();
    this.#daemon = null;
    this.#screen?.clear();
    // What does not end cannot be closed either.
    if (end.kind !== 'stuck') await opened.close();
    this.#log.info({ end: end.kind }, 'Ended in order.');
    return end;
  }

  /** With what it is to start anew with; where that cannot be opened, as before. */
  async #open(): Promise<Opened> {
    const next = this.#next;
    this.#next = null;
    this.#previous = null;
    if (next !== null) {
      try {
        const opened = await this.#openWith(next, false);
        this.#previous = this.#configuration;
        this.#isProven = false;
        this.#configuration = next;
        this.#log = logFor(next, this.#context.terminal, this.#screen);
        return opened;
      } catch (error) {
        this.#reportWrong(error);
        this.#isProven = true;
      }
    }
    return this.#openWith(this.#configuration, this.#isProven);
  }

  async #openWith(configuration: Configuration, isProven: boolean): Promise<Opened> {
    await using opened = new AsyncDisposableStack();
    const ending = new AbortController();
    const log = this.#log;
    const { clock, random } = this.#context;
    this.#work = new WorkSeen(clock);
    const { parts, postCommit, close } = await openParts({
      configuration,
      context: { ...this.#context, clock: this.#untiringClock() },
      log,
      progress: this.#work,
      command: 'run',
      readerGraceMs: READER_GRACE_MS,
      signal: ending.signal,
      // Trouble with the service is told by the daemon: once, and when it is over.
      feedLog: turnedDown(log),
      onAsked: (asked) => this.#daemon?.noteAsked(asked),
    });
    opened.defer(close);
    const daemon = new Daemon({
      // The waits of the loop itself are none that anything is waited with.
      parts: { ...parts, clock },
      random,
      timing: { poll: configuration.poll, auditEveryMs: configuration.audit.everyMs },
      notifier: this.#notifier,
      isProven,
      ending,
      readers: readersOf({ configuration, context: this.#context, parts, postCommit, signal: ending.signal }),
    });
    const served = { configuration, context: this.#context, version: this.#version, daemon, parts, log };
    const server = await serveStatus(served);
    if (server !== null) opened.defer(() => server.close());
    const stack = opened.move();
    return { parts, daemon, close: () => stack.disposeAsync() };
  }

  /** Whoever sleeps knows what for: for a reader of the mirror, or for as long as the service asked. */
  #untiringClock(): Clock {
    const { clock } = this.#context;
    return {
      now: () => clock.now(),
      monotonicMs: () => clock.monotonicMs(),
      sleep: (durationMs, signal) => {
        this.#daemon?.notePlannedWait(durationMs);
        return clock.sleep(durationMs, signal);
      },
    };
  }

  #reload(): void {
    if (this.#daemon === null) return;
    try {
      this.#next = this.#configure();
    } catch (error) {
      this.#reportWrong(error);
      return;
    }
    this.#notifier.reloading();
    this.#log.info({}, 'Starting anew with the configuration as it is now.');
    this.#daemon.stop();
  }

  #reportWrong(error: unknown): void {
    const why = error instanceof Error ? formatError(error) : String(error);
    this.#log.error({ why }, 'The new configuration cannot be used: it goes on as before.');
  }
}

export interface ServedParts {
  readonly configuration: Configuration;
  readonly context: Context;
  readonly version: string;
  readonly daemon: Daemon;
  readonly parts: Parts;
  readonly log: Log;
}

/** Null where it is off. @throws ConfigurationError when the address cannot be listened on. */
export async function serveStatus(served: ServedParts): Promise<StatusServer | null> {
  const { configuration, context, version, daemon, parts, log } = served;
  const { listen } = configuration.status;
  const { secretFile } = configuration.webhook;
  if (listen === null) return null;
  const server = await startStatusServer({
    listen,
    version,
    observed: daemon,
    status: async () => statusNow(served),
    places: {
      mirrorPath: configuration.destination.path,
      checkpointPath: configuration.checkpoint.path,
      dataDirectory: configuration.dataDirectory,
      diskReserveBytes: configuration.disk.reserveBytes,
    },
    webhook:
      secretFile === null
        ? null
        : {
            secretFile,
            readFile: context.readFile,
            remember: (deliveryId, at) => parts.checkpoint.rememberDelivery(deliveryId, at),
            wake: () => daemon.pollNow(),
          },
    clock: context.clock,
    log,
  });
  log.info({ url: server.url, receivesWebhooks: secretFile !== null }, 'The status server listens.');
  return server;
}

/**
 * From what the daemon knows of the mirror, whose file it works on: opened a second time in one process, it would lose its
 * lock when the second one is closed.
 */
function statusNow({ configuration, context, daemon, parts }: ServedParts) {
  const { pid, host } = context.identity;
  const observed = daemon.observed();
  const status = statusOf(configuration, {
    mirror: observed === null ? 'unread' : { ...observed, freeBytes: null },
    checkpoint: contentOf(parts.checkpoint),
    runningInstance: { pid, host, command: 'run' },
    pid,
    readFile: context.readFile,
  });
  return statusJson(status);
}
