/** Who works here: the instance that holds the lock, and whoever has the mirror open. */

import { type InstanceHolder, instanceLockPath, readInstanceLock } from '../../checkpoint/instance-lock.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { mirrorLocks } from '../mirror-holders.ts';
import { tellMoment } from '../moments.ts';
import type { Check, Checked, Patient } from './check.ts';
import type { FileLock } from './file-locks.ts';
import { type Finding, ok, skipped, trouble, troubleOf, warning } from './findings.ts';

const LIMIT_MS = 5_000;

export const locksCheck: Check = { name: 'locks', limitMs: LIMIT_MS, run: checkLocks };

function checkLocks({ inspection, context }: Patient): Checked {
  const dataDirectory = inspection.known('dataDir');
  const path = inspection.known('destination.path');
  const instance =
    dataDirectory === null
      ? { finding: skipped('instance', 'dataDir is not known.'), holder: null }
      : instanceFinding(instanceLockPath(dataDirectory), context.identity.uid);
  const locks = path === null ? [] : mirrorLocks(path, context.readFile);
  const ofOthers = locks.filter(({ pid }) => pid !== context.identity.pid);
  const nameOf = (pid: number): string | null => processName(pid, context.readFile);
  return {
    findings: [
      instance.finding,
      path === null
        ? skipped('mirror', 'destination.path is not known.')
        : judgeMirrorLocks(ofOthers, instance.holder, nameOf),
    ],
    learned: { runningInstance: instance.holder },
  };
}

function instanceFinding(
  path: string,
  uid: number | null,
): { readonly finding: Finding; readonly holder: InstanceHolder | null } {
  const about = 'instance';
  try {
    const { held, holder } = readInstanceLock({ path, uid });
    if (!held) return { finding: ok(about, 'none is running here'), holder: null };
    if (holder === null) return { finding: ok(about, 'one is just starting'), holder };
    const { pid, host, command, startedAt } = holder;
    const found = `process ${pid} on ${host} runs \`${command}\` since ${tellMoment(startedAt.toISOString())}`;
    return { finding: ok(about, found), holder };
  } catch (error) {
    return { finding: troubleOf(about, error), holder: null };
  }
}

/** What is to be said of the locks that others have on the mirror. Pure but for `nameOf`. */
export function judgeMirrorLocks(
  locks: readonly FileLock[],
  instance: InstanceHolder | null,
  nameOf: (pid: number) => string | null,
): Finding {
  const about = 'mirror';
  const foreign = locks.filter(({ pid }) => pid !== instance?.pid);
  if (locks.length === 0) return ok(about, 'nobody is seen to hold it');
  if (foreign.length === 0) return ok(about, 'held by the running instance, which is committing');
  const named = foreign.map(({ pid, mode }) => {
    const name = nameOf(pid);
    return `process ${pid}${name === null ? '' : ` (${name})`} ${mode} it`;
  });
  const wait = 'A commit waits for it up to lock.wait.';
  const hint = 'End it, or let it open the mirror read-only and for short moments.';
  return foreign.some(({ mode }) => mode === 'writes')
    ? trouble(about, `${named.join(', ')}. ${wait}`, EXIT_CODES.tryAgainLater, hint)
    : warning(about, `${named.join(', ')}. ${wait}`, hint);
}

function processName(pid: number, readFile: Patient['context']['readFile']): string | null {
  try {
    return readFile(`/proc/${pid}/comm`).trim();
  } catch {
    return null;
  }
}
