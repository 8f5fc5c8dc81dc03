/**
 * Defines the commands: their options and their help. The implementation of a command is loaded when the command is called,
 * because the databases, the client and the server take longer to load than most commands run.
 */

import { Argument, type Command, Option } from 'commander';
import type { Configuration } from '../configuration/configuration.ts';
import { loadConfiguration, loadLocalConfiguration } from '../configuration/configuration.ts';
import { settingsHelp, settingsJsonSchema } from '../configuration/help.ts';
import type { LoadInput } from '../configuration/resolve.ts';
import { UsageError } from '../model/errors.ts';
import type { ApproveFlags } from './commands/approve.ts';
import type { CompactFlags } from './commands/compact.ts';
import type { QueryFlags } from './commands/query-file.ts';
import type { ResumeOptions } from './commands/resume.ts';
import type { StatusOptions } from './commands/status.ts';
import { completionScript, SHELLS, type Shell } from './completion.ts';
import { type Context, write } from './context.ts';
import {
  type Definitions,
  durationMs,
  JSON_OPTION,
  type JsonFlag,
  repeatable,
  YES_OPTION,
  type YesFlag,
} from './definitions.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { defineOperatorCommands } from './operator-commands.ts';
import { type PastStateFlags, pastStateOptions, TIME } from './past-state.ts';
import { QUERY_FILE_FORMATS, QUERY_FORMATS, type QueryFormat } from './render/formats.ts';
import { addSettingOptions, flagsOf } from './setting-options.ts';
import type { VerifyOptions } from './verify/verify.ts';

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
  addSettingOptions(program);
  program.commandsGroup('Mirror:');
  defineServiceCommands(definitions);
  program.commandsGroup('Inspect and set up:').helpCommand('help [command]', 'explain a command');
  defineLocalCommands(definitions);
  defineSetUpCommands(definitions);
  program.commandsGroup('Decide:');
  defineDecisionCommands(definitions);
  program.commandsGroup('Ask of the service:');
  defineOperatorCommands(definitions);
}

const DATASETS = new Argument('[dataset...]', 'the ids or globs of datasets; without any, all datasets');

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
      DATASETS,
      new Option('--dry-run', dry),
      new Option('--wait <duration>', 'the longest wait for a rule that waits for time to pass, such as 20m'),
      new Option('--json', 'print the summary, or the report of a dry run, as JSON, for programs'),
    ],
    (names: readonly string[], flags: OnceFlags) => catchUpOrReport(names, flags, configured(), context),
  );
  const subscriptions = 'list what the API key can see';
  define('subscriptions', subscriptions, [JSON_OPTION], async ({ json = false }: JsonFlag) => {
    const { listSubscriptions } = await import('./commands/operator.ts');
    return listSubscriptions(configured(), context, json);
  });
  define(
    'verify',
    'compare the mirror with the service and with its own catalog; without --repair it changes no table',
    [
      DATASETS,
      new Option(
        '--deep',
        "compare every value with the service's snapshots and changes, which are downloaded",
      ),
      new Option('--repair', 'with --deep, write the rows that differ, and no others, once you have agreed'),
      YES_OPTION,
      new Option(
        '--wait <duration>',
        'with --deep, the longest wait for tables that a running instance updates',
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
  const waitMs = durationMs('--wait', wait, '10m');
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
  names: readonly string[],
  { dryRun: isDry = false, json = false, wait }: OnceFlags,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const hint = 'feed-sync once --help';
  const waitMs = wait === undefined ? 0 : durationMs('--wait', wait, '20m');
  if (isDry) {
    if (wait !== undefined) {
      throw new UsageError('--wait does not go with --dry-run, which changes nothing.', { hint });
    }
    const { dryRun } = await import('./commands/dry-run.ts');
    return dryRun(configuration, context, { json, names });
  }
  const { once } = await import('./commands/once.ts');
  return once(configuration, context, { waitMs, names, json });
}

interface StatusFlags extends JsonFlag {
  readonly watch?: boolean;
  readonly check?: boolean;
  readonly maxAge?: string;
}

/** @throws UsageError */
function statusOptions({ json = false, watch = false, check = false, maxAge }: StatusFlags): StatusOptions {
  const hint = 'feed-sync status --help';
  const maxAgeMs = maxAge === undefined ? null : durationMs('--max-age', maxAge, '6h');
  if (maxAge !== undefined && !check) throw new UsageError('--max-age goes with --check.', { hint });
  if (watch && (check || json))
    throw new UsageError('--watch goes with neither --check nor --json.', { hint });
  return { json, check: check ? { maxAgeMs } : null, watches: watch };
}

function defineLocalCommands(definitions: Definitions): void {
  const { define, context, local } = definitions;
  const status = 'show subscriptions, datasets, versions and what is in the way';
  const statusParts = [
    JSON_OPTION,
    new Option('--watch', 'keep the state on the screen until the command is stopped'),
    new Option(
      '--check',
      'print a line for monitors, and end with an exit code other than 0 where something is wrong',
    ),
    new Option(
      '--max-age <duration>',
      'with --check, the age above which data counts as too old, such as 6h',
    ),
  ];
  define('status', status, statusParts, async (flags: StatusFlags) => {
    const { reportStatus } = await import('./commands/status.ts');
    return reportStatus(local(), context, statusOptions(flags));
  });
  const sql = new Argument(
    '[sql]',
    'one statement, such as "SELECT * FROM feed_sync.datasets"; with - or without it, standard input is read',
  );
  const format = new Option(
    '--format <format>',
    'the form of the rows; by default a table, or what the ending of the file names',
  );
  define(
    'query',
    'read the mirror with SQL',
    [
      sql,
      new Option('-f, --file <file>', 'the file that contains the statement'),
      format.choices(QUERY_FILE_FORMATS),
      new Option('--output <file>', 'the file that gets the rows: .csv, .json, .parquet or .geoparquet'),
      repeatable(
        '--load <extension>',
        'an extension to load that DuckDB has installed here, such as spatial; repeatable',
      ),
      YES_OPTION,
      new Option('--as-of <time>', `the time as of which tables with history are read: ${TIME}`),
    ],
    async (statement: string | undefined, flags: QueryFlags) => {
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
      new Option('--format <format>', 'the form of the rows').choices(QUERY_FORMATS).default('table'),
    ],
    async (datasetId: string, flags: PastStateFlags & { readonly format: QueryFormat }) => {
      const { diff } = await import('./commands/diff.ts');
      return diff(datasetId, flags, local(), context);
    },
  );
  defineCompact(definitions);
}

function defineCompact({ define, context, local }: Definitions): void {
  const compacting = 'rewrite the mirror without free space; not beside a running instance';
  const compress = new Option(
    '--compress',
    'write texts and geometries compressed: smaller, and slower to read; what commits write later is not compressed',
  );
  define('compact', compacting, [compress, JSON_OPTION], async (flags: CompactFlags) => {
    const { compact } = await import('./commands/compact.ts');
    return compact(local(), context, flags);
  });
}

function defineSetUpCommands(definitions: Definitions): void {
  const { define, program, version, context, loadInput } = definitions;
  define(
    'settings',
    'explain every setting: its key, variable, flag and default',
    [new Option('--json-schema', 'print a JSON Schema of the configuration file, for editors')],
    async ({ jsonSchema = false }: { readonly jsonSchema?: boolean }) => {
      await write(context.terminal.stdout, jsonSchema ? settingsJsonSchema() : settingsHelp());
      return EXIT_CODES.caughtUp;
    },
  );
  define('version', 'print the version', [], async () => {
    await write(context.terminal.stdout, `${version}\n`);
    return EXIT_CODES.caughtUp;
  });
  defineDbtSources(definitions);
  const shell = new Argument('<shell>', 'the shell that reads the script').choices(SHELLS);
  define(
    'completion',
    'print a script that completes commands and options in a shell',
    [shell],
    async (of: Shell) => {
      await write(context.terminal.stdout, completionScript(program, of));
      return EXIT_CODES.caughtUp;
    },
  );
  const file = new Argument('[file]', 'the file to write').default('feed-sync.yaml');
  define('init', 'write a commented configuration file', [file], async (path: string) => {
    const { init } = await import('./commands/init.ts');
    return init(path, context);
  });
  // Takes the sources of the configuration, because the configuration may itself be wrong.
  const description =
    'check configuration, disk, locks, stores, connection and key; say what to do about what is wrong';
  const script = new Option(
    '--sql',
    'print the script that makes role and schemas in PostgreSQL, and check nothing',
  );
  define(
    'doctor',
    description,
    [JSON_OPTION, script.conflicts('json')],
    async ({ json = false, sql = false }: JsonFlag & { readonly sql?: boolean }) => {
      const { doctor, printSetUp } = await import('./doctor/doctor.ts');
      if (sql) return printSetUp(loadInput(), context);
      return doctor(loadInput(), context, version, json);
    },
  );
}

function defineApproval({ define, context, configured, local }: Definitions): void {
  define(
    'approve',
    'let one commit that waits for approval past its gate; without a dataset, list the commits that wait',
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

interface DbtFlags {
  readonly database?: string;
  readonly source: string;
  readonly warnAfter: string;
  readonly errorAfter?: string;
}

const DBT_NAME = /^[a-z_][a-z0-9_]*$/;

function defineDbtSources({ define, context, local }: Definitions): void {
  const example = '30d';
  define(
    'dbt-sources',
    'write the tables of the mirror as sources for dbt, with descriptions, tests of keys and freshness',
    [
      new Option('--source <name>', 'the name of the source in dbt').default('feed'),
      new Option('--database <name>', 'the database of the tables, where it is not that of the profile'),
      new Option(
        '--warn-after <duration>',
        'the time without a commit after which dbt warns of a table; 0d: never',
      ).default(example),
      new Option('--error-after <duration>', 'the time without a commit after which dbt fails for a table'),
    ],
    async ({ source, database, warnAfter, errorAfter }: DbtFlags) => {
      if (!DBT_NAME.test(source) || source === 'feed_sync') {
        const why = source === 'feed_sync' ? 'the name of the source with the catalog' : 'not a name in dbt';
        throw new UsageError(`--source is '${source}', which is ${why}; for example county_feed.`);
      }
      const warnAfterMs = durationMs('--warn-after', warnAfter, example) || null;
      const errorAfterMs =
        errorAfter === undefined ? null : durationMs('--error-after', errorAfter, example) || null;
      const { writeDbtSources } = await import('./commands/dbt-sources.ts');
      return writeDbtSources(
        { source, database: database ?? null, warnAfterMs, errorAfterMs },
        local(),
        context,
      );
    },
  );
}

/** A decision is stored; `run` acts on it within a second, otherwise the next catch-up does. */
function defineDecisionCommands(definitions: Definitions): void {
  const { define, context, configured, local } = definitions;
  defineApproval(definitions);
  defineResync(definitions);
  define(
    'resume',
    'go on with what is suspended or failed, after an operator has acted',
    [
      repeatable('--dataset <id>', 'a dataset that is suspended, failed or pinned; repeatable'),
      repeatable('--subscription <id>', 'a subscription that is refused or missing; repeatable'),
      new Option('--workspace', 'resume the workspace of the API key'),
      new Option('--retire', 'agree to the retirement of every dataset that no subscription contains'),
      new Option(
        '--all',
        'resume everything that is suspended or failed; retirements wait for --retire all the same',
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
    [
      repeatable('--subscription <id>', 'a subscription that is suspended as missing; repeatable'),
      YES_OPTION,
    ],
    async ({ subscription = [], yes = false }: YesFlag & { readonly subscription?: readonly string[] }) => {
      const { forget } = await import('./commands/forget.ts');
      return forget(subscription, yes, local(), context);
    },
  );
}

function defineResync({ define, context, local }: Definitions): void {
  define(
    'resync',
    'load the snapshots of datasets again',
    [
      new Argument('[dataset...]', 'the ids or globs of datasets'),
      new Option('--all', 'load again every dataset that a subscription contains'),
      new Option(
        '--move',
        'move each table into the schema that destination.schemas says; with --all, only those that are elsewhere',
      ),
      YES_OPTION,
    ],
    async (
      datasetIds: readonly string[],
      {
        all = false,
        move = false,
        yes = false,
      }: YesFlag & { readonly all?: boolean; readonly move?: boolean },
    ) => {
      const { resync } = await import('./commands/resync.ts');
      return resync(datasetIds, { all, moves: move, isYes: yes }, local(), context);
    },
  );
}

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
