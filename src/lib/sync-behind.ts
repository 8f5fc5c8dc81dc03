/**
 * Has the disk store what a library writes to a large file while the library still writes, so that its own sync at the end
 * takes little time. Nothing depends on these syncs but this: one that fails fails the work, because the system reports a failed
 * write once, and the library would not learn of it.
 */

import type { Clock } from './clock.ts';
import { syncOpenFile } from './files.ts';

/** Work that ends before is not delayed. */
const SYNC_EVERY_MS = 300;

const WORK_ENDED = 'the work has ended';

export interface SyncBehind {
  /** The file, without links. */
  readonly path: string;
  readonly clock: Clock;
}

/** Runs `work`, which writes to the file. @throws the error of `work`; else the system's error of a sync that failed. */
export async function syncingBehind<T>({ path, clock }: SyncBehind, work: () => Promise<T>): Promise<T> {
  const ended = new AbortController();
  let failure: { readonly error: unknown } | null = null;
  const syncAgain = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      await clock.sleep(SYNC_EVERY_MS, ended.signal).catch(() => {});
      if (!ended.signal.aborted) await syncOpenFile(path);
    }
  };
  const syncing = syncAgain().catch((error: unknown) => {
    failure = { error };
  });
  let result: T;
  try {
    result = await work();
  } finally {
    ended.abort(WORK_ENDED);
    await syncing;
  }
  const failed = failure as { readonly error: unknown } | null;
  if (failed !== null) throw failed.error;
  return result;
}
