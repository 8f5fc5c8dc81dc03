/** A value that must not be shown. Every way of printing it gives a mask; only `reveal` gives the text. */

import { inspect } from 'node:util';

const MASK = '[secret]';

export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The text itself. Call it only where the secret is used, and keep the result out of every variable that lives on. */
  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}
