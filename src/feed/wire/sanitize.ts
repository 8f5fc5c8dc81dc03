/** Text of the service on its way to a person: on one line, without control characters and halves of others, cut where it is very long. */

const MAX_SHOWN_CHARACTERS = 120;
const MAX_RELAYED_CHARACTERS = 2_000;
/** Control and format characters, line separators among them: they could rewrite what stands on a terminal. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

/** An id or a name inside a sentence of ours. */
export function shown(text: string): string {
  return cut(text.replace(UNSEEN, '�'), MAX_SHOWN_CHARACTERS);
}

/** A message that is relayed as the service wrote it. */
export function relayed(text: string): string {
  return cut(text.replace(UNSEEN, ' ').trim(), MAX_RELAYED_CHARACTERS);
}

/** A cut may go through a character, and so may what was sent. */
function cut(text: string, maxCharacters: number): string {
  const ending = text.length > maxCharacters ? '…' : '';
  return `${text.slice(0, maxCharacters).toWellFormed()}${ending}`;
}
