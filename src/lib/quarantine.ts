/** Keeps a damaged store beside the new one: its files are renamed, never deleted. */

import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { remove, renameFile, systemCode } from './files.ts';

/**
 * The most quarantined stores beside one path, and the most logs that were quarantined without their store. More stores point at a
 * faulty disk, and an operator must act; of the logs, which every loss of power may damage, the oldest are removed.
 */
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

/**
 * Makes room for one more log that is quarantined without its store: removes all but the newest, and returns their paths. Room is made
 * first, so that a process that is killed in between leaves too few, and not one more each time.
 */
export async function removeOldestLogs(
  path: string,
  { suffix, effect }: StoreFile,
): Promise<readonly string[]> {
  const names = new Set(await readdir(dirname(path)));
  const logs = [...names].filter((name) => isLoneLog(name, basename(path), suffix, names)).sort();
  const old = logs.slice(0, -(MAX_QUARANTINED - 1)).map((name) => join(dirname(path), name));
  for (const one of old) await remove(effect, one);
  return old;
}

/** The time in the name of what was quarantined. */
const QUARANTINE_TIME = /^\d{8}T\d{9}Z$/;

/** A file of another name beside the store is not ours to remove, and a log beside its store belongs to it. */
function isLoneLog(name: string, store: string, suffix: string, names: ReadonlySet<string>): boolean {
  const prefix = store + QUARANTINE_INFIX;
  if (!name.startsWith(prefix) || !name.endsWith(suffix)) return false;
  const itsStore = name.slice(0, -suffix.length);
  return QUARANTINE_TIME.test(itsStore.slice(prefix.length)) && !names.has(itsStore);
}

/** Returns the path at which a store that was found damaged now is kept. */
export function quarantinedPath(path: string, now: Date): string {
  return `${path}${QUARANTINE_INFIX}${now.toISOString().replaceAll(/[-:.]/g, '')}`;
}

function isStore(name: string, store: string, files: readonly StoreFile[]): boolean {
  const isCompanion = files.some(({ suffix }) => suffix !== '' && name.endsWith(suffix));
  return name.startsWith(store + QUARANTINE_INFIX) && !isCompanion;
}
