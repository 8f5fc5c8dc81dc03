/**
 * Completion for shells, made from the commands and options as they are defined. Pure. A script follows the words from the
 * command line to a command and offers its subcommands and options; after an option with a closed set of words it offers those.
 */

import type { Command, Option } from 'commander';
import { wordsOfSetting } from './setting-options.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

export type Shell = (typeof SHELLS)[number];

/** The words that may follow those of one command. */
interface Place {
  /** `/webhook/add`; empty for the program itself. */
  readonly path: string;
  /** Subcommands, or the words of an argument. */
  readonly commands: readonly Suggestion[];
  /** Whether an argument is the name of a file. Elsewhere names of files would be wrong words. */
  readonly takesFile: boolean;
  /** The options of the program stand in its own place alone, and may be given anywhere. */
  readonly options: readonly Choosing[];
}

interface Suggestion {
  readonly word: string;
  readonly description: string;
}

interface Choosing extends Suggestion {
  /** `-f`; null: it has no short form. */
  readonly short: string | null;
  /** Null: it takes no value. Without choices the shell completes names of files. */
  readonly choices: readonly string[] | null;
}

/** Returns the script of a shell, in which each description is one line without its full stop. */
export function completionScript(program: Command, shell: Shell): string {
  const places = placesOf(program, '');
  switch (shell) {
    case 'bash':
      return bashScript(places);
    case 'zsh':
      return zshScript(places);
    case 'fish':
      return fishScript(places);
  }
}

function placesOf(command: Command, path: string): readonly Place[] {
  const words = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);
  const place = {
    path,
    commands: [
      ...command.commands.map((one) => ({ word: one.name(), description: firstLine(one.description()) })),
      ...words.map((word) => ({ word, description: '' })),
    ],
    takesFile: command.registeredArguments.some((argument) => argument.name() === 'file'),
    options: command.options.flatMap(optionOf),
  };
  const below = command.commands.flatMap((one) => placesOf(one, `${path}/${one.name()}`));
  return [place, ...below];
}

function optionOf({ short, long, description, argChoices, required, optional }: Option): readonly Choosing[] {
  if (long == null) return [];
  const choices = required || optional ? (argChoices ?? wordsOfSetting(long)) : null;
  return [{ word: long, short: short ?? null, description: firstLine(description), choices }];
}

function firstLine(description: string): string {
  return (description.split('\n')[0] ?? '').replace(/\.$/, '');
}

/** Options are offered once a dash is typed: there are many of them. */
function bashScript(places: readonly Place[]): string {
  const list = (suggestions: readonly Suggestion[]): string => words(suggestions.map(({ word }) => word));
  return `_feed_sync() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} at= suggested= files= i
${follow('i = 1; i < COMP_CWORD; i++', `\${COMP_WORDS[i]}`, places)}
  case "$current" in
    -*)
      case "$at" in
${ownOptions(places, (options) => `suggested='${list(options)}'`)}
      esac
      suggested="$suggested ${list(optionsEverywhere(places))}" ;;
    *)
      case "$at" in
${placeCases(places, (commands) => `suggested='${list(commands)}'`)}
      esac
      case "$at $previous" in
        *' =') files=yes ;;
${valueCases(places, (choices) => `suggested='${words(choices)}'`)}
      esac ;;
  esac
  [ -n "$files" ] || compopt +o default 2>/dev/null
  COMPREPLY=($(compgen -W "$suggested" -- "$current"))
}
complete -o default -F _feed_sync feed-sync
`;
}

/** A file of that name in fpath is itself the function that the first completion runs. */
function zshScript(places: readonly Place[]): string {
  const list = (suggestions: readonly Suggestion[]): string =>
    suggestions.map(({ word, description: of }) => quoted(of === '' ? word : `${word}:${of}`)).join(' ');
  return `#compdef feed-sync
_feed_sync() {
  local at= files= i previous=$words[CURRENT-1]
  local -a suggested
${follow('i = 2; i < CURRENT; i++', '$words[i]', places)}
  case "$words[CURRENT]" in
    -*)
      case "$at" in
${ownOptions(places, (options) => `suggested=(${list(options)})`)}
      esac
      suggested+=(${list(optionsEverywhere(places))}) ;;
    *)
      case "$at" in
${placeCases(places, (commands) => `suggested=(${list(commands)})`)}
      esac
      case "$at $previous" in
${valueCases(places, (choices) => `suggested=(${words(choices)})`)}
      esac ;;
  esac
  _describe feed-sync suggested || { [[ -n "$files" ]] && _files }
}
if [[ "$funcstack[1]" == _feed-sync ]]; then
  _feed_sync "$@"
else
  compdef _feed_sync feed-sync
fi
`;
}

/** The words up to the cursor lead from command to command. */
function follow(loop: string, word: string, places: readonly Place[]): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== '');
  return `  for ((${loop})); do
    case "$at/${word}" in
      ${paths.join('|')}) at="$at/${word}" ;;
    esac
  done`;
}

function optionsEverywhere([program]: readonly Place[]): readonly Choosing[] {
  return program?.options ?? [];
}

/** The words that may stand in the place of a command or an argument. */
function placeCases(places: readonly Place[], offering: (commands: readonly Suggestion[]) => string): string {
  return cases(
    places.flatMap(({ path, commands, takesFile }) => {
      if (takesFile) return [[`'${path}'`, 'files=yes']];
      return commands.length === 0 ? [] : [[`'${path}'`, offering(commands)]];
    }),
  );
}

function ownOptions(
  [, ...commands]: readonly Place[],
  offering: (options: readonly Suggestion[]) => string,
): string {
  return cases(
    commands.flatMap(({ path, options }) => (options.length === 0 ? [] : [[`'${path}'`, offering(options)]])),
  );
}

/** The words after an option that takes a value: without choices none, and the shell offers files. Commands come first. */
function valueCases(places: readonly Place[], offering: (choices: readonly string[]) => string): string {
  return cases(
    places.toReversed().flatMap(({ path, options }) => {
      return options.flatMap(({ word, short, choices }) => {
        if (choices === null) return [];
        const written = short === null ? [word] : [word, short];
        const patterns = written.map((one) => (path === '' ? `*' ${one}'` : `'${path} ${one}'`));
        return [[patterns.join('|'), `${offering(choices)}${choices.length === 0 ? ' files=yes' : ''}`]];
      });
    }),
  );
}

function cases(entries: readonly (readonly string[])[]): string {
  return entries.map(([pattern, command]) => `        ${pattern}) ${command} ;;`).join('\n');
}

function fishScript(places: readonly Place[]): string {
  const lines = places.flatMap((place) => {
    const given = place.path.split('/').slice(1);
    const below = place.commands.map(({ word }) => word);
    const seen = given.map((word) => `__fish_seen_subcommand_from ${word}`);
    const unseen = below.length === 0 ? [] : [`not __fish_seen_subcommand_from ${words(below)}`];
    const condition = quoted([...seen, ...unseen].join('; and '));
    const commands = place.commands.map(
      ({ word, description }) =>
        `complete -c feed-sync -f -n ${condition} -a ${word} -d ${quoted(description)}`,
    );
    const where = given.length === 0 ? '' : ` -n ${quoted(seen.join('; and '))}`;
    const withoutFiles = where === '' || place.takesFile ? [] : [`complete -c feed-sync -f${where}`];
    const options = place.options.map(({ word, short, description, choices }) => {
      const values = choices === null ? '' : choices.length === 0 ? ' -rF' : ` -xa ${quoted(words(choices))}`;
      const letter = short === null ? '' : ` -s ${short.slice(1)}`;
      return `complete -c feed-sync${where} -l ${word.slice(2)}${letter}${values} -d ${quoted(description)}`;
    });
    return [...withoutFiles, ...commands, ...options];
  });
  return `${lines.join('\n')}\n`;
}

function words(list: readonly string[]): string {
  return list.join(' ');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
