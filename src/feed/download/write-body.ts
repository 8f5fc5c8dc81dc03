/**
 * Writes the body of an answer to the part of a file, hashing it on the way: while some of it is written, more of it
 * arrives and is hashed.
 *
 * Invariant: what is written before a body breaks off is a true beginning of the file, so it can be continued.
 */

import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { durable } from '../../lib/durable.ts';
import { onDisk, requireSpace } from '../storage.ts';
import { openPart, type PartOrigin, partPathOf } from './part-file.ts';
import { WriteBehind } from './write-behind.ts';

/** How often, in bytes received, the free space is looked at where others use the disk too. */
const LOOK_AT_SPACE_EVERY_BYTES = 64_000_000;

export interface BodyTarget {
  /** The final path of the file. */
  readonly path: string;
  readonly directory: string;
  readonly reserveBytes: number;
  /** What it is for, for messages. */
  readonly title: string;
  readonly onBytes: (bytes: number) => void;
}

export interface WrittenFile {
  readonly bytes: number;
  readonly sha256: string;
}

/** A digest over the part as far as it is there. */
export interface Beginning {
  readonly bytes: number;
  readonly hash: Hash;
}

export function emptyBeginning(): Beginning {
  return { bytes: 0, hash: createHash('sha256') };
}

/** Hashes what is there of the part of the file at `path`. */
export function hashPart(path: string): Promise<Beginning> {
  const partPath = partPathOf(path);
  return onDisk(partPath, async () => {
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of createReadStream(partPath)) {
      hash.update(chunk);
      bytes += chunk.length;
    }
    return { bytes, hash };
  });
}

/**
 * Appends `chunks` to what is there, or writes the part anew where nothing is. The part is synced when this resolves.
 * @throws what `chunks` throws, and StorageError
 */
export async function writeBody(
  chunks: AsyncIterable<Buffer>,
  beginning: Beginning,
  origin: PartOrigin | null,
  target: BodyTarget,
): Promise<WrittenFile> {
  const partPath = partPathOf(target.path);
  const { hash } = beginning;
  let { bytes } = beginning;
  let unlooked = 0;
  const file = await openPart(target.path, origin, beginning.bytes > 0 ? 'append' : 'truncate');
  const behind = new WriteBehind(file, partPath);
  try {
    for await (const chunk of chunks) {
      unlooked += chunk.length;
      if (unlooked >= LOOK_AT_SPACE_EVERY_BYTES) {
        await requireSpace(target.directory, chunk.length, target.reserveBytes, target.title);
        unlooked = 0;
      }
      await behind.write(chunk);
      hash.update(chunk);
      bytes += chunk.length;
      target.onBytes(chunk.length);
    }
    await behind.flush();
    await onDisk(partPath, () => durable('feed.sync-download', () => file.sync()));
  } finally {
    // What went wrong with it was told, or something else went wrong before.
    await behind.flush().catch(() => {});
    await file.close();
  }
  return { bytes, sha256: hash.digest('hex') };
}
