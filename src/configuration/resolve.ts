/**
 * Resolves each setting from flags, environment, file and defaults. The first level with a value for a setting wins.
 *
 * Invariant: the API key leaves this file as a `Secret` only, and no text contains it, not even where the user gave the key in
 * place of its file's name.
 */

import { dirname, join } from 'node:path';
import { z } from 'zod';
import { systemCode, systemReason } from '../lib/files.ts';
import { Secret } from '../lib/secret.ts';
import { formatNearest, quoted } from '../lib/text.ts';
import { type Flags, openFile, type Problem, type ReadFile } from './file.ts';
import {
  FILE_VARIABLE,
  type SettingKey,
  settingOf,
  settings,
  VARIABLE_PREFIX,
  variableOf,
} from './schema.ts';
import type { Environment, Surroundings } from './setting.ts';
import { isSurelyAPath, Relative } from './value-types.ts';

export interface LoadInput extends Surroundings {
  /** By name, `--config` and the flags of settings: `{ '--log-level': 'debug' }`. */
  readonly flags: Flags;
  readonly readFile: ReadFile;
}

/** An unread value, with its source. */
interface Found {
  /** Text, or any YAML value except null. */
  readonly raw: unknown;
  /** Whether the level has texts only, so that a list is written with commas. */
  readonly isTextOnly: boolean;
  /** `flag --log-level`, `environment FEED_SYNC_LOG_LEVEL`, `file /etc/feed-sync/feed-sync.yaml:4`. */
  readonly source: string;
  /**
   * The directory of relative paths: for a file its own folder, so that the file means the same wherever the process is
   * started.
   */
  readonly directory: string;
}

type Level = (key: SettingKey) => Found | null;

interface OpenedLevels {
  /** The strongest first. */
  readonly levels: readonly Level[];
  /** The file, also where it is unreadable; null where there is none. */
  readonly filePath: string | null;
  /** False where the file exists and its content is unknown. */
  readonly isFileReadable: boolean;
  /** Unknown names, and why the file is unreadable. */
  readonly problems: readonly Problem[];
}

export function openLevels(input: LoadInput): OpenedLevels {
  const { flags, environment, workingDirectory: directory } = input;
  const { path, entries, problems, isReadable } = openFile(input);
  const levels: readonly Level[] = [
    (key) => {
      const { flag } = settingOf(key);
      const raw = flag === null ? undefined : flags[flag];
      return raw === undefined ? null : { raw, isTextOnly: true, source: `flag ${flag}`, directory };
    },
    // An empty variable counts as unset: compose files and units write "none" like this.
    (key) => {
      const { variable } = settingOf(key);
      const raw = variable === null ? '' : (environment[variable]?.trim() ?? '');
      return raw === '' ? null : { raw, isTextOnly: true, source: `environment ${variable}`, directory };
    },
    (key) => {
      const entry = entries.get(key);
      if (entry === undefined || path === null) return null;
      const source = `file ${path}:${entry.line}`;
      return { raw: entry.value, isTextOnly: false, source, directory: dirname(path) };
    },
  ];
  const found = [...problems, ...unknownVariables(environment)];
  return { levels, filePath: path, isFileReadable: isReadable, problems: found };
}

/**
 * The variables that Kubernetes adds to every container of a namespace with a Service named feed-sync or feed-sync-…:
 * `FEED_SYNC_SERVICE_HOST`, `FEED_SYNC_PORT_9464_TCP_ADDR`. No user wrote them, so they are no mistake.
 */
const KUBERNETES_VARIABLE =
  /^FEED_SYNC_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;

/** Returns the variables with the prefix of feed-sync and an unknown name. */
function unknownVariables(environment: Environment): readonly Problem[] {
  const known = [...[...settings.values()].flatMap(({ variable }) => variable ?? []), FILE_VARIABLE];
  return Object.keys(environment)
    .filter((name) => name.startsWith(VARIABLE_PREFIX) && !known.includes(name))
    .filter((name) => !KUBERNETES_VARIABLE.test(name))
    .map((name) => ({
      subject: name,
      fault: `is not a known variable${formatNearest(name, known)}`,
      source: 'environment',
    }));
}

/** The resolved value of a setting. The texts never contain a secret. */
export interface Reading {
  /** Undefined where unknown. */
  readonly value?: unknown;
  /** The value as an operator would write it, or words where no text stands for it: `all`, `discovered`; null where unknown. */
  readonly shown: string | null;
  /** `flag --x`, `environment FEED_SYNC_X`, `file path:line`, `default`, or why the source is unknown; null: not set. */
  readonly source: string | null;
  /** The rest of a sentence that begins with the key; null where the value is valid. */
  readonly fault: string | null;
}

const UNSET: Reading = { shown: null, source: null, fault: null };

/** The file may set it. */
const UNREADABLE: Reading = { ...UNSET, source: 'not known, for the file cannot be read' };

const URL_KEY = 'destination.url';

/** A secret, and the setting that names its file instead. */
export interface SecretPair {
  readonly key: SettingKey;
  readonly fileKey: SettingKey;
  /** The file in the folder of $CREDENTIALS_DIRECTORY that is the last resort. */
  readonly credential: string;
  /** The source that is read where neither is set. */
  readonly missing: Reading;
}

export const SECRETS: readonly SecretPair[] = [
  {
    key: 'service.apiKey',
    fileKey: 'service.apiKeyFile',
    credential: 'api-key',
    missing: {
      ...UNSET,
      fault: 'is not set; set FEED_SYNC_API_KEY or FEED_SYNC_API_KEY_FILE, or service.apiKeyFile in the file',
    },
  },
  {
    key: 'notify.url',
    fileKey: 'notify.urlFile',
    credential: 'notify-url',
    missing: { value: null, shown: 'off', source: 'default', fault: null },
  },
  {
    key: URL_KEY,
    fileKey: 'destination.urlFile',
    credential: 'destination-url',
    missing: { value: null, shown: 'the DuckDB file at path', source: 'default', fault: null },
  },
];

/** @param keys in the order of the schema, in which `dataDir` precedes the settings whose defaults depend on it. */
export function resolveSettings(
  keys: readonly SettingKey[],
  opened: Pick<OpenedLevels, 'levels' | 'isFileReadable'>,
  input: LoadInput,
): ReadonlyMap<SettingKey, Reading> {
  const readings = new Map<SettingKey, Reading>();
  for (const key of keys) {
    const pair = SECRETS.find((each) => key === each.key || key === each.fileKey);
    if (pair?.key === key) {
      const [secret, file] = resolveSecret(pair, opened, input);
      readings.set(pair.fileKey, file).set(key, secret);
    }
    if (pair !== undefined) continue;
    const dataDirectory = readings.get('dataDir')?.value;
    readings.set(key, resolveSetting(key, opened, input, dataDirectory));
  }
  for (const [key, fault] of contradictions(readings)) {
    readings.set(key, { ...(readings.get(key) ?? UNSET), fault });
  }
  return readings;
}

function resolveSetting(
  key: SettingKey,
  { levels, isFileReadable }: Pick<OpenedLevels, 'levels' | 'isFileReadable'>,
  surroundings: Surroundings,
  dataDirectory: unknown,
): Reading {
  const found = find(key, levels);
  if (found !== null) return 'fault' in found ? found : read(key, found);
  if (!isFileReadable) return UNREADABLE;
  const { words, text, value } = settingOf(key).default;
  if (words === null) return { ...UNSET, fault: `is not set; set ${variableOf(key)}, or ${key} in the file` };
  if (text === null) return { value, shown: words, source: 'default', fault: null };
  const derived = typeof text === 'string' ? { text } : text(surroundings, dataDirectory);
  if (derived === null) return { ...UNSET, source: 'not known, for dataDir is wrong' };
  const { text: raw, source = 'default' } = derived;
  return read(key, { raw, isTextOnly: true, source, directory: surroundings.workingDirectory });
}

/** Pairs of settings that replace each other: the strongest level with either of them decides, and must not have both. */
const RIVALS: readonly (readonly [SettingKey, SettingKey])[] = [
  ...SECRETS.map(({ key, fileKey }) => [key, fileKey] as const),
  ['poll.every', 'poll.schedule'],
];

function find(key: SettingKey, levels: readonly Level[]): Found | Reading | null {
  const pair = RIVALS.find((each) => each.includes(key));
  const rival = pair?.find((each) => each !== key) ?? null;
  for (const level of levels) {
    const found = level(key);
    const other = rival === null ? null : level(rival);
    if (found !== null && other !== null && key === pair?.[0]) {
      const source = `${found.source} and ${other.source}`;
      return { ...UNSET, source, fault: `and ${rival} are both set; keep one` };
    }
    if (found !== null || other !== null) return found;
  }
  return null;
}

function read(key: SettingKey, { raw, isTextOnly, source, directory }: Found): Reading {
  const { schema } = settingOf(key);
  const written = typeof raw === 'string' ? raw.trim() : raw;
  if (written === '') return { ...UNSET, source, fault: 'is empty' };
  const isList = isTextOnly && schema instanceof z.ZodArray;
  const { data, error } = schema.safeParse(isList ? itemsOf(String(written)) : written);
  if (error !== undefined) {
    const faults = error.issues.map(({ path: [index, member], message }) => {
      if (index === undefined) return message;
      return [`item ${Number(index) + 1}`, ...(typeof member === 'string' ? [member] : []), message].join(
        ' ',
      );
    });
    return { ...UNSET, source, fault: faults.join('; ') };
  }
  const value = data instanceof Relative ? data.from(directory) : data;
  return { value, shown: shown(value, written), source, fault: null };
}

function itemsOf(text: string): readonly string[] {
  const items = text.split(',').map((item) => item.trim());
  return items.filter((item) => item !== '');
}

/** Paths and addresses are shown as resolved; values with a unit as written. */
function shown(value: unknown, written: unknown): string {
  if (typeof value === 'string' || value instanceof Secret) return String(value);
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(shownItem).join(', ');
  return String(written);
}

function shownItem(item: unknown): string {
  return typeof item === 'object' ? JSON.stringify(item) : String(item);
}

/** Settings that only a mirror in a DuckDB file has. */
const NOT_WITH_POSTGRESQL: readonly SettingKey[] = ['destination.path', 'destination.publish'];
const NOT_IN_A_DATABASE =
  'is not available with PostgreSQL: it is for a mirror in a file; leave it out, or leave out destination.url';
const NOT_IN_A_FILE =
  'is not available for a mirror in a file, whose tables are all in the schema main; leave it out, or set destination.url';

/** Returns the settings that the mirror's place does not have, and why. An address of a database that is wrong says nothing. */
function notAvailable(
  readings: ReadonlyMap<SettingKey, Reading>,
): readonly (readonly [SettingKey, string])[] {
  const url = readings.get(URL_KEY)?.value;
  if (url === null) {
    const schemas = readings.get('destination.schemas')?.value;
    return Array.isArray(schemas) && schemas.length > 0 ? [['destination.schemas', NOT_IN_A_FILE]] : [];
  }
  if (!(url instanceof Secret)) return [];
  return NOT_WITH_POSTGRESQL.flatMap((key) => {
    const { value, source } = readings.get(key) ?? UNSET;
    const isSet = value !== undefined && source !== null && source !== 'default';
    return isSet ? [[key, NOT_IN_A_DATABASE] as const] : [];
  });
}

/** Returns the settings whose values are wrong only in combination, and why. */
function contradictions(
  readings: ReadonlyMap<SettingKey, Reading>,
): readonly (readonly [SettingKey, string])[] {
  const areSame = (key: SettingKey, other: SettingKey) => {
    const value = readings.get(key)?.value;
    return value !== undefined && value === readings.get(other)?.value;
  };
  const found: (readonly [SettingKey, string])[] = [];
  if (areSame('checkpoint.path', 'destination.path')) {
    found.push(['checkpoint.path', 'is the same file as destination.path; give each its own']);
  }
  for (const key of ['destination.path', 'checkpoint.path'] as const) {
    if (!areSame('destination.publish', key)) continue;
    found.push(['destination.publish', `is the same file as ${key}; a copy needs a file of its own`]);
  }
  if (areSame('export.path', 'dataDir')) {
    found.push(['export.path', 'is the same folder as dataDir; an export needs a folder of its own']);
  }
  found.push(...notAvailable(readings));
  const [base, most] = [readings.get('retry.baseDelay'), readings.get('retry.maxDelay')];
  if (Number(base?.value) > Number(most?.value)) {
    found.push(['retry.baseDelay', `is '${base?.shown}', longer than retry.maxDelay, ${most?.shown}`]);
  }
  return found;
}

/**
 * Resolves a secret and its file. The first level that has the secret or names its file wins; the last resort is the file in the
 * folder that a service manager names in $CREDENTIALS_DIRECTORY.
 */
function resolveSecret(
  pair: SecretPair,
  { levels, isFileReadable }: Pick<OpenedLevels, 'levels' | 'isFileReadable'>,
  input: LoadInput,
): readonly [Reading, Reading] {
  const given = find(pair.key, levels);
  if (given !== null) return ['fault' in given ? given : read(pair.key, given), UNSET];
  const named = find(pair.fileKey, levels);
  if (named === null && !isFileReadable) return [UNREADABLE, UNREADABLE];
  const missing = [pair.missing, UNSET] as const;
  const found = named ?? credentialsFile(pair, input);
  if (found === null) return missing;
  if ('fault' in found) return [UNSET, found];
  return readSecretFile(pair, found, input.readFile, named === null ? missing : null);
}

function readSecretFile(
  { key, fileKey }: SecretPair,
  found: Found,
  readFile: ReadFile,
  missing: readonly [Reading, Reading] | null,
): readonly [Reading, Reading] {
  const file = read(fileKey, found);
  if (typeof file.value !== 'string') return [UNSET, file];
  const path = file.value;
  try {
    const secret = read(key, { ...found, raw: readFile(path), source: `file ${path}` });
    if (secret.fault === null) return [secret, file];
    return [UNSET, { ...file, fault: `is ${quoted(path)}, which ${secret.fault}` }];
  } catch (error) {
    if (missing !== null && systemCode(error) === 'ENOENT') return missing;
    const fault = isSurelyAPath(String(found.raw))
      ? `is ${quoted(path)}, which cannot be read: ${systemReason(error)}`
      : `cannot be read: ${systemReason(error)}; it is not shown, for it may be the key itself; write a path with a slash`;
    return [UNSET, { ...UNSET, source: found.source, fault }];
  }
}

function credentialsFile(
  { credential }: SecretPair,
  { environment, workingDirectory: directory }: LoadInput,
): Found | null {
  const { CREDENTIALS_DIRECTORY: folder = '' } = environment;
  if (folder === '') return null;
  const source = 'environment CREDENTIALS_DIRECTORY';
  return { raw: join(folder, credential), isTextOnly: true, source, directory };
}
