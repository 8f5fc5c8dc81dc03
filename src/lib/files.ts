/**
 * The changes this program makes to files. Nothing else in the program writes, renames or removes one (the databases
 * write their own). Each takes the name of the durable effect it is part of. Modes are for the owner alone.
 */

import { closeSync, openSync, readSync } from 'node:fs';
import {
  chown,
  copyFile,
  type FileHandle,
  constants as flags,
  mkdir,
  open,
  rename,
  rm,
  stat,
  statfs,
  writeFile,
} from 'node:fs/promises';
import { dirname } from 'node:path';
import { getSystemErrorMessage } from 'node:util';

const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;

/** The numbers by which the system knows a user and a group. */
export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

/** Makes the folder and those above it, where they are missing. */
export function makeDirectory(name: string, path: string): Promise<void> {
  return durable(name, () => makeDirectories(path));
}

/** Writes a whole file so that it is either as before or complete, also after power loss. */
export function replaceFile(name: string, path: string, content: string | Uint8Array): Promise<void> {
  return durable(name, async () => {
    const temporaryPath = `${path}.tmp`;
    try {
      await writeDurably(temporaryPath, 'w', content);
      await renameDurably(temporaryPath, path);
    } catch (error) {
      // It may hold secrets. What is told is what went wrong first.
      await rm(temporaryPath, { force: true }).catch(() => {});
      throw error;
    }
  });
}

/** Writes a file that may be lost, or be cut short, when the process or the power ends: it is written again then. */
export function writeScratch(name: string, path: string, content: Uint8Array): Promise<void> {
  return durable(name, () => writeFile(path, content, { mode: FILE_MODE }));
}

/** Writes a file that must not be there yet. @throws the system's EEXIST where it is. */
export function createFile(name: string, path: string, content: string): Promise<void> {
  return durable(name, () => writeDurably(path, 'wx', content));
}

/** Renames within one file system; the new name survives power loss once this resolves. */
export function renameFile(name: string, from: string, to: string): Promise<void> {
  return durable(name, () => renameDurably(from, to));
}

/** Removes a file or a folder with all that is in it; its absence is no error. */
export function remove(name: string, path: string): Promise<void> {
  return durable(name, () => rm(path, { recursive: true, force: true }));
}

/** Opens a file for writing at its end (`append`) or anew (`truncate`). The caller syncs and closes it. */
export function openForWriting(name: string, path: string, mode: 'append' | 'truncate'): Promise<FileHandle> {
  return durable(name, () => open(path, mode === 'append' ? 'a' : 'w', FILE_MODE));
}

/** Waits until the disk has what was written: `data` leaves out what is only said of the file, such as when it was written. */
export function syncFile(name: string, file: FileHandle, what: 'all' | 'data'): Promise<void> {
  return durable(name, () => (what === 'all' ? file.sync() : file.datasync()));
}

/**
 * Makes `to` a file of its own that shares the content of `from` until one of them is written, which takes no time and no
 * space. False where the file system cannot, or not between the two: then there is no `to`.
 */
export function cloneFile(name: string, from: string, to: string): Promise<boolean> {
  return durable(name, async () => {
    try {
      await copyFile(from, to, flags.COPYFILE_EXCL | flags.COPYFILE_FICLONE_FORCE);
      return true;
    } catch {
      // Whatever else is the matter is met, and told, by whoever copies the content instead.
      return false;
    }
  });
}

/** Gives a file that was written its mode; its content survives power loss once this resolves. */
export function settleFile(name: string, path: string, mode = FILE_MODE): Promise<void> {
  return durable(name, async () => {
    const file = await open(path, 'r+');
    try {
      await file.chmod(mode);
      await file.sync();
    } finally {
      await file.close();
    }
  });
}

/** Gives a file to a user and a group, where it is not theirs. @throws the system's EPERM where this process may not. */
export function giveFile(name: string, path: string, owner: FileOwner): Promise<void> {
  return durable(name, async () => {
    const found = await stat(path);
    if (found.uid !== owner.uid || found.gid !== owner.gid) await chown(path, owner.uid, owner.gid);
  });
}

/** Whether there is a file or a folder at `path`. @throws the system's error where that cannot be known. */
export async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Bytes that this process may still write on the file system of `path`. */
export async function freeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
}

/**
 * Not by the system library's own recursion, which never ends where a folder exists and refuses new ones with ENOENT,
 * as /proc does.
 */
async function makeDirectories(path: string): Promise<void> {
  try {
    await makeOneDirectory(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makeDirectories(dirname(path));
    await makeOneDirectory(path);
  }
}

/** One that is there already was made by somebody else, maybe just now. */
async function makeOneDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: DIRECTORY_MODE });
  } catch (error) {
    if (systemCode(error) !== 'EEXIST' || !(await stat(path)).isDirectory()) throw error;
  }
}

async function writeDurably(path: string, flags: 'w' | 'wx', content: string | Uint8Array): Promise<void> {
  const file = await open(path, flags, FILE_MODE);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  const directory = await open(dirname(to), 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

export type DurablePhase = 'before' | 'after';
export type DurableObserver = (name: string, timestamp: DurablePhase) => void;

let observe: DurableObserver = () => {};

/** For crash tests: `observer` is called around every durable effect of this process from now on. */
export function observeDurableEffects(observer: DurableObserver): void {
  observe = observer;
}

/** Runs `effect`. `name` is constant text of the form `folder.effect`; one name may be used for one effect only. */
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

/** Where the system's own words are of no help to whoever gave a path. */
const PLAIN_WORDS: Readonly<Record<string, string>> = {
  EISDIR: 'it is a folder',
  ENOTDIR: 'its path leads through a file',
};

/**
 * The code that the system or a library gave an error (`ENOENT`, `Z_DATA_ERROR`); null where it gave none. Those codes are
 * in capitals, and the codes of our own errors are not.
 */
export function systemCode(error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' && /^[A-Z]/.test(code) ? code : null;
}

/** `no such file or directory (ENOENT)`: why the system refused, without the path. */
export function systemReason(error: unknown): string {
  const code = systemCode(error);
  if (!(error instanceof Error) || code === null) return String(error);
  const plain = PLAIN_WORDS[code];
  if (plain !== undefined) return `${plain} (${code})`;
  const hasNumber = 'errno' in error && typeof error.errno === 'number';
  return hasNumber ? `${getSystemErrorMessage(Number(error.errno))} (${code})` : code;
}

/** Far above every file that is read so. */
export const MAX_TEXT_BYTES = 8_000_000;
const CHUNK_BYTES = 65_536;

/** The text as UTF-8. @throws the system's errors, and EFBIG where it is larger than `MAX_TEXT_BYTES`. */
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
