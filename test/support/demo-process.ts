/** `npm run demo` as a process of its own, and what it prints. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { projectRoot } from './source-tree.ts';

export interface DemoRun {
  readonly process: ChildProcess;
  /** Once it has ended and everything that it started has let go of its output. */
  readonly ended: Promise<{
    readonly exitCode: number | null;
    readonly stdout: string;
    readonly stderr: string;
  }>;
}

/** `environment` is added to that of the test. */
export function startDemo(words: readonly string[], environment: Record<string, string> = {}): DemoRun {
  const demo = spawn(process.execPath, [resolve(projectRoot, 'fixtures/demo/main.ts'), ...words], {
    cwd: projectRoot,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = [text(demo.stdout), text(demo.stderr)];
  const ended = once(demo, 'close').then(async ([exitCode]) => ({
    exitCode,
    stdout: await stdout,
    stderr: await stderr,
  }));
  return { process: demo, ended };
}

export function runDemo(words: readonly string[], environment?: Record<string, string>): DemoRun['ended'] {
  return startDemo(words, environment).ended;
}
