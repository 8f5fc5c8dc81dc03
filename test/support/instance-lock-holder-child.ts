/** A process that takes the instance lock, prints `held` or why it could not, and keeps it until it is ended. */

import { hostname } from 'node:os';
import { acquireInstanceLock } from '../../src/checkpoint/instance-lock.ts';
import { present } from '../../src/lib/assert.ts';
import { BusyError } from '../../src/model/errors.ts';

const path = present(process.argv[2], 'the path of the lock is given');
const holder = { pid: process.pid, host: hostname(), startedAt: new Date(), command: 'run' };
try {
  await acquireInstanceLock({ path, uid: null, holder });
  process.stdout.write('held\n');
  setInterval(() => {}, 1_000);
} catch (error) {
  if (!(error instanceof BusyError)) throw error;
  process.stdout.write('busy\n');
}
