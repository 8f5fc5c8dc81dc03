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

/** What is shorter occurs by chance; to strike it out would make a text unreadable and hide nothing. */
export const LEAST_SECRET_CHARACTERS = 6;
const LEAST_BASE64_CHARACTERS = 8;

/** Whether any of the secrets is in the text, in any form. */
export function containsSecret(text: string, secrets: readonly string[]): boolean {
  return allForms(secrets).some((form) => text.includes(form));
}

/** The text with a mask in the place of every secret. */
export function struckOut(text: string, secrets: readonly string[]): string {
  const mask = String(new Secret(''));
  return allForms(secrets).reduce((rest, form) => rest.replaceAll(form, mask), text);
}

/** The longest first, so that one that holds another is struck out whole. */
function allForms(secrets: readonly string[]): readonly string[] {
  const forms = secrets.filter(({ length }) => length >= LEAST_SECRET_CHARACTERS).flatMap(formsOf);
  return [...new Set(forms)].sort((left, right) => right.length - left.length);
}

function formsOf(secret: string): readonly string[] {
  const inAddress = encodeURIComponent(secret);
  const inJson = JSON.stringify(secret).slice(1, -1);
  const base64 = Buffer.from(secret).toString('base64');
  const hexadecimal = Buffer.from(secret).toString('hex');
  return [
    secret,
    inAddress,
    inAddress.replaceAll(/%[\dA-F]{2}/g, (code) => code.toLowerCase()),
    inJson,
    inJson.replaceAll('/', '\\/'),
    inJson.replaceAll(/[<>&']/g, unicodeEscape),
    hexadecimal,
    hexadecimal.toUpperCase(),
    base64,
    base64.replace(/=+$/, ''),
    ...[0, 1, 2].flatMap((before) => inBase64(secret, before)),
  ];
}

/** As encoders write it who think of HTML. */
function unicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** As it stands in the base64 of a longer text, behind so many bytes; without the digits that its neighbours have a part in. */
function inBase64(secret: string, bytesBefore: number): readonly string[] {
  const bytes = Buffer.concat([Buffer.alloc(bytesBefore), Buffer.from(secret)]);
  const whole = bytes.subarray(0, bytes.length - (bytes.length % 3)).toString('base64');
  const own = bytesBefore === 0 ? whole : whole.slice(4);
  if (own.length < LEAST_BASE64_CHARACTERS) return [];
  return [own, own.replaceAll('+', '-').replaceAll('/', '_')];
}

/** Of one file. All are tried with every delivery, so there are few. */
export const MAX_WEBHOOK_SECRETS = 16;
export const MAX_WEBHOOK_SECRET_FILE_CHARACTERS = 64_000;
const MAX_SECRET_CHARACTERS = 1_000;

/** Standard Webhooks: the prefix, and base64 with its padding. */
const SECRET = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$/;

export function isWebhookSecret(text: string): boolean {
  return text.length <= MAX_SECRET_CHARACTERS && SECRET.test(text);
}
