/**
 * Completion for shells, made from the commands and options as they are defined. Pure. A script follows the words from the
 * command line to a command and offers its subcommands and options; after an option with a closed set of words it offers those.
 */

import type { Command, Option } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

export type Shell = (typeof SHELLS)[number];

/** What may follow the words of one command. */
interface Place {
  /** `/webhook/add`; empty for the program itself. */
  readonly path: string;
  readonly commands: readonly Suggestion[];
  readonly options: readonly (Suggestion & { readonly choices: readonly string[] })[];
}

interface Suggestion {
  readonly word: string;
  readonly description: string;
}

/** Every description is a sentence in the help; here it is one line without its end. */
export function completionScript(program: Command, shell: Shell): string {
  const places = placesOf(program, '', []);
  switch (shell) {
    case 'bash':
      return bashScript(places);
    case 'zsh':
      return zshScript(places);
    case 'fish':
      return fishScript(places);
  }
}

/** An option of the program may stand anywhere. */
function placesOf(command: Command, path: string, above: readonly Option[]): readonly Place[] {
  const all = [...command.options, ...above];
  const place = {
    path,
    commands: command.commands.map((one) => ({
      word: one.name(),
      description: firstLine(one.description()),
    })),
    options: all.flatMap((option) =>
      option.long == null
        ? []
        : [
            {
              word: option.long,
              description: firstLine(option.description),
              choices: option.argChoices ?? [],
            },
          ],
    ),
  };
  const below = command.commands.flatMap((one) => placesOf(one, `${path}/${one.name()}`, all));
  return [place, ...below];
}

function firstLine(description: string): string {
  return (description.split('\n')[0] ?? '').replace(/\.$/, '');
}

function wordsAt({ commands, options }: Place): readonly Suggestion[] {
  return [...commands, ...options];
}

function bashScript(places: readonly Place[]): string {
  return `_feed_sync() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} at= suggested= i
${follow('i = 1; i < COMP_CWORD; i++', `\${COMP_WORDS[i]}`, places)}
  case "$at" in
${places.map((place) => `    '${place.path}') suggested='${words(wordsAt(place).map(({ word }) => word))}' ;;`).join('\n')}
  esac
  case "$at $previous" in
${choiceCases(places, (choices) => `suggested='${words(choices)}'`)}
  esac
  COMPREPLY=($(compgen -W "$suggested" -- "$current"))
}
complete -o default -F _feed_sync feed-sync
`;
}

function zshScript(places: readonly Place[]): string {
  const suggestion = ({ word, description }: Suggestion): string => quoted(`${word}:${description}`);
  return `#compdef feed-sync
_feed_sync() {
  local at= i previous=$words[CURRENT-1]
  local -a suggested
${follow('i = 2; i < CURRENT; i++', '$words[i]', places)}
  case "$at" in
${places.map((place) => `    '${place.path}') suggested=(${wordsAt(place).map(suggestion).join(' ')}) ;;`).join('\n')}
  esac
  case "$at $previous" in
${choiceCases(places, (choices) => `suggested=(${words(choices)})`)}
  esac
  _describe feed-sync suggested || _files
}
compdef _feed_sync feed-sync
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

function choiceCases(places: readonly Place[], offering: (choices: readonly string[]) => string): string {
  const cases = places.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ word, choices }) => `    '${path} ${word}') ${offering(choices)} ;;`),
  );
  return [...cases, '    *) ;;'].join('\n');
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
    // Options of the program are suggested once, everywhere.
    const own = given.length === 0 ? place.options : ownOptions(place, places[0]?.options ?? []);
    const where = given.length === 0 ? '' : ` -n ${condition}`;
    const options = own.map(({ word, description, choices }) => {
      const values = choices.length === 0 ? '' : ` -xa ${quoted(words(choices))}`;
      return `complete -c feed-sync${where} -l ${word.slice(2)}${values} -d ${quoted(description)}`;
    });
    return [...commands, ...options];
  });
  return `${lines.join('\n')}\n`;
}

function ownOptions({ options }: Place, ofProgram: Place['options']): Place['options'] {
  return options.filter(({ word }) => ofProgram.every((global) => global.word !== word));
}

function words(list: readonly string[]): string {
  return list.join(' ');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
