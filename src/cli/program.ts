/**
 * Defines the commands of the command line: their options and their help. The implementation of a command is loaded when
 * the command is
 * called, because the databases, the client and the server take longer to load than most commands run.
 */

import { Command, CommanderError, Help, type HelpConfiguration, Option } from 'commander';
import type { Configuration, LocalConfiguration } from '../configuration/configuration.ts';
import { loadConfiguration, loadLocalConfiguration } from '../configuration/configuration.ts';
import { settingsHelp, settingsJsonSchema } from '../configuration/help.ts';
import type { LoadInput } from '../configuration/resolve.ts';
import { parseDurationMs } from '../lib/units.ts';
import { FeedSyncError, UsageError } from '../model/errors.ts';
import { defineDecisionCommands, defineOperatorCommands, flagsOf, settingOptions } from './command-groups.ts';
import { type Context, write } from './context.ts';
import { EXIT_CODES, EXIT_CODES_HELP, type ExitCode, exitCodeOf } from './exit-codes.ts';
import { formatError } from './render/messages.ts';
import { QUERY_FORMATS, type QueryFormat } from './render/table.ts';

const DESCRIPTION = 'Keeps a local DuckDB database equal to the datasets of a feed service.';

const HELP_AFTER = `
Two variables are enough to run: FEED_SYNC_BASE_URL and FEED_SYNC_API_KEY.
Every setting has a key in the file, a variable and, but for the API key, a flag: see "feed-sync settings".

${EXIT_CODES_HELP}`;

/**
 * Runs the command that `words` name (the command line without program and script) and returns its exit code. @throws
 * UsageError when
 * the words make no sense; any error of the command.
 */
export async function runProgram(
  words: readonly string[],
  version: string,
  context: Context,
): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT_CODES.caughtUp;
  const program = defineProgram(version, context, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(words, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw usageError(error, helpFor(words, program));
  }
  return exitCode;
}

type Finish = (code: ExitCode) => void;

function defineProgram(version: string, context: Context, finish: Finish): Command {
  const { stdout, width } = context.terminal;
  const program = new Command('feed-sync')
    .description(DESCRIPTION)
    .version(version, '--version', 'print the version')
    .helpOption('-h, --help', 'explain the program or a command')
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr() {},
      getOutHelpWidth: () => width,
    })
    .configureHelp(inSentences())
    .exitOverride()
    .addHelpText('after', HELP_AFTER);
  for (const option of settingOptions()) program.addOption(option);
  program.commandsGroup('Mirror:');
  defineServiceCommands(program, version, context, finish);
  program.commandsGroup('Look and set up:').helpCommand('help [command]', 'explain a command');
  defineLocalCommands(program, context, finish);
  defineDoctor(program, version, context, finish);
  program.commandsGroup('Decide:');
  const configured = (): Configuration => loadConfiguration(loadInput(program, context)).configuration;
  const configuredLocally = (): LocalConfiguration =>
    loadLocalConfiguration(loadInput(program, context)).configuration;
  defineDecisionCommands(program, { configured, configuredLocally }, context, finish);
  program.commandsGroup('Ask of the service:');
  defineOperatorCommands(program, configured, context, finish);
  return program;
}

/** Every description is a sentence, like those of the settings. */
function inSentences(): HelpConfiguration {
  const plain = new Help();
  return {
    showGlobalOptions: true,
    commandDescription: (command) => sentence(plain.commandDescription(command)),
    subcommandDescription: (command) => sentence(plain.subcommandDescription(command)),
    argumentDescription: (argument) => sentence(plain.argumentDescription(argument)),
    optionDescription: (option) => sentence(plain.optionDescription(option)),
  };
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.?)]$/.test(words) ? '' : '.'}`;
}

function defineServiceCommands(program: Command, version: string, context: Context, finish: Finish): void {
  const configured = (): Configuration => loadConfiguration(loadInput(program, context)).configuration;
  program
    .command('run')
    .description('follow the subscriptions until it is stopped')
    .action(async () => {
      const { run } = await import('./commands/run.ts');
      finish(await run(configured, version, context));
    });
  program
    .command('once')
    .description('catch up with everything published so far, print a summary, exit')
    .option(
      '--dry-run',
      'report the next step of each dataset, with bytes, rows and disk, and change nothing',
    )
    .option('--wait <duration>', 'where a rule waits for time to pass, stay so long for it: 20m')
    .option('--json', 'the report of a dry run as JSON, for programs')
    .action(async (flags: OnceFlags) => finish(await catchUpOrReport(flags, configured(), context)));
  program
    .command('subscriptions')
    .description('list what the API key can see')
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { listSubscriptions } = await import('./commands/subscriptions.ts');
      finish(await listSubscriptions(configured(), context, { json }));
    });
  program
    .command('verify')
    .description(
      'compare the mirror with the service, and its tables with what is written of them; changes nothing',
    )
    .argument('[dataset...]', 'ids of datasets; without any, all of them')
    .option('--json', 'as JSON, for programs')
    .action(async (datasetIds: readonly string[], { json = false }: { json?: boolean }) => {
      const { verify } = await import('./verify/verify.ts');
      finish(await verify(configured(), context, { datasetIds, json }));
    });
}

interface OnceFlags {
  readonly dryRun?: boolean;
  readonly json?: boolean;
  readonly wait?: string;
}

/** @throws UsageError */
async function catchUpOrReport(
  { dryRun: isDry = false, json = false, wait }: OnceFlags,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const waitMs = wait === undefined ? 0 : stayMs(wait);
  if (isDry && wait !== undefined) {
    throw new UsageError('--wait does not go with --dry-run, which changes nothing.', {
      hint: 'feed-sync once --help',
    });
  }
  if (isDry) {
    const { dryRun } = await import('./commands/dry-run.ts');
    return dryRun(configuration, context, { json });
  }
  if (json) throw new UsageError('--json goes with --dry-run.', { hint: 'feed-sync once --help' });
  const { once } = await import('./commands/once.ts');
  return once(configuration, context, { waitMs });
}

/** @throws UsageError */
function stayMs(text: string): number {
  const ms = parseDurationMs(text);
  if (ms !== null) return ms;
  throw new UsageError(`--wait is '${text}', which is not a duration; for example 20m.`);
}

function defineLocalCommands(program: Command, context: Context, finish: Finish): void {
  const { stdout } = context.terminal;
  const configured = (): LocalConfiguration =>
    loadLocalConfiguration(loadInput(program, context)).configuration;
  program
    .command('status')
    .description('show subscriptions, datasets, versions and what is in the way')
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { status } = await import('./commands/status.ts');
      finish(await status(configured(), context, { json }));
    });
  program
    .command('query')
    .description('read the mirror with SQL')
    .argument('<sql>', 'one statement, such as "SELECT * FROM feed_sync.datasets"')
    .addOption(
      new Option('--format <format>', 'how rows are written').choices(QUERY_FORMATS).default('table'),
    )
    .action(async (sql: string, options: { format: QueryFormat }) => {
      const { query } = await import('./commands/query.ts');
      finish(await query(sql, configured(), context, options));
    });
  program
    .command('compact')
    .description(
      'write the mirror into a new, smaller file, which takes its place; not beside a running instance',
    )
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { compact } = await import('./commands/compact.ts');
      finish(await compact(configured(), context, { json }));
    });
  program
    .command('settings')
    .description('explain every setting: its key, variable, flag and default')
    .option('--json-schema', 'a JSON Schema of the configuration file, for editors')
    .action(({ jsonSchema = false }: { jsonSchema?: boolean }) =>
      write(stdout, jsonSchema ? settingsJsonSchema() : settingsHelp()),
    );
  program
    .command('init')
    .description('write a commented configuration file')
    .argument('[file]', 'where to', 'feed-sync.yaml')
    .action(async (file: string) => {
      const { init } = await import('./commands/init.ts');
      finish(await init(file, context));
    });
}

/** Gets the sources of the configuration instead of the configuration, which may itself be wrong. */
function defineDoctor(program: Command, version: string, context: Context, finish: Finish): void {
  program
    .command('doctor')
    .description(
      'look at configuration, disk, locks, stores, connection and key; say what to do about what is wrong',
    )
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { doctor } = await import('./doctor/doctor.ts');
      finish(await doctor(loadInput(program, context), context, { version, json }));
    });
}

function loadInput(
  program: Command,
  { environment, workingDirectory, machine, terminal, readFile }: Context,
): LoadInput {
  return {
    flags: flagsOf(program.opts()),
    environment,
    workingDirectory,
    machine,
    stderrIsTerminal: terminal.isWatched,
    readFile,
  };
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

function usageError({ code, message }: CommanderError, hint: string): UsageError {
  if (code === 'commander.help') {
    return new UsageError('No command was given.', { hint: `${hint} lists them.` });
  }
  return new UsageError(asSentence(message), { hint });
}

/**
 * Turns `error: unknown command 'onec'\n(Did you mean once?)` into a sentence. The value of an unknown option may be a
 * secret.
 */
function asSentence(message: string): string {
  const words = message
    .replace(/^error: /, '')
    .replace(/^(unknown option '[^'=]*)=.*'(?=\n|$)/s, "$1'")
    .replace(/^(too many arguments .*? but got \d+).*/s, '$1.')
    .replace(/\n\(Did you mean (.*)\?\)$/, '; did you mean $1?');
  return sentence(words);
}

/** `words` is the command line without program and script. Never throws. */
export async function start(words: readonly string[], version: string, context: Context): Promise<ExitCode> {
  try {
    return await runProgram(words, version, context);
  } catch (error) {
    await write(context.terminal.stderr, `feed-sync: ${report(error)}\n`);
    return exitCodeOf(error);
  }
}

/** Returns the stack of a bug; for every other error, what happened and what to do. */
function report(error: unknown): string {
  if (error instanceof FeedSyncError) return formatError(error);
  const stack = error instanceof Error ? error.stack : String(error);
  return `A bug in feed-sync ended it:\n${stack}\n→ Nothing was committed in part. Run it again, and report this.`;
}
