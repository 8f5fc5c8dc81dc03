/**
 * `feed-sync run`: follows the subscriptions until it is stopped. Opens the daemon, runs it and closes it; after a reload or a
 * standstill it opens the daemon again inside this process.
 *
 * Invariant: a wrong configuration never replaces one that works.
 */

import { join } from 'node:path';
import { holderName } from '../../checkpoint/instance-lock.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import { Daemon, type End } from '../../daemon/daemon.ts';
import { createNotifier, type Notifier } from '../../daemon/notify.ts';
import { MAX_SHOWN_COMMITS } from '../../daemon/server/limits.ts';
import { type StatusServer, startStatusServer } from '../../daemon/server/server.ts';
import { Standby } from '../../daemon/server/standby.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Log, turnedDown } from '../../lib/log.ts';
import { runProgram } from '../../lib/run-program.ts';
import { MANIFEST } from '../../post-commit/export/generation.ts';
import { statusJson, statusOf } from '../../reporting/status.ts';
import { contentOf, contentWithoutFile, databaseBytes } from '../../reporting/stores.ts';
import type { Parts } from '../../sync/parts.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { openParts } from '../open-parts.ts';
import { type LiveState, LiveView } from '../render/live-view.ts';
import { formatError, formatSuspension } from '../render/messages.ts';
import { WorkSeen } from '../render/meter.ts';
import type { Screen } from '../render/screen.ts';
import { logFor, screenFor } from '../render/screen.ts';

/** A reader of the mirror that tries again every 10 ms gets in between two write sessions, also on a busy machine. */
const READER_GRACE_MS = 50;

/** Reads the current configuration. @throws ConfigurationError */
type Configure = () => Configuration;

interface Opened {
  readonly parts: Parts;
  readonly daemon: Daemon;
  readonly close: () => Promise<void>;
}

/** Follows the subscriptions until the process is stopped. @throws FeedSyncError when the command cannot begin. */
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
  /** The work of the running daemon. */
  #work: WorkSeen;
  readonly #notifier: Notifier;
  #configuration: Configuration;
  /** The configuration of the next restart. */
  #next: Configuration | null = null;
  /** The configuration that worked before the current one; null: the current one is the first, or has worked. */
  #previous: Configuration | null = null;
  /** The current configuration has worked before in this process. */
  #isProven = false;
  #daemon: Daemon | null = null;
  /** While the parts are opened. */
  #standby: Standby | null = null;

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
      this.#standby?.stop();
    };
    signal.addEventListener('abort', stop);
    const view =
      this.#screen === null ? null : new LiveView(this.#screen, terminal, clock, () => this.#liveState());
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

  /** Null: no daemon is running. */
  #liveState(): Omit<LiveState, 'nowMs'> | null {
    if (this.#daemon === null) return null;
    const summary = this.#daemon.summary();
    if (summary.underWay + summary.due === 0) this.#work.restartCount();
    return { work: this.#work, summary };
  }

  /** Null: restart. */
  async #conclude(end: End): Promise<ExitCode | null> {
    switch (end.kind) {
      case 'stuck':
        this.#log.error({}, 'Running work does not end: the process ends at once.');
        await this.#notifier.settled();
        this.#context.endAtOnce(EXIT_CODES.bug);
        return EXIT_CODES.bug;
      case 'misconfigured':
        if (this.#previous === null) throw end.error;
        this.#reportWrong(end.error);
        this.#configuration = this.#previous;
        this.#isProven = true;
        return null;
      case 'superseded':
        throw end.error;
      case 'refused':
        await write(
          this.#context.terminal.stderr,
          `feed-sync: ${end.suspensions.map(formatSuspension).join('\n')}\n`,
        );
        return EXIT_CODES.operatorMustAct;
      case 'standstill':
      case 'suspect':
        this.#isProven = true;
        return this.#context.signal.aborted ? EXIT_CODES.caughtUp : null;
      case 'stopped':
        return this.#next === null || this.#context.signal.aborted ? EXIT_CODES.caughtUp : null;
    }
  }

  /** One life of the daemon, from opening to closing. */
  async #follow(): Promise<End> {
    const opened = await this.#openOrStop();
    if (opened === null) return { kind: 'stopped' };
    const { daemon, parts } = opened;
    this.#daemon = daemon;
    const { dataDirectory } = this.#configuration;
    this.#log.info({ service: parts.feed.origin, dataDirectory }, 'Following the subscriptions.');
    if (this.#context.signal.aborted) daemon.stop();
    const end = await daemon.run();
    this.#daemon = null;
    this.#screen?.clear();
    // Stuck work cannot be closed either.
    if (end.kind !== 'stuck') await opened.close();
    this.#log.info({ end: end.kind }, 'Stopped.');
    return end;
  }

  /** Null: the process was stopped while it stood by. */
  async #openOrStop(): Promise<Opened | null> {
    try {
      return await this.#open();
    } catch (error) {
      if (this.#standby?.signal.aborted !== true) throw error;
      this.#log.info({ end: 'stopped' }, 'Stopped.');
      return null;
    }
  }

  /** Opens the daemon with the next configuration; where that cannot be opened, with the current one. */
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
    const standby = new Standby({
      listen: configuration.status.listen,
      notifier: this.#notifier,
      clock,
      log,
    });
    this.#standby = standby;
    opened.defer(() => standby.end());
    const { parts, readers, close } = await openParts({
      configuration,
      context: this.#context,
      // A wait of the loop itself is not planned idleness; a wait of the parts is.
      clock: this.#untiringClock(),
      log,
      progress: this.#work,
      command: 'run',
      readerGraceMs: READER_GRACE_MS,
      signal: AbortSignal.any([ending.signal, standby.signal]),
      // The daemon reports errors of the service: once when they begin, and once when they are resolved.
      feedLog: turnedDown(log),
      onExchange: (exchange) => this.#daemon?.noteRequest(exchange),
      onStandby: (holder) => standby.note(holder),
      onSuperseded: (error) => this.#daemon?.supersede(error),
    });
    opened.defer(close);
    await standby.end();
    const daemon = new Daemon({
      parts,
      random,
      timing: {
        poll: configuration.poll,
        auditEveryMs: configuration.audit.everyMs,
        scrubEveryMs: configuration.scrub.everyMs,
      },
      notifier: this.#notifier,
      isProven,
      ending,
      readers,
    });
    const served = { configuration, context: this.#context, version: this.#version, daemon, parts, log };
    const server = await serveStatus(served);
    if (server !== null) opened.defer(() => server.close());
    const stack = opened.move();
    return { parts, daemon, close: () => stack.disposeAsync() };
  }

  /** Reports every wait of the parts to the daemon: they wait for a reader of the mirror, or as long as the service asked. */
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
    this.#log.info({}, 'Restarting with the new configuration.');
    this.#daemon.stop();
  }

  #reportWrong(error: unknown): void {
    const why = error instanceof Error ? formatError(error) : String(error);
    this.#log.error({ why }, 'The new configuration cannot be used: the previous one stays in use.');
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

/** Null where the server is off. @throws ConfigurationError when the address cannot be listened on. */
async function serveStatus(served: ServedParts): Promise<StatusServer | null> {
  const { configuration, context, version, daemon, parts, log } = served;
  const { listen, tokenFile } = configuration.status;
  const { secretFile } = configuration.webhook;
  if (listen === null) return null;
  const server = await startStatusServer({
    listen,
    version,
    observed: daemon,
    status: async () => statusJson(statusNow(served)),
    pageStores: () => ({
      report: statusNow(served),
      syncRuns: parts.checkpoint.recentSyncRuns(MAX_SHOWN_COMMITS),
    }),
    placeOptions: configuration.placeOptions,
    places: {
      mirrorPath: configuration.destination.path,
      ...(configuration.destination.postgres === null
        ? {}
        : { databaseBytes: () => databaseBytes(configuration, context) }),
      checkpointPath: configuration.checkpoint.path,
      dataDirectory: configuration.dataDirectory,
      diskReserveBytes: configuration.disk.reserveBytes,
      ...(configuration.export === null
        ? {}
        : { exportManifestPath: join(configuration.export.path, MANIFEST) }),
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
    token: tokenFile === null ? null : { file: tokenFile, readFile: context.readFile },
    clock: context.clock,
    log,
  });
  log.info({ url: server.url, receivesWebhooks: secretFile !== null }, 'The status server listens.');
  if (server.isOpen) {
    log.warn(
      { url: server.url },
      'The status server answers other machines without a token: name its file in status.tokenFile.',
    );
  }
  return server;
}

/**
 * Takes the state of the mirror from the daemon: a process that opens the file a second time loses its lock when it closes
 * the second
 * one.
 */
function statusNow({ configuration, context, daemon, parts }: ServedParts) {
  const { pid, host } = context.identity;
  const observed = daemon.observed();
  const { postgres } = configuration.destination;
  const leaseHolder = postgres === null ? null : holderName({ command: 'run', pid, host });
  const unions = parts.destination.unions?.() ?? [];
  return statusOf(configuration, {
    mirror: observed === null ? 'unread' : contentWithoutFile(observed, unions, leaseHolder),
    checkpoint: contentOf(parts.checkpoint),
    runningInstance: { pid, host, command: 'run' },
    pid,
    readFile: context.readFile,
  });
}
