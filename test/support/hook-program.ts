/** A program as the command after commits: a few lines of JavaScript, which get its input as `input`. */

import { readFileSync } from 'node:fs';
import process from 'node:process';
import type { HookInput } from '../../src/post-commit/hook.ts';

/**
 * The words of the command. `input` is its standard input, `fs` the module of files. Node may get EAGAIN where
 * it reads its standard input at one go.
 */
export function hookProgram(script: string): readonly string[] {
  const act = `const fs = require('node:fs'); require('node:stream/consumers').json(process.stdin).then((input) => { ${script} });`;
  return [process.execPath, '--eval', act];
}

/** Appends its input to a file, a line for each run. */
export function notingProgram(path: string): readonly string[] {
  return hookProgram(`fs.appendFileSync(${JSON.stringify(path)}, JSON.stringify(input) + '\\n');`);
}

/** The inputs of such a program, run by run. */
export function notedBy(path: string): readonly HookInput[] {
  try {
    return readFileSync(path, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  } catch {
    return [];
  }
}

/** The numbers of the commits in its inputs, run by run. */
export function notedLines(path: string): readonly (readonly number[])[] {
  return notedBy(path).map(({ commits }) => commits.map(({ commit }) => commit));
}
