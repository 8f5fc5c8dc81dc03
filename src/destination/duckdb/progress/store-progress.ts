/** Stores how far the mirror has followed the service: in a window of its own, or in one in which units are committed. */

import type { Log } from '../../../lib/log.ts';
import type { UnitQueue } from '../../destination.ts';
import type { StoredProgress } from '../../stored-progress.ts';
import { storesProgress } from '../books/formats.ts';
import { ensureSchema, readFormat } from '../books/mirror-state.ts';
import type { Engine } from '../engine/engine.ts';
import type { AttachWindow, WaitForReaders, WriteWindow } from '../window/attach-window.ts';
import { replaceProgress } from './progress-sql.ts';
import { readProgress } from './read-progress.ts';

/** Resolves to whether the mirror holds `progress` now: not where there is no mirror. */
export async function storeProgress(
  window: AttachWindow,
  path: string,
  progress: StoredProgress,
  wait: WaitForReaders,
): Promise<boolean> {
  // Readers do not hinder reading: the file is opened for writing only where something is to be written.
  const isStored = await window.read((engine) => isProgressStored(engine, path, progress), wait);
  if (isStored === null) return false;
  if (isStored) return true;
  return await window.write((opened) => writeProgress(opened, path, progress), wait);
}

/** What the queue gives is stored before the window ends. A failure is logged: the units are committed. */
export async function storeBesideCommits(
  window: WriteWindow,
  queue: UnitQueue,
  { path, log }: { readonly path: string; readonly log: Log },
): Promise<void> {
  const progress = (await queue.progressToStore?.()) ?? null;
  if (progress === null) return;
  try {
    await writeProgress(window, path, progress);
  } catch (error) {
    log.warn(
      { path, why: String(error) },
      'The progress was not stored in the mirror; its tables are committed.',
    );
  }
}

/** Null where there is no mirror yet. */
async function isProgressStored(
  engine: Engine,
  path: string,
  progress: StoredProgress,
): Promise<boolean | null> {
  const format = await readFormat(engine, path);
  if (format === null) return null;
  return storesProgress(format) && replaceProgress(await readProgress(engine), progress).length === 0;
}

function writeProgress(window: WriteWindow, path: string, progress: StoredProgress): Promise<boolean> {
  return window.transaction(async (engine) => {
    if ((await readFormat(engine, path)) === null) return false;
    await ensureSchema(engine, path);
    for (const statement of replaceProgress(await readProgress(engine), progress))
      await engine.run(statement);
    return true;
  }, 'progress');
}
