/**
 * Defines the commands for an operator's decisions: their options and their help. A decision is stored; `run` acts on it within a
 * second, otherwise the next catch-up does. The implementation of a command is loaded when the command is called.
 */

import { type Command, Option } from 'commander';
import type { Configuration, LocalConfiguration } from '../configuration/configuration.ts';
import { FILE_FLAG, type SettingKey, settings } from '../configuration/schema.ts';
import { UsageError } from '../model/errors.ts';
import type { ResumeOptions } from './commands/resume.ts';
import type { WebhookAddFlags } from './commands/webhook.ts';
import type { Context } from './context.ts';
import type { ExitCode } from './exit-codes.ts';

interface Configured {
  readonly configured: () => Configuration;
  /** For commands that do not ask the service. */
  readonly configuredLocally: () => LocalConfiguration;
}

type Finish = (code: ExitCode) => void;

export function defineDecisionCommands(
  program: Command,
  { configured, configuredLocally }: Configured,
  context: Context,
  finish: Finish,
): void {
  program
    .command('resync')
    .description('load the snapshots of datasets again')
    .argument('[dataset...]', 'ids of datasets')
    .option('--all', 'every dataset that a subscription contains')
    .action(async (datasetIds: readonly string[], { all = false }: { all?: boolean }) => {
      const { resync } = await import('./commands/resync.ts');
      finish(await resync(configuredLocally(), context, { datasetIds, all }));
    });
  program
    .command('resume')
    .description('go on with what is suspended or failed, after a person has acted on it')
    .option('--dataset <id>', 'a dataset, suspended or failed (repeatable)', collect)
    .option('--subscription <id>', 'a subscription, refused or missing (repeatable)', collect)
    .option('--workspace', 'the API key')
    .option('--retire', 'agree to the retirement of every dataset that no subscription contains')
    .option('--all', 'everything that is suspended or failed; retirements wait for --retire all the same')
    .option('--service-moved', 'go on with the service at service.baseUrl, which was at another address')
    .action(async ({ serviceMoved = false, ...flags }: Partial<ResumeOptions> & ServiceMovedFlag) => {
      if (serviceMoved) {
        refuseOthers(flags);
        const { acceptMovedService } = await import('./commands/resume.ts');
        finish(await acceptMovedService(configured(), context));
        return;
      }
      const { resume } = await import('./commands/resume.ts');
      finish(await resume(configuredLocally(), context, { ...NOTHING_TO_RESUME, ...flags }));
    });
  program
    .command('forget')
    .description('give up subscriptions that are suspended as missing, and retire what only they contain')
    .option('--subscription <id>', 'a subscription (repeatable)', collect)
    .action(async ({ subscription = [] }: { subscription?: readonly string[] }) => {
      const { forget } = await import('./commands/forget.ts');
      finish(await forget(configuredLocally(), context, { subscription }));
    });
}

interface ServiceMovedFlag {
  readonly serviceMoved?: boolean;
}

/** @throws UsageError */
function refuseOthers(flags: Partial<ResumeOptions>): void {
  if (Object.keys(flags).length === 0) return;
  throw new UsageError('--service-moved goes with no other option of resume: the service is asked for it.', {
    hint: 'feed-sync resume --service-moved, and then what else is to be resumed.',
  });
}

const NOTHING_TO_RESUME: ResumeOptions = {
  dataset: [],
  subscription: [],
  workspace: false,
  retire: false,
  all: false,
};

function collect(value: string, values: readonly string[] = []): readonly string[] {
  return [...values, value];
}

interface JsonFlag {
  readonly json?: boolean;
}

export function defineOperatorCommands(
  program: Command,
  configured: () => Configuration,
  context: Context,
  finish: (code: ExitCode) => void,
): void {
  program
    .command('coverage')
    .description('list the counties that the workspace covers')
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: JsonFlag) => {
      const { listCoverage } = await import('./commands/coverage.ts');
      finish(await listCoverage(configured(), context, { json }));
    });
  program
    .command('watch')
    .description('have each new version of datasets sent to your webhooks')
    .argument('<dataset...>', 'ids of datasets')
    .action(async (ids: readonly string[]) => {
      const { watchDatasets } = await import('./commands/watches.ts');
      finish(await watchDatasets(ids, configured(), context));
    });
  program
    .command('unwatch')
    .description('stop what watch began')
    .argument('<dataset...>', 'ids of datasets')
    .action(async (ids: readonly string[]) => {
      const { unwatchDatasets } = await import('./commands/watches.ts');
      finish(await unwatchDatasets(ids, configured(), context));
    });
  program
    .command('watches')
    .description('list the datasets under watch')
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: JsonFlag) => {
      const { listWatches } = await import('./commands/watches.ts');
      finish(await listWatches(configured(), context, { json }));
    });
  defineWebhookCommands(program, configured, context, finish);
}

function defineWebhookCommands(
  program: Command,
  configured: () => Configuration,
  context: Context,
  finish: (code: ExitCode) => void,
): void {
  const webhook = program
    .command('webhook')
    .description('have the service push events to an address, so that nobody has to wait for the next poll');
  webhook
    .command('add')
    .description('add a webhook; the secret that signs what it gets is put into a file')
    .argument('<url>', 'where to: https, or http on this machine')
    .option('--secret-file <file>', 'the file of secrets; without it, that of the setting webhook.secretFile')
    .option('--header-name <name>', 'a header that the receiver requires')
    .option('--header-value-file <file>', 'the file that holds its value; - is standard input')
    .action(async (url: string, flags: WebhookAddFlags) => {
      const { webhookAdd } = await import('./commands/webhook.ts');
      finish(await webhookAdd(url, flags, configured(), context));
    });
  webhook
    .command('test')
    .description('have a ping sent to a webhook')
    .argument('[id]', 'its id; without it, all that were added from here')
    .action(async (id: string | undefined) => {
      const { webhookTest } = await import('./commands/webhook.ts');
      finish(await webhookTest(id, configured(), context));
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
export function settingOptions(): readonly Option[] {
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
export function flagsOf(options: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const flags = settingOptions().flatMap((option) => {
    const value = options[option.attributeName()];
    return typeof value === 'string' ? [[option.long ?? '', value] as const] : [];
  });
  return Object.fromEntries(flags);
}
