/** Runs the program with the recorder through the course of an installation, each command by a process of its own. */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { builtProgram } from '../support/built-program.ts';
import type { OpenCountyFeed } from '../support/open-county-feed.ts';
import { steered } from '../support/steered-process.ts';
import type { Course } from './courses.ts';
import { readEffects } from './effects.ts';
import type { Recorded } from './states.ts';
import { COMMAND_ENDED, COMMAND_KILLED, REPORTS_LOST } from './syncs.ts';

const SOURCE = fileURLToPath(new URL('recorder.c', import.meta.url));

export interface Recording extends Recorded {
  /** Where the installation was recorded: its files name this folder. Nothing is there any more. */
  readonly home: string;
  /** Where it is now, as the program left it. */
  readonly left: string;
}

/** Whether this machine has a compiler for the recorder, and a system that loads it. */
export function canRecord(): boolean {
  return process.platform === 'linux' && spawnSync('cc', ['--version']).status === 0;
}

/** `folder` is empty. @throws where a command does not end as it should. */
export async function record(course: Course, county: OpenCountyFeed, folder: string): Promise<Recording> {
  const library = join(folder, 'recorder.so');
  const compiled = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', library, SOURCE, '-ldl'], {
    encoding: 'utf8',
  });
  if (compiled.status !== 0) throw new Error(`The recorder cannot be compiled: ${compiled.stderr}`);
  const home = join(folder, 'home');
  const log = join(folder, 'recording');
  mkdirSync(home);
  const environment = {
    PATH: process.env['PATH'],
    HOME: folder,
    ...course.settings(home),
    FEED_SYNC_BASE_URL: county.feed.baseUrl,
    FEED_SYNC_API_KEY: county.feed.apiKey,
    LD_PRELOAD: library,
    POWER_ROOT: home,
    POWER_LOG: log,
  };
  const note = (line: string, bytes: string | Buffer = ''): void => {
    appendFileSync(log, Buffer.concat([Buffer.from(`${line} ${bytes.length}\n`), Buffer.from(bytes)]));
  };
  const main = builtProgram();
  await course.play({
    county,
    home,
    async run(words, { exitCode: expected = 0, killAt } = {}) {
      const child = spawn(process.execPath, [main, ...words], {
        cwd: folder,
        stdio: ['ignore', 'pipe', 'pipe'],
        // The names of durable effects are written beside the recording, and so into it.
        env: {
          ...environment,
          ...steered({ recordTo: `${log}.marks`, ...(killAt === undefined ? {} : { killAt }) }),
        },
      });
      const said = Promise.all([text(child.stdout), text(child.stderr)]);
      const [exitCode] = await once(child, 'close');
      if (exitCode !== (killAt === undefined ? expected : null))
        throw new Error(`${words.join(' ')} ended with ${exitCode}: ${(await said).join('\n')}`);
      note('say 0 0 0', killAt === undefined ? COMMAND_ENDED : COMMAND_KILLED);
    },
    damage(path, damaged, isLoss) {
      const place = join(home, path);
      const bytes = damaged(readFileSync(place));
      const { ino } = statSync(place);
      writeFileSync(place, bytes);
      // First: from the damage on, whatever of it is on the disk, nothing is promised.
      if (isLoss) note('say 0 0 0', REPORTS_LOST);
      note(`truncate ${ino} 0 0`);
      note(`write ${ino} 0 0`, bytes);
      note(`sync ${ino} 0 0`);
    },
  });
  const left = `${home}-left`;
  renameSync(home, left);
  return {
    home,
    left,
    effects: readEffects(readFileSync(log), home),
    rootInode: String(statSync(left).ino),
    promised: course.promised,
  };
}
