/** The instance that works on a data directory: takes the lock, and names the holder. */

import {
  acquireInstanceLock,
  type InstanceHolder,
  instanceLockPath,
  readInstanceLock,
} from '../checkpoint/instance-lock.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
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

/** Returns the instance that works on the data directory, as far as it has said so; null where there is none. */
export function runningInstance(
  { dataDirectory }: LocalConfiguration,
  { identity: { uid } }: Context,
): InstanceHolder | null {
  const { isLocked, holder } = readInstanceLock({ path: instanceLockPath(dataDirectory), uid });
  return isLocked ? holder : null;
}
