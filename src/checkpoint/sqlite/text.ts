/** How text is brought within its limit before it is stored. Pure. */

import { ContractViolationError } from '../../model/errors.ts';
import { MAX_ID_CHARACTERS, MAX_TEXT_CHARACTERS } from './limits.ts';

/** The text, or its beginning with a mark that it was cut. */
export function cut(text: string): string {
  if (text.length <= MAX_TEXT_CHARACTERS) return text;
  return `${text.slice(0, MAX_TEXT_CHARACTERS - 1).toWellFormed()}…`;
}

export function cutOrNull(text: string | null): string | null {
  return text === null ? null : cut(text);
}

/**
 * The id as it is. `field` names it in the error.
 * @throws ContractViolationError when it is too long, or holds half a character, which no database keeps.
 */
export function whole(id: string, field: string): string {
  if (id.length > MAX_ID_CHARACTERS) {
    throw new ContractViolationError(
      `A ${field} has ${id.length} characters; at most ${MAX_ID_CHARACTERS} can be kept.`,
      field,
    );
  }
  if (!id.isWellFormed()) {
    throw new ContractViolationError(`A ${field} is not valid Unicode: ${JSON.stringify(id)}.`, field);
  }
  return id;
}
