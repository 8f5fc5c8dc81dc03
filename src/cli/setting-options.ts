/** The options of the program that stand for settings, and their values. */

import { type Command, Option } from 'commander';
import { FILE_FLAG, type SettingKey, settings } from '../configuration/schema.ts';
import { UsageError } from '../model/errors.ts';

/** Adds an option for the file, for every setting that may stand on a command line, and for two levels of the log. */
export function addSettingOptions(program: Command): void {
  for (const option of settingOptions()) program.addOption(option);
  program
    .addOption(new Option('-v, --verbose', 'log every request and every step: --log-level debug'))
    .addOption(new Option('-q, --quiet', 'log warnings and errors only: --log-level warn'));
}

const SHOWN: readonly SettingKey[] = [
  'service.baseUrl',
  'subscriptions',
  'dataDir',
  'log.level',
  'log.format',
];

/** Options for the file and for every setting that may stand on a command line. */
function settingOptions(): readonly Option[] {
  const file = new Option(
    `${FILE_FLAG} <file>`,
    'The configuration file. Default: feed-sync.yaml here, then in /etc/feed-sync.',
  );
  const rest = [...settings.values()].flatMap((setting) => {
    const { key, flag, placeholder, description } = setting;
    if (flag === null) return [];
    const choices = placeholder.split('|');
    const value = choices.length === 1 ? placeholder : 'word';
    const words = [
      description,
      ...(choices.length === 1 ? [] : [`One of ${choices.join(', ')}.`]),
      ...(setting.default.words === null ? [] : [`Default: ${setting.default.words}.`]),
    ];
    const option = new Option(`${flag} <${value}>`, words.join(' '));
    return [SHOWN.includes(key) ? option : option.hideHelp()];
  });
  return [file, ...rest];
}

/** Returns the words that a setting takes, by its flag; none where it takes others, too. */
export function wordsOfSetting(flag: string): readonly string[] {
  const setting = [...settings.values()].find((one) => one.flag === flag);
  const choices = setting?.placeholder.split('|') ?? [];
  return choices.length > 1 && choices.every((word) => /^[a-z]+$/.test(word)) ? choices : [];
}

const LOG_LEVEL_FLAG = '--log-level';

/** Returns commander's parsed options by the names of the flags. @throws UsageError */
export function flagsOf(options: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const flags = settingOptions().flatMap((option) => {
    const value = options[option.attributeName()];
    return typeof value === 'string' ? [[option.long ?? '', value] as const] : [];
  });
  const { verbose, quiet } = options;
  const levels = [...(verbose === true ? ['debug'] : []), ...(quiet === true ? ['warn'] : [])];
  const level = levels.map((word) => [LOG_LEVEL_FLAG, word] as const);
  const given = [...flags, ...level].filter(([flag]) => flag === LOG_LEVEL_FLAG);
  if (given.length > 1) throw new UsageError('Only one of --verbose, --quiet and --log-level can be given.');
  return Object.fromEntries([...flags, ...level]);
}
