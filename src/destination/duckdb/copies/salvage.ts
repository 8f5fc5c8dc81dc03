/**
 * Mends a mirror that ends the processes which read it. It is read in other processes; the tables that can be read are copied into a new
 * file, and only then the old one is quarantined.
 *
 * Invariant: the new file lacks the other tables as if somebody had dropped them by hand. The live ones among them are marked to be
 * loaded again before the new file takes the place of the old one.
 */

import { stat } from 'node:fs/promises';
import type { Clock } from '../../../lib/clock.ts';
import { isThere } from '../../../lib/files.ts';
import type { Log } from '../../../lib/log.ts';
import {
  catalogDamage,
  copyWithout,
  type ExaminedTable,
  type ExamineOptions,
  examineFile,
  isUnreadable,
} from '../damage/examine.ts';
import { fileState, mirrorPath, quarantineLog, quarantineMirror, WAL_SUFFIX } from '../mirror-file.ts';
import { clearUnfinished, renameUnfinished, settleUnfinished, unfinishedPath } from './compact.ts';

export interface SalvageOptions extends ExamineOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Marks the tables of these datasets to be loaded again. */
  readonly onLost: (datasetIds: readonly string[]) => void;
}

/**
 * Resolves to the tables that the mirror no longer has, and to the undo logs in it that are not as they were written. A file that
 * cannot be read for another reason is left to the caller that opens it. @throws StorageError, ConfigurationError
 */
export async function salvageMirror(options: SalvageOptions): Promise<readonly ExaminedTable[]> {
  const path = await mirrorPath(options.path);
  const examining = { ...options, path };
  while ((await fileState(path)) === 'database') {
    options.log.warn(
      { path },
      'Processes that used the mirror have ended early: another process reads it first.',
    );
    const { tables, unreadable, endsProcess } = await examineFile(examining);
    const lost = tables.filter(isLost);
    const ofCatalog = catalogDamage(tables);
    if (unreadable === null && ofCatalog === null) {
      if (lost.length === 0) return [];
      if (await copied(examining, lost))
        return tables.filter((table) => isLost(table) || isAlteredLog(table));
    } else if (ofCatalog === null && !endsProcess) {
      // Whoever opens the file reports why it cannot be read.
      return [];
    }
    await quarantineNext(examining, unreadable ?? ofCatalog ?? 'its sound tables cannot be copied');
  }
  return [];
}

/** The log goes first: without it the mirror is as it was after its last checkpoint. */
async function quarantineNext({ path, clock, log }: SalvageOptions, why: string): Promise<void> {
  if (await isThere(path + WAL_SUFFIX)) await quarantineLog(path, why, clock.now(), log);
  else await quarantineMirror(path, why, clock.now(), log);
}

/** A live table with other rows than were committed may be what is damaged: a block in the place of another one is whole. */
function isLost(table: ExaminedTable): boolean {
  return isUnreadable(table) || (table.state === 'altered' && table.datasetId !== null);
}

function isAlteredLog({ state, name }: ExaminedTable): boolean {
  return state === 'altered' && name.startsWith('history.');
}

/** Puts a copy without the lost tables in the place of the mirror. Resolves to false where that cannot be done. */
async function copied(options: SalvageOptions, lost: readonly ExaminedTable[]): Promise<boolean> {
  const { path, clock, log, onLost } = options;
  await clearUnfinished(path);
  const names = lost.map(({ name }) => name);
  const why = await whyNotCopied(options, names);
  if (why !== null) {
    log.error({ path, why }, 'The sound tables of the mirror cannot be copied into a new file.');
    await clearUnfinished(path);
    return false;
  }
  onLost(lost.flatMap(({ datasetId }) => datasetId ?? []));
  await settleUnfinished(path, (await stat(path)).mode);
  await quarantineMirror(path, `${names.join(', ')}: ${lost[0]?.why ?? 'damaged'}`, clock.now(), log);
  await renameUnfinished(path);
  return true;
}

/** @throws StorageError where something else than the mirror is in the way, as a full disk: the space is given back. */
async function whyNotCopied(options: SalvageOptions, names: readonly string[]): Promise<string | null> {
  try {
    return (await copyWithout(options, names, unfinishedPath(options.path))) ?? (await whyUnsound(options));
  } catch (error) {
    await clearUnfinished(options.path);
    throw error;
  }
}

/** The new file is read to its end before it takes the mirror's place. */
async function whyUnsound(options: SalvageOptions): Promise<string | null> {
  const { tables, unreadable } = await examineFile({ ...options, path: unfinishedPath(options.path) });
  const unsound = tables.find(isLost);
  return unsound === undefined ? unreadable : `${unsound.name} of the copy is ${unsound.state}`;
}
