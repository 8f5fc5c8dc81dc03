/** `feed-sync webhook test`: the service sends a ping to a webhook, or to all that were added from here. */

import { openCheckpointReader } from '../../checkpoint/sqlite/open.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import { printable } from '../../lib/printable.ts';
import { UsageError } from '../../model/errors.ts';
import type { Context } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { oneByOne } from './one-by-one.ts';
import { shownUrl } from './receiver.ts';
import { usingOperator } from './using-operator.ts';

/** @throws UsageError without an id where none is known. */
export function webhookTest(
  webhookId: string | undefined,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const kept = keptWebhooks(configuration, context);
  const ids = webhookId === undefined ? [...kept.keys()] : [webhookId];
  if (ids.length === 0) {
    throw new UsageError('No webhook was added from here.', {
      hint: 'Give its id, or add one: feed-sync webhook add URL',
    });
  }
  if (webhookId === '')
    throw new UsageError('The id of a webhook is empty.', { hint: 'feed-sync webhook test --help' });
  return usingOperator(configuration, context, (operator) =>
    oneByOne(ids, context, {
      ask: (id) => operator.testWebhook(id, context.signal),
      tell(id) {
        const url = kept.get(id);
        const name = `webhook ${printable(id)}`;
        return `A ping is on its way to ${url === undefined ? name : `${shownUrl(url)} (${name})`}.`;
      },
    }),
  );
}

/** Addresses by id, the newest first. */
function keptWebhooks({ checkpoint }: Configuration, { identity }: Context): ReadonlyMap<string, string> {
  const reader = openCheckpointReader({ path: checkpoint.path, uid: identity.uid });
  try {
    return new Map(reader?.webhooks().map(({ webhookId, url }) => [webhookId, url]));
  } finally {
    reader?.close();
  }
}
