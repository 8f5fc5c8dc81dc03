/**
 * The post-commit work of the daemon: publishes a copy of the mirror, exports its tables, runs the command after commits, and
 * notifies operators. All run beside the loop and delay neither the loop nor the mirror.
 *
 * Invariants: one copy, one export and one command at a time; no commit is missed, because all read what the mirror has. The
 * command is notified of no commit that the copy lacks.
 */

import { present } from '../lib/assert.ts';
import type { Backoff, Random } from '../lib/backoff.ts';
import { InterruptedError } from '../model/errors.ts';
import type { Readers } from '../post-commit/hook.ts';
import { currentConditions } from '../reporting/conditions.ts';
import { RetryClock, WAITING_AGAIN } from '../sync/clocks.ts';
import type { Session } from './session.ts';

/** Commits wait while a copy is made or a table is exported, so that may take this share of the time at most. */
const COPYING_SHARE = 0.1;
const COPY = 'published copy';
const EXPORT = 'export';
const COMMAND = 'command after commits';
const NOTIFICATIONS = 'notifications';
/** How often the loop checks whether an operator is to be notified of something. */
const NOTIFY_EVERY_MS = 5_000;

/** Returns when the next copy may be made, on the clock on which this one began and ended. */
export function nextCopyMs(beganMs: number, endedMs: number, everyMs: number): number {
  return beganMs + Math.max(everyMs, (endedMs - beganMs) / COPYING_SHARE);
}

export class AfterCommit {
  readonly #session: Session;
  readonly #readers: Readers;
  readonly #copying: CoalescedTask;
  readonly #exporting: CoalescedTask;
  readonly #reporting: CoalescedTask;
  readonly #notifying: CoalescedTask;
  readonly #underWay = new Set<Promise<void>>();
  /** The newest commit in the published copy; null: no copy is published. */
  #copiedCommit: number | null = null;

  /** Earlier commits are owed, too: only the copy and the history show whether there were any. */
  constructor(session: Session, readers: Readers) {
    this.#session = session;
    this.#readers = readers;
    this.#copying = new CoalescedTask(WAITING_AGAIN, session.random);
    this.#exporting = new CoalescedTask(WAITING_AGAIN, session.random);
    this.#reporting = new CoalescedTask(WAITING_AGAIN, session.random);
    this.#notifying = new CoalescedTask(WAITING_AGAIN, session.random);
    this.#noteCommit();
    session.observe(({ kind }) => {
      if (kind === 'commit' || kind === 'retired') this.#noteCommit();
    });
  }

  /** Starts whatever is due; waits for nothing. `isCaughtUp`: every condition that lasts was seen since the start. */
  begin(isCaughtUp: boolean): void {
    const nowMs = this.#session.nowMs();
    if (this.#session.signal.aborted) return;
    if (this.#copying.isDue(nowMs)) this.#run(this.#copying, COPY, () => this.#publish(nowMs));
    if (this.#exporting.isDue(nowMs)) this.#run(this.#exporting, EXPORT, () => this.#export(nowMs));
    if (this.#reporting.isDue(nowMs)) this.#run(this.#reporting, COMMAND, () => this.#report());
    if (this.#readers.notifications === null) return;
    this.#readers.notifications.keep();
    this.#notifying.ask();
    if (this.#notifying.isDue(nowMs))
      this.#run(this.#notifying, NOTIFICATIONS, () => this.#notify(isCaughtUp));
  }

  async ended(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  /** Called once no work is running, so that the next process sends the notifications that the last commits gave occasion to. */
  keepOccurrences(): void {
    try {
      this.#readers.notifications?.keep();
    } catch (error) {
      this.#session.raise(NOTIFICATIONS, error);
    }
  }

  /** The published copy has the past, too; the command and the export know nothing of it. */
  noteForgotten(): void {
    if (this.#readers.publish !== null) this.#copying.ask();
  }

  #noteCommit(): void {
    const { publish, exports, hook } = this.#readers;
    if (exports !== null) this.#exporting.ask();
    if (publish !== null) this.#copying.ask();
    else if (hook !== null) this.#reporting.ask();
  }

  /** `work` returns when the task may run again. */
  #run(task: CoalescedTask, of: string, work: () => Promise<number>): void {
    task.begin();
    const running = work()
      .then(
        (notBeforeMs) => {
          task.done(notBeforeMs);
          this.#session.resolve(of);
        },
        (error: unknown) => {
          task.failed(this.#session.nowMs());
          if (!(error instanceof InterruptedError)) this.#session.raise(of, error);
        },
      )
      .finally(() => this.#underWay.delete(running));
    this.#underWay.add(running);
  }

  async #publish(beganMs: number): Promise<number> {
    const { postCommit, publish, hook } = this.#readers;
    const { parts } = this.#session;
    const publication = await present(postCommit, 'a copy has a source').publish();
    const endedMs = this.#session.nowMs();
    if (publication.kind === 'published') {
      const { bytes, isClone } = publication;
      const durationMs = Math.round(endedMs - beganMs);
      parts.log.info({ path: publish?.path, bytes, isClone, durationMs }, 'Published a copy of the mirror.');
    }
    if (publication.kind !== 'absent' && hook !== null) {
      this.#copiedCommit = publication.commitNumber;
      this.#reporting.ask();
    }
    return nextCopyMs(beganMs, endedMs, publish?.everyMs ?? 0);
  }

  async #export(beganMs: number): Promise<number> {
    const { path, everyMs, exporter } = present(this.#readers.exports, 'what is exported has a folder');
    const exported = await exporter.export().catch((error: unknown) => {
      if (!(error instanceof InterruptedError)) this.#session.report({ kind: 'export', outcome: 'failed' });
      throw error;
    });
    const endedMs = this.#session.nowMs();
    if (exported !== null) {
      this.#session.report({ kind: 'export', outcome: 'written' });
      const durationMs = Math.round(endedMs - beganMs);
      this.#session.parts.log.info({ path, ...exported, durationMs }, 'Exported a generation.');
    }
    return nextCopyMs(beganMs, endedMs, everyMs);
  }

  async #report(): Promise<number> {
    await this.#readers.hook?.report(this.#copiedCommit);
    return this.#session.nowMs();
  }

  async #notify(isCaughtUp: boolean): Promise<number> {
    const { parts, incidents } = this.#session;
    const loud = incidents.loud();
    const ongoing = incidents.ongoing(this.#session.nowMs()).filter(({ of }) => of !== NOTIFICATIONS);
    const conditions = currentConditions(
      parts,
      ongoing.map(({ of, error }) => ({ of, error, isLoud: loud.has(of) })),
    );
    await this.#readers.notifications?.notify(conditions, isCaughtUp);
    return this.#session.nowMs() + NOTIFY_EVERY_MS;
  }
}

class CoalescedTask {
  readonly #clock: RetryClock;
  #isOwed = false;
  #isUnderWay = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor(backoff: Backoff, random: Random) {
    this.#clock = new RetryClock(backoff, random);
  }

  /** A request that comes while the task runs makes it run once more. */
  ask(): void {
    this.#isOwed = true;
  }

  isDue(nowMs: number): boolean {
    return this.#isOwed && !this.#isUnderWay && nowMs >= Math.max(this.#notBeforeMs, this.#clock.dueMs);
  }

  begin(): void {
    this.#isOwed = false;
    this.#isUnderWay = true;
  }

  done(notBeforeMs: number): void {
    this.#isUnderWay = false;
    this.#notBeforeMs = notBeforeMs;
    this.#clock.succeeded();
  }

  failed(nowMs: number): void {
    this.#isUnderWay = false;
    this.#isOwed = true;
    this.#clock.failed(nowMs);
  }
}
