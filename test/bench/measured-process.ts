/** Runs a script in a process of its own, from start to end, and says what that took. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type Sample, WrongResultError } from './case.ts';

const REPORT_USAGE = new URL('report-usage.mjs', import.meta.url).href;
const KILOBYTES_PER_MEGABYTE = 1024;

export interface ScriptRun {
  /** A path from the folder of this file. */
  readonly script: string;
  /** The program that runs the script, which then writes its own usage as `report-usage.mjs` does; Node by default. */
  readonly interpreter?: string;
  readonly values: readonly string[];
  /** Variables beside those that every process needs. */
  readonly environment?: Readonly<Record<string, string>>;
  /** An existing folder for the run's own notes. */
  readonly folder: string;
  /** Told what the process writes to standard error, as it comes. */
  readonly onErrorText?: (text: string) => void;
}

export interface StartedScript {
  readonly pid: number;
  signal(name: NodeJS.Signals): void;
  /** @throws WrongResultError where the process fails, with what it wrote. */
  readonly ended: Promise<Sample>;
}

/** @throws WrongResultError where the process fails, with what it wrote. */
export function measureScript(run: ScriptRun): Promise<Sample> {
  return startScript(run).ended;
}

export function startScript(run: ScriptRun): StartedScript {
  const { script, interpreter, values, environment, folder, onErrorText } = run;
  const usageFile = join(folder, 'usage.json');
  const path = fileURLToPath(new URL(script, import.meta.url));
  const startedMs = performance.now();
  const [program, ...before] =
    interpreter === undefined ? [process.execPath, '--import', REPORT_USAGE] : [interpreter];
  const child = spawn(program, [...before, path, ...values], {
    env: { ...inherited(), ...environment, BENCH_USAGE_FILE: usageFile },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit').then(([code]) => ({ code, endedMs: performance.now() }));
  const measured = async (): Promise<Sample> => {
    const [output, errors, { code, endedMs }] = await Promise.all([
      textOf(child.stdout),
      textOf(child.stderr, onErrorText),
      exited,
    ]);
    if (code !== 0) throw new WrongResultError(`${script} ended with ${code}.\n${errors}${output}`);
    const { cpuMicroseconds, peakKilobytes } = JSON.parse(await readFile(usageFile, 'utf8'));
    return {
      seconds: (endedMs - startedMs) / 1000,
      cpuSeconds: cpuMicroseconds / 1_000_000,
      peakMegabytes: peakKilobytes / KILOBYTES_PER_MEGABYTE,
      counts: {},
    };
  };
  return { pid: child.pid ?? Number.NaN, signal: (name) => void child.kill(name), ended: measured() };
}

async function textOf(stream: Readable, onText?: (text: string) => void): Promise<string> {
  let whole = '';
  for await (const part of stream.setEncoding('utf8')) {
    whole += part;
    onText?.(part);
  }
  return whole;
}

/** Nothing of the caller's that could turn feed-sync to another feed, through a proxy, or to other settings. */
function inherited(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    ['PATH', 'HOME', 'TMPDIR', 'TZ'].flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
