/** Looks for a secret in what a program left behind: as it is, and in the forms in which it could hide. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The forms of `secret` that occur in `text`. */
export function secretsInText(secret: string, text: string): readonly string[] {
  return secretsInBytes(secret, Buffer.from(text));
}

/** `path: form` for every file below the folder that contains the secret in some form. */
export function secretsInFiles(secret: string, folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .flatMap((path) => secretsInBytes(secret, readFileSync(path)).map((form) => `${path}: ${form}`));
}

/** @throws where the secret is in one of the texts or in a file below one of the folders, in whatever form. */
export function refuseSecret(
  secret: string,
  { texts, folders }: { readonly texts: readonly string[]; readonly folders: readonly string[] },
): void {
  const found = [
    ...texts.flatMap((text) => secretsInText(secret, text).map((form) => `printed, ${form}:\n${text}`)),
    ...folders.flatMap((folder) => secretsInFiles(secret, folder)),
  ];
  if (found.length > 0) throw new Error(`A secret is where it must not be: ${found.join('\n')}`);
}

function secretsInBytes(secret: string, bytes: Buffer): readonly string[] {
  return Object.entries(formsOf(secret)).flatMap(([form, texts]) =>
    texts.some((text) => bytes.includes(text)) ? [form] : [],
  );
}

/** What is shorter occurs by chance. */
const LEAST_FORM_CHARACTERS = 8;

function formsOf(secret: string): Readonly<Record<string, readonly (string | Buffer)[]>> {
  const inUrl = encodeURIComponent(secret);
  const inJson = JSON.stringify(secret).slice(1, -1);
  const others = (...texts: readonly string[]): readonly string[] => texts.filter((text) => text !== secret);
  return {
    plain: [secret],
    'URL-encoded': others(inUrl, inUrl.toLowerCase()),
    'in JSON': others(inJson, inJson.replaceAll('/', '\\/')),
    'UTF-16': [Buffer.from(secret, 'utf16le')],
    hexadecimal: [Buffer.from(secret).toString('hex'), Buffer.from(secret).toString('hex').toUpperCase()],
    base64: [0, 1, 2].flatMap((offset) => inBase64(secret, offset)),
  };
}

/** Base64 of the secret with `offset` bytes before it, without the characters that depend on its neighbours. */
function inBase64(secret: string, offset: number): readonly string[] {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret)]);
  const stable = bytes
    .subarray(0, bytes.length - (bytes.length % 3))
    .toString('base64')
    .slice(offset === 0 ? 0 : 4);
  if (stable.length < LEAST_FORM_CHARACTERS) return [];
  return [stable, stable.replaceAll('+', '-').replaceAll('/', '_')];
}
