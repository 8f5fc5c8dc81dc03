/** `feed-sync notify test`: sends a test notification, so that an operator sees whether notifications arrive. */

import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { Secret } from '../../lib/secret.ts';
import { ConfigurationError, NotificationError } from '../../model/errors.ts';
import { type Deliver, deliverTo, TEST_NOTIFICATION } from '../../post-commit/notifications.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { proxyOf } from '../service-client.ts';

/** Sends a test notification. @throws ConfigurationError without an address; NotificationError. */
export async function notifyTest(configuration: LocalConfiguration, context: Context): Promise<ExitCode> {
  const { clock, signal, terminal } = context;
  const deliver = delivererOf(configuration, context, []);
  if (deliver === null) {
    throw new ConfigurationError('No address for notifications is set.', {
      hint: 'Set notify.url (FEED_SYNC_NOTIFY_URL), or notify.urlFile with the name of a file that has it.',
    });
  }
  try {
    await deliver(TEST_NOTIFICATION, clock.now(), signal);
  } catch (error) {
    if (!(error instanceof NotificationError)) throw error;
    const hint = 'Correct notify.url, or open the way to it; then try again.';
    throw new NotificationError(error.message, { hint, cause: error });
  }
  await write(terminal.stdout, 'The address in notify.url took a test notification.\n');
  return EXIT_CODES.caughtUp;
}

/** Returns the delivery of notifications; null: they are off. `secrets`: see `deliverTo`. */
export function delivererOf(
  { notify: { url, format }, dataDirectory }: LocalConfiguration,
  { environment, identity }: Context,
  secrets: readonly Secret[],
): Deliver | null {
  if (url === null) return null;
  const source = { host: identity.host, dataDirectory };
  return deliverTo({ url, format }, source, { proxy: proxyOf(environment), secrets });
}
