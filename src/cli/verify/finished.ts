/**
 * The folder of `verify --deep`: downloads on their way, and the tables that were compared, so that a comparison that was
 * interrupted goes on with the next table. One process at a time uses it; it is removed when a comparison ends by itself.
 */

import { join } from 'node:path';
import { z } from 'zod';
import { acquireInstanceLock, type InstanceLock } from '../../checkpoint/instance-lock.ts';
import {
  isThere,
  makeScratchDirectory,
  readText,
  remove,
  systemCode,
  systemReason,
  writeScratch,
} from '../../lib/files.ts';
import { onDisk } from '../../model/disk-errors.ts';
import { BusyError, StorageError } from '../../model/errors.ts';
import type { Context } from '../context.ts';
import { comparisonFolder } from '../own-folders.ts';

/** A table that was compared longer ago is compared again. */
const REMEMBERED_FOR_MS = 24 * 3_600_000;

/** A table that was found equal. */
const FINISHED = z.object({
  datasetId: z.string(),
  commitNumber: z.number().nullable(),
  /** The identity of the snapshot that the manifest listed. */
  content: z.string(),
  comparedAt: z.string(),
});

type Finished = z.infer<typeof FINISHED>;

export interface ComparisonFolder {
  readonly path: string;
  /** Returns whether this commit was found equal with this content lately. */
  isFinished(table: Omit<Finished, 'comparedAt'>): boolean;
  finish(table: Omit<Finished, 'comparedAt'>): Promise<void>;
  /** `isWhole`: nothing is left to compare. Without that the folder stays where a table was found equal. */
  close(isWhole: boolean): Promise<void>;
}

/** Opens the folder of comparisons. @throws BusyError when another process compares, StorageError when the folder cannot be used. */
export async function openComparisonFolder(
  dataDirectory: string,
  { identity, clock }: Pick<Context, 'identity' | 'clock'>,
): Promise<ComparisonFolder> {
  const path = comparisonFolder(dataDirectory);
  const { pid, host, uid } = identity;
  const removeFolder = () => onDisk(path, () => remove('cli.remove-verify-folder', path));
  const isNew = await onDisk(path, async () => {
    const wasThere = await isThere(path);
    await makeScratchDirectory('cli.make-verify-folder', path);
    return !wasThere;
  });
  const holder = { pid, host, startedAt: clock.now(), command: 'verify --deep' };
  const lock = await acquireInstanceLock({ path: join(path, 'lock.sqlite'), uid, holder }).catch(
    async (error: unknown) => {
      // Nothing is left of a folder that is of no use, as on a full disk. One that another process works in is not new, or locked.
      if (isNew && !(error instanceof BusyError)) await removeFolder().catch(() => {});
      return busy(error);
    },
  );
  const file = join(path, 'finished.json');
  let finished = remembered(file, lock).filter(({ comparedAt }) => {
    const ageMs = clock.now().getTime() - Date.parse(comparedAt);
    return ageMs >= 0 && ageMs < REMEMBERED_FOR_MS;
  });
  return {
    path,
    isFinished: (table) =>
      finished.some(
        ({ datasetId, commitNumber, content }) =>
          datasetId === table.datasetId && commitNumber === table.commitNumber && content === table.content,
      ),
    async finish(table) {
      const others = finished.filter(({ datasetId }) => datasetId !== table.datasetId);
      finished = [...others, { ...table, comparedAt: clock.now().toISOString() }];
      const content = Buffer.from(JSON.stringify(finished));
      await onDisk(file, () => writeScratch('cli.remember-verified', file, content));
    },
    async close(isWhole) {
      if (isWhole || finished.length === 0) await removeFolder();
      lock.release();
    },
  };
}

function busy(error: unknown): never {
  if (!(error instanceof BusyError)) throw error;
  throw new BusyError('Another verify --deep works here.', {
    code: 'instance_running',
    hint: 'Wait until it has ended, or end it.',
    cause: error,
  });
}

/** Gives the lock back where the file cannot be read. */
function remembered(file: string, lock: Pick<InstanceLock, 'release'>): readonly Finished[] {
  try {
    return read(file);
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** A file that was cut is as good as none. @throws StorageError */
function read(file: string): readonly Finished[] {
  try {
    const parsed = z.array(FINISHED).safeParse(JSON.parse(readText(file)));
    return parsed.success ? parsed.data : [];
  } catch (error) {
    if (error instanceof SyntaxError || systemCode(error) === 'ENOENT') return [];
    const why = systemReason(error);
    throw new StorageError(`verify --deep cannot read what it found equal before, ${file}: ${why}.`, {
      hint: 'Give the file back to the user that runs this, or remove it: then every table is compared again.',
      cause: error,
    });
  }
}
