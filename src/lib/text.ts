/**
 * Text from elsewhere, made safe to show: control characters, which could move the cursor or fake a line, and those that
 * turn the direction of writing, so that a text reads as another, are shown as escapes.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const UNSAFE_CHARACTER = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
const ALL_UNSAFE = new RegExp(UNSAFE_CHARACTER, 'g');

export function printable(text: string): string {
  return text.replaceAll(ALL_UNSAFE, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

const MAX_QUOTED_CHARACTERS = 80;

/** In quotes, on one line, and cut where it is very long. */
export function quoted(text: string): string {
  const cut = text.length > MAX_QUOTED_CHARACTERS ? `${text.slice(0, MAX_QUOTED_CHARACTERS)}…` : text;
  return `'${printable(cut)}'`;
}

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
