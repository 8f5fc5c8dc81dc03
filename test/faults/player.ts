/** Plays one fault after another. Where something is wrong, the same damage is judged again with a process for each command. */

import { cpSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Judgement, Judgements } from '../support/program-runner.ts';
import { sendable } from '../support/program-worker.ts';
import { everythingPublished } from '../support/published.ts';
import { damage, type Fault } from './fault.ts';
import type { Installation } from './installation.ts';
import { judged, VERDICTS, type Verdict } from './judge.ts';

/** `unchanged`: the damage left the bytes as they were, and nothing was judged. */
export const OUTCOMES = [...VERDICTS, 'unchanged'] as const;

export interface Played {
  readonly outcome: (typeof OUTCOMES)[number];
  /** A description of the damage to the file. */
  readonly done: string;
  /** The faults, in words. */
  readonly faults: readonly string[];
  /** Why it was judged again; null: it was not. */
  readonly again: string | null;
}

export class Player {
  readonly #installation: Installation;
  readonly #judgements: Judgements;

  constructor(installation: Installation) {
    this.#installation = installation;
    this.#judgements = new Judgements(
      installation.program,
      sendable(everythingPublished(installation.county.feed)),
    );
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
      const { verdict, again } = await this.#judge(fault, folder, damaged);
      if (keep !== null && verdict.outcome === 'wrong') {
        cpSync(damaged, join(keep, String(fault.seed)), { recursive: true });
      }
      return { done, ...verdict, again };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  #judge(fault: Fault, folder: string, damaged: string): Promise<Judgement<Verdict>> {
    return this.#judgements.make(
      (runner) => {
        const home = mkdtempSync(join(folder, 'judged-'));
        cpSync(damaged, home, { recursive: true });
        return judged({ home, damaged, fault, installation: this.#installation, runner });
      },
      ({ outcome, faults }) => (outcome === 'wrong' ? `wrong in one process: ${faults.join('; ')}` : null),
    );
  }

  end(): Promise<void> {
    return this.#judgements.end();
  }
}
