/**
 * Defines the commands: their options and their help. The implementation of a command is loaded when the command is called,
 * because the databases, the client and the server take longer to load than most commands run.
 */

import { Argument, type Command, Option } from 'commander';
import type { Configuration, LocalConfiguration } from '../configuration/configuration.ts';
import { loadConfiguration, loadLocalConfiguration } from '../configuration/configuration.ts';
import { settingsHelp, settingsJsonSchema } from '../configuration/help.ts';
import type { LoadInput } from '../configuration/resolve.ts';
import { FILE_FLAG, type SettingKey, settings } from '../configuration/schema.ts';
import { parseDurationMs } from '../lib/units.ts';
import { UsageError } from '../model/errors.ts';
import type { ApproveFlags } from './commands/approve.ts';
import type { ResumeOptions } from './commands/resume.ts';
import type { WebhookAddFlags } from './commands/webhook.ts';
import { type Context, write } from './context.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { type PastStateFlags, pastStateOptions, TIME } from './past-state.ts';
import { QUERY_FORMATS, type QueryFormat } from './render/table.ts';
import type { VerifyOptions } from './verify/verify.ts';

/** What the commands are defined on, and what they use when they are called. */
interface Definitions {
  readonly program: Command;
  readonly version: string;
  readonly context: Context;
  readonly loadInput: () => LoadInput;
  /** @throws ConfigurationError */
  readonly configured: () => Configuration;
  /** For commands that do not ask the service. @throws ConfigurationError */
  readonly local: () => LocalConfiguration;
  /** `run` gets the arguments of the command, and then its options. */
  readonly define: <Words extends readonly unknown[]>(
    name: string,
    description: string,
    parts: readonly (Argument | Option)[],
    run: (...words: Words) => Promise<ExitCode>,
  ) => void;
}

/** Defines all commands and the options for settings. `finish` is called with the exit code of the called command. */
export function defineCommands(
  program: Command,
  version: string,
  context: Context,
  finish: (code: ExitCode) => void,
): void {
  const loadInput = (): LoadInput => ({
    flags: flagsOf(program.opts()),
    environment: context.environment,
    workingDirectory: context.workingDirectory,
    machine: context.machine,
    stderrIsTerminal: context.terminal.isWatched,
    readFile: context.readFile,
  });
  const definitions: Definitions = {
    program,
    version,
    context,
    loadInput,
    configured: () => loadConfiguration(loadInput()).configuration,
    local: () => loadLocalConfiguration(loadInput()).configuration,
    define(name, description, parts, run) {
      const words = name.split(' ');
      const parent = words.length === 1 ? program : program.commands.find((one) => one.name() === words[0]);
      const command = (parent ?? program).command(words.at(-1) ?? name).description(description);
      for (const part of parts) {
        if (part instanceof Option) command.addOption(part);
        else command.addArgument(part);
      }
      // Commander gives the words that the parts define, which the types do not express.
      command.action(async (...given) => finish(await run(...(given as never))));
    },
  };
  for (const option of settingOptions()) program.addOption(option);
  program.commandsGroup('Mirror:');
  defineServiceCommands(definitions);
  program.commandsGroup('Look and set up:').helpCommand('help [command]', 'explain a command');
  defineLocalCommands(definitions);
  program.commandsGroup('Decide:');
  defineDecisionCommands(definitions);
  program.commandsGroup('Ask of the service:');
  defineOperatorCommands(definitions);
}

interface JsonFlag {
  readonly json?: boolean;
}

const JSON_OPTION = new Option('--json', 'as JSON, for programs');

function defineServiceCommands({ define, version, context, configured }: Definitions): void {
  define('run', 'follow the subscriptions until it is stopped', [], async () => {
    const { run } = await import('./commands/run.ts');
    return run(configured, version, context);
  });
  const dry = 'report the next step of each dataset, with bytes, rows and disk, and change nothing';
  define(
    'once',
    'catch up with everything published so far, print a summary, exit',
    [
      new Option('--dry-run', dry),
      new Option('--wait <duration>', 'where a rule waits for time to pass, stay so long for it: 20m'),
      new Option('--json', 'the report of a dry run as JSON, for programs'),
    ],
    (flags: OnceFlags) => catchUpOrReport(flags, configured(), context),
  );
  const subscriptions = 'list what the API key can see';
  define('subscriptions', subscriptions, [JSON_OPTION], async ({ json = false }: JsonFlag) => {
    const { listSubscriptions } = await import('./commands/operator.ts');
    return listSubscriptions(configured(), context, json);
  });
  define(
    'verify',
    'compare the mirror with the service, and its tables with what is written of them; changes nothing without --repair',
    [
      new Argument('[dataset...]', 'ids of datasets; without any, all of them'),
      new Option(
        '--deep',
        "compare every value with the service's snapshots and changes, which are downloaded",
      ),
      new Option('--repair', 'with --deep, write the rows that differ, and no others; asks first'),
      YES_OPTION,
      new Option(
        '--wait <duration>',
        'with --deep, wait so long for tables that a running instance updates',
      ).default('10m'),
      JSON_OPTION,
    ],
    async (datasetIds: readonly string[], flags: VerifyFlags) => {
      const { verify } = await import('./verify/verify.ts');
      return verify(datasetIds, configured(), context, verifyOptions(flags));
    },
  );
}

interface VerifyFlags extends JsonFlag {
  readonly deep?: boolean;
  readonly repair?: boolean;
  readonly yes?: boolean;
  readonly wait: string;
}

/** @throws UsageError */
function verifyOptions({
  json = false,
  deep = false,
  repair: repairs = false,
  yes: isYes = false,
  wait,
}: VerifyFlags): VerifyOptions {
  const waitMs = parseDurationMs(wait);
  if (waitMs === null) {
    throw new UsageError(`--wait is '${wait}', which is not a duration; for example 10m.`);
  }
  if (repairs && !deep) {
    throw new UsageError('--repair goes with --deep, which finds the rows to repair.', {
      hint: 'feed-sync verify --deep --repair',
    });
  }
  return { json, deep: deep ? { waitMs, repairs, isYes } : null };
}

interface OnceFlags extends JsonFlag {
  readonly dryRun?: boolean;
  readonly wait?: string;
}

/** @throws UsageError */
async function catchUpOrReport(
  { dryRun: isDry = false, json = false, wait }: OnceFlags,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const hint = 'feed-sync once --help';
  const waitMs = wait === undefined ? 0 : parseDurationMs(wait);
  if (waitMs === null) {
    throw new UsageError(`--wait is '${wait}', which is not a duration; for example 20m.`);
  }
  if (isDry) {
    if (wait !== undefined) {
      throw new UsageError('--wait does not go with --dry-run, which changes nothing.', { hint });
    }
    const { dryRun } = await import('./commands/dry-run.ts');
    return dryRun(configuration, context, { json });
  }
  if (json) throw new UsageError('--json goes with --dry-run.', { hint });
  const { once } = await import('./commands/once.ts');
  return once(configuration, context, { waitMs });
}

function defineLocalCommands({ define, version, context, loadInput, local }: Definitions): void {
  const status = 'show subscriptions, datasets, versions and what is in the way';
  define('status', status, [JSON_OPTION], async ({ json = false }: JsonFlag) => {
    const { reportStatus } = await import('./commands/status.ts');
    return reportStatus(local(), context, json);
  });
  const sql = new Argument('<sql>', 'one statement, such as "SELECT * FROM feed_sync.datasets"');
  const format = new Option('--format <format>', 'how rows are written');
  define(
    'query',
    'read the mirror with SQL',
    [
      sql,
      format.choices(QUERY_FORMATS).default('table'),
      new Option('--as-of <time>', `read tables with history as they were then: ${TIME}`),
    ],
    async (statement: string, flags: { readonly format: QueryFormat; readonly asOf?: string }) => {
      const { query } = await import('./commands/query.ts');
      return query(statement, local(), context, flags);
    },
  );
  define(
    'diff',
    'show the rows of a table with history that were added, changed and removed between two states',
    [
      new Argument('<dataset>', 'the id of a dataset'),
      ...pastStateOptions('from', 'the state before'),
      ...pastStateOptions('to', 'the state after (the newest where none is given)'),
      new Option('--format <format>', 'how rows are written').choices(QUERY_FORMATS).default('table'),
    ],
    async (datasetId: string, flags: PastStateFlags & { readonly format: QueryFormat }) => {
      const { diff } = await import('./commands/diff.ts');
      return diff(datasetId, flags, local(), context);
    },
  );
  const compacting =
    'write the mirror into a new, smaller file, which takes its place; not beside a running instance';
  define('compact', compacting, [JSON_OPTION], async ({ json = false }: JsonFlag) => {
    const { compact } = await import('./commands/compact.ts');
    return compact(local(), context, json);
  });
  define(
    'settings',
    'explain every setting: its key, variable, flag and default',
    [new Option('--json-schema', 'a JSON Schema of the configuration file, for editors')],
    async ({ jsonSchema = false }: { readonly jsonSchema?: boolean }) => {
      await write(context.terminal.stdout, jsonSchema ? settingsJsonSchema() : settingsHelp());
      return EXIT_CODES.caughtUp;
    },
  );
  const file = new Argument('[file]', 'where to').default('feed-sync.yaml');
  define('init', 'write a commented configuration file', [file], async (path: string) => {
    const { init } = await import('./commands/init.ts');
    return init(path, context);
  });
  // Takes the sources of the configuration, because the configuration may itself be wrong.
  const looking =
    'look at configuration, disk, locks, stores, connection and key; say what to do about what is wrong';
  define('doctor', looking, [JSON_OPTION], async ({ json = false }: JsonFlag) => {
    const { doctor } = await import('./doctor/doctor.ts');
    return doctor(loadInput(), context, version, json);
  });
}

function defineApproval({ define, context, configured, local }: Definitions): void {
  define(
    'approve',
    'let one commit past its gate that waits for approval; without a dataset, list what waits',
    [
      new Argument('[dataset]', 'the id of a dataset'),
      new Option('--version <version>', 'the version that is approved, as status shows it'),
      new Option('--content <digest>', 'the content that is approved, as status shows it'),
      JSON_OPTION,
    ],
    async (datasetId: string | undefined, { json = false, ...flags }: ApproveFlags & JsonFlag) => {
      const { approve, listCandidates } = await import('./commands/approve.ts');
      if (datasetId === undefined) return listCandidates(local(), context, json);
      return approve(datasetId, flags, configured(), context);
    },
  );
}

/** A decision is stored; `run` acts on it within a second, otherwise the next catch-up does. */
function defineDecisionCommands(definitions: Definitions): void {
  const { define, context, configured, local } = definitions;
  defineApproval(definitions);
  define(
    'resync',
    'load the snapshots of datasets again',
    [
      new Argument('[dataset...]', 'ids of datasets'),
      new Option('--all', 'every dataset that a subscription contains'),
      YES_OPTION,
    ],
    async (
      datasetIds: readonly string[],
      { all = false, yes = false }: YesFlag & { readonly all?: boolean },
    ) => {
      const { resync } = await import('./commands/resync.ts');
      return resync(datasetIds, { all, isYes: yes }, local(), context);
    },
  );
  define(
    'resume',
    'go on with what is suspended or failed, after a person has acted on it',
    [
      repeatable('--dataset <id>', 'a dataset, suspended, failed or pinned (repeatable)'),
      repeatable('--subscription <id>', 'a subscription, refused or missing (repeatable)'),
      new Option('--workspace', 'the API key'),
      new Option('--retire', 'agree to the retirement of every dataset that no subscription contains'),
      new Option(
        '--all',
        'everything that is suspended or failed; retirements wait for --retire all the same',
      ),
      new Option(
        '--service-moved',
        'go on with the service at service.baseUrl, which was at another address',
      ),
      YES_OPTION,
    ],
    async ({ serviceMoved = false, ...flags }: ResumeFlags) => {
      if (serviceMoved) refuseOthers(flags);
      const { acceptMovedService, resume } = await import('./commands/resume.ts');
      return serviceMoved
        ? acceptMovedService(configured(), context)
        : resume(flags, local(), configured, context);
    },
  );
  define(
    'rollback',
    'restore an earlier state of a table with history, and keep it there until resume',
    [new Argument('<dataset>', 'the id of a dataset'), ...pastStateOptions('to', 'the state'), YES_OPTION],
    async (datasetId: string, { yes = false, ...flags }: YesFlag & PastStateFlags) => {
      const { rollback } = await import('./commands/rollback.ts');
      return rollback(datasetId, flags, yes, configured(), context);
    },
  );
  define(
    'forget',
    'give up subscriptions that are suspended as missing, and retire what only they contain',
    [repeatable('--subscription <id>', 'a subscription (repeatable)'), YES_OPTION],
    async ({ subscription = [], yes = false }: YesFlag & { readonly subscription?: readonly string[] }) => {
      const { forget } = await import('./commands/forget.ts');
      return forget(subscription, yes, local(), context);
    },
  );
}

interface YesFlag {
  readonly yes?: boolean;
}

const YES_OPTION = new Option('--yes', 'without asking');

interface ResumeFlags extends ResumeOptions {
  readonly serviceMoved?: boolean;
}

/** @throws UsageError */
function refuseOthers({ yes: _yes, ...flags }: ResumeOptions): void {
  if (Object.keys(flags).length === 0) return;
  throw new UsageError('--service-moved goes with no other option of resume: the service is asked for it.', {
    hint: 'feed-sync resume --service-moved, and then what else is to be resumed.',
  });
}

function repeatable(flags: string, description: string): Option {
  const collect = (value: string, values: readonly string[] = []) => [...values, value];
  return new Option(flags, description).argParser(collect);
}

function defineOperatorCommands({ define, program, context, configured }: Definitions): void {
  const datasets = new Argument('<dataset...>', 'ids of datasets');
  const coverage = 'list the counties that the workspace covers';
  define('coverage', coverage, [JSON_OPTION], async ({ json = false }: JsonFlag) => {
    const { listCoverage } = await import('./commands/operator.ts');
    return listCoverage(configured(), context, json);
  });
  const watch = 'have each new version of datasets sent to your webhooks';
  define('watch', watch, [datasets], async (ids: readonly string[]) => {
    const { watchDatasets } = await import('./commands/operator.ts');
    return watchDatasets(ids, configured(), context);
  });
  define('unwatch', 'stop what watch began', [datasets], async (ids: readonly string[]) => {
    const { unwatchDatasets } = await import('./commands/operator.ts');
    return unwatchDatasets(ids, configured(), context);
  });
  define('watches', 'list the datasets under watch', [JSON_OPTION], async ({ json = false }: JsonFlag) => {
    const { listWatches } = await import('./commands/operator.ts');
    return listWatches(configured(), context, json);
  });
  program
    .command('webhook')
    .description('have the service push events to an address, so that nobody has to wait for the next poll');
  const secretFile = 'the file of secrets; without it, that of the setting webhook.secretFile';
  define(
    'webhook add',
    'add a webhook; the secret that signs what it gets is put into a file',
    [
      new Argument('<url>', 'where to: https, or http on this machine'),
      new Option('--secret-file <file>', secretFile),
      new Option('--header-name <name>', 'a header that the receiver requires'),
      new Option('--header-value-file <file>', 'the file that holds its value; - is standard input'),
    ],
    async (url: string, flags: WebhookAddFlags) => {
      const { webhookAdd } = await import('./commands/webhook.ts');
      return webhookAdd(url, flags, configured(), context);
    },
  );
  const id = new Argument('[id]', 'its id; without it, all that were added from here');
  define('webhook test', 'have a ping sent to a webhook', [id], async (webhookId: string | undefined) => {
    const { webhookTest } = await import('./commands/webhook.ts');
    return webhookTest(webhookId, configured(), context);
  });
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

/** Returns commander's parsed options by the names of the flags. */
function flagsOf(options: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const flags = settingOptions().flatMap((option) => {
    const value = options[option.attributeName()];
    return typeof value === 'string' ? [[option.long ?? '', value] as const] : [];
  });
  return Object.fromEntries(flags);
}
