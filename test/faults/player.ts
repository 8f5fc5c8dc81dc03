/** Plays one fault after another. Where something is wrong, the same damage is judged again with a process for each command. */

import { cpSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Judgement, Judgements } from '../support/program-runner.ts';
import { sendable } from '../support/program-worker.ts';
import { everythingPublished } from '../support/published.ts';
import { damageOf, type Fault } from './fault.ts';
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
  readonly #folder: string;
  readonly #judgements: Judgements;

  /** `folder` takes the copies that are damaged. */
  constructor(installation: Installation, folder: string) {
    this.#installation = installation;
    this.#folder = folder;
    this.#judgements = new Judgements(
      installation.program,
      sendable(everythingPublished(installation.county.feed)),
    );
  }

  /** `keep`: the folder that takes the damaged installation where something was wrong; null: none. */
  async play(fault: Fault, keep: string | null): Promise<Played> {
    const { states, earlier } = this.#installation;
    const sound = states[fault.state];
    const { name, bytes, done, isChange } = damageOf(fault, sound, earlier);
    if (!isChange) return { outcome: 'unchanged', done, faults: [], again: null };
    const folder = realpathSync(mkdtempSync(join(this.#folder, 'fault-')));
    const copyTo = (home: string): string => {
      cpSync(sound, home, { recursive: true });
      writeFileSync(join(home, name), bytes);
      return home;
    };
    try {
      const { verdict, again } = await this.#judge(fault, () => copyTo(mkdtempSync(join(folder, 'judged-'))));
      if (keep !== null && verdict.outcome === 'wrong') copyTo(join(keep, String(fault.seed)));
      return { done, ...verdict, again };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  #judge(fault: Fault, copy: () => string): Promise<Judgement<Verdict>> {
    return this.#judgements.make(
      (runner) => judged({ home: copy(), copy, fault, installation: this.#installation, runner }),
      ({ outcome, faults }) => (outcome === 'wrong' ? `wrong in one process: ${faults.join('; ')}` : null),
    );
  }

  end(): Promise<void> {
    return this.#judgements.end();
  }
}
