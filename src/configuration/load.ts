/**
 * Flags, environment, file and defaults → one configuration. The first level that has a value for a setting counts.
 *
 * Invariants: a configuration that is returned is whole, valid and frozen; all problems are reported at once, in one error;
 * the API key leaves this file as a `Secret` only and is in none of the texts, not even where somebody gave the key in place of
 * its file's name.
 */

import { dirname, join } from 'node:path';
import { z } from 'zod';
import { assert } from '../lib/assert.ts';
import { systemCode, systemReason } from '../lib/files.ts';
import { formatNearest } from '../lib/nearest.ts';
import { Secret } from '../lib/secret.ts';
import { quoted } from '../lib/text.ts';
import { ConfigurationError } from '../model/errors.ts';
import {
  type Configuration,
  deepFreeze,
  type LocalConfiguration,
  localConfiguration,
  serviceConfiguration,
} from './configuration.ts';
import { type Flags, locateFile, type Problem, type ReadFile, readSettingsFile } from './file.ts';
import {
  allKeys,
  type Environment,
  FILE_VARIABLE,
  flagOf,
  hasFlag,
  type LocalValues,
  localKeys,
  type ServiceValues,
  type SettingKey,
  type Surroundings,
  serviceKeys,
  settings,
  VARIABLE_PREFIX,
  variableOf,
} from './schema.ts';
import { isSurelyAPath, Relative } from './value-types.ts';

export interface LoadInput extends Surroundings {
  /** By their names, `--config` and those that `flagOf` gives: `{ '--log-level': 'debug' }`. */
  readonly flags: Flags;
  readonly readFile: ReadFile;
}

interface LoadedConfiguration<Part> {
  /** Deeply frozen. */
  readonly configuration: Part;
  /** For every setting that was read, its value as text and where that came from; secrets are masked. */
  readonly sources: ReadonlyMap<SettingKey, SettingSource>;
  /** The file that was read, an absolute path; null where there was none. */
  readonly filePath: string | null;
}

/**
 * The whole configuration, for commands that talk to the service.
 * @throws ConfigurationError that lists every problem.
 */
export function loadConfiguration(input: LoadInput): LoadedConfiguration<Configuration> {
  const { levels, filePath, problems } = openReadable(input);
  const resolution = resolveSettings(keysToResolve, levels, input);
  const resolvedKey = resolveApiKey(levels, input);
  const found = [...problems, ...resolution.problems];
  if ('fault' in resolvedKey) return throwProblems([...found, resolvedKey]);
  if (found.length > 0) return throwProblems(found);
  const { key, source, filePath: keyPath } = resolvedKey;
  const sources = new Map(resolution.sources).set('service.apiKey', { value: String(key), source });
  if (keyPath !== null) sources.set('service.apiKeyFile', { value: keyPath, source });
  return { configuration: wholeConfiguration(resolution.values, key), sources, filePath };
}

/**
 * The part for commands that only look at what is on this machine. It asks for neither address nor key, and does not
 * judge the settings of the service, so that one can look even where these are wrong.
 * @throws ConfigurationError that lists every problem.
 */
export function loadLocalConfiguration(input: LoadInput): LoadedConfiguration<LocalConfiguration> {
  const { levels, filePath, problems } = openReadable(input);
  const { values, sources, problems: found } = resolveSettings(localKeys, levels, input);
  if (problems.length + found.length > 0) return throwProblems([...problems, ...found]);
  return { configuration: deepFreeze(localConfiguration(treeOf(values))), sources, filePath };
}

export function wholeConfiguration(values: ReadonlyMap<SettingKey, unknown>, apiKey: Secret): Configuration {
  const tree = treeOf(values);
  return deepFreeze({ ...localConfiguration(tree), ...serviceConfiguration(tree, apiKey) });
}

/** The values in the shape of the schema. */
function treeOf(values: ReadonlyMap<SettingKey, unknown>): LocalValues & ServiceValues {
  const tree: Record<string, unknown> = {};
  for (const [key, value] of values) {
    const words = key.split('.');
    const name = words.pop() ?? key;
    let group = tree;
    for (const word of words) {
      group[word] ??= {};
      group = group[word] as Record<string, unknown>;
    }
    group[name] = value;
  }
  // Each value was read by the schema of its own setting, or is its own default.
  return tree as unknown as LocalValues & ServiceValues;
}

/** @throws ConfigurationError always. It lists the problems, a line for each; there must be one. */
function throwProblems(problems: readonly Problem[]): never {
  const lines = problems.map(({ subject, fault, source }) =>
    source === null ? `  ${subject} ${fault}` : `  ${subject} ${fault} (${source})`,
  );
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  throw new ConfigurationError([`The configuration has ${count}:`, ...lines].join('\n'), {
    hint: 'feed-sync settings explains every key; feed-sync init writes a commented file of them.',
  });
}

/** A value as it stands somewhere, not read yet. */
interface Found {
  /** Text, or in the file whatever YAML gives but null. */
  readonly raw: unknown;
  /** Whether it can only be text, so that a list is written with commas. */
  readonly isTextOnly: boolean;
  /** `flag --log-level`, `environment FEED_SYNC_LOG_LEVEL`, `file /etc/feed-sync/feed-sync.yaml:4`. */
  readonly source: string;
  /** Where a relative path starts. In a file that is the file's folder, so that it means the same wherever we are started. */
  readonly directory: string;
}

type Level = (key: SettingKey) => Found | null;

interface OpenedLevels {
  /** The strongest first. Without that of a file that cannot be read. */
  readonly levels: readonly Level[];
  /** The file that was looked into, also where it cannot be read; null where there is none. */
  readonly filePath: string | null;
  /** False where there is a file and nothing is known of what it sets. */
  readonly isFileReadable: boolean;
  /** Unknown names, and why the file cannot be read. */
  readonly problems: readonly Problem[];
}

export function openLevels(input: LoadInput): OpenedLevels {
  const { flags, environment, workingDirectory: directory } = input;
  const flagLevel: Level = (key) => {
    const raw = hasFlag(key) ? flags[flagOf(key)] : undefined;
    return raw === undefined ? null : { raw, isTextOnly: true, source: `flag ${flagOf(key)}`, directory };
  };
  // An empty variable counts as not set: that is how compose files and units write "none".
  const environmentLevel: Level = (key) => {
    const raw = (environment[variableOf(key)] ?? '').trim();
    return raw === '' ? null : { raw, isTextOnly: true, source: `environment ${variableOf(key)}`, directory };
  };
  const given = [flagLevel, environmentLevel];
  const unknown = unknownVariables(environment);
  const located = locateFile(input);
  if (located.kind === 'none') {
    return { levels: given, filePath: null, isFileReadable: true, problems: unknown };
  }
  const { path } = located;
  if (located.kind === 'fault') {
    const problems = [located.problem, ...unknown];
    return { levels: given, filePath: path, isFileReadable: false, problems };
  }
  const { entries, problems, isReadable } = readSettingsFile(located.text, path);
  const fileLevel: Level = (key) => {
    const entry = entries.get(key);
    if (entry === undefined) return null;
    const source = `file ${path}:${entry.line}`;
    return { raw: entry.value, isTextOnly: false, source, directory: dirname(path) };
  };
  const levels = isReadable ? [...given, fileLevel] : given;
  return { levels, filePath: path, isFileReadable: isReadable, problems: [...problems, ...unknown] };
}

/** @throws ConfigurationError at once for a file that cannot be read: without it, everything would seem to be missing. */
function openReadable(input: LoadInput): OpenedLevels {
  const opened = openLevels(input);
  return opened.isFileReadable ? opened : throwProblems(opened.problems);
}

/**
 * What Kubernetes adds to every container of a namespace with a Service named feed-sync or feed-sync-…:
 * `FEED_SYNC_SERVICE_HOST`, `FEED_SYNC_PORT_9464_TCP_ADDR`. Nobody wrote these, so they are no mistake.
 */
const KUBERNETES_VARIABLE =
  /^FEED_SYNC_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;

/** The variables that look like ours and are not. */
function unknownVariables(environment: Environment): readonly Problem[] {
  const known = [...allKeys.map(variableOf), FILE_VARIABLE];
  return Object.keys(environment)
    .filter((name) => name.startsWith(VARIABLE_PREFIX) && !known.includes(name))
    .filter((name) => !KUBERNETES_VARIABLE.test(name))
    .map((name) => ({
      subject: name,
      fault: `is not a known variable${formatNearest(name, known)}`,
      source: 'environment',
    }));
}

/** What a person is told about a setting, by `doctor` for example. Never contains a secret. */
export interface SettingSource {
  /** The value as a person would write it, or words where no text stands for it: `all`, `discovered`. */
  readonly value: string;
  /** `flag --x`, `environment FEED_SYNC_X`, `file path:line` or `default`. */
  readonly source: string;
}

export interface Resolution {
  /** All the keys asked for, without those that have a problem. */
  readonly values: ReadonlyMap<SettingKey, unknown>;
  readonly sources: ReadonlyMap<SettingKey, SettingSource>;
  readonly problems: readonly Problem[];
}

type Resolved = { readonly value: unknown; readonly source: SettingSource } | Problem;

const KEY = 'service.apiKey';
const KEY_FILE = 'service.apiKeyFile';

/** The API key is resolved by itself. `dataDir` comes before the settings whose defaults lie in it. */
export const keysToResolve = [...localKeys, ...serviceKeys].filter((key) => key !== KEY && key !== KEY_FILE);

/** @param keys with `dataDir` before those whose defaults lie in it. */
export function resolveSettings(
  keys: readonly SettingKey[],
  levels: readonly Level[],
  surroundings: Surroundings,
): Resolution {
  const values = new Map<SettingKey, unknown>();
  const sources = new Map<SettingKey, SettingSource>();
  const problems: Problem[] = [];
  let dataDirectory = surroundings.workingDirectory;
  for (const key of keys) {
    const resolved = resolveSetting(key, levels, surroundings, dataDirectory);
    if ('fault' in resolved) {
      problems.push(resolved);
      continue;
    }
    values.set(key, resolved.value);
    sources.set(key, resolved.source);
    if (key === 'dataDir') dataDirectory = String(resolved.value);
  }
  return { values, sources, problems: [...problems, ...contradictions(values, sources)] };
}

function resolveSetting(
  key: SettingKey,
  levels: readonly Level[],
  surroundings: Surroundings,
  dataDirectory: string,
): Resolved {
  const found = find(key, levels);
  if (found !== null) return 'fault' in found ? found : read(key, found);
  const fallback = settingOf(key).default;
  const rest = { isTextOnly: true, directory: surroundings.workingDirectory };
  switch (fallback.kind) {
    case 'required': {
      const fault = `is not set; set ${variableOf(key)}, or ${key} in the file`;
      return { subject: key, fault, source: null };
    }
    case 'absent':
      return { value: fallback.value, source: { value: fallback.words, source: 'default' } };
    case 'written':
      return read(key, { raw: fallback.text, source: 'default', ...rest });
    case 'derived': {
      const { text, source = 'default' } = fallback.derive(surroundings, dataDirectory);
      return read(key, { raw: text, source, ...rest });
    }
  }
}

/** Two settings that replace each other: the strongest level that has either of them decides, and must not have both. */
const RIVALS: readonly (readonly [SettingKey, SettingKey])[] = [
  [KEY, KEY_FILE],
  ['poll.every', 'poll.schedule'],
];

function find(key: SettingKey, levels: readonly Level[]): Found | Problem | null {
  const pair = RIVALS.find((each) => each.includes(key));
  const rival = pair?.find((each) => each !== key) ?? null;
  for (const level of levels) {
    const found = level(key);
    const other = rival === null ? null : level(rival);
    if (found !== null && other !== null && key === pair?.[0]) {
      const fault = `and ${rival} are both set; keep one`;
      return { subject: key, fault, source: `${found.source} and ${other.source}` };
    }
    if (found !== null || other !== null) return found;
  }
  return null;
}

function settingOf(key: SettingKey) {
  const setting = settings.get(key);
  assert(setting !== undefined, `the setting ${key} is in the schema`);
  return setting;
}

function read(key: SettingKey, found: Found): Resolved {
  const { schema } = settingOf(key);
  const { raw, isTextOnly, source, directory } = found;
  const written = typeof raw === 'string' ? raw.trim() : raw;
  if (written === '') return { subject: key, fault: 'is empty', source };
  const isList = isTextOnly && schema instanceof z.ZodArray;
  const { data, error } = schema.safeParse(isList ? itemsOf(String(written)) : written);
  if (error !== undefined) {
    const faults = error.issues.map(({ path: [index], message }) =>
      index === undefined ? message : `item ${Number(index) + 1} ${message}`,
    );
    return { subject: key, fault: faults.join('; '), source };
  }
  const value = data instanceof Relative ? data.from(directory) : data;
  return { value, source: { value: shown(value, written), source } };
}

function itemsOf(text: string): readonly string[] {
  const items = text.split(',').map((item) => item.trim());
  return items.filter((item) => item !== '');
}

/** Paths and addresses as they were understood; what has a unit as it was written. */
function shown(value: unknown, written: unknown): string {
  if (typeof value === 'string' || value instanceof Secret) return String(value);
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ');
  return String(written);
}

/** Values that are wrong only together. Judges only the settings that were resolved. */
function contradictions(values: Resolution['values'], sources: Resolution['sources']): readonly Problem[] {
  const problems: Problem[] = [];
  const blame = (key: SettingKey, fault: string) => {
    problems.push({ subject: key, fault, source: sources.get(key)?.source ?? null });
  };
  const areSame = (key: SettingKey, other: SettingKey) =>
    values.has(key) && values.get(key) === values.get(other);
  if (areSame('checkpoint.path', 'destination.path')) {
    blame('checkpoint.path', 'is the same file as destination.path; give each its own');
  }
  for (const key of ['destination.path', 'checkpoint.path'] as const) {
    if (!areSame('destination.publish', key)) continue;
    blame('destination.publish', `is the same file as ${key}; a copy needs a file of its own`);
  }
  if (Number(values.get('retry.baseDelay')) > Number(values.get('retry.maxDelay'))) {
    const [base, most] = [sources.get('retry.baseDelay')?.value, sources.get('retry.maxDelay')?.value];
    blame('retry.baseDelay', `is '${base}', longer than retry.maxDelay, ${most}`);
  }
  return problems;
}

interface ApiKey {
  readonly key: Secret;
  /** Where the key stands, or where its file is named. */
  readonly source: string;
  /** The file that contained it, an absolute path; null where the key was given as it is. */
  readonly filePath: string | null;
}

export type ResolvedApiKey = ApiKey | Problem;

/**
 * The first level that has the key or names its file decides; behind them all comes the file `api-key` in the folder
 * that a service manager names in $CREDENTIALS_DIRECTORY.
 */
export function resolveApiKey(levels: readonly Level[], input: LoadInput): ResolvedApiKey {
  const given = find(KEY, levels);
  if (given !== null) return 'fault' in given ? given : keyOf(given, null);
  const named = find(KEY_FILE, levels);
  const found = named ?? credentialsFile(input);
  const ways = 'set FEED_SYNC_API_KEY or FEED_SYNC_API_KEY_FILE, or service.apiKeyFile in the file';
  const missing: Problem = { subject: KEY, fault: `is not set; ${ways}`, source: null };
  if (found === null) return missing;
  const path = 'fault' in found ? found : read(KEY_FILE, found);
  if ('fault' in path || 'fault' in found) return path as Problem;
  const filePath = String(path.value);
  try {
    return keyOf({ ...found, raw: input.readFile(filePath) }, filePath);
  } catch (error) {
    if (named === null && systemCode(error) === 'ENOENT') return missing;
    const fault = isSurelyAPath(String(found.raw))
      ? `is ${quoted(filePath)}, which cannot be read: ${systemReason(error)}`
      : `cannot be read: ${systemReason(error)}; it is not shown, for it may be the key itself; write a path with a slash`;
    return { subject: KEY_FILE, fault, source: found.source };
  }
}

function credentialsFile({ environment, workingDirectory: directory }: LoadInput): Found | null {
  const { CREDENTIALS_DIRECTORY: folder = '' } = environment;
  if (folder === '') return null;
  const source = 'environment CREDENTIALS_DIRECTORY';
  return { raw: join(folder, 'api-key'), isTextOnly: true, source, directory };
}

/** `filePath` is the file that contained what was found. */
function keyOf(found: Found, filePath: string | null): ResolvedApiKey {
  const { source } = found;
  const reading = read(KEY, found);
  if (!('fault' in reading)) {
    assert(reading.value instanceof Secret, 'the API key is wrapped');
    return { key: reading.value, source, filePath };
  }
  if (filePath === null) return reading;
  return { subject: KEY_FILE, fault: `is ${quoted(filePath)}, which ${reading.fault}`, source };
}
