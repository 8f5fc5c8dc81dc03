/**
 * Looks at a configuration that may be wrong, for people who ask what is the matter with it: what can be read of it is
 * told, with the source of each value, beside what is wrong.
 *
 * Invariant: a value that is not sure is not made up. Where a wrong value says where something is or what is to be
 * mirrored, nothing takes its place; everything else is looked at with its default.
 */

import type { Configuration } from './configuration.ts';
import type { Problem } from './file.ts';
import {
  keysToResolve,
  type LoadInput,
  openLevels,
  type Resolution,
  type ResolvedApiKey,
  resolveApiKey,
  resolveSettings,
  wholeConfiguration,
} from './load.ts';
import { allKeys, isSettingKey, type SettingKey, type ValueOf } from './schema.ts';

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

/** Never throws because of anything in the configuration. */
export function inspectConfiguration(input: LoadInput): Inspection {
  const { levels, filePath, isFileReadable, problems } = openLevels(input);
  const isKnown = (key: SettingKey) => isFileReadable || levels.some((level) => level(key) !== null);
  const resolution = resolveSettings(keysToResolve, levels, input);
  const isKeyKnown = isKnown('service.apiKey') || isKnown('service.apiKeyFile');
  const apiKey = isKeyKnown ? resolveApiKey(levels, input) : null;
  // A setting of a file that cannot be read may be set there: that it is required is no problem of its own.
  const found = resolution.problems.filter(({ subject }) => !isUnknown(subject, isKnown));
  const keyProblems = apiKey !== null && 'fault' in apiKey ? [apiKey] : [];
  const values = sureValues(resolution, found, isKnown, input);
  const isWhole = keysToResolve.every((key) => values.has(key));
  return {
    filePath,
    settings: allKeys.map((key) => {
      if (key === 'service.apiKey' || key === 'service.apiKeyFile') return inspectedKey(key, apiKey);
      return isKnown(key) ? inspected(key, resolution, found) : { ...unset(key), source: FILE_UNREADABLE };
    }),
    problems: [...problems, ...found, ...keyProblems],
    // Each value was read by the schema of its own setting, or is its own default.
    known: <Key extends SettingKey>(key: Key) => (values.get(key) ?? null) as ValueOf<Key> | null,
    configuration:
      isWhole && apiKey !== null && 'key' in apiKey ? wholeConfiguration(values, apiKey.key) : null,
  };
}

function isUnknown(subject: string, isKnown: (key: SettingKey) => boolean): boolean {
  return isSettingKey(subject) && !isKnown(subject);
}

/** The values to go on with. */
function sureValues(
  { values, sources }: Resolution,
  found: readonly Problem[],
  isKnown: (key: SettingKey) => boolean,
  input: LoadInput,
): ReadonlyMap<SettingKey, unknown> {
  const isLost = (key: SettingKey) => !isKnown(key) || found.some(({ subject }) => subject === key);
  const liesInDataDirectory = (key: SettingKey) =>
    sources.get(key)?.source === 'default' && (key === 'destination.path' || key === 'checkpoint.path');
  const isUnsure = (key: SettingKey) => isLost(key) || (liesInDataDirectory(key) && isLost('dataDir'));
  const sure = [...values].filter(([key]) => !isUnsure(key));
  const harmless = allKeys.filter((key) => !NOT_TO_BE_GUESSED.test(key) && isUnsure(key));
  return new Map([...sure, ...resolveSettings(harmless, [], input).values]);
}

function unset(key: SettingKey): InspectedSetting {
  return { key, value: null, source: 'not set', fault: null };
}

function inspected(key: SettingKey, { sources }: Resolution, found: readonly Problem[]): InspectedSetting {
  const problem = found.find(({ subject }) => subject === key) ?? null;
  const { value, source } = sources.get(key) ?? { value: null, source: problem?.source ?? 'not set' };
  return { key, value, source, fault: problem?.fault ?? null };
}

function inspectedKey(
  key: 'service.apiKey' | 'service.apiKeyFile',
  resolved: ResolvedApiKey | null,
): InspectedSetting {
  if (resolved === null) return { ...unset(key), source: FILE_UNREADABLE };
  if ('fault' in resolved) {
    const { subject, fault, source } = resolved;
    return subject === key ? { ...unset(key), source: source ?? 'not set', fault } : unset(key);
  }
  const { key: secret, source, filePath } = resolved;
  if (key === 'service.apiKeyFile')
    return filePath === null ? unset(key) : { ...unset(key), value: filePath, source };
  return { ...unset(key), value: String(secret), source: filePath === null ? source : `file ${filePath}` };
}
