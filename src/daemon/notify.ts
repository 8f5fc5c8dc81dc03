/**
 * Notifies systemd of the daemon's condition. Node has no unix datagram socket, so the program `systemd-notify` carries the
 * messages.
 *
 * Invariant: nothing here throws, blocks or exceeds its time limit, and at most one process runs at a time. Every
 * message states the whole current condition, so the next message makes up for a lost or replaced one.
 */

import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { RunProgram } from '../lib/run-program.ts';

export interface Notifier {
  /** The daemon works; also sent at the end of a reload. */
  ready(): void;
  /** Real progress was made: feeds the watchdog. Callers may call this as often as they like; most calls cost nothing. */
  progress(): void;
  /** One sentence for `systemctl status`. */
  status(sentence: string): void;
  /** The configuration is being read again; `ready` ends the reload. */
  reloading(): void;
  /** The daemon is ending. Only the status changes after this. */
  stopping(): void;
  /** Resolves when every message has been handed over or given up. Awaited before the process ends. */
  settled(): Promise<void>;
}

export interface NotifierParts {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  readonly run: RunProgram;
  readonly clock: Clock;
  /** Microseconds on the system's monotonic clock, which counts from the start of the machine. */
  readonly microsecondsSinceBoot: () => bigint;
  readonly log: Log;
}

/** The time limit of one message. The program itself gives up after five seconds. */
const MESSAGE_TIMEOUT_MS = 10_000;
/** The pause after a message, in which further changes are collected for the next. */
const PAUSE_MS = 200;
/** The most characters of a status. systemd would accept more, but nobody reads them. */
const MAX_STATUS_CHARACTERS = 200;
/** The watchdog is fed at most this many times in its period. */
const FEEDS_PER_PERIOD = 4;

/** Does nothing without a service manager, which sets NOTIFY_SOCKET. */
export function createNotifier(parts: NotifierParts): Notifier {
  const { NOTIFY_SOCKET: socket = '' } = parts.environment;
  return socket === '' ? silentNotifier : new SystemdNotifier(parts, socket);
}

export const silentNotifier: Notifier = {
  ready() {},
  progress() {},
  status() {},
  reloading() {},
  stopping() {},
  settled: () => Promise.resolve(),
};

/** Returns how often to report progress, in milliseconds; null where this process has no watchdog. */
export function watchdogFeedMs(
  { WATCHDOG_USEC: microseconds = '', WATCHDOG_PID: watched = '' }: NotifierParts['environment'],
  pid: number,
): number | null {
  const isOurs = watched === '' || watched === String(pid);
  const periodMs = /^\d{1,15}$/.test(microseconds) ? Number(microseconds) / 1_000 : 0;
  return isOurs && periodMs > 0 ? periodMs / FEEDS_PER_PERIOD : null;
}

class SystemdNotifier implements Notifier {
  readonly #parts: NotifierParts;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #feedMs: number | null;
  /** The phase of the daemon, as systemd words it. */
  #phase: readonly string[] = [];
  #status: readonly string[] = [];
  #nextFeedMs = Number.NEGATIVE_INFINITY;
  #isFed = true;
  #isReported = true;
  #isStopping = false;
  #hasFailed = false;
  #work: Promise<void> | null = null;

  constructor(parts: NotifierParts, socket: string) {
    const { PATH: path = '' } = parts.environment;
    this.#parts = parts;
    this.#environment = { PATH: path, NOTIFY_SOCKET: socket };
    this.#feedMs = watchdogFeedMs(parts.environment, parts.pid);
  }

  ready(): void {
    this.#enter(['READY=1']);
  }

  reloading(): void {
    this.#enter(['RELOADING=1', `MONOTONIC_USEC=${this.#parts.microsecondsSinceBoot()}`]);
  }

  stopping(): void {
    this.#enter(['STOPPING=1']);
    this.#isStopping = true;
  }

  status(sentence: string): void {
    const line = `STATUS=${sentence.replace(/\s+/g, ' ').slice(0, MAX_STATUS_CHARACTERS)}`;
    if (line === this.#status[0]) return;
    this.#status = [line];
    this.#report();
  }

  progress(): void {
    const nowMs = this.#parts.clock.monotonicMs();
    if (this.#feedMs === null || nowMs < this.#nextFeedMs) return;
    this.#nextFeedMs = nowMs + this.#feedMs;
    this.#isFed = false;
    this.#report();
  }

  async settled(): Promise<void> {
    await this.#work;
  }

  #enter(phase: readonly string[]): void {
    if (this.#isStopping) return;
    this.#phase = phase;
    this.#report();
  }

  #report(): void {
    this.#isReported = false;
    this.#work ??= this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    while (!this.#isReported) {
      await this.#send();
      if (!this.#isReported) await this.#parts.clock.sleep(PAUSE_MS);
    }
    this.#work = null;
  }

  async #send(): Promise<void> {
    const feed = this.#isFed ? [] : ['WATCHDOG=1'];
    const lines = [...this.#phase, ...this.#status, ...feed];
    this.#isReported = true;
    this.#isFed = true;
    try {
      await this.#parts.run({
        file: 'systemd-notify',
        // Without --no-block the program stays until systemd has read the message. systemd identifies the sender by its process,
        // and drops the message where that process has ended before (seen with one READY of twenty).
        args: lines,
        environment: this.#environment,
        timeoutMs: MESSAGE_TIMEOUT_MS,
      });
    } catch (error) {
      this.#reportFailure(error);
    }
  }

  /** Logged once: the next messages are likely to fail in the same way, and the service manager reports silence by itself. */
  #reportFailure(error: unknown): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    const fields = { why: error instanceof Error ? error.message : String(error) };
    this.#parts.log.warn(fields, 'systemd could not be notified.');
  }
}
