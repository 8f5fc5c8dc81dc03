/**
 * `feed-sync run`: follow the subscriptions until it is stopped. The daemon is opened, runs, and is closed; asked to
 * start anew, or after a standstill, it is opened again inside this process.
 *
 * Invariant: a configuration that is wrong never replaces one that works.
 */

import type { Configuration } from '../configuration/configuration.ts';
import { Daemon, type End } from '../daemon/daemon.ts';
import { createNotifier, type Notifier } from '../daemon/notify.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { runProgram } from '../lib/run-program.ts';
import { silentProgress } from '../sync/progress.ts';
import type { Context } from './context.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { logFor } from './log-for.ts';
import { openParts } from './open-parts.ts';
import { tellError, tellHold } from './person.ts';
import { write } from './terminal.ts';

/** Reads the configuration as it is by now. @throws ConfigurationError */
type Configure = () => Configuration;

/** @throws FeedSyncError when it cannot even begin. */
export async function run(configure: Configure, context: Context): Promise<ExitCode> {
  const runner = new Runner(configure, context);
  return runner.run();
}

class Runner {
  readonly #configure: Configure;
  readonly #context: Context;
  readonly #log: Log;
  readonly #notifier: Notifier;
  #configuration: Configuration;
  /** What to start anew with. */
  #next: Configuration | null = null;
  #daemon: Daemon | null = null;

  constructor(configure: Configure, context: Context) {
    this.#configure = configure;
    this.#context = context;
    this.#configuration = configure();
    this.#log = logFor(this.#configuration, context.terminal);
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
    const { signal, requests } = this.#context;
    const stop = (): void => {
      this.#notifier.stopping();
      this.#daemon?.stop();
    };
    signal.addEventListener('abort', stop);
    requests.onReload(() => this.#reload());
    requests.onPoll(() => this.#daemon?.pollNow());
    try {
      for (;;) {
        const code = await this.#conclude(await this.#follow());
        if (code !== null) return code;
      }
    } finally {
      signal.removeEventListener('abort', stop);
      this.#notifier.stopping();
      await this.#notifier.settled();
    }
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
        throw end.error;
      case 'refused':
        await write(this.#context.terminal.stderr, `feed-sync: ${end.holds.map(tellHold).join('\n')}\n`);
        return EXIT_CODES.personMustAct;
      case 'standstill':
        return this.#context.signal.aborted ? EXIT_CODES.caughtUp : null;
      case 'stopped':
        return this.#next === null || this.#context.signal.aborted ? EXIT_CODES.caughtUp : null;
    }
  }

  /** One life of the daemon, from opening to closing. */
  async #follow(): Promise<End> {
    const { random } = this.#context;
    const ending = new AbortController();
    const { configuration, opened } = await this.#open(ending.signal);
    this.#daemon = new Daemon({
      parts: opened.parts,
      random,
      timing: { poll: configuration.poll, auditEveryMs: configuration.audit.everyMs },
      notifier: this.#notifier,
      ending,
    });
    const { dataDirectory } = configuration;
    this.#log.info({ service: opened.parts.feed.origin, dataDirectory }, 'Following the subscriptions.');
    if (this.#context.signal.aborted) this.#daemon.stop();
    const end = await this.#daemon.run();
    this.#daemon = null;
    // What does not end cannot be closed either.
    if (end.kind !== 'stuck') await opened.close();
    this.#log.info({ why: end.kind }, 'Ended in order.');
    return end;
  }

  /** With what it is to start anew with; where that cannot be opened, as before. */
  async #open(signal: AbortSignal) {
    const next = this.#next;
    this.#next = null;
    if (next !== null) {
      try {
        const opened = await this.#openWith(next, signal);
        this.#configuration = next;
        return { configuration: next, opened };
      } catch (error) {
        this.#tellWrong(error);
      }
    }
    return { configuration: this.#configuration, opened: await this.#openWith(this.#configuration, signal) };
  }

  #openWith(configuration: Configuration, signal: AbortSignal) {
    return openParts({
      configuration,
      context: { ...this.#context, clock: this.#patientClock() },
      log: this.#log,
      progress: silentProgress,
      command: 'run',
      signal,
      onAsked: (asked) => this.#daemon?.noteAsked(asked),
    });
  }

  /** Whoever sleeps knows what for: for a reader of the mirror, or for as long as the service asked. */
  #patientClock(): Clock {
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
      this.#tellWrong(error);
      return;
    }
    this.#notifier.reloading();
    this.#log.info({}, 'Starting anew with the configuration as it is now.');
    this.#daemon.stop();
  }

  #tellWrong(error: unknown): void {
    const why = error instanceof Error ? tellError(error) : String(error);
    this.#log.error({ why }, 'The new configuration cannot be used: it goes on as before.');
  }
}
