/** Every command ends although a thread of its process does not: Node itself would wait for the thread without end. */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { program } from '../support/program.ts';

/** Far above what the commands take, and far below what a test may take. */
const ENDED_WITHIN_MS = 60_000;

/** Modules that run before the program: one opens a pipe that nobody writes to, and one prints how the process ends. */
function threadForEver(pipe: string): string {
  const modules = [
    `import { open } from 'node:fs'; open(${JSON.stringify(pipe)}, 'r', () => {});`,
    `import { writeSync } from 'node:fs'; process.on('exit', (code) => writeSync(2, 'ending with ' + code));`,
  ];
  return modules.map((text) => `--import data:text/javascript,${encodeURIComponent(text)}`).join(' ');
}

it.for([
  [['settings'], 0],
  [['nonsense'], 64],
  [['once'], 78],
] as const)('F12 %j ends with %i although a thread of it waits without end', async ([words, exitCode]) => {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-pipe-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const installed = await program();
  const running = installed.startWith({ NODE_OPTIONS: threadForEver(pipe) }, ...words);
  const late = setTimeout(() => running.kill('SIGKILL'), ENDED_WITHIN_MS);
  const ended = await running.ended;
  clearTimeout(late);
  expect(ended, ended.stderr).toMatchObject({ exitCode, signal: null });
  expect(ended.stderr).toContain(`ending with ${exitCode}`);
});
