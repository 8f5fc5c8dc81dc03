/** The sizes of the mirror, the checkpoint and the disk, for metrics. */

import { stat } from 'node:fs/promises';
import { freeBytes, systemCode } from '../../lib/files.ts';

export interface Folders {
  readonly mirrorPath: string;
  readonly checkpointPath: string;
  readonly dataDirectory: string;
  /** Bytes kept free. */
  readonly diskReserveBytes: number;
}

/** In bytes; null where the system does not state the size. */
export interface Sizes {
  /** With its log. 0: there is no file yet. */
  readonly mirror: number | null;
  readonly checkpoint: number | null;
  readonly diskFree: number | null;
  readonly diskReserve: number;
}

export async function measure(places: Folders): Promise<Sizes> {
  const [mirror, checkpoint, diskFree] = await Promise.all([
    fileBytes([places.mirrorPath, `${places.mirrorPath}.wal`]),
    fileBytes([places.checkpointPath, `${places.checkpointPath}-wal`]),
    orNull(() => freeBytes(places.dataDirectory)),
  ]);
  return { mirror, checkpoint, diskFree, diskReserve: places.diskReserveBytes };
}

async function fileBytes(paths: readonly string[]): Promise<number | null> {
  return orNull(async () => {
    const sizes = await Promise.all(paths.map(oneFileBytes));
    return sizes.reduce((sum, bytes) => sum + bytes, 0);
  });
}

async function oneFileBytes(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return 0;
    throw error;
  }
}

/** Errors of a measurement are dropped, because the loop reports errors of the disk more clearly. */
async function orNull(measurement: () => Promise<number>): Promise<number | null> {
  try {
    return await measurement();
  } catch (error) {
    if (systemCode(error) === null) throw error;
    return null;
  }
}
