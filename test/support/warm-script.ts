/**
 * Runs scripts of the built program for a process that would start a process for each: they run in one process, one after another, which
 * has loaded them and DuckDB. The program notices no difference: the output arrives as that of a process would, and a script that ends its
 * process ends this one.
 */

import childProcess, { type ChildProcess } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import { basename } from 'node:path';
import process from 'node:process';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { COMPILED } from './compiled.ts';

/** Ends the output of a script. What the program writes is JSON, which has no such character. */
export const END_OF_SCRIPT = '\0';

const SCRIPT = fileURLToPath(new URL('warm-script-child.ts', import.meta.url));
/** Only this script of the program ends by itself, and says everything on its standard output. */
const IS_WARM = new Set(['examine-child.js', 'examine-child.ts']);
/** Damage that DuckDB finds before it uses a byte of it. */
const IS_UNUSED = /computed checksum|Could not read enough bytes/;

let warm: ChildProcess | null = null;

/** From now on a script that is to be read line by line is run in the process that is warm, if there is one that has nothing to do. */
export function warmScripts(): void {
  const { spawn } = childProcess;
  const spawnWarm = (file: string, args: readonly string[], options: object): ChildProcess => {
    const [script = '', ...words] = args;
    if (file !== process.execPath || !IS_WARM.has(basename(script))) return spawn(file, args, options);
    // One after another: a process that has something to do is left to whoever it works for.
    const used =
      warm ?? started(spawn(file, [SCRIPT], { env: COMPILED, stdio: ['ignore', 'pipe', 'ignore', 'ipc'] }));
    warm = null;
    return runIn(used, script, words);
  };
  childProcess.spawn = spawnWarm as typeof spawn;
  syncBuiltinESMExports();
}

function started(child: ChildProcess): ChildProcess {
  return child.once('exit', () => {
    if (warm === child) warm = null;
  });
}

/** Returns what looks like the process of the script. */
function runIn(used: ChildProcess, script: string, args: readonly string[]): ChildProcess {
  const stdout = new PassThrough();
  const looks = Object.assign(new EventEmitter(), {
    stdout,
    kill: (signal: NodeJS.Signals) => used.kill(signal),
  });
  let said = '';
  const take = (bytes: Buffer): void => {
    const isEnd = bytes.at(-1) === END_OF_SCRIPT.charCodeAt(0);
    const output = isEnd ? bytes.subarray(0, -1) : bytes;
    stdout.write(output);
    said += output.toString('latin1');
    if (!isEnd) return;
    close(0, null);
    if (warm === null && isSound(said)) warm = used;
    else used.kill('SIGKILL');
  };
  const close = (code: number | null, signal: string | null): void => {
    used.off('close', close);
    used.stdout?.off('data', take);
    stdout.end();
    setImmediate(() => looks.emit('close', code, signal));
  };
  used.stdout?.on('data', take);
  used.on('close', close);
  used.send({ script, args });
  return looks as unknown as ChildProcess;
}

/**
 * Returns whether the process has used nothing that is damaged. Rows that are not those of the recorded checksum may come from a block
 * that is whole and in the place of another one.
 */
function isSound(said: string): boolean {
  const lines = said.split('\n').filter((line) => line !== '');
  return lines
    .map((line) => JSON.parse(line))
    .every(({ state = 'sound', why = null }) => (why === null ? state === 'sound' : IS_UNUSED.test(why)));
}
