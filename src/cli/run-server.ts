/** The status server of `run`: what it is given of the configuration, of the daemon and of the stores. */

import type { Configuration } from '../configuration/configuration.ts';
import type { Daemon } from '../daemon/daemon.ts';
import { type StatusServer, startStatusServer } from '../daemon/server/server.ts';
import type { Log } from '../lib/log.ts';
import type { Parts } from '../sync/parts.ts';
import type { Context } from './context.ts';
import { mirrorHolders } from './mirror-holders.ts';
import { statusSeen } from './status/status.ts';

export interface ServedParts {
  readonly configuration: Configuration;
  readonly context: Context;
  readonly version: string;
  readonly daemon: Daemon;
  readonly parts: Parts;
  readonly log: Log;
}

/** Null where it is off. @throws ConfigurationError when the address cannot be listened on. */
export async function serveStatus(served: ServedParts): Promise<StatusServer | null> {
  const { configuration, context, version, daemon, parts, log } = served;
  const { listen } = configuration.status;
  const { secretFile } = configuration.webhook;
  if (listen === null) return null;
  const server = await startStatusServer({
    listen,
    version,
    observed: daemon,
    status: async () => statusNow(served),
    places: {
      mirrorPath: configuration.destination.path,
      checkpointPath: configuration.checkpoint.path,
      dataDirectory: configuration.dataDirectory,
      diskReserveBytes: configuration.disk.reserveBytes,
    },
    webhook:
      secretFile === null
        ? null
        : {
            secretFile,
            readFile: context.readFile,
            remember: (deliveryId, at) => parts.checkpoint.rememberDelivery(deliveryId, at),
            wake: () => daemon.pollNow(),
          },
    clock: context.clock,
    log,
  });
  log.info({ url: server.url, receivesWebhooks: secretFile !== null }, 'The status server listens.');
  return server;
}

/**
 * From what the daemon knows of the mirror, whose file it works on: opened a second time in one process, it would lose its
 * lock when the second one is closed.
 */
function statusNow({ configuration, context, daemon, parts }: ServedParts) {
  const { pid, host } = context.identity;
  const held = daemon.held();
  return statusSeen(configuration, {
    mirror: held === null ? 'busy' : { ...held, freeBytes: null },
    heldBy: mirrorHolders(configuration.destination.path, context, pid),
    checkpoint: parts.checkpoint,
    runningInstance: { pid, host, command: 'run' },
  });
}
