/**
 * Where the copy of the mirror is to be. It is replaced again and again, so it must not be anything else that somebody
 * needs: not the mirror, not another file of ours, not a file that is no DuckDB database.
 */

import { access, constants, stat } from 'node:fs/promises';
import { dirname, resolve, sep } from 'node:path';
import { makeDirectory } from '../../../lib/files.ts';
import { systemCode, systemReason } from '../../../lib/system-code.ts';
import { ConfigurationError, CopyError } from '../../../model/errors.ts';
import type { MirrorPlace } from '../engine/failures.ts';
import { withoutLinks } from '../mirror-path.ts';
import { fileState } from '../window/quarantine.ts';
import { booksAt, type LookingOptions } from './copy-books.ts';

const SETTING = 'destination.publish (FEED_SYNC_DESTINATION_PUBLISH)';

export interface PublishOptions {
  readonly path: string;
  /** Files and folders of ours: the copy can be neither one of them nor lie in one. */
  readonly keptPaths: readonly string[];
  /** Bytes kept free on the disk. */
  readonly reserveBytes: number;
}

/**
 * The path of the copy without links, as that of the mirror is; its folder is made where it is missing.
 * @throws ConfigurationError where something else is there, CopyError where nothing can be written there.
 */
export async function publishTarget(
  { path, keptPaths }: PublishOptions,
  { path: mirrorPath, uid = null }: MirrorPlace,
  looking: LookingOptions,
): Promise<string> {
  const usable = <T>(effect: () => Promise<T>): Promise<T> =>
    effect().catch((cause: unknown) => refuse(path, uid, cause));
  // DuckDB takes what follows for the query of an address, and opens another file.
  if (path.includes('?')) throw wrong(path, 'has a question mark in it', 'a path without one');
  const target = await usable(async () => {
    await makeDirectory('destination.make-publish-directory', dirname(resolve(path)));
    const real = await withoutLinks(resolve(path));
    await access(dirname(real), constants.W_OK | constants.X_OK);
    return real;
  });
  if (target === mirrorPath || target === `${mirrorPath}.wal` || (await isSameFile(target, mirrorPath)))
    throw wrong(path, 'is the mirror itself', 'a file of its own');
  for (const kept of keptPaths) {
    const real = await withoutLinks(kept).catch(() => resolve(kept));
    if (target === real || target.startsWith(`${real}${sep}`))
      throw wrong(path, `is ${kept} or in it, which feed-sync needs for itself`, 'another folder');
  }
  if (await usable(() => isFolder(target))) throw wrong(path, 'is a folder', 'a file in it');
  await refuseOthers(path, target, looking);
  return target;
}

/** A copy that is damaged, or that somebody writes, is replaced like any other. */
async function refuseOthers(path: string, target: string, looking: LookingOptions): Promise<void> {
  const isOther = (await fileState(target)) === 'other' || (await booksAt(target, looking)) === 'foreign';
  if (isOther)
    throw wrong(
      path,
      'is no copy of a mirror, so it is left as it is',
      'a file of its own, or move this one away',
    );
}

async function isFolder(path: string): Promise<boolean> {
  return (await statOrNull(path))?.isDirectory() === true;
}

/** By another name: a hard link, or the same folder mounted twice. */
async function isSameFile(left: string, right: string): Promise<boolean> {
  const [one, other] = [await statOrNull(left), await statOrNull(right)];
  return one !== null && other !== null && one.dev === other.dev && one.ino === other.ino;
}

async function statOrNull(path: string) {
  try {
    return await stat(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null;
    throw error;
  }
}

function refuse(path: string, uid: number | null, cause: unknown): never {
  throw new CopyError(`No copy can be published at ${path}: ${systemReason(cause)}.`, {
    hint: `Make its folder writable for the user with id ${uid ?? 'unknown'}, or set ${SETTING} to another place.`,
    cause,
  });
}

function wrong(path: string, trouble: string, instead: string): ConfigurationError {
  return new ConfigurationError(`No copy can be published at ${path}: it ${trouble}.`, {
    hint: `Set ${SETTING} to ${instead}.`,
  });
}
