/** The built program as a daemon: `feed-sync run`, asked to poll as an operator would, and watched from outside. */

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Sample, WrongResultError } from './case.ts';
import type { FeedProcess } from './feed-process.ts';
import { startScript } from './measured-process.ts';
import { programSettings, type Settings } from './program-run.ts';

/** A line of the log. */
export type LogLine = Readonly<Record<string, unknown>>;

export interface RunningProgram extends AsyncDisposable {
  readonly pid: number;
  /** Of the status server. */
  readonly url: string;
  poll(): void;
  /** The first line since the last one that was waited for, and for which `isIt` is true. @throws WrongResultError where it ends before. */
  logged(isIt: (line: LogLine) => boolean): Promise<LogLine>;
  /** Of the whole process so far, user and system. */
  cpuSeconds(): number;
  /** Ends it in order. */
  stop(): Promise<Sample>;
}

/** The kernel's unit of processor time, whatever the machine. */
const TICKS_PER_SECOND = 100;
const READY_EVERY_MS = 20;

/** Polls only when it is asked to. Resolves when it has caught up with everything. */
export async function startProgram(
  feed: FeedProcess,
  data: string,
  folder: string,
  settings: Settings = {},
): Promise<RunningProgram> {
  const lines = new LogLines();
  const process = startScript({
    script: '../../dist/main.js',
    values: ['run'],
    environment: {
      ...programSettings(feed, data),
      FEED_SYNC_POLL_EVERY: '12h',
      FEED_SYNC_AUDIT_EVERY: '12h',
      FEED_SYNC_STATUS_LISTEN: '127.0.0.1:0',
      ...settings,
    },
    folder,
    onErrorText: (text) => lines.add(text),
  });
  const early = process.ended.then(() => Promise.reject(new WrongResultError('feed-sync run ended.')));
  // Every caller that waits for a line or for the end gets an answer.
  early.catch(() => {});
  const logged = (isIt: (line: LogLine) => boolean) => Promise.race([lines.next(isIt), early]);
  const { url } = await logged(({ url: stated }) => stated !== undefined);
  const program: RunningProgram = {
    pid: process.pid,
    url: String(url),
    poll: () => process.signal('SIGUSR2'),
    logged,
    cpuSeconds: () => cpuSecondsOf(process.pid),
    stop() {
      process.signal('SIGTERM');
      return process.ended;
    },
    async [Symbol.asyncDispose]() {
      process.signal('SIGKILL');
      await process.ended.catch(() => {});
    },
  };
  while ((await fetch(`${url}/readyz`)).status !== 200) await sleep(READY_EVERY_MS);
  return program;
}

function cpuSecondsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The text behind the name, which may contain anything, begins with the third field.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** The lines of a log as they come, each checked once. */
class LogLines {
  #rest = '';
  #lines: LogLine[] = [];
  #onLine = (): void => {};

  add(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    this.#lines.push(...lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line)));
    this.#onLine();
  }

  async next(isIt: (line: LogLine) => boolean): Promise<LogLine> {
    for (;;) {
      for (let line = this.#lines.shift(); line !== undefined; line = this.#lines.shift()) {
        if (isIt(line)) return line;
      }
      await new Promise<void>((resolve) => {
        this.#onLine = resolve;
      });
    }
  }
}
