/** The processes of a scenario: each begins in the same state, which is kept beside the installation. */

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Ended, Running } from '../support/program.ts';
import { steered } from '../support/steered-process.ts';
import { runAgain, type Said } from './again.ts';
import type { Act, Stage } from './scenario.ts';

const ONCE = ['once'];

export class Runs {
  readonly #stage: Stage;
  readonly #act: Act;
  readonly #folder: string;

  /** Every run begins in the state that the installation has now. */
  constructor(stage: Stage, act: Act) {
    this.#stage = stage;
    this.#act = act;
    this.#folder = mkdtempSync(join(tmpdir(), 'feed-sync-crash-'));
    onTestFinished(() => rmSync(this.#folder, { recursive: true, force: true }));
    cpSync(stage.installed.home, this.#start, { recursive: true });
  }

  get #start(): string {
    return join(this.#folder, 'start');
  }

  /** Runs it undisturbed. @returns its end, and what was recorded. */
  async record(): Promise<{ readonly ended: Ended; readonly record: string }> {
    const recordTo = join(this.#folder, 'record');
    rmSync(recordTo, { force: true });
    const ended = await this.#run(steered({ recordTo }));
    return { ended, record: readFileSync(recordTo, 'utf8') };
  }

  killed(killAt: string): Promise<Ended> {
    return this.#run(steered({ killAt }));
  }

  /** In the state that the last one has left. */
  again(words: readonly string[] = this.#act.words ?? ONCE): Promise<Said> {
    const { installed } = this.#stage;
    return this.#act.untilDone === undefined
      ? runAgain(installed, words)
      : this.#toItsEnd(installed.start(...words));
  }

  #run(steering: Readonly<Record<string, string>>): Promise<Ended> {
    const { installed } = this.#stage;
    for (const name of readdirSync(installed.home)) rmSync(join(installed.home, name), { recursive: true });
    cpSync(this.#start, installed.home, { recursive: true });
    const { words = ONCE, environment = {}, before } = this.#act;
    before?.();
    return this.#toItsEnd(installed.startWith({ ...environment, ...steering }, ...words));
  }

  async #toItsEnd(running: Running): Promise<Ended> {
    const { untilDone } = this.#act;
    const stopped = new AbortController();
    void running.ended.then(() => stopped.abort());
    if (untilDone !== undefined) {
      await untilDone(running, stopped.signal);
      running.kill('SIGTERM');
    }
    return running.ended;
  }
}
