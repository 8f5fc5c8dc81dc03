/** The operator's commands: what each takes, and what its help says. What it does is loaded when it is called. */

import type { Command } from 'commander';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Context } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import type { WebhookAddFlags } from './webhook-add.ts';

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
      const { listCoverage } = await import('./coverage.ts');
      finish(await listCoverage(configured(), context, { json }));
    });
  program
    .command('watch')
    .description('have each new version of datasets sent to your webhooks')
    .argument('<dataset...>', 'ids of datasets')
    .action(async (ids: readonly string[]) => {
      const { watchDatasets } = await import('./watches.ts');
      finish(await watchDatasets(ids, configured(), context));
    });
  program
    .command('unwatch')
    .description('stop what watch began')
    .argument('<dataset...>', 'ids of datasets')
    .action(async (ids: readonly string[]) => {
      const { unwatchDatasets } = await import('./watches.ts');
      finish(await unwatchDatasets(ids, configured(), context));
    });
  program
    .command('watches')
    .description('list the datasets under watch')
    .option('--json', 'as JSON, for programs')
    .action(async ({ json = false }: JsonFlag) => {
      const { listWatches } = await import('./watches.ts');
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
      const { webhookAdd } = await import('./webhook-add.ts');
      finish(await webhookAdd(url, flags, configured(), context));
    });
  webhook
    .command('test')
    .description('have a ping sent to a webhook')
    .argument('[id]', 'its id; without it, all that were added from here')
    .action(async (id: string | undefined) => {
      const { webhookTest } = await import('./webhook-test.ts');
      finish(await webhookTest(id, configured(), context));
    });
}
