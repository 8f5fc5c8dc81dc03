/** The configuration as the command line gets it: every setting has a flag, the commonest are shown in the help. */

import { Option } from 'commander';
import { describeSettings } from '../configuration/help.ts';
import { FILE_FLAG } from '../configuration/names.ts';
import type { SettingKey } from '../configuration/settings.ts';

const SHOWN: readonly SettingKey[] = [
  'service.baseUrl',
  'subscriptions',
  'dataDir',
  'log.level',
  'log.format',
];

/** Options for the file and for every setting that may stand on a command line. */
export function settingOptions(): readonly Option[] {
  const file = new Option(
    `${FILE_FLAG} <file>`,
    'The configuration file. Default: feed-sync.yaml here, then in /etc/feed-sync.',
  );
  const rest = describeSettings().flatMap(({ key, flag, placeholder, description, defaultWords }) => {
    if (flag === null) return [];
    const choices = placeholder.split('|');
    const value = choices.length === 1 ? placeholder : 'word';
    const words = [
      description,
      ...(choices.length === 1 ? [] : [`One of ${choices.join(', ')}.`]),
      ...(defaultWords === null ? [] : [`Default: ${defaultWords}.`]),
    ];
    const option = new Option(`${flag} <${value}>`, words.join(' '));
    return [SHOWN.includes(key) ? option : option.hideHelp()];
  });
  return [file, ...rest];
}

/** What commander parsed, by the names of the flags. */
export function flagsOf(options: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const flags = settingOptions().flatMap((option) => {
    const value = options[option.attributeName()];
    return typeof value === 'string' ? [[option.long ?? '', value] as const] : [];
  });
  return Object.fromEntries(flags);
}
