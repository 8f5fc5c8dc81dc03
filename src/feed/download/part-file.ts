/**
 * A partly downloaded file: the bytes that have arrived (`….part`) and the data for requesting the rest (`….part.json`). A
 * finished file
 * of an entry that does not state all digests has a note with its tag (`….json`), for asking whether the file is unchanged.
 * All of this
 * may be lost at any time; it only saves work.
 */

import { type FileHandle, readFile, stat } from 'node:fs/promises';
import { z } from 'zod';
import { openForWriting, remove, renameFile, replaceFile, syncFile } from '../../lib/files.ts';
import { onDisk } from '../storage.ts';

/** The service's statements about the file at its first byte. */
export interface PartOrigin {
  /** A strong entity tag, quotes included. */
  readonly etag: string;
  readonly totalBytes: number;
}

export interface KeptFile {
  readonly etag: string;
  readonly bytes: number;
  readonly sha256: string;
}

const partOrigin = z.object({ etag: z.string(), totalBytes: z.int().nonnegative() });
const keptFile = z.object({ etag: z.string(), bytes: z.int().nonnegative(), sha256: z.string() });

export function partPathOf(path: string): string {
  return `${path}.part`;
}

/** Bytes of the file at `path`; null where there is none. */
export async function sizeOf(path: string): Promise<number | null> {
  try {
    const { size } = await stat(path);
    return size;
  } catch {
    return null;
  }
}

/** Null where there is no part, or its origin is unknown. */
export function readPartOrigin(path: string): Promise<PartOrigin | null> {
  return readNote(`${partPathOf(path)}.json`, partOrigin);
}

export function readKept(path: string): Promise<KeptFile | null> {
  return readNote(`${path}.json`, keptFile);
}

/** Waits until the disk has all bytes written to the part. @throws StorageError */
export function syncPart(partPath: string, file: FileHandle, what: 'all' | 'data'): Promise<void> {
  return onDisk(partPath, () => syncFile('feed.sync-download', file, what));
}

/** Opens the part for more bytes, or starts it over. `origin` null: no other process can resume the part. */
export async function openPart(path: string, origin: PartOrigin | null, mode: 'append' | 'truncate') {
  const partPath = partPathOf(path);
  return onDisk(partPath, async () => {
    if (mode === 'truncate') {
      await remove('feed.forget-part-origin', `${partPath}.json`);
    }
    const file = await openForWriting('feed.open-part', partPath, mode);
    if (origin !== null && mode === 'truncate') {
      await replaceFile('feed.note-part-origin', `${partPath}.json`, JSON.stringify(origin));
    }
    return file;
  });
}

export function dropPart(path: string): Promise<void> {
  const partPath = partPathOf(path);
  return onDisk(partPath, async () => {
    await remove('feed.drop-part-origin', `${partPath}.json`);
    await remove('feed.drop-part', partPath);
  });
}

/**
 * Gives a whole, synced and verified part its final name. `kept` is the note about its content: null where nothing could
 * prove later
 * that the file is unchanged, `by-name` where the name identifies the content. A note never stands beside a file that it does not
 * describe.
 */
export function finishPart(path: string, kept: KeptFile | 'by-name' | null): Promise<void> {
  return onDisk(path, async () => {
    if (kept !== 'by-name') await remove('feed.forget-finished-file', `${path}.json`);
    await renameFile('feed.finish-file', partPathOf(path), path);
    if (kept !== null && kept !== 'by-name') {
      await replaceFile('feed.note-finished-file', `${path}.json`, JSON.stringify(kept));
    }
    await remove('feed.drop-finished-origin', `${partPathOf(path)}.json`);
  });
}

/** An unreadable note counts as missing. */
async function readNote<Note>(path: string, schema: z.ZodType<Note>): Promise<Note | null> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return null;
  }
}
