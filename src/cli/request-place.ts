/**
 * Where commands ask for something, and which instance would do it. With PostgreSQL that is the database: whichever instance works
 * on it, of whichever data directory. With a file it is the data directory.
 */

import { holderName } from '../checkpoint/instance-lock.ts';
import type { Requests } from '../checkpoint/requests.ts';
import { openCheckpointBeside } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';
import { runningInstance } from './data-directory.ts';

export interface RequestPlace {
  /** Names the instance that performs requests, in a clause for people; null: none works. */
  worker(): Promise<string | null>;
  /** Returns whether that instance works on another data directory than this one. */
  isElsewhere(): Promise<boolean>;
  /** @throws UsageError where no catch-up has run yet. */
  requests(): Requests;
  close(): Promise<void>;
}

export async function openRequestPlace(
  configuration: LocalConfiguration,
  context: Context,
): Promise<RequestPlace> {
  const { postgres } = configuration.destination;
  if (postgres === null) return placeOfFile(configuration, context);
  // Loaded only where it is used, like the implementation of a command.
  const { DatabaseRequests } = await import('../destination/postgres/requests.ts');
  const requests = new DatabaseRequests({ url: postgres.url, clock: context.clock }, null);
  return {
    async worker() {
      const holder = await requests.holder();
      if (holder !== null) return `${holder}, works on the database`;
      // An instance that stands by takes over soon.
      const here = runningInstance(configuration, context);
      return here === null ? null : `${holderName(here)}, stands by here`;
    },
    async isElsewhere() {
      const holder = await requests.holder();
      const here = runningInstance(configuration, context);
      return holder !== null && (here === null || holder !== holderName(here));
    },
    requests: () => requests,
    close: () => requests.close(),
  };
}

function placeOfFile(configuration: LocalConfiguration, context: Context): RequestPlace {
  const { clock, identity } = context;
  let checkpoint: ReturnType<typeof openCheckpointBeside> = null;
  return {
    async worker() {
      const holder = runningInstance(configuration, context);
      return holder === null ? null : `feed-sync ${holder.command} is at work here (process ${holder.pid})`;
    },
    isElsewhere: async () => false,
    requests() {
      checkpoint ??= openCheckpointBeside({ path: configuration.checkpoint.path, uid: identity.uid, clock });
      if (checkpoint === null) throw nothingHere();
      return checkpoint.requests;
    },
    async close() {
      checkpoint?.close();
    },
  };
}

export function nothingHere(): UsageError {
  return new UsageError('There is nothing here to work on: no catch-up has run here yet.', {
    hint: 'feed-sync once',
  });
}
