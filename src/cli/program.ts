/**
 * The command line: which commands there are, what each takes, and what its help says. What a command does is loaded when
 * it is called: the databases, the client and the server take longer to load than most commands take.
 */

import { Command, CommanderError, Help, type HelpConfiguration, Option } from 'commander';
import type { Configuration, LocalConfiguration } from '../configuration/configuration.ts';
import { settingsHelp } from '../configuration/help.ts';
import { type LoadInput, loadConfiguration, loadLocalConfiguration } from '../configuration/load.ts';
import { UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';
import { EXIT_CODES, EXIT_CODES_HELP, type ExitCode } from './exit-codes.ts';
import { defineOperatorCommands } from './operator/commands.ts';
import { QUERY_FORMATS, type QueryFormat } from './query-format.ts';
import type { ResumeOptions } from './resume.ts';
import { flagsOf, settingOptions } from './settings.ts';
import { write } from './terminal.ts';

const DESCRIPTION = 'Keeps a local DuckDB database equal to the datasets of a feed service.';

const HELP_AFTER = `
Two variables are enough to run: FEED_SYNC_BASE_URL and FEED_SYNC_API_KEY.
Every setting has a key in the file, a variable and, but for the API key, a flag: see "feed-sync settings".

${EXIT_CODES_HELP}`;

/**
 * Runs the command that `words` name (the command line without program and script) and gives its exit code.
 * @throws UsageError when the words make no sense; whatever the command throws.
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
  definePersonCommands(program, context, finish);
  program.commandsGroup('Ask of the service:');
  defineOperatorCommands(
    program,
    () => loadConfiguration(loadInput(program, context)).configuration,
    context,
    finish,
  );
  return program;
}

/** Every description is a sentence, as those of the settings are. */
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
      const { run } = await import('./run.ts');
      finish(await run(configured, version, context));
    });
  program
    .command('once')
    .description('catch up with everything published so far, print a summary, exit')
    .option('--dry-run', 'tell what would be done, with bytes, rows and disk, and change nothing')
    .option('--json', 'what a dry run tells as JSON, for programs')
    .action(async (flags: OnceFlags) => finish(await catchUpOrTell(flags, configured(), context)));
  program
    .command('subscriptions')
    .description('list what the API key can see')
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { listSubscriptions } = await import('./subscriptions.ts');
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
}

/** @throws UsageError */
async function catchUpOrTell(
  { dryRun: isDry = false, json = false }: OnceFlags,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  if (isDry) {
    const { dryRun } = await import('./dry-run/dry-run.ts');
    return dryRun(configuration, context, { json });
  }
  if (json) throw new UsageError('--json goes with --dry-run.', { hint: 'feed-sync once --help' });
  const { once } = await import('./once.ts');
  return once(configuration, context);
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
      const { status } = await import('./status/status.ts');
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
      const { query } = await import('./query.ts');
      finish(await query(sql, configured(), context, options));
    });
  program
    .command('compact')
    .description(
      'write the mirror into a new, smaller file, which takes its place; not beside a running instance',
    )
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { compact } = await import('./compact/compact.ts');
      finish(await compact(configured(), context, { json }));
    });
  program
    .command('settings')
    .description('explain every setting: its key, variable, flag and default')
    .action(() => write(stdout, settingsHelp()));
  program
    .command('init')
    .description('write a commented configuration file')
    .argument('[file]', 'where to', 'feed-sync.yaml')
    .action(async (file: string) => {
      const { init } = await import('./init.ts');
      finish(await init(file, context));
    });
}

/** It is given what the configuration is made from, and not the configuration, which may be what is wrong. */
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

/** What a person decides. It is written down; `run` acts on it within a second, else the next catch-up does. */
function definePersonCommands(program: Command, context: Context, finish: Finish): void {
  const configured = (): LocalConfiguration =>
    loadLocalConfiguration(loadInput(program, context)).configuration;
  program
    .command('resync')
    .description('load the snapshots of datasets again')
    .argument('[dataset...]', 'ids of datasets')
    .option('--all', 'every dataset that a subscription holds')
    .action(async (datasetIds: readonly string[], { all = false }: { all?: boolean }) => {
      const { resync } = await import('./resync.ts');
      finish(await resync(configured(), context, { datasetIds, all }));
    });
  program
    .command('resume')
    .description('go on with what is held or failed, after a person has acted on it')
    .option('--dataset <id>', 'a dataset, held or failed (repeatable)', collect)
    .option('--subscription <id>', 'a subscription, refused or missing (repeatable)', collect)
    .option('--workspace', 'the API key')
    .option('--retire', 'agree to the retirement of every dataset that no subscription holds')
    .option('--all', 'everything that is held or failed; retirements wait for --retire all the same')
    .action(async (flags: Partial<ResumeOptions>) => {
      const { resume } = await import('./resume.ts');
      finish(await resume(configured(), context, { ...NOTHING_TO_RESUME, ...flags }));
    });
  program
    .command('forget')
    .description('give up subscriptions that are held as missing, and retire what only they hold')
    .option('--subscription <id>', 'a subscription (repeatable)', collect)
    .action(async ({ subscription = [] }: { subscription?: readonly string[] }) => {
      const { forget } = await import('./forget.ts');
      finish(await forget(configured(), context, { subscription }));
    });
}

const NOTHING_TO_RESUME: ResumeOptions = {
  dataset: [],
  subscription: [],
  workspace: false,
  retire: false,
  all: false,
};

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

function collect(value: string, values: readonly string[] = []): readonly string[] {
  return [...values, value];
}

/** The command to run for help with these words: that of the command they name, if they name one. */
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

/** Of `error: unknown command 'onec'\n(Did you mean once?)` a sentence of ours. */
function asSentence(message: string): string {
  const words = message.replace(/^error: /, '').replace(/\n\(Did you mean (.*)\?\)$/, '; did you mean $1?');
  return sentence(words);
}
