/** Defines the commands that ask something of the service or of an operator's own address, and change no table. */

import { Argument, Option } from 'commander';
import type { WebhookAddFlags } from './commands/webhook.ts';
import { type Definitions, JSON_OPTION, type JsonFlag, YES_OPTION, type YesFlag } from './definitions.ts';

export function defineOperatorCommands({ define, program, context, configured, local }: Definitions): void {
  const datasets = new Argument('<dataset...>', 'the ids of datasets');
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
  define('unwatch', 'end the watch of datasets', [datasets], async (ids: readonly string[]) => {
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
      new Argument('<url>', 'the address of the receiver: https, or http on this machine'),
      new Option('--secret-file <file>', secretFile),
      new Option('--header-name <name>', 'a header that the receiver requires'),
      new Option(
        '--header-value-file <file>',
        'the file that contains the value of that header; - is standard input',
      ),
      YES_OPTION,
    ],
    async (url: string, flags: WebhookAddFlags) => {
      const { webhookAdd } = await import('./commands/webhook.ts');
      return webhookAdd(url, flags, configured(), context);
    },
  );
  program.command('notify').description('be notified of what happens, at an address of your own');
  define('notify test', 'send a test notification to the address in notify.url', [], async () => {
    const { notifyTest } = await import('./commands/notify.ts');
    return notifyTest(local(), context);
  });
  define('webhook list', 'list the webhooks that were added from here', [], async () => {
    const { webhookList } = await import('./commands/webhook.ts');
    return webhookList(local(), context);
  });
  const removed = [new Argument('<id>', 'the id of a webhook'), YES_OPTION];
  define(
    'webhook remove',
    'forget a webhook here, with its secret',
    removed,
    async (webhookId: string, { yes = false }: YesFlag) => {
      const { webhookRemove } = await import('./commands/webhook.ts');
      return webhookRemove(webhookId, yes, local(), context);
    },
  );
  const id = new Argument('[id]', 'the id of a webhook; without it, all that were added from here');
  define('webhook test', 'have a ping sent to a webhook', [id], async (webhookId: string | undefined) => {
    const { webhookTest } = await import('./commands/webhook.ts');
    return webhookTest(webhookId, configured(), context);
  });
}
