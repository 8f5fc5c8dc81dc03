/**
 * The state that the parts of a running daemon share: the engine, the work queue, the incidents. A restart of the daemon inside
 * its process makes a new session.
 */

import type { Cadence } from '../configuration/configuration.ts';
import type { Random } from '../lib/backoff.ts';
import { asError } from '../model/errors.ts';
import type { Readers } from '../post-commit/hook.ts';
import { type ClockReading, type DueTime, nextPoll } from '../sync/clocks.ts';
import { isDamage } from '../sync/damage.ts';
import type { MirrorView } from '../sync/dataset-states.ts';
import { Engine } from '../sync/engine.ts';
import type { Parts } from '../sync/parts.ts';
import { WorkQueue } from '../sync/work-queue.ts';
import { Activity, Counts } from './activity.ts';
import { AfterCommit } from './after-commit.ts';
import { IncidentLog } from './incident-log.ts';
import { Watchdog } from './liveness.ts';
import type { DaemonEvent, Observer } from './state.ts';

/** The operations of the service by which subscriptions are read; all others are about a dataset. */
const READING = new Set(['list subscriptions', 'read events', 'read the service description']);

export interface Timing {
  readonly poll: Cadence;
  readonly auditEveryMs: number;
  /** Within this time every block of the mirror is read; never by default. */
  readonly scrubEveryMs?: number;
}

export interface SessionOptions {
  readonly parts: Parts;
  readonly random: Random;
  readonly timing: Timing;
  /** Aborted when the daemon ends. The parts were opened with its signal, so it interrupts the mirror, too. */
  readonly ending: AbortController;
  /** Post-commit work for readers of the mirror; none without it. */
  readonly readers?: Readers | null;
}

export class Session {
  readonly parts: Parts;
  readonly random: Random;
  readonly timing: Timing;
  readonly startedAt: Date;
  readonly engine: Engine;
  readonly workQueue: WorkQueue;
  readonly incidents: IncidentLog;
  /** One for reading subscriptions, one for work on datasets: progress of one says nothing about the other. */
  readonly watchdogs: { readonly reading: Watchdog; readonly working: Watchdog };
  readonly activity: Activity;
  readonly counts = new Counts();
  readonly #observers = new Set<Observer>();
  readonly #ending: AbortController;

  /** Something in the mirror could not be read: the damaged tables are to be found. */
  hasMetDamage = false;

  /** Null where no post-commit work is configured. */
  readonly afterCommit: AfterCommit | null;

  constructor({ parts, random, timing, ending, readers = null }: SessionOptions) {
    const { clock, log } = parts;
    this.#ending = ending;
    this.activity = new Activity(this, log, parts.progress);
    this.random = random;
    this.timing = timing;
    this.startedAt = clock.now();
    this.workQueue = new WorkQueue(random);
    this.incidents = new IncidentLog(log);
    const nowMs = clock.monotonicMs();
    this.watchdogs = { reading: new Watchdog(nowMs), working: new Watchdog(nowMs) };
    this.engine = new Engine({ ...parts, progress: this.activity });
    this.parts = this.engine.parts;
    this.afterCommit = readers === null ? null : new AfterCommit(this, readers);
  }

  get mirror(): MirrorView {
    return this.engine.mirror;
  }

  /** Aborted when the session ends, to end all running work. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  stop(reason: Error): void {
    this.#ending.abort(reason);
  }

  nowMs(): number {
    return this.parts.clock.monotonicMs();
  }

  readClocks(): ClockReading {
    return { wall: this.parts.clock.now(), monotonicMs: this.nowMs() };
  }

  /** Returns when a subscription that is read now is polled next. */
  nextPoll(): DueTime {
    return nextPoll(this.timing.poll, this.readClocks(), this.random);
  }

  observe(observer: Observer): () => void {
    this.#observers.add(observer);
    return () => void this.#observers.delete(observer);
  }

  /** Counts the event and passes it to the observers. Nothing depends on them; one that throws is removed. */
  report(daemonEvent: DaemonEvent): void {
    this.#moved(daemonEvent);
    this.counts.add(daemonEvent);
    for (const observer of this.#observers) {
      try {
        observer(daemonEvent);
      } catch (error) {
        this.#observers.delete(observer);
        this.parts.log.error({ why: String(error) }, 'An observer failed and was removed.');
      }
    }
  }

  /** A part waits on purpose: for a reader of the mirror, or as long as the service asked. */
  planned(durationMs: number): void {
    const untilMs = this.nowMs() + durationMs;
    this.watchdogs.reading.planned(untilMs);
    this.watchdogs.working.planned(untilMs);
  }

  #moved(daemonEvent: DaemonEvent): void {
    const { reading, working } = this.watchdogs;
    const isOfWork = daemonEvent.kind === 'request' && !READING.has(daemonEvent.operation);
    if (isOfWork || ['bytes', 'commit', 'retired'].includes(daemonEvent.kind)) working.moved(this.nowMs());
    else reading.moved(this.nowMs());
  }

  /** The incident lasts until `resolve` is called with the same `of`. */
  raise(of: string, error: unknown): void {
    this.hasMetDamage ||= isDamage(error);
    this.incidents.raise(of, asError(error), this.parts.clock.now(), this.nowMs());
  }

  resolve(of: string): void {
    this.incidents.resolve(of, this.nowMs());
  }
}
