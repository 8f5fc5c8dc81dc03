/** A value that must not be shown. Every way of printing it yields a mask; only `reveal` returns the text. */

import { inspect } from 'node:util';

const MASK = '[secret]';

export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the text. Call it only where the secret is used, and do not keep the result. */
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

/** A shorter text occurs by chance: masking it would make messages unreadable and hide nothing. */
export const LEAST_SECRET_CHARACTERS = 6;
const LEAST_BASE64_CHARACTERS = 8;

/** Returns whether the text contains any of the secrets, in any form. */
export function containsSecret(text: string, secrets: readonly string[]): boolean {
  return allForms(secrets).some((form) => text.includes(form));
}

/** Returns a function like `containsSecret`, for many large bodies. */
export function secretDetector(secrets: readonly string[]): (bytes: Buffer) => boolean {
  const forms = allForms(secrets);
  // A body with a longer form holds the shorter one, too.
  const least = forms.filter((form) => !forms.some((other) => other !== form && form.includes(other)));
  const sought = least.map((form) => Buffer.from(form));
  return (bytes) => sought.some((form) => bytes.includes(form));
}

/** Returns the text with every secret masked. */
export function struckOut(text: string, secrets: readonly string[]): string {
  const mask = String(new Secret(''));
  return allForms(secrets).reduce((rest, form) => rest.replaceAll(form, mask), text);
}

/** The longest form comes first, so that a form which contains another is masked completely. */
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

/** The escape that HTML-aware JSON encoders write. */
function unicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * Returns the secret's base64 inside a longer text, after `bytesBefore` bytes, without the digits shared with its neighbours.
 */
function inBase64(secret: string, bytesBefore: number): readonly string[] {
  const bytes = Buffer.concat([Buffer.alloc(bytesBefore), Buffer.from(secret)]);
  const whole = bytes.subarray(0, bytes.length - (bytes.length % 3)).toString('base64');
  const own = bytesBefore === 0 ? whole : whole.slice(4);
  if (own.length < LEAST_BASE64_CHARACTERS) return [];
  return [own, own.replaceAll('+', '-').replaceAll('/', '_')];
}

/** The most secrets in one file. Every delivery is checked against all of them. */
export const MAX_WEBHOOK_SECRETS = 16;
export const MAX_WEBHOOK_SECRET_FILE_CHARACTERS = 64_000;
const MAX_SECRET_CHARACTERS = 1_000;

/** Standard Webhooks: the prefix, and base64 with its padding. */
const SECRET = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$/;

export function isWebhookSecret(text: string): boolean {
  return text.length <= MAX_SECRET_CHARACTERS && SECRET.test(text);
}

const UNKNOWN_ADDRESS = {
  protocol: 'postgres:',
  username: '',
  host: '',
  pathname: '',
  searchParams: new URLSearchParams(),
};

/** Parses the address of a database, in which the host may be missing: a socket is named by a parameter. Null where it is none. */
export function databaseAddress(text: string): Pick<URL, keyof typeof UNKNOWN_ADDRESS> | null {
  const url = URL.parse(text.replace('@/', `@${NO_HOST}/`));
  if (url === null) return null;
  const { protocol, username, host, pathname, searchParams } = url;
  return { protocol, username, host: host === NO_HOST ? '' : host, pathname, searchParams };
}

const NO_HOST = 'socket';

/** Returns whether user and password can be read. With another % than those of codes, the address is taken as it stands. */
export function isDecodable(address: string): boolean {
  if (/%(?![a-f\d]{2})/i.test(address)) return true;
  try {
    decodeURIComponent(address);
    return true;
  } catch {
    return false;
  }
}

/** The parameters that name the server; they precede the host and port of the address itself. */
const WHERE = ['host', 'port'];

/**
 * Returns the address of a database without its password: `postgres://feeds@db.example.com/county`. Of its parameters it has those
 * by which two servers differ: `postgres://feeds@/county?host=/run/postgresql`. `postgresql:` is another word for the same.
 */
export function placeOfDatabase(url: Secret): string {
  const address = databaseAddress(url.reveal()) ?? UNKNOWN_ADDRESS;
  const { username, host, pathname, searchParams } = address;
  const named = [...searchParams].filter(([name]) => WHERE.includes(name)).map((pair) => pair.join('='));
  const where = named.length === 0 ? '' : `?${named.join('&')}`;
  return `postgres://${username === '' ? '' : `${username}@`}${host}${pathname}${where}`;
}
