/**
 * The API key: given as it is, or by the file that holds it.
 *
 * Invariant: the key leaves this file as a `Secret` only; no trouble holds a part of it, not even where somebody gave
 * the key in place of the file's name.
 */

import { join } from 'node:path';
import { systemCode, systemReason } from '../lib/files.ts';
import type { Secret } from '../lib/secret.ts';
import { secret } from './kinds.ts';
import { type Found, type Level, readFound } from './levels.ts';
import type { ReadFile } from './locate.ts';
import { type Problem, quoted } from './problems.ts';
import { type ApiKeyKey, settings } from './settings.ts';

interface ApiKey {
  readonly value: Secret;
  /** Where the key stands, or where its file is named. */
  readonly source: string;
  /** The file that held it, an absolute path; null where the key was given as it is. */
  readonly filePath: string | null;
}

export type ResolvedApiKey = { readonly apiKey: ApiKey } | { readonly problem: Problem };

const KEY = 'service.apiKey';
const KEY_FILE = 'service.apiKeyFile';
const CREDENTIAL_NAME = 'api-key';
const CREDENTIAL_SOURCE = 'environment CREDENTIALS_DIRECTORY';

/**
 * The first level that has the key or names its file decides; behind them all comes the file `api-key` in the folder
 * that a service manager names in $CREDENTIALS_DIRECTORY (empty: there is none).
 */
export function resolveApiKey(
  levels: readonly Level[],
  credentialsDirectory: string,
  readFile: ReadFile,
): ResolvedApiKey {
  for (const level of levels) {
    const key = level(KEY);
    const keyFile = level(KEY_FILE);
    if (key !== null && keyFile !== null) {
      return failed(KEY, `and ${KEY_FILE} are both set; keep one`, `${key.source} and ${keyFile.source}`);
    }
    if (key !== null) return givenKey(key);
    if (keyFile !== null) return keyOfNamedFile(keyFile, readFile);
  }
  return keyOfCredentials(credentialsDirectory, readFile);
}

function givenKey(found: Found): ResolvedApiKey {
  const reading = readFound(settings[KEY].kind, found);
  if ('fault' in reading) return failed(KEY, reading.fault, found.source);
  return { apiKey: { value: reading.value, source: found.source, filePath: null } };
}

function keyOfNamedFile(found: Found, readFile: ReadFile): ResolvedApiKey {
  const path = readFound(settings[KEY_FILE].kind, found);
  const given = 'text' in found.raw ? found.raw.text : String(found.raw.yaml);
  const isSurelyAPath = /[/\\]/.test(given);
  if ('fault' in path) {
    return failed(KEY_FILE, isSurelyAPath ? path.fault : 'names no file', found.source);
  }
  try {
    return keyOfText(readFile(path.value), path.value, found.source);
  } catch (error) {
    const fault = isSurelyAPath
      ? `is ${quoted(path.value)}, which cannot be read: ${systemReason(error)}`
      : `cannot be read: ${systemReason(error)}; it is not shown, for it may be the key itself; write a path with a slash`;
    return failed(KEY_FILE, fault, found.source);
  }
}

function keyOfCredentials(directory: string, readFile: ReadFile): ResolvedApiKey {
  const ways = 'set FEED_SYNC_API_KEY or FEED_SYNC_API_KEY_FILE, or service.apiKeyFile in the file';
  const missing: ResolvedApiKey = failed(KEY, `is not set; ${ways}`, null);
  if (directory === '') return missing;
  const path = join(directory, CREDENTIAL_NAME);
  try {
    return keyOfText(readFile(path), path, CREDENTIAL_SOURCE);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return missing;
    return failed(
      KEY,
      `is in ${quoted(path)}, which cannot be read: ${systemReason(error)}`,
      CREDENTIAL_SOURCE,
    );
  }
}

function keyOfText(content: string, path: string, source: string): ResolvedApiKey {
  const text = content.trim();
  const reading = text === '' ? { fault: 'is empty' } : secret.readText(text, '');
  if ('fault' in reading) return failed(KEY_FILE, `is ${quoted(path)}, which ${reading.fault}`, source);
  return { apiKey: { value: reading.value, source, filePath: path } };
}

function failed(subject: ApiKeyKey, fault: string, source: string | null): { readonly problem: Problem } {
  return { problem: { subject, fault, source } };
}
