/**
 * Plays one fault after another in one process. Where damage ends it, or something is wrong, the same damage is judged again with a
 * process for each command, and that counts.
 */

import { cpSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inProcesses, type Runner } from '../support/program-runner.ts';
import { type SentExpectation, sendable, Worker, WorkerEnded } from '../support/program-worker.ts';
import { everythingPublished } from '../support/published.ts';
import { damage, type Fault } from './fault.ts';
import type { Installation } from './installation.ts';
import { judged, VERDICTS, type Verdict } from './judge.ts';

/** `unchanged`: the damage left the bytes as they were, and nothing was judged. */
export const OUTCOMES = [...VERDICTS, 'unchanged'] as const;

export interface Played {
  readonly outcome: (typeof OUTCOMES)[number];
  /** What was done to the file, in words. */
  readonly done: string;
  /** What was wrong, in words. */
  readonly faults: readonly string[];
  /** Why it was judged again; null: it was not. */
  readonly again: string | null;
}

/** A process gets slower and larger with time. */
const MOST_JUDGED = 100;

export class Player {
  readonly #installation: Installation;
  readonly #expected: SentExpectation;
  #worker: Worker | null = null;
  #judged = 0;

  constructor(installation: Installation) {
    this.#installation = installation;
    this.#expected = sendable(everythingPublished(installation.county.feed));
  }

  /** `keep`: the folder that takes the damaged installation where something was wrong; null: none. */
  async play(fault: Fault, keep: string | null): Promise<Played> {
    const { states, earlier } = this.#installation;
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'feed-sync-faults-')));
    const damaged = join(folder, 'damaged');
    try {
      cpSync(states[fault.state], damaged, { recursive: true });
      const { done, isChange } = damage(fault, damaged, earlier);
      if (!isChange) return { outcome: 'unchanged', done, faults: [], again: null };
      const played = { done, ...(await this.#judgeTwice(fault, folder, damaged)) };
      if (keep !== null && played.outcome === 'wrong') {
        cpSync(damaged, join(keep, String(fault.seed)), { recursive: true });
      }
      return played;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async #judgeTwice(fault: Fault, folder: string, damaged: string): Promise<Omit<Played, 'done'>> {
    const judgedBy = (runner: Runner, name: string): Promise<Verdict> => {
      const home = join(folder, name);
      cpSync(damaged, home, { recursive: true });
      return judged({ home, damaged, fault, installation: this.#installation, runner });
    };
    const again = await this.#inWorker((worker) => judgedBy(worker, 'first'));
    if (typeof again !== 'string') return { ...again, again: null };
    const runner = inProcesses(this.#installation.program, this.#expected);
    return { ...(await judgedBy(runner, 'second')), again };
  }

  /** Returns why it has to be judged again where the worker ended, or something was wrong. */
  async #inWorker(judge: (worker: Worker) => Promise<Verdict>): Promise<Verdict | string> {
    this.#worker ??= new Worker(this.#installation.program, this.#expected);
    let why: string;
    try {
      const verdict = await judge(this.#worker);
      this.#judged += 1;
      if (verdict.outcome !== 'wrong') {
        if (this.#judged >= MOST_JUDGED) await this.end();
        return verdict;
      }
      why = `wrong in one process: ${verdict.faults.join('; ')}`;
    } catch (error) {
      if (!(error instanceof WorkerEnded)) throw error;
      why = `ended: ${error.message}`;
    }
    await this.end();
    return why;
  }

  async end(): Promise<void> {
    await this.#worker?.end();
    this.#worker = null;
    this.#judged = 0;
  }
}
