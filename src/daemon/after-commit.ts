/**
 * What the daemon does after commits for those who build on the mirror: a copy is published, and the command after
 * commits is told. Both run beside the loop and hold up neither it nor the mirror.
 *
 * Invariants: one copy at a time and one command at a time; what is committed meanwhile is not lost, for both look at
 * the history of the mirror and not at what they were told. The command is told of nothing that the copy lacks.
 */

import type { Outlet } from '../destination/publication.ts';
import type { Random } from '../lib/backoff.ts';
import { InterruptedError } from '../model/errors.ts';
import type { Hook } from '../post-commit/hook.ts';
import { LOOKING_AGAIN, RetryClock, type RetryLimits } from './clocks.ts';
import type { Session } from './session.ts';

/** Commits wait while a copy is made, so that may take this part of the time at most. */
const COPYING_SHARE = 0.1;
const COPY = 'published copy';
const COMMAND = 'command after commits';

export interface Readers {
  readonly outlet: Outlet;
  /** How often a copy is published at most, and where; null: none is. */
  readonly publish: { readonly path: string; readonly everyMs: number } | null;
  readonly hook: Pick<Hook, 'tell'> | null;
}

/** When the next copy may be made, on the clock on which this one began and ended. */
export function nextCopyMs(beganMs: number, endedMs: number, everyMs: number): number {
  return beganMs + Math.max(everyMs, (endedMs - beganMs) / COPYING_SHARE);
}

export class AfterCommit {
  readonly #session: Session;
  readonly #readers: Readers;
  readonly #copying: Errand;
  readonly #telling: Errand;
  readonly #underWay = new Set<Promise<void>>();
  /** The lines of the history that the copy has; null: none is published. */
  #copiedLines: number | null = null;

  /** What was committed before is owed, too: only a look at copy and history tells whether anything was. */
  constructor(session: Session, readers: Readers) {
    this.#session = session;
    this.#readers = readers;
    this.#copying = new Errand(LOOKING_AGAIN, session.random);
    this.#telling = new Errand(LOOKING_AGAIN, session.random);
    this.#noteCommit();
    session.observe(({ kind }) => {
      if (kind === 'commit' || kind === 'retired') this.#noteCommit();
    });
  }

  /** Begins what is due; waits for nothing. */
  begin(): void {
    const nowMs = this.#session.nowMs();
    if (this.#session.signal.aborted) return;
    if (this.#copying.isDue(nowMs)) this.#run(this.#copying, COPY, () => this.#publish(nowMs));
    if (this.#telling.isDue(nowMs)) this.#run(this.#telling, COMMAND, () => this.#tell());
  }

  async ended(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  #noteCommit(): void {
    const { publish, hook } = this.#readers;
    if (publish !== null) this.#copying.ask();
    else if (hook !== null) this.#telling.ask();
  }

  /** `work` gives when the errand may be run again. */
  #run(errand: Errand, of: string, work: () => Promise<number>): void {
    errand.begin();
    const running = work()
      .then(
        (notBeforeMs) => {
          errand.done(notBeforeMs);
          this.#session.over(of);
        },
        (error: unknown) => {
          errand.failed(this.#session.nowMs());
          if (!(error instanceof InterruptedError)) this.#session.met(of, error);
        },
      )
      .finally(() => this.#underWay.delete(running));
    this.#underWay.add(running);
  }

  async #publish(beganMs: number): Promise<number> {
    const { outlet, publish, hook } = this.#readers;
    const { parts } = this.#session;
    const publication = await outlet.publish();
    const endedMs = this.#session.nowMs();
    if (publication.kind === 'published') {
      const { bytes, isClone } = publication;
      const durationMs = Math.round(endedMs - beganMs);
      parts.log.info({ path: publish?.path, bytes, isClone, durationMs }, 'Published a copy of the mirror.');
    }
    if (publication.kind !== 'absent' && hook !== null) {
      this.#copiedLines = publication.lines;
      this.#telling.ask();
    }
    return nextCopyMs(beganMs, endedMs, publish?.everyMs ?? 0);
  }

  async #tell(): Promise<number> {
    await this.#readers.hook?.tell(this.#copiedLines);
    return this.#session.nowMs();
  }
}

class Errand {
  readonly #clock: RetryClock;
  #isOwed = false;
  #isUnderWay = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor(limits: RetryLimits, random: Random) {
    this.#clock = new RetryClock(limits, random);
  }

  /** What is asked for while it is done is done once more. */
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
