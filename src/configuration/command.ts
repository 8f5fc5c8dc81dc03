/** How a command is read: a program and what it is given, word by word. No shell sees it, so nothing in a word is special. */

import { resolve } from 'node:path';
import type { Kind, Reading } from './kinds.ts';
import { quoted } from './problems.ts';

const ADVICE = 'write a list of words, for example ["./refresh.sh", "--all"]';

/**
 * A list of words in the file; in a flag, a variable or a text of the file words that white space parts. A program that
 * is a path starts where other paths do, one without a slash is looked for in PATH.
 */
export const command: Kind<readonly string[]> = {
  placeholder: 'words',
  readText: (text, directory) => readWords(text.split(/\s+/), directory),
  readYaml(value, directory) {
    if (typeof value === 'string') return command.readText(value.trim(), directory);
    if (!Array.isArray(value)) return { trouble: `is no command; ${ADVICE}` };
    const other = value.findIndex((word: unknown) => typeof word !== 'string');
    return other === -1
      ? readWords(value, directory)
      : { trouble: `has a word ${other + 1} that is not text; write it in quotes` };
  },
};

function readWords(words: readonly string[], directory: string): Reading<readonly string[]> {
  const [program = '', ...rest] = words;
  if (program.trim() === '') return { trouble: `names no program; ${ADVICE}` };
  const spoilt = words.find((word) => word.includes('\0'));
  if (spoilt !== undefined) return { trouble: `has the word ${quoted(spoilt)}, which no command can hold` };
  if (program.startsWith('~'))
    return { trouble: `is ${quoted(program)}, and ~ has no meaning here; write the whole path` };
  return { value: [program.includes('/') ? resolve(directory, program) : program, ...rest] };
}
