/**
 * `feed-sync resume --service-moved`: the service is at another address now, and the mirror goes on with it. It is believed
 * where the service there lists at least one of the subscriptions that the mirror has seen. The mirror itself is told, so
 * that nothing has to be remembered until the next catch-up; for that it must not be at work.
 */

import type { Configuration } from '../configuration/configuration.ts';
import { formatCount } from '../lib/units.ts';
import { RefusalError, UsageError } from '../model/errors.ts';
import { refuseForeignSubscriptions } from '../sync/follow/ownership.ts';
import { standingHolds } from '../sync/holds.ts';
import { silentProgress } from '../sync/progress.ts';
import type { Context } from './context.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { logFor } from './log-for.ts';
import { seeMirror } from './mirror-seen.ts';
import { openParts } from './open-parts.ts';
import { write } from './terminal.ts';

/**
 * @throws ConfigurationError where the service at `service.baseUrl` lists none of the subscriptions of the mirror.
 * @throws RefusalError where the service refuses the key, or has refused it before.
 * @throws BusyError where another instance works on the data directory; UsageError where there is no mirror.
 */
export async function acceptMovedService(configuration: Configuration, context: Context): Promise<ExitCode> {
  if ((await seeMirror(configuration, context)) === null) throw nothingMoved();
  const { signal, terminal } = context;
  const log = logFor(configuration, terminal);
  const options = { configuration, context, log, progress: silentProgress, command: 'resume', signal };
  const { parts, close } = await openParts(options);
  try {
    const { feed, destination, checkpoint } = parts;
    const { service } = await destination.has();
    if (service === null) throw nothingMoved();
    if (service.origin === feed.origin) {
      await write(terminal.stdout, `The mirror belongs to the service at ${feed.origin} already.\n`);
      return EXIT_CODES.caughtUp;
    }
    const refused = standingHolds(parts).workspace;
    if (refused !== null) throw new RefusalError(refused.refusal);
    const { subscriptions } = await feed.subscriptions(signal);
    const common = refuseForeignSubscriptions(service, subscriptions, checkpoint.forgotten());
    await destination.enroll({
      origin: feed.origin,
      subscriptionIds: [],
      forgottenSubscriptionIds: [],
      datasetIds: [],
    });
    const found = `${formatCount(common.length)} of its ${formatCount(service.subscriptionIds.length)} subscriptions`;
    await write(
      terminal.stdout,
      `Accepted: the mirror of the service at ${service.origin} belongs to ${feed.origin} now, which lists ${found}.\n` +
        'The next catch-up goes on there.\n',
    );
    return EXIT_CODES.caughtUp;
  } finally {
    await close();
  }
}

function nothingMoved(): UsageError {
  return new UsageError('There is no mirror that could belong to a service that has moved.', {
    hint: 'feed-sync once',
  });
}
