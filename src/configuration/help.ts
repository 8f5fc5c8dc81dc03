/** What help texts and the documentation say about the settings. */

import { hasFlag } from './levels.ts';
import { flagOf, variableOf } from './names.ts';
import type { Default, Setting } from './setting.ts';
import { allKeys, type SettingKey, settings } from './settings.ts';

export interface SettingHelp {
  readonly key: SettingKey;
  readonly variable: string;
  /** `--http-timeout`; null where there is none. */
  readonly flag: string | null;
  /** What stands for a value: `duration`. */
  readonly placeholder: string;
  /** The default, in words where no text stands for it; null where the setting is required. */
  readonly defaultWords: string | null;
  readonly description: string;
}

/** Every setting, in the order of the example file. */
export function describeSettings(): readonly SettingHelp[] {
  return allKeys.map((key) => {
    const setting: Setting<unknown> = settings[key];
    return {
      key,
      variable: variableOf(key),
      flag: hasFlag(key) ? flagOf(key) : null,
      placeholder: setting.kind.placeholder,
      defaultWords: wordsOf(setting.default),
      description: setting.description,
    };
  });
}

/** The settings as text for `--help`: three lines for each, without colours. */
export function settingsHelp(): string {
  const entries = describeSettings().map(
    ({ key, variable, flag, placeholder, defaultWords, description }) => {
      const names = [key, variable, ...(flag === null ? [] : [`${flag} <${placeholder}>`])];
      const state = defaultWords === null ? 'Required.' : `Default: ${defaultWords}.`;
      return `  ${names.join('  ')}\n      ${description} ${state}`;
    },
  );
  return `${entries.join('\n')}\n`;
}

function wordsOf(fallback: Default<unknown>): string | null {
  if (fallback.kind === 'required') return null;
  return fallback.kind === 'written' ? fallback.text : fallback.words;
}
