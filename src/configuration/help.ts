/** What help texts and the documentation say about the settings. */

import { flagOf, hasFlag, variableOf } from './levels.ts';
import { allKeys, type Default, groups, type Setting, type SettingKey, settings } from './settings.ts';

interface SettingHelp {
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

const OPENING = `# The configuration of feed-sync. A run needs two values: service.baseUrl and the API key.
#
# A line that starts with # and a space explains; take the # away from a key to set it. A key without a value keeps
# its default. Each key can also be given as the variable beside it, and each but the API key as a flag
# (http.timeout is --http-timeout). A flag is stronger than a variable, a variable than this file.
#
# Durations are written 500ms, 30s, 5m, 2h; sizes 512MB, 4GB. A relative path starts at the folder of this file.
# Lists are written ["one", "two"], in a variable one,two.`;

/** Its values, with every key taken out of its comment, are the defaults; the required ones have example values. */
export function exampleConfiguration(): string {
  const lines = [OPENING];
  let openGroups: readonly string[] = [];
  for (const key of allKeys) {
    const parents = groupsOf(key);
    const newGroups = parents.filter((group) => !openGroups.includes(group));
    lines.push('', ...newGroups.map((group) => `${indentOf(group)}${lastWordOf(group)}:`), ...linesOf(key));
    openGroups = parents;
  }
  return `${lines.join('\n')}\n`;
}

function linesOf(key: SettingKey): readonly string[] {
  const setting: Setting<unknown> = settings[key];
  const indent = indentOf(key);
  const value = valueIn(setting.default);
  return [
    `${indent}# ${setting.description}`,
    `${indent}# ${variableOf(key)}. ${defaultSentence(setting.default)}`,
    `${indent}#${lastWordOf(key)}:${value === '' ? '' : ` ${value}`}`,
  ];
}

function valueIn(fallback: Default<unknown>): string {
  if (fallback.kind === 'required') return fallback.example;
  return fallback.kind === 'written' ? fallback.text : '';
}

function defaultSentence(fallback: Default<unknown>): string {
  switch (fallback.kind) {
    case 'required':
      return 'Required.';
    case 'written':
      return `Default: ${fallback.text}.`;
    case 'derived':
      return `Default: ${fallback.words}.`;
    case 'absent':
      return `Default: ${fallback.words}. For example: ${fallback.example}`;
  }
}

/** `service.contract.manifestPath` → `service`, `service.contract`. */
function groupsOf(key: SettingKey): readonly string[] {
  return [...groups].filter((group) => key.startsWith(`${group}.`));
}

function indentOf(name: string): string {
  return '  '.repeat(name.split('.').length - 1);
}

function lastWordOf(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}
