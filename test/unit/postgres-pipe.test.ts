/** The named pipe through which rows go to PostgreSQL: the error where it cannot be made. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { expect, it, onTestFinished } from 'vitest';
import { makePipe } from '../../src/destination/postgres/pipe.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { runProgram } from '../../src/lib/run-program.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'feed-sync-pipe-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

it('names the missing program, its search path and the package to install', async () => {
  const path = join(folder(), 'postgres.pipe');
  await expect(makePipe(path, runProgram, '/nowhere', systemClock)).rejects.toMatchObject({
    message: `The program mkfifo is not in the PATH: the named pipe ${path} cannot be made, through which rows go to PostgreSQL.`,
    hint: 'Install mkfifo (coreutils), or add its folder to the PATH that feed-sync is started with.',
  });
});

it('passes on the words of mkfifo where it cannot make the pipe', async () => {
  const path = join(folder(), 'missing', 'postgres.pipe');
  const made = makePipe(path, runProgram, process.env['PATH'] ?? '', systemClock);
  await expect(made).rejects.toMatchObject({
    message: expect.stringMatching(/cannot be made: mkfifo: [^\n]*missing[^\n]*No such file or directory\.$/),
    hint: 'Set dataDir to a local disk that has named pipes.',
  });
});

it('uses the pipe that an earlier process has left', async () => {
  const path = join(folder(), 'postgres.pipe');
  await makePipe(path, runProgram, process.env['PATH'] ?? '', systemClock);
  expect(await makePipe(path, runProgram, '/nowhere', systemClock)).toMatchObject({ path });
});
