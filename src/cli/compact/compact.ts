/**
 * `feed-sync compact`: the mirror in a file that is no larger than it has to be. For nothing else is done on the data
 * directory meanwhile, it takes the instance lock, as `once` does.
 */

import { acquireInstanceLock, instanceLockPath } from '../../checkpoint/instance-lock.ts';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import { compactMirror } from '../../destination/duckdb/compact/compact.ts';
import type { CopyProgress } from '../../destination/duckdb/compact/copy-content.ts';
import type { Context } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { jsonText } from '../json.ts';
import { Redrawing } from '../live/redrawing.ts';
import { screenFor } from '../log-for.ts';
import { write } from '../terminal.ts';
import { progressLine, tellCompaction } from './text.ts';
import { compactionOf } from './view.ts';

export interface CompactCommandOptions {
  readonly json: boolean;
}

/**
 * @throws BusyError where another instance works here, or a reader keeps the mirror for longer than `lock.wait`.
 * @throws StorageError, ConfigurationError, InterruptedError; the mirror is then as it was.
 */
export async function compact(
  configuration: LocalConfiguration,
  context: Context,
  { json }: CompactCommandOptions,
): Promise<ExitCode> {
  const { clock, random, signal, identity, terminal } = context;
  const { dataDirectory, destination, disk, duckdb, lock: locking } = configuration;
  const lock = await acquireInstanceLock({
    path: instanceLockPath(dataDirectory),
    uid: identity.uid,
    holder: { pid: identity.pid, host: identity.host, startedAt: clock.now(), command: 'compact' },
  });
  let progress: CopyProgress | null = null;
  const screen = screenFor(configuration, terminal, clock);
  const draw = (): void => {
    if (progress !== null) screen?.draw([progressLine(progress, terminal.width)]);
  };
  const view = screen === null ? null : new Redrawing(screen, clock, draw);
  try {
    const compaction = await compactMirror({
      path: destination.path,
      dataDirectory,
      ...duckdb,
      lockWaitMs: locking.waitMs,
      reserveBytes: disk.reserveBytes,
      uid: identity.uid,
      clock,
      random,
      signal,
      onProgress(now) {
        progress = now;
      },
    }).finally(() => view?.end());
    const told = compactionOf(destination.path, compaction);
    await write(terminal.stdout, json ? jsonText(told) : `${tellCompaction(told)}\n`);
    return EXIT_CODES.caughtUp;
  } finally {
    lock.release();
  }
}
