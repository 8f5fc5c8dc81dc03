/** The command line: finds the command, runs it, and turns every error into a message and an exit code. */

import { type Argument, Command, CommanderError, Help, type HelpConfiguration, type Option } from 'commander';
import { sourceStack } from '../lib/source-stack.ts';
import { nearest } from '../lib/text.ts';
import { FeedSyncError, UsageError } from '../model/errors.ts';
import { defineCommands } from './commands.ts';
import { type Context, write, writeMessage } from './context.ts';
import { EXAMPLES } from './examples.ts';
import { EXIT_CODES, EXIT_CODES_HELP, type ExitCode, exitCodeOf } from './exit-codes.ts';
import { formatError } from './render/messages.ts';

const DESCRIPTION = 'Keeps tables in DuckDB or PostgreSQL equal to the datasets of a feed service.';

const EVERY_SETTING =
  'Every setting has a key in the file, most also a variable and a flag: see "feed-sync settings".';

const HELP_AFTER = `
Two variables are enough to run: FEED_SYNC_BASE_URL and FEED_SYNC_API_KEY.
${EVERY_SETTING}

Examples:
  feed-sync once                  load everything, or catch up with it
  feed-sync run                   the same, and follow what is published from then on
  feed-sync status --watch        show the state meanwhile
  feed-sync query -f report.sql   read the mirror with SQL

${EXIT_CODES_HELP}
`;

/**
 * Runs the command that `words` name (the command line without program and script) and returns its exit code. @throws
 * UsageError when the words make no sense; any error of the command.
 */
export async function runProgram(
  words: readonly string[],
  version: string,
  context: Context,
): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT_CODES.caughtUp;
  const shown: string[] = [];
  const program = plainProgram(context, (text) => void shown.push(text));
  // An option of the program is taken wherever it stands, and approve has one of the same name.
  if (!words.includes('approve')) program.version(version, '-V, --version', 'print the version');
  defineCommands(program, version, context, (code) => {
    exitCode = code;
  });
  for (const command of [
    program,
    ...program.commands,
    ...program.commands.flatMap(({ commands }) => commands),
  ]) {
    command.addHelpText('after', helpAfter(command, program));
  }
  try {
    // Commander would say that there is no command; whoever types nothing else wants to know which there are.
    if (words.length === 0) {
      await writeMessage(context.terminal, program.helpInformation() + HELP_AFTER);
      return EXIT_CODES.wrongUsage;
    }
    // Commander's help takes the first word alone, and would explain the group.
    const [first, ...named] = words;
    const asked = first === 'help' && named.length > 1 ? [...named, '--help'] : words;
    await program.parseAsync(asked, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw usageError(error, words, helpFor(words, program));
  }
  if (shown.length > 0) await write(context.terminal.stdout, shown.join(''));
  return exitCode;
}

/** `show` takes what the user asked to be explained. */
function plainProgram({ terminal: { width } }: Context, show: (text: string) => void): Command {
  return new Command('feed-sync')
    .description(DESCRIPTION)
    .helpOption('-h, --help', 'explain the program or a command')
    .configureOutput({
      writeOut: show,
      writeErr() {},
      getOutHelpWidth: () => width,
    })
    .configureHelp(inSentences())
    .exitOverride();
}

function helpAfter(command: Command, program: Command): string {
  if (command === program) return HELP_AFTER;
  const examples = EXAMPLES[nameOf(command, program)];
  const lines = examples === undefined ? [] : ['Examples:', ...examples.map((example) => `  ${example}`), ''];
  return ['', ...lines, EVERY_SETTING].join('\n');
}

/** `webhook add`. */
function nameOf(command: Command, program: Command): string {
  const { parent } = command;
  return parent === null || parent === program ? command.name() : `${parent.name()} ${command.name()}`;
}

/** Every description is a sentence, like those of the settings. */
function inSentences(): HelpConfiguration {
  const plain = new Help();
  return {
    showGlobalOptions: true,
    commandDescription: (command) => sentence(plain.commandDescription(command)),
    subcommandDescription: (command) => sentence(plain.subcommandDescription(command)),
    argumentDescription: describe,
    optionDescription: describe,
  };
}

/** Says choices and default in sentences, as the settings do, where commander has brackets. */
function describe({ description, argChoices = [], defaultValue }: Argument | Option): string {
  return [
    sentence(description),
    ...(argChoices.length === 0 ? [] : [`One of ${argChoices.join(', ')}.`]),
    ...(defaultValue === undefined ? [] : [`Default: ${defaultValue}.`]),
  ].join(' ');
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.?)]$/.test(words) ? '' : '.'}`;
}

/** Returns the command to run for help: that of the named command, if there is one. */
function helpFor(words: readonly string[], program: Command): string {
  const named: Command[] = [];
  for (const word of words) {
    const found = (named.at(-1) ?? program).commands.find((known) => known.name() === word);
    if (found !== undefined) named.push(found);
  }
  return ['feed-sync', ...named.map((command) => command.name()), '--help'].join(' ');
}

function usageError({ code, message }: CommanderError, words: readonly string[], hint: string): UsageError {
  const [first, asked] = words;
  if (code === 'commander.help' && first === 'help' && asked !== undefined) {
    return new UsageError(asSentence(`error: unknown command '${asked}'`), { hint });
  }
  // Options without a command, or a group of commands without one of it.
  if (code === 'commander.help') {
    return new UsageError('No command was given.', { hint: `${hint} lists them.` });
  }
  return new UsageError(asSentence(message), { hint });
}

/**
 * Turns `error: unknown command 'onec'\n(Did you mean once?)` into a sentence. Commander suggests words that have less than half in
 * common, too: those are left out. The value of an unknown option may be a secret.
 */
function asSentence(message: string): string {
  const words = message
    .replace(/^error: unknown command '([^'\n]*)'.*/s, (whole, word: string) => {
      const meant = COMMANDS_BY_OTHER_WORDS.get(word);
      return meant === undefined ? whole : `unknown command '${word}'; did you mean ${meant}?`;
    })
    .replace(/^error: /, '')
    .replace(/^(unknown option '[^'=]*)=.*'(?=\n|$)/s, "$1'")
    .replace(/^(too many arguments .*? but got \d+).*/s, '$1.')
    .replace(/ '([^']*)'\n\(Did you mean (?:one of )?(.*)\?\)$/, (_, word: string, suggested: string) => {
      const near = suggested.split(', ').filter((name) => nearest(word, [name]) !== null);
      return ` '${word}'${near.length === 0 ? '' : `; did you mean ${near.join(' or ')}?`}`;
    });
  return sentence(words);
}

/** Words of other programs for what a command does. The nearest spelling would be another command. */
const COMMANDS_BY_OTHER_WORDS: ReadonlyMap<string, string> = new Map([
  ...['sync', 'pull', 'fetch', 'update', 'refresh', 'load'].map((word) => [word, 'once'] as const),
  ...['start', 'serve', 'daemon', 'follow'].map((word) => [word, 'run'] as const),
  ...['sql', 'select'].map((word) => [word, 'query'] as const),
  ...['ls', 'list', 'show', 'info'].map((word) => [word, 'status'] as const),
  ['check', 'doctor'],
  ['config', 'settings'],
  ['undo', 'rollback'],
]);

/** Runs the program. `words` is the command line without program and script. Never throws. */
export async function start(words: readonly string[], version: string, context: Context): Promise<ExitCode> {
  try {
    return await runProgram(words, version, context);
  } catch (error) {
    await writeMessage(context.terminal, `feed-sync: ${report(error)}\n`);
    return exitCodeOf(error);
  }
}

/** Returns the stack of a bug; for every other error, what happened and what to do. */
function report(error: unknown): string {
  if (error instanceof FeedSyncError) return formatError(error);
  const stack = error instanceof Error ? sourceStack(error) : String(error);
  return `A bug in feed-sync ended it:\n${stack}\n→ Nothing was committed in part. Run it again, and report this.`;
}
