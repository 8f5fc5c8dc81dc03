/** `feed-sync run` as it goes on over restarts: one installation, one process at a time, and all that they logged. */

import { expect } from 'vitest';
import { eventually } from './patience.ts';
import type { Ended, Program, Running } from './program.ts';

export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

export class LastingDaemon {
  readonly #installed: Program;
  readonly #past: Ended[] = [];
  #run: Running;

  /** Starts it. `environment` is that of this process alone. */
  constructor(installed: Program, environment: Readonly<Record<string, string>> = {}) {
    this.#installed = installed;
    this.#run = installed.startWith(environment, 'run');
  }

  get pid(): number {
    return this.#run.pid;
  }

  signal(name: NodeJS.Signals): void {
    this.#run.kill(name);
  }

  /** The process that runs now has ended, by itself or by a signal. */
  async ended(): Promise<Ended> {
    const ended = await this.#run.ended;
    if (!this.#past.includes(ended)) this.#past.push(ended);
    return ended;
  }

  /** Asks it to stop, and expects it to end in order. */
  async stop(): Promise<void> {
    this.#run.kill('SIGTERM');
    expect(await this.ended()).toMatchObject({ exitCode: 0, signal: null });
  }

  /** Starts the next process, where the one before has ended. */
  async startAgain(environment: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.ended();
    this.#run = this.#installed.startWith(environment, 'run');
  }

  /** All lines of all processes that are whole. */
  lines(): readonly LogLine[] {
    const texts = [...this.#past.map(({ stderr }) => stderr), this.#run.stderr()];
    const unique = new Set(texts);
    return [...unique].flatMap(linesOf);
  }

  /** Lines whose message begins so. */
  count(message: string): number {
    return this.lines().filter(({ msg }) => msg.startsWith(message)).length;
  }

  /** The subjects of the open incidents of the running process, as the log names them: `subscription sub_1`. */
  incidents(): ReadonlySet<string> {
    const incidents = new Set<string>();
    for (const { msg, of } of linesOf(this.#run.stderr())) {
      if (msg.startsWith('Failed; will')) incidents.add(String(of));
      if (msg === 'Recovered.') incidents.delete(String(of));
    }
    return incidents;
  }

  /** Resolves when it has been logged so many times. */
  async logged(message: string, times = 1): Promise<void> {
    await eventually(() => expect(this.count(message), message).toBeGreaterThanOrEqual(times));
  }
}

function linesOf(text: string): readonly LogLine[] {
  const lines = text.split('\n').slice(0, -1);
  return lines.flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as LogLine] : []));
}
