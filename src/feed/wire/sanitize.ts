/** Text of the service for people: one line, without unsafe characters and lone surrogates, cut where the text is very long. */

import { UNSAFE_CHARACTERS } from '../../lib/text.ts';

const MAX_SHOWN_CHARACTERS = 120;
const MAX_RELAYED_CHARACTERS = 2_000;

/** An id or a name inside our own sentence. */
export function shown(text: string): string {
  return cut(text.replaceAll(UNSAFE_CHARACTERS, '�'), MAX_SHOWN_CHARACTERS);
}

/** A message that is relayed in the words of the service. */
export function relayed(text: string): string {
  return cut(text.replaceAll(UNSAFE_CHARACTERS, ' ').trim(), MAX_RELAYED_CHARACTERS);
}

/** The cut may divide a surrogate pair, and the service may send one that is divided. */
function cut(text: string, maxCharacters: number): string {
  const ending = text.length > maxCharacters ? '…' : '';
  return `${text.slice(0, maxCharacters).toWellFormed()}${ending}`;
}
