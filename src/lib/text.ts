/** Text for people: text from elsewhere made safe to show, and the known name that was probably meant by an unknown one. */

import { distance } from 'fastest-levenshtein';

/**
 * Control characters, format characters and line separators. They could move the cursor, fake a line, or change the
 * direction of writing, so that a text reads as another.
 */
const UNSAFE_CHARACTERS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

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

/** Returns a text in quotes, on one line, and cut where it is very long. */
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

/** Returns a message without the name of its subject and without numbers: messages that are then equal have one cause. */
export function causeIn(message: string, subject: string): string {
  const isInWord = (offset: number): boolean => /[\w-]/.test(message.charAt(offset));
  const general = message.replaceAll(subject, (found, offset: number) =>
    isInWord(offset - 1) || isInWord(offset + found.length) ? found : '…',
  );
  return (subject === '' ? message : general)
    .replaceAll(/\d[\d.,:]*(?: (?:ms|s|min|h)\b)?/g, '#')
    .replaceAll('attempts', 'attempt');
}

const MAX_SHOWN_CHARACTERS = 120;
const MAX_RELAYED_CHARACTERS = 2_000;

/** Returns an id or a name from elsewhere inside our own sentence: one line, cut where it is very long. */
export function shown(text: string): string {
  return cut(text.replaceAll(UNSAFE_CHARACTERS, '�'), MAX_SHOWN_CHARACTERS);
}

/** Returns a message that is relayed in the words of another program. */
export function relayed(text: string): string {
  return cut(text.replaceAll(UNSAFE_CHARACTERS, ' ').trim(), MAX_RELAYED_CHARACTERS);
}

/** The cut may divide a surrogate pair, and the text may contain one that is divided. */
function cut(text: string, maxCharacters: number): string {
  const ending = text.length > maxCharacters ? '…' : '';
  return `${text.slice(0, maxCharacters).toWellFormed()}${ending}`;
}

/**
 * Returns the known name that is most like `name`; null where none is even half like it. Two mistakes are common and count as small
 * whatever their length: the right last word in the wrong group (`timeout` means `http.timeout` rather than a key of seven other letters),
 * and a word too many at the end (`FEED_SYNC_CONFIG_FILE`).
 */
export function nearest(name: string, known: readonly string[]): string | null {
  const scores = known.map((candidate) => ({ candidate, ...unlikeness(name, candidate) }));
  const [best] = scores.toSorted((left, right) => left.least - right.least || left.whole - right.whole);
  if (best === undefined) return null;
  return best.least * 2 <= Math.max(name.length, best.candidate.length) ? best.candidate : null;
}

/** Returns `; the nearest is http.timeout`, to follow the words about an unknown name; empty where no known name is like it. */
export function formatNearest(name: string, known: readonly string[]): string {
  const candidate = nearest(name, known);
  return candidate === null ? '' : `; the nearest is ${candidate}`;
}

const COMMON_MISTAKE_COST = 1;

function unlikeness(name: string, candidate: string): { readonly least: number; readonly whole: number } {
  const [left, right] = [name.toLowerCase(), candidate.toLowerCase()];
  const whole = distance(left, right);
  const last = distance(lastWord(left), lastWord(right));
  const costs = [whole];
  if (last * 2 < lastWord(left).length) costs.push(last + COMMON_MISTAKE_COST);
  if (left.startsWith(right)) costs.push(COMMON_MISTAKE_COST);
  return { whole, least: Math.min(...costs) };
}

function lastWord(name: string): string {
  return name.split(/[._]/).at(-1) ?? name;
}
