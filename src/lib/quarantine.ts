/** Keeps a damaged store beside the new one: its files are renamed, never deleted. */

import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { renameFile, systemCode } from './files.ts';

/** The most quarantined stores beside one path. More of them point at a faulty disk, and an operator must act. */
export const MAX_QUARANTINED = 3;

/** The part of a quarantined file's name that follows the name of the store. */
export const QUARANTINE_INFIX = '.corrupt-';

/** A file of the store: its name after the store's own, which is empty for the store itself, and the durable effect. */
export interface StoreFile {
  readonly suffix: string;
  readonly effect: string;
}

/**
 * Renames the files of the store that are there, in the given order, and returns the new path of the store. The name contains the
 * time, sorts by it, and needs no quoting in a shell.
 * @throws the result of `refuse`, given the earlier stores, where `MAX_QUARANTINED` lie beside the path.
 */
export async function quarantine(
  path: string,
  files: readonly StoreFile[],
  now: Date,
  refuse: (earlier: readonly string[]) => Error,
): Promise<string> {
  const names = await readdir(dirname(path));
  const earlier = names.filter((name) => isStore(name, basename(path), files)).sort();
  if (earlier.length >= MAX_QUARANTINED) throw refuse(earlier.map((name) => join(dirname(path), name)));
  const target = quarantinedPath(path, now);
  for (const { suffix, effect } of files) {
    await renameFile(effect, path + suffix, target + suffix).catch((error: unknown) => {
      if (systemCode(error) !== 'ENOENT') throw error;
    });
  }
  return target;
}

/** Where a store is kept that was found damaged now. */
export function quarantinedPath(path: string, now: Date): string {
  return `${path}${QUARANTINE_INFIX}${now.toISOString().replaceAll(/[-:.]/g, '')}`;
}

function isStore(name: string, store: string, files: readonly StoreFile[]): boolean {
  const isCompanion = files.some(({ suffix }) => suffix !== '' && name.endsWith(suffix));
  return name.startsWith(store + QUARANTINE_INFIX) && !isCompanion;
}
