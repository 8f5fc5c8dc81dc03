/** Makes text from elsewhere safe to show. */

/**
 * Control characters, format characters and line separators. They could move the cursor, fake a line, or change the
 * direction of writing, so that a text reads as another.
 */
export const UNSAFE_CHARACTERS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

/** Shows unsafe characters as escapes. */
export function printable(text: string): string {
  return text.replaceAll(UNSAFE_CHARACTERS, (characters) => [...characters].map(escapeOf).join(''));
}

/** The form that bash and zsh read, too. */
function escapeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const [prefix, digits] = code > 0xffff ? ['\\U', 8] : ['\\u', 4];
  return `${prefix}${code.toString(16).padStart(digits, '0')}`;
}

const MAX_QUOTED_CHARACTERS = 80;

/** In quotes, on one line, and cut where it is very long. */
export function quoted(text: string): string {
  const cut = text.length > MAX_QUOTED_CHARACTERS ? `${text.slice(0, MAX_QUOTED_CHARACTERS)}…` : text;
  return `'${printable(cut)}'`;
}

const PLAIN = /^[\w@%+=:,./-]+$/;

/**
 * Quotes a text as a word of a POSIX shell; a text with unsafe characters as a word of bash and zsh. Plain texts stay as
 * they are.
 */
export function shellWord(text: string): string {
  if (PLAIN.test(text)) return text;
  if (text.search(UNSAFE_CHARACTERS) < 0) return `'${text.replaceAll("'", `'\\''`)}'`;
  return `$'${printable(text.replaceAll(/['\\]/g, '\\$&'))}'`;
}
