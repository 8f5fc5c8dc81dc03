/** The instance that works on a data directory: takes the lock, and names the holder. */

import { join } from 'node:path';
import {
  acquireInstanceLock,
  type InstanceHolder,
  type InstanceLock,
  instanceLockPath,
  readInstanceLock,
} from '../checkpoint/instance-lock.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { BusyError } from '../model/errors.ts';
import type { Context } from './context.ts';

/** Holds the lock of the data directory. `command` names the holder for people. @throws BusyError where another instance has it. */
export function lockDataDirectory(
  { dataDirectory }: LocalConfiguration,
  { identity: { pid, host, uid }, clock }: Context,
  command: string,
) {
  const holder = { pid, host, startedAt: clock.now(), command };
  return acquireInstanceLock({ path: instanceLockPath(dataDirectory), uid, holder });
}

/**
 * Takes the lock of a command that adds or forgets a webhook, beside an instance: such commands replace the file of secrets, and judge by
 * what is there whether an address was added before. @throws BusyError where another one holds it.
 */
export async function lockWebhooks(
  command: string,
  { dataDirectory }: LocalConfiguration,
  { identity: { pid, host, uid }, clock }: Context,
): Promise<InstanceLock> {
  const holder = { pid, host, startedAt: clock.now(), command };
  try {
    return await acquireInstanceLock({ path: join(dataDirectory, WEBHOOK_LOCK), uid, holder });
  } catch (error) {
    if (!(error instanceof BusyError)) throw error;
    const what = 'Another command adds or forgets a webhook of this data directory, so nothing was done.';
    throw new BusyError(what, {
      code: 'instance_running',
      hint: 'Wait until that command ends, then run this one again.',
      cause: error,
    });
  }
}

const WEBHOOK_LOCK = 'webhook-lock.sqlite';

/** Returns the instance that works on the data directory, as far as it has said so; null where there is none. */
export function runningInstance(
  { dataDirectory }: LocalConfiguration,
  { identity: { uid } }: Context,
): InstanceHolder | null {
  const { isLocked, holder } = readInstanceLock({ path: instanceLockPath(dataDirectory), uid });
  return isLocked ? holder : null;
}
