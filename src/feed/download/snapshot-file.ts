/**
 * One file of a snapshot: its known facts, its name on disk, and its forms there. A partly downloaded file has the bytes that
 * have arrived (`….part`) and the data for requesting the rest (`….part.json`). A finished file of an entry that does not state
 * all digests has a note with its tag (`….json`), for asking whether the file is unchanged. Parts and notes may be lost at any
 * time; they only save work.
 */

import { createHash } from 'node:crypto';
import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { openForWriting, remove, renameScratch, syncFile, writeScratch } from '../../lib/files.ts';
import { shown } from '../../lib/text.ts';
import { onDisk } from '../../model/disk-errors.ts';
import type { ManifestEntry, ManifestFile } from '../../model/manifest.ts';

/** One file of a snapshot to download. */
export interface FileJob {
  readonly datasetId: string;
  readonly version: number;
  /** Its place among the files of the snapshot. */
  readonly position: number;
  readonly file: ManifestFile;
  /**
   * Whether the entry states the digest of every file, so that digests prove which files belong together. Otherwise only
   * entity tags can.
   */
  readonly belongsByDigest: boolean;
  /** The final path. The name follows from the content, so an existing file has the right content. */
  readonly path: string;
  /** The file's name in messages: the last part of its URL's path. */
  readonly name: string;
}

export function fileJobs(entry: ManifestEntry, directory: string): readonly FileJob[] {
  const belongsByDigest = statesDigests(entry);
  return entry.files.map((file, position) => ({
    datasetId: entry.datasetId,
    version: entry.version,
    position,
    file,
    belongsByDigest,
    path: join(directory, `${contentName(entry, file, position)}.parquet`),
    name: nameOf(file.url, position),
  }));
}

export function statesDigests({ files }: ManifestEntry): boolean {
  return files.every(({ sha256 }) => sha256 !== null);
}

/** Returns the object of a sentence: `file part-0.parquet of dataset us-tx-travis-parcels, version 12`. */
export function describeJob({ name, datasetId, version }: FileJob): string {
  return `file ${name} of dataset ${shown(datasetId)}, version ${version}`;
}

/** Without a stated digest, other stated facts identify the content, but never the query, which is signed anew each time. */
function contentName(entry: ManifestEntry, file: ManifestFile, position: number): string {
  if (file.sha256 !== null) return file.sha256;
  const identity = [entry.datasetId, entry.version, position, pathOf(file.url)];
  return createHash('sha256').update(JSON.stringify(identity)).digest('hex');
}

function nameOf(url: string, position: number): string {
  const last = pathOf(url).split('/').at(-1) ?? '';
  return last === '' ? `number ${position + 1}` : shown(last);
}

/** Returns the URL without the query, which is signed anew each time. */
export function pathOf(url: string): string {
  return url.split(/[?#]/, 1)[0] ?? '';
}

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

/** A header can only carry these characters back as they came: a note with others, which a disk may have damaged, counts as missing. */
export const STRONG_TAG = /^"[\x20\x21\x23-\x7e]*"$/;

const tag = z.string().regex(STRONG_TAG);
const partOrigin = z.object({ etag: tag, totalBytes: z.int().nonnegative() });
const keptFile = z.object({ etag: tag, bytes: z.int().nonnegative(), sha256: z.string() });

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

/** Reads the origin of a part. Null where there is no part, or its origin is unknown. */
export function readPartOrigin(path: string): Promise<PartOrigin | null> {
  return readNote(`${partPathOf(path)}.json`, partOrigin);
}

/** Reads the last bytes of a part before `endByte`; none where they cannot be read. */
export async function readPartBefore(path: string, endByte: number, count: number): Promise<Buffer> {
  const bytes = Math.min(count, endByte);
  if (bytes === 0) return Buffer.alloc(0);
  const partPath = partPathOf(path);
  try {
    await using file = await open(partPath, 'r');
    const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, endByte - bytes);
    return buffer.subarray(0, bytesRead);
  } catch {
    return Buffer.alloc(0);
  }
}

export function readKept(path: string): Promise<KeptFile | null> {
  return readNote(`${path}.json`, keptFile);
}

/** Waits until the disk has all bytes written to the part. @throws StorageError */
export function syncPart(partPath: string, file: FileHandle, what: 'all' | 'data'): Promise<void> {
  return onDisk(partPath, () => syncFile('feed.sync-download', file, what));
}

/**
 * Opens the part for more bytes, or starts it over. `origin` null: no other process can resume the part. A loss of power may
 * bring back a note of the part before: then the digest of the whole differs, and the file is downloaded again.
 */
export async function openPart(path: string, origin: PartOrigin | null, mode: 'append' | 'truncate') {
  const partPath = partPathOf(path);
  return onDisk(partPath, async () => {
    if (mode === 'truncate') {
      await remove('feed.forget-part-origin', `${partPath}.json`);
    }
    const file = await openForWriting('feed.open-part', partPath, mode);
    if (origin !== null && mode === 'truncate') {
      await writeScratch('feed.note-part-origin', `${partPath}.json`, noteOf(origin));
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
 * Gives a whole and verified part its final name. `kept` is the note about its content: null where nothing could prove
 * later that the file is unchanged, `by-name` where the name identifies the content. A note never stands beside a file that it
 * does not describe, but after a loss of power, and is compared with the file before it counts.
 */
export function finishPart(path: string, kept: KeptFile | 'by-name' | null): Promise<void> {
  return onDisk(path, async () => {
    if (kept !== 'by-name') await remove('feed.forget-finished-file', `${path}.json`);
    await renameScratch('feed.finish-file', partPathOf(path), path);
    if (kept !== null && kept !== 'by-name') {
      await writeScratch('feed.note-finished-file', `${path}.json`, noteOf(kept));
    }
    await remove('feed.drop-finished-origin', `${partPathOf(path)}.json`);
  });
}

function noteOf(content: PartOrigin | KeptFile): Uint8Array {
  return Buffer.from(JSON.stringify(content));
}

/** An unreadable note counts as missing: a killed process may have cut it. */
async function readNote<Note>(path: string, schema: z.ZodType<Note>): Promise<Note | null> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return null;
  }
}
