/** Texts of others inside a command line that a person may copy: each stays one word, and nothing in it is executed. Pure. */

import { UNSAFE_CHARACTER } from './printable.ts';

const PLAIN = /^[\w@%+=:,./-]+$/;

/** As a word of a POSIX shell; with characters that are not to be shown, as one of bash and zsh. Plain texts stay as they are. */
export function shellWord(text: string): string {
  if (PLAIN.test(text)) return text;
  if (!UNSAFE_CHARACTER.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  const escaped = [...text].map((character) => {
    if (UNSAFE_CHARACTER.test(character))
      return `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`;
    return character === "'" || character === '\\' ? `\\${character}` : character;
  });
  return `$'${escaped.join('')}'`;
}
