/** Which value each setting has: that of the first level that has one, else its default. */

import { assert } from '../lib/assert.ts';
import { type Found, type Level, readFound, variableOf } from './levels.ts';
import type { Problem } from './problems.ts';
import { type Setting, type SettingKey, type Surroundings, settings, type ValueOf } from './settings.ts';

/** What a person is told about a setting, by `doctor` for example. Never holds a secret. */
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
    if ('problem' in resolved) {
      problems.push(resolved.problem);
      continue;
    }
    values.set(key, resolved.value);
    sources.set(key, resolved.source);
    if (key === 'dataDir') dataDirectory = String(resolved.value);
  }
  return { values, sources, problems };
}

/** The value of a setting that was resolved without a problem. */
export function resolvedValue<Key extends SettingKey>({ values }: Resolution, key: Key): ValueOf<Key> {
  assert(values.has(key), `the setting ${key} is resolved`);
  // Each value was read by the kind of its own setting, or is its own default.
  return values.get(key) as ValueOf<Key>;
}

type Resolved = { readonly value: unknown; readonly source: SettingSource } | { readonly problem: Problem };

function resolveSetting(
  key: SettingKey,
  levels: readonly Level[],
  surroundings: Surroundings,
  dataDirectory: string,
): Resolved {
  for (const level of levels) {
    const found = level(key);
    if (found !== null) return read(key, found);
  }
  const setting: Setting<unknown> = settings[key];
  const fallback = setting.default;
  const directory = surroundings.workingDirectory;
  switch (fallback.kind) {
    case 'required': {
      const fault = `is not set; set ${variableOf(key)}, or ${key} in the file`;
      return { problem: { subject: key, fault, source: null } };
    }
    case 'absent':
      return { value: fallback.value, source: { value: fallback.words, source: 'default' } };
    case 'written':
      return read(key, { raw: { text: fallback.text }, source: 'default', directory });
    case 'derived': {
      const { text, source = 'default' } = fallback.derive(surroundings, dataDirectory);
      return read(key, { raw: { text }, source, directory });
    }
  }
}

function read(key: SettingKey, found: Found): Resolved {
  const setting: Setting<unknown> = settings[key];
  const reading = readFound(setting.kind, found);
  if ('fault' in reading) {
    return { problem: { subject: key, fault: reading.fault, source: found.source } };
  }
  return { value: reading.value, source: { value: shown(reading.value, found), source: found.source } };
}

/** Paths and addresses as they were understood; what has a unit as it was written. */
function shown(value: unknown, { raw }: Found): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ');
  return String('text' in raw ? raw.text.trim() : raw.yaml);
}
