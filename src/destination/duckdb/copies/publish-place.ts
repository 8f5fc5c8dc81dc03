/**
 * Where copies of the mirror are published: finds the place that `destination.publish` names, and refuses one where a copy could
 * replace another file, or be replaced by somebody else. Nothing is written but the folder, which is created.
 */

import { access, constants, stat } from 'node:fs/promises';
import { dirname, resolve, sep } from 'node:path';
import { isSameFile, makeDirectory, statOrNull, systemReason } from '../../../lib/files.ts';
import { ConfigurationError, StorageError } from '../../../model/errors.ts';
import { temporaryDirectories, temporaryDirectory } from '../../../staging/engine/engine.ts';
import type { MirrorPlace } from '../../../staging/engine/errors.ts';
import { CATALOG_SCHEMA } from '../catalog/schema.ts';
import { examineFile } from '../damage/examine.ts';
import { fileState, withoutLinks } from '../mirror-file.ts';
import { type CopyPlace, catalogAt, type ExaminationOptions } from './publish.ts';

/** The permission of everybody to create and replace files in a folder. */
const WRITABLE_BY_ALL = 0o002;

const SETTING = 'destination.publish (FEED_SYNC_DESTINATION_PUBLISH)';

export interface PublishOptions {
  readonly path: string;
  /** Files and folders of this program. The copy must neither be one of them nor lie in one. */
  readonly keptPaths: readonly string[];
  /** Bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  /** Nothing of the copy that is there is read: it may end the process, and is replaced. False by default. */
  readonly isSuspect?: boolean;
  /** Called when a suspect copy was found sound, or another one has taken its place; does nothing by default. */
  readonly onSound?: () => void;
}

interface CopyPlaceOptions {
  readonly dataDirectory: string;
  readonly memoryLimitBytes: number;
  /** The numeric id of the user, for messages. */
  readonly uid?: number | null;
  readonly signal?: AbortSignal;
}

/**
 * Returns where copies of the mirror at `path` are published. The folder is created.
 * @throws ConfigurationError when another kind of file is there, StorageError when the folder cannot be written.
 */
export async function copyPlace(
  options: CopyPlaceOptions,
  publish: PublishOptions,
  path: string,
): Promise<CopyPlace> {
  const { memoryLimitBytes, uid = null, signal } = options;
  const dataDirectory = resolve(options.dataDirectory);
  const examination = {
    memoryLimitBytes,
    temporaryDirectory: temporaryDirectory(dataDirectory, 'inspecting'),
    ...(signal === undefined ? {} : { signal }),
  };
  const keptPaths = [...publish.keptPaths, ...temporaryDirectories(dataDirectory)];
  const place = await publishTarget({ ...publish, keptPaths }, { path, uid }, examination);
  if (publish.isSuspect === true && !place.isSuspect) publish.onSound?.();
  return { ...examination, ...publish, ...place };
}

/** Resolves the links in the path of the copy. */
async function publishTarget(
  { path, keptPaths, isSuspect = false }: PublishOptions,
  { path: mirrorPath, uid = null }: MirrorPlace,
  examination: ExaminationOptions,
): Promise<{ readonly target: string; readonly isSuspect: boolean }> {
  const usable = <T>(effect: () => Promise<T>): Promise<T> =>
    effect().catch((cause: unknown) => refuse(path, uid, cause));
  // DuckDB reads the rest of the path as the query of an address, and would open another file.
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
  // Whoever may write there may also put another file in the place of the copy.
  if (((await usable(() => stat(dirname(target)))).mode & WRITABLE_BY_ALL) !== 0)
    throw wrong(path, 'lies in a folder that every user may write to', 'a file in a folder of its own');
  if (isSuspect) return { target, isSuspect: await isDamagedCopy(path, target, examination) };
  await refuseOthers(path, target, examination);
  return { target, isSuspect: false };
}

/** Reads a copy that is suspect in another process. A database without our catalog is nothing that may be replaced. */
async function isDamagedCopy(
  path: string,
  target: string,
  examination: ExaminationOptions,
): Promise<boolean> {
  const state = await fileState(target);
  if (state === 'other') throw isNoCopy(path);
  if (state !== 'database') return false;
  const { tables, unreadable } = await examineFile({ ...examination, path: target });
  const isOurs = tables.some(({ name }) => name.startsWith(`${CATALOG_SCHEMA}.`));
  if (unreadable === null && !isOurs) throw isNoCopy(path);
  return unreadable !== null || tables.some(({ state: found }) => found !== 'sound');
}

/** A damaged copy, or one that somebody has written to, is replaced like any other. */
async function refuseOthers(path: string, target: string, examination: ExaminationOptions): Promise<void> {
  const isOther =
    (await fileState(target)) === 'other' || (await catalogAt(target, examination)) === 'foreign';
  if (isOther) throw isNoCopy(path);
}

function isNoCopy(path: string): ConfigurationError {
  return wrong(
    path,
    'is no copy of a mirror, so it is left as it is',
    'a file of its own, or move this one away',
  );
}

async function isFolder(path: string): Promise<boolean> {
  return (await statOrNull(path))?.isDirectory() === true;
}

function refuse(path: string, uid: number | null, cause: unknown): never {
  throw new StorageError(`No copy can be published at ${path}: ${systemReason(cause)}.`, {
    code: 'copy_failed',
    hint: `Make its folder writable for the user with id ${uid ?? 'unknown'}, or set ${SETTING} to another place.`,
    cause,
  });
}

function wrong(path: string, fault: string, instead: string): ConfigurationError {
  return new ConfigurationError(`No copy can be published at ${path}: it ${fault}.`, {
    hint: `Set ${SETTING} to ${instead}.`,
  });
}
