/** A program as the command after commits: a few lines of JavaScript, which get what it was told as `told`. */

import { readFileSync } from 'node:fs';
import process from 'node:process';
import type { HookInput } from '../../src/post-commit/hook.ts';

/**
 * The words of the command. `told` is what came on its standard input, `fs` the files. Node may be told to come back (EAGAIN) where
 * it reads its standard input at one go.
 */
export function hookProgram(script: string): readonly string[] {
  const act = `const fs = require('node:fs'); require('node:stream/consumers').json(process.stdin).then((told) => { ${script} });`;
  return [process.execPath, '--eval', act];
}

/** Appends what it was told to a file, a line for each run. */
export function notingProgram(path: string): readonly string[] {
  return hookProgram(`fs.appendFileSync(${JSON.stringify(path)}, JSON.stringify(told) + '\\n');`);
}

/** What such a program was told, run by run. */
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

/** The numbers of the commits that it was told of, run by run. */
export function notedLines(path: string): readonly (readonly number[])[] {
  return notedBy(path).map(({ commits }) => commits.map(({ commit }) => commit));
}
