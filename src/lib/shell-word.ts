/** Texts of others inside a command line that a person may copy: each stays one word, and nothing in it is executed. Pure. */

const PLAIN = /^[\w@%+=:,./-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** As a word of a POSIX shell; with control characters, as one of bash and zsh. Plain texts stay as they are. */
export function shellWord(text: string): string {
  if (PLAIN.test(text)) return text;
  if (!CONTROL.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  const escaped = [...text].map((character) => {
    if (CONTROL.test(character)) return `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`;
    return character === "'" || character === '\\' ? `\\${character}` : character;
  });
  return `$'${escaped.join('')}'`;
}
