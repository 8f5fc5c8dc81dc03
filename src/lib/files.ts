/**
 * All changes that this program makes to files, except for those of the databases. Each function takes the name of its durable
 * effect. Only the owner may access the files.
 */

import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readSync, type Stats, type StatsFs, statfsSync, statSync } from 'node:fs';
import {
  chown,
  copyFile,
  type FileHandle,
  constants as flags,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  rename,
  rm,
  stat,
  statfs,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { getSystemErrorMessage } from 'node:util';

const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;

/** The system's numbers of a user and a group. */
export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

/** Creates the folder and its missing parents. They survive a loss of power once this resolves. */
export function makeDirectory(name: string, path: string, mode = DIRECTORY_MODE): Promise<void> {
  return durable(name, () => makeDirectories(path, mode, syncDirectory));
}

/** Creates a folder like `makeDirectory`, for content that a loss of power may take, because it can be fetched or made again. */
export function makeScratchDirectory(name: string, path: string): Promise<void> {
  return durable(name, () => makeDirectories(path, DIRECTORY_MODE, async () => {}));
}

/** Creates a folder that nobody else has, and returns it: `prefix` and six further characters. */
export function makeTemporaryDirectory(name: string, prefix: string): Promise<string> {
  return durable(name, () => mkdtemp(prefix));
}

/**
 * Replaces a whole file atomically, also in a loss of power. The content is written beside it under a name that nobody knows before, so
 * that no link can be planted there. Files that killed processes left of earlier attempts are removed.
 */
export function replaceFile(
  name: string,
  path: string,
  content: string | Uint8Array,
  mode = FILE_MODE,
): Promise<void> {
  return durable(name, async () => {
    const replacement = `${path}.${randomBytes(REPLACEMENT_BYTES).toString('hex')}.tmp`;
    try {
      await writeDurably(replacement, content, mode);
      // A folder that cannot be listed may still be written.
      await clearReplacements(path, replacement).catch(() => {});
      await renameDurably(replacement, path);
    } catch (error) {
      // The file may contain secrets. The first error is reported, not a failure to remove the file.
      await rm(replacement, { force: true }).catch(() => {});
      throw error;
    }
  });
}

const REPLACEMENT_BYTES = 8;
/** The text behind the name of the file. */
const REPLACEMENT = /^\.[0-9a-f]{16}\.tmp$/;
/** Another process may be replacing the same file right now. */
const LEFT_AFTER_MS = 600_000;

/** By the clock of the file system, which dated them all. A file of another user, or a link, is not ours to remove. */
async function clearReplacements(path: string, own: string): Promise<void> {
  const { uid, mtimeMs } = await lstat(own);
  for (const name of await readdir(dirname(path))) {
    if (!name.startsWith(basename(path)) || !REPLACEMENT.test(name.slice(basename(path).length))) continue;
    const left = join(dirname(path), name);
    const found = await lstat(left);
    const isLeft = found.isFile() && found.uid === uid && mtimeMs - found.mtimeMs > LEFT_AFTER_MS;
    if (isLeft) await rm(left, { force: true });
  }
}

/**
 * Writes a file that may be lost or cut when the process or the power fails, because it can be written again. A link at `path` is
 * refused (ELOOP).
 */
export function writeScratch(name: string, path: string, content: Uint8Array): Promise<void> {
  return durable(name, async () => {
    const file = await open(path, flags.O_WRONLY | flags.O_NOFOLLOW | WRITE_FLAGS.truncate, FILE_MODE);
    try {
      await file.writeFile(content);
    } finally {
      await file.close();
    }
  });
}

/** Writes a new file, which survives a loss of power once this resolves. @throws the system's EEXIST when the file exists. */
export function createFile(name: string, path: string, content: string): Promise<void> {
  return durable(name, async () => {
    await writeDurably(path, content);
    await syncDirectory(dirname(path));
  });
}

/** Renames within one file system. The new name survives a loss of power once this resolves. */
export function renameFile(name: string, from: string, to: string): Promise<void> {
  return durable(name, () => renameDurably(from, to));
}

/** Renames within one file system. A loss of power may bring the old name back, or leave the new one with a part of the content. */
export function renameScratch(name: string, from: string, to: string): Promise<void> {
  return durable(name, () => rename(from, to));
}

/**
 * Cuts the file to its first `bytes`, once a copy of the whole lies at `keptAs`. The copy survives a loss of power; the cut may be
 * undone by one until somebody syncs the file.
 */
export function cutFile(name: string, path: string, bytes: number, keptAs: string): Promise<void> {
  return durable(name, async () => {
    await copyFile(path, keptAs, flags.COPYFILE_EXCL);
    await changeFile(keptAs, (file) => file.sync());
    await syncDirectory(dirname(keptAs));
    await changeFile(path, (file) => file.truncate(bytes));
  });
}

/** Removes a file, or a folder with its contents. A missing one is no error. */
export function remove(name: string, path: string): Promise<void> {
  return durable(name, () => rm(path, { recursive: true, force: true }));
}

const WRITE_FLAGS = {
  /** Fails with EEXIST when anything is at the path. */
  new: flags.O_CREAT | flags.O_EXCL,
  append: flags.O_CREAT | flags.O_APPEND,
  truncate: flags.O_CREAT | flags.O_TRUNC,
};

/** Opens a file for writing. A link at `path` is refused (ELOOP). The caller syncs and closes the file. */
export function openForWriting(
  name: string,
  path: string,
  mode: keyof typeof WRITE_FLAGS,
): Promise<FileHandle> {
  return durable(name, () => open(path, flags.O_WRONLY | flags.O_NOFOLLOW | WRITE_FLAGS[mode], FILE_MODE));
}

/** Waits until the disk has stored the file; `data` leaves out metadata such as the time of writing. */
export function syncFile(name: string, file: FileHandle, what: 'all' | 'data'): Promise<void> {
  return durable(name, () => (what === 'all' ? file.sync() : file.datasync()));
}

/**
 * Makes `to` an independent file that shares the blocks of `from` until one of them is written, which takes no time and no
 * space. Returns false, without creating `to`, when the file systems do not support this.
 */
export function cloneFile(name: string, from: string, to: string): Promise<boolean> {
  return durable(name, async () => {
    try {
      await copyFile(from, to, flags.COPYFILE_EXCL | flags.COPYFILE_FICLONE_FORCE);
      return true;
    } catch {
      // The caller then copies the content, and meets any other failure there.
      return false;
    }
  });
}

/** Sets the mode of a written file, not of one that a link leads to. Its content survives a loss of power once this resolves. */
export function settleFile(name: string, path: string, mode = FILE_MODE): Promise<void> {
  return durable(name, () =>
    changeFile(path, async (file) => {
      await file.chmod(mode);
      await file.sync();
    }),
  );
}

async function changeFile(path: string, change: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, flags.O_RDWR | flags.O_NOFOLLOW);
  try {
    await change(file);
  } finally {
    await file.close();
  }
}

/** Changes the owner of a file if it differs. @throws the system's EPERM when this process may not. */
export function giveFile(name: string, path: string, owner: FileOwner): Promise<void> {
  return durable(name, async () => {
    const found = await stat(path);
    if (found.uid !== owner.uid || found.gid !== owner.gid) await chown(path, owner.uid, owner.gid);
  });
}

/** Returns whether a file or folder exists at `path`. @throws the system's error when that cannot be known. */
export async function isThere(path: string): Promise<boolean> {
  return (await statOrNull(path)) !== null;
}

/** Returns null where nothing is at `path`. @throws the system's error when that cannot be known. */
export async function statOrNull(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null;
    throw error;
  }
}

/** Returns whether two paths name the same file: a link, or the same folder mounted twice. False where one is not there. */
export async function isSameFile(left: string, right: string): Promise<boolean> {
  const [one, other] = [await statOrNull(left), await statOrNull(right)];
  return one !== null && other !== null && one.dev === other.dev && one.ino === other.ino;
}

/** Returns the first of the paths that leads to a named pipe, which nobody should open: that may wait for ever. Null: none does. */
export function pipeAmong(paths: readonly string[]): string | null {
  const isPipe = (path: string): boolean => {
    try {
      return statSync(path).isFIFO();
    } catch {
      // Whoever opens the path meets the error, too.
      return false;
    }
  };
  return paths.find(isPipe) ?? null;
}

/** The space that a file system has left for this process. */
export interface FreeSpace {
  /** Bytes that this user may still write. */
  readonly freeBytes: number;
  /** No file can be made there, however many bytes are free. */
  readonly isOutOfInodes: boolean;
}

/** Returns what the file system of `path` has left. @throws the system's error where it cannot be examined. */
export async function freeSpace(path: string): Promise<FreeSpace> {
  const seen = await statfs(path);
  return { freeBytes: freeBytesOf(seen), isOutOfInodes: isOutOfInodes(seen) };
}

/** Returns the bytes that this process may still write on the file system of `path`. */
export async function freeBytes(path: string): Promise<number> {
  return (await freeSpace(path)).freeBytes;
}

/** Returns the free bytes for an error's message, which is written without waiting. Null where the bytes cannot be known. */
export function freeBytesOrNull(path: string): number | null {
  try {
    return freeBytesOf(statfsSync(path));
  } catch {
    return null;
  }
}

/** `bfree` would count the blocks that only the superuser may fill, too. */
function freeBytesOf({ bavail, bsize }: Pick<StatsFs, 'bavail' | 'bsize'>): number {
  return bavail * bsize;
}

/** Why nothing more can be written somewhere, and what helps. */
interface Fullness {
  readonly fact: string;
  readonly hint: string;
}

/** Returns what a message says of a folder that takes nothing more: `full`, unless there is space for bytes and for no further file. */
export function whyFull(folder: string, full: Fullness): Fullness {
  if (!ranOutOfInodes(folder)) return full;
  return { fact: `The file system has no inodes left for another file in ${folder}`, hint: FREE_INODES };
}

export const FREE_INODES =
  'Remove files that nobody needs from it (df -i counts them), or use a file system with more inodes.';

/** Returns whether no file can be made in the folder, however many bytes are free. False where that cannot be known. */
export function hasNoInodes(folder: string): boolean {
  return isOnFileSystem(folder, isOutOfInodes);
}

/** Returns whether inodes were missing where there was no space just before. False where that cannot be known. */
function ranOutOfInodes(folder: string): boolean {
  return isOnFileSystem(folder, wereInodesMissing);
}

function isOnFileSystem(folder: string, isSuch: (seen: StatsFs) => boolean): boolean {
  try {
    return isSuch(statfsSync(folder));
  } catch {
    return false;
  }
}

/** Returns whether missing inodes are why the system could not make a file or a folder. */
function isForMissingInodes(error: unknown): boolean {
  return (
    systemCode(error) === 'ENOSPC' &&
    error instanceof Error &&
    'path' in error &&
    ranOutOfInodes(dirname(String(error.path)))
  );
}

/**
 * Returns whether inodes were missing. Other work that failed for the same reason may have given its files back before the check: with
 * space for bytes, hardly any inodes are as good as none. A file system with few inodes has most of them left where bytes were missing.
 */
export function wereInodesMissing(
  seen: Readonly<Pick<StatsFs, 'files' | 'ffree' | 'bavail' | 'bsize'>>,
): boolean {
  const areFew = seen.ffree < Math.min(FEW_INODES, seen.files / 2);
  return isOutOfInodes(seen) || (areFew && freeBytesOf(seen) >= ROOM_BYTES);
}

/** More files than the work that goes on at once makes. */
const FEW_INODES = 256;
/** More than one write of a file asks for. */
const ROOM_BYTES = 1_000_000;

/** Returns whether no inode is left. A file system that makes inodes as they are needed states that it has none at all. */
export function isOutOfInodes({ files, ffree }: { readonly files: number; readonly ffree: number }): boolean {
  return files > 0 && ffree === 0;
}

/** What is done with the parent of a new folder. */
type Settle = (parent: string) => Promise<void>;

/** Node's own recursion never ends when a folder exists but refuses new entries with ENOENT, as /proc does. */
async function makeDirectories(path: string, mode: number, settle: Settle): Promise<void> {
  try {
    await makeOneDirectory(path, mode, settle);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makeDirectories(dirname(path), mode, settle);
    await makeOneDirectory(path, mode, settle);
  }
}

/** Another process may just have made the folder. */
async function makeOneDirectory(path: string, mode: number, settle: Settle): Promise<void> {
  try {
    await mkdir(path, { mode });
    await settle(dirname(path));
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
    // `mkdir` says only that something is there.
    if (!(await stat(path)).isDirectory()) await readdir(path);
  }
}

/** @throws the system's EEXIST when anything is at `path`, a link included. */
async function writeDurably(path: string, content: string | Uint8Array, mode = FILE_MODE): Promise<void> {
  const file = await open(path, 'wx', mode);
  try {
    // The umask of this process may have taken a part of it.
    await file.chmod(mode);
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncDirectory(dirname(to));
}

/** Makes new, renamed and removed entries of a folder survive a loss of power. Only for use within a durable effect. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

export type DurablePhase = 'before' | 'after';
export type DurableObserver = (name: string, timestamp: DurablePhase) => void;

let observe: DurableObserver = () => {};

/** Has `observer` called, for crash tests, around every durable effect of this process from now on. */
export function observeDurableEffects(observer: DurableObserver): void {
  observe = observer;
}

/** Runs `effect`. `name` is constant text of the form `folder.effect`, and each effect has its own. */
export function durable<T>(name: string, effect: () => T): T {
  observe(name, 'before');
  const result = effect();
  if (!(result instanceof Promise)) {
    observe(name, 'after');
    return result;
  }
  return result.then((value) => {
    observe(name, 'after');
    return value;
  }) as T;
}

/** Returns the file that stands where `path` needs a folder, which may be far above it; null where there is none. */
export function fileInTheWay(path: string): string | null {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    try {
      return statSync(folder).isDirectory() ? null : folder;
    } catch (error) {
      if (!['ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '')) return null;
    }
  }
  return null;
}

/** Codes for which the system's own words do not help an operator who gave a path. */
const PLAIN_WORDS: Readonly<Record<string, string>> = {
  EISDIR: 'it is a folder',
  ENOTDIR: 'its path leads through a file',
};

/**
 * Returns the code that the system or a library gave an error (`ENOENT`, `Z_DATA_ERROR`); null where it gave none. Such codes are in
 * capitals, and the codes of our own errors are not.
 */
export function systemCode(error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' && /^[A-Z]/.test(code) ? code : null;
}

/** Returns why the system refused, without the path: `no such file or directory (ENOENT)`. */
export function systemReason(error: unknown): string {
  const code = systemCode(error);
  if (!(error instanceof Error) || code === null) return String(error);
  const plain = PLAIN_WORDS[code];
  if (plain !== undefined) return `${plain} (${code})`;
  if (isForMissingInodes(error)) return `the file system has no inodes left for another file (${code})`;
  const hasNumber = 'errno' in error && typeof error.errno === 'number';
  return hasNumber ? `${getSystemErrorMessage(Number(error.errno))} (${code})` : code;
}

/** Far above every file that is read this way. */
export const MAX_TEXT_BYTES = 8_000_000;
const CHUNK_BYTES = 65_536;

/** Reads UTF-8 text. @throws the system's errors, and EFBIG when the file exceeds `MAX_TEXT_BYTES`. */
export function readText(path: string): string {
  const file = openSync(path, 'r');
  try {
    const chunks: Buffer[] = [];
    for (let bytes = 0; bytes <= MAX_TEXT_BYTES; ) {
      const chunk = Buffer.alloc(CHUNK_BYTES);
      const read = readSync(file, chunk);
      if (read === 0) return Buffer.concat(chunks).toString('utf8');
      chunks.push(chunk.subarray(0, read));
      bytes += read;
    }
  } finally {
    closeSync(file);
  }
  throw Object.assign(new Error(`EFBIG: the file is larger than ${MAX_TEXT_BYTES} bytes`), { code: 'EFBIG' });
}
