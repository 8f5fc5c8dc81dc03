/**
 * The folder of the export. A planted link is never followed below it: folders are checked before a file is put into one, and a
 * file is always put in the place of whatever has its name.
 */

import { lstat, readdir, readFile, realpath, stat } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { makeDirectory, remove, statOrNull, systemCode, systemReason } from '../../lib/files.ts';
import { printable } from '../../lib/text.ts';
import { ConfigurationError, StorageError } from '../../model/errors.ts';
import { emptyManifest, isOurFile, MANIFEST, type Manifest, parseManifest } from './generation.ts';

const SETTING = 'export.path (FEED_SYNC_EXPORT_PATH)';
/** Held by the process that exports there. */
export const EXPORT_LOCK = '.lock.sqlite';
/** The permission of everybody to create and replace files in a folder. */
const WRITABLE_BY_ALL = 0o002;
/** The permissions that the folder of the export passes on to the folders and files in it; others may never write. */
const FOLDER_PERMISSIONS = 0o755;
const FILE_PERMISSIONS = 0o644;
const OWN_FOLDER = 0o700;
const OWN_FILE = 0o600;

/**
 * Makes the folder and returns it with links resolved. @throws ConfigurationError where it cannot be one of an export, StorageError
 * where it cannot be made.
 */
export async function exportFolder(path: string, keptPaths: readonly string[]): Promise<string> {
  await refuseExportFolder(path, keptPaths);
  const folder = await inFolder(path, async () => {
    await makeDirectory('post-commit.make-export-folder', resolve(path));
    return await realpath(path);
  });
  await refuseExportFolder(folder, keptPaths);
  return folder;
}

/** Makes nothing. @throws ConfigurationError where the folder cannot be one of an export. */
export async function refuseExportFolder(path: string, keptPaths: readonly string[]): Promise<void> {
  // DuckDB reads the rest of the path as the query of an address.
  if (path.includes('?')) throw wrong(path, 'has a question mark in it', 'a path without one');
  const folder = await realpath(path).catch(() => resolve(path));
  for (const kept of keptPaths) {
    const real = await realpath(kept).catch(() => resolve(kept));
    if (folder === real || folder.startsWith(`${real}${sep}`))
      throw wrong(path, `is ${kept} or in it, which feed-sync needs for itself`, 'another folder');
  }
  const found = await inFolder(path, () => statOrNull(folder));
  if (found !== null && (found.mode & WRITABLE_BY_ALL) !== 0)
    throw wrong(path, 'is a folder that every user may write to', 'a folder of its own');
}

/** Runs work in the folder. @throws StorageError `export_failed` in place of the system's errors. */
export async function inFolder<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (systemCode(error) === null) throw error;
    throw new StorageError(`The export in ${path} cannot be written: ${systemReason(error)}.`, {
      code: 'export_failed',
      hint: 'Check the folder of export.path, whether this user may write to it, and the space on its disk.',
      cause: error,
    });
  }
}

/** Folders and files are for those for whom the folder of the export is. */
export async function modesIn(folder: string): Promise<{ readonly folder: number; readonly file: number }> {
  const { mode } = await stat(folder);
  return { folder: (mode & FOLDER_PERMISSIONS) | OWN_FOLDER, file: (mode & FILE_PERMISSIONS) | OWN_FILE };
}

/** Returns null where there is none. @throws ConfigurationError where something else has its name. */
export async function readManifestText(path: string): Promise<string | null> {
  const found = await lstat(path).catch((error: unknown) => {
    if (systemCode(error) === 'ENOENT') return null;
    throw error;
  });
  if (found === null) return null;
  if (!found.isFile()) throw foreign(path);
  return await readFile(path, 'utf8');
}

/**
 * Returns the newest generation with its text; `text` is null where there is none. @param mirror null: not known. @throws
 * ConfigurationError where the manifest is of another program or of another mirror; the system's errors.
 */
export async function newestGeneration(
  folder: string,
  mirror: string | null,
): Promise<{ readonly text: string | null; readonly current: Manifest }> {
  const path = join(folder, MANIFEST);
  const text = await readManifestText(path);
  const current = text === null ? emptyManifest() : parseManifest(text);
  if (current === null) throw foreign(path);
  const { mirror: other = mirror } = current;
  if (other !== null && mirror !== null && other !== mirror) throw ofOtherMirror(folder, other, mirror);
  return { text, current };
}

function foreign(path: string): ConfigurationError {
  return new ConfigurationError(
    `There is a ${MANIFEST} in ${dirname(path)} that is none of an export, so it is left as it is.`,
    { hint: `Set ${SETTING} to a folder of its own, or move this file away.` },
  );
}

/** Two mirrors in one folder would each write all files anew, and remove those of the other. */
function ofOtherMirror(folder: string, other: string, mirror: string): ConfigurationError {
  return new ConfigurationError(
    `The export in ${folder} is of the mirror at ${printable(other)}, and this mirror is at ${mirror}, so it is left as it is.`,
    {
      hint: `Set ${SETTING} to a folder of its own. Where the mirror has moved, write its new place into "mirror" of ${MANIFEST} there.`,
    },
  );
}

/** Makes the folder of a file. @throws the system's ENOTDIR where a link or a file is in its place. */
export async function makeFolderOf(folder: string, file: string, mode: number): Promise<void> {
  const inner = dirname(join(folder, file));
  await makeDirectory('post-commit.make-dataset-folder', inner, mode);
  for (const one of [dirname(inner), inner]) {
    if ((await lstat(one)).isDirectory()) continue;
    throw Object.assign(new Error(`${one} is a link`), { code: 'ENOTDIR' });
  }
}

/** Returns the size; null where there is no such file. */
export async function bytesOf(path: string): Promise<number | null> {
  const found = await lstat(path).catch(() => null);
  return found?.isFile() === true ? found.size : null;
}

/** Removes the files with names of an export that are not to stay, and folders that are empty then. Nothing else is touched. */
export async function removeOthers(folder: string, staying: ReadonlySet<string>): Promise<void> {
  for (const dataset of await foldersIn(folder, 'dataset=')) {
    for (const version of await foldersIn(join(folder, dataset), 'version=')) {
      const inner = join(folder, dataset, version);
      for (const name of await readdir(inner)) {
        if (isOurFile(name) && !staying.has(`${dataset}/${version}/${name}`))
          await remove('post-commit.remove-exported', join(inner, name));
      }
      await removeIfEmpty(inner);
    }
    await removeIfEmpty(join(folder, dataset));
  }
}

async function removeIfEmpty(path: string): Promise<void> {
  if ((await readdir(path)).length === 0) await remove('post-commit.remove-exported-folder', path);
}

/** A link to a folder is none. */
async function foldersIn(path: string, prefix: string): Promise<readonly string[]> {
  const entries = await readdir(path, { withFileTypes: true });
  return entries.filter((one) => one.isDirectory() && one.name.startsWith(prefix)).map(({ name }) => name);
}

function wrong(path: string, fault: string, instead: string): ConfigurationError {
  return new ConfigurationError(`Nothing can be exported to ${path}: it ${fault}.`, {
    hint: `Set ${SETTING} to ${instead}.`,
  });
}
