/**
 * Looks at a configuration that may be wrong, for people who ask what is the matter with it: what can be read of it is
 * told, with the source of each value, beside what is wrong.
 *
 * Invariant: a value that is not sure is not made up. Where a wrong value says where something is or what is to be
 * mirrored, nothing takes its place; everything else is looked at with its default.
 */

import type { Secret } from '../lib/secret.ts';
import { type ResolvedApiKey, resolveApiKey } from './api-key.ts';
import type { Configuration } from './configuration.ts';
import type { Level } from './levels.ts';
import { contradictions, deepFreeze, type LoadInput, localPart, openLevels, servicePart } from './load.ts';
import type { Problem } from './problems.ts';
import { type Resolution, resolveSettings } from './resolve.ts';
import { allKeys, isApiKeyKey, localKeys, type SettingKey, serviceKeys, type ValueOf } from './settings.ts';

export interface InspectedSetting {
  readonly key: SettingKey;
  /** As a person would write it, secrets masked; null where it cannot be read or is not known. */
  readonly value: string | null;
  /** `flag --x`, `environment FEED_SYNC_X`, `file path:line`, `default`, or why nothing is known. */
  readonly source: string;
  /** What is wrong with it, as the rest of a sentence that begins with the key; null where nothing is. */
  readonly fault: string | null;
}

export interface Inspection {
  /** The file that was looked into, an absolute path; null where there is none. */
  readonly filePath: string | null;
  /** Every setting, in the order of the example file. */
  readonly settings: readonly InspectedSetting[];
  /** Whatever is wrong, unknown keys and variables and the file itself included. */
  readonly problems: readonly Problem[];
  /** The value to go on with; null where it is not known. */
  known<Key extends SettingKey>(key: Key): ValueOf<Key> | null;
  /** The whole; null where something that it cannot do without is not known. */
  readonly configuration: Configuration | null;
}

/** These say where something is, or what is to be mirrored: a default in place of a wrong value would mislead. */
const NOT_TO_BE_GUESSED = /^(?:service\.|dataDir$|destination\.|checkpoint\.|subscriptions$|datasets\.)/;

const FILE_UNREADABLE = 'not known, for the file cannot be read';

/** Never throws for what stands in the configuration. */
export function inspectConfiguration(input: LoadInput): Inspection {
  const opened = openLevels(input);
  const { levels, isFileReadable } = opened;
  const keys = [...localKeys, ...serviceKeys].filter((key) => !isApiKeyKey(key));
  const isSet = (key: SettingKey): boolean => levels.some((level) => level(key) !== null);
  const isKnown = (key: SettingKey): boolean => isFileReadable || isSet(key);
  const resolution = resolveSettings(keys, levels, input);
  const resolvedKey = keyOf(levels, isKnown, input);
  const found = [
    ...resolution.problems.filter(({ subject }) => keys.some((key) => key === subject && isKnown(key))),
    ...contradictions(resolution),
  ];
  const keyProblems = resolvedKey !== null && 'problem' in resolvedKey ? [resolvedKey.problem] : [];
  const sure = sureOf(resolution, found, isKnown, input);
  const problems = [...opened.problems, ...found, ...keyProblems];
  return {
    filePath: opened.filePath,
    settings: allKeys.map((key) =>
      isApiKeyKey(key)
        ? keySetting(key, resolvedKey)
        : setting(key, resolution, isKnown(key), found.find(({ subject }) => subject === key) ?? null),
    ),
    problems,
    // Each value was read by the kind of its own setting, or is its own default.
    known: <Key extends SettingKey>(key: Key) => (sure.values.get(key) ?? null) as ValueOf<Key> | null,
    configuration: wholeOf(sure, keys, resolvedKey),
  };
}

/** Null where it is not known what the file says of it. */
function keyOf(
  levels: readonly Level[],
  isKnown: (key: SettingKey) => boolean,
  { environment, readFile }: LoadInput,
): ResolvedApiKey | null {
  if (!isKnown('service.apiKey') && !isKnown('service.apiKeyFile')) return null;
  const { CREDENTIALS_DIRECTORY: credentialsDirectory = '' } = environment;
  return resolveApiKey(levels, credentialsDirectory, readFile);
}

/** What can be gone on with. */
function sureOf(
  resolution: Resolution,
  found: readonly Problem[],
  isKnown: (key: SettingKey) => boolean,
  input: LoadInput,
): Resolution {
  const isWrong = (key: SettingKey): boolean => found.some(({ subject }) => subject === key);
  const isLost = (key: SettingKey): boolean => !isKnown(key) || isWrong(key);
  const liesInDataDirectory = (key: SettingKey): boolean =>
    resolution.sources.get(key)?.source === 'default' &&
    (key === 'destination.path' || key === 'checkpoint.path');
  const isUnsure = (key: SettingKey): boolean =>
    isLost(key) || (liesInDataDirectory(key) && isLost('dataDir'));
  const sure = [...resolution.values].filter(([key]) => !isUnsure(key));
  const harmless = allKeys.filter((key) => !NOT_TO_BE_GUESSED.test(key) && isUnsure(key));
  const defaults = resolveSettings(harmless, [], input);
  return { ...resolution, values: new Map([...sure, ...defaults.values]) };
}

function wholeOf(
  sure: Resolution,
  keys: readonly SettingKey[],
  resolvedKey: ResolvedApiKey | null,
): Configuration | null {
  if (resolvedKey === null || 'problem' in resolvedKey) return null;
  if (!keys.every((key) => sure.values.has(key))) return null;
  const apiKey: Secret = resolvedKey.apiKey.value;
  return deepFreeze({ ...localPart(sure), ...servicePart(sure, apiKey) });
}

function setting(
  key: SettingKey,
  { sources }: Resolution,
  isKnown: boolean,
  problem: Problem | null,
): InspectedSetting {
  if (!isKnown) return { key, value: null, source: FILE_UNREADABLE, fault: null };
  const read = sources.get(key);
  return {
    key,
    value: read?.value ?? null,
    source: read?.source ?? problem?.source ?? 'not set',
    fault: problem?.fault ?? null,
  };
}

function keySetting(
  key: 'service.apiKey' | 'service.apiKeyFile',
  resolved: ResolvedApiKey | null,
): InspectedSetting {
  const unset = { key, value: null, source: 'not set', fault: null };
  if (resolved === null) return { ...unset, source: FILE_UNREADABLE };
  if ('problem' in resolved) {
    const { subject, fault, source } = resolved.problem;
    return subject === key ? { ...unset, source: source ?? 'not set', fault } : unset;
  }
  const { value, source, filePath } = resolved.apiKey;
  if (key === 'service.apiKey')
    return { ...unset, value: String(value), source: filePath === null ? source : `file ${filePath}` };
  return filePath === null ? unset : { ...unset, value: filePath, source };
}
