/**
 * The data directory of an installation: who works on it, and how an operator's decision is written to its checkpoint, also
 * beside a running instance. `run` acts on a decision within a second, otherwise the next catch-up does.
 */

import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import {
  acquireInstanceLock,
  type InstanceHolder,
  instanceLockPath,
  readInstanceLock,
} from '../checkpoint/instance-lock.ts';
import { openCheckpointBeside } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { UsageError } from '../model/errors.ts';
import { confirm, type Intent } from './confirm.ts';
import { type Context, write } from './context.ts';

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

interface Decided {
  /** What was decided, for people. */
  readonly lines: readonly string[];
  /** Whether there is something to act on. */
  readonly isAnyDone: boolean;
}

/** A decision that the operator confirms first. */
interface Confirmed {
  readonly isYes: boolean;
  /** Returns what the decision does; null where it does nothing that has to be confirmed. @throws UsageError */
  readonly intent: (checkpoint: Checkpoint) => Intent | null;
}

/**
 * Writes a decision to the checkpoint and reports it. @throws UsageError where there is no checkpoint yet; `purpose` says
 * what is impossible then: `to resume`.
 */
export async function decide<Decision extends Decided>(
  purpose: string,
  configuration: LocalConfiguration,
  context: Context,
  decision: (checkpoint: Checkpoint) => Decision,
  confirmed: Confirmed | null = null,
): Promise<Decision> {
  const { clock, identity, terminal } = context;
  const using = <Result>(use: (checkpoint: Checkpoint) => Result): Result => {
    const { path } = configuration.checkpoint;
    const checkpoint = openCheckpointBeside({ path, uid: identity.uid, clock });
    if (checkpoint === null) {
      throw new UsageError(`There is nothing ${purpose}: no catch-up has run here yet.`, {
        hint: 'feed-sync once',
      });
    }
    try {
      return use(checkpoint);
    } finally {
      checkpoint.close();
    }
  };
  // The checkpoint is closed while the operator thinks, and the decision looks at it anew.
  const intent = confirmed === null ? null : using(confirmed.intent);
  if (intent !== null) await confirm(confirmed?.isYes === true, intent, context);
  const decided = using(decision);
  const holder = decided.isAnyDone ? runningInstance(configuration, context) : null;
  const lines = [
    ...decided.lines,
    ...(holder?.command === 'run'
      ? [`feed-sync run is at work here (process ${holder.pid}): it begins within a second.`]
      : []),
  ];
  if (lines.length > 0) await write(terminal.stdout, `${lines.join('\n')}\n`);
  return decided;
}
