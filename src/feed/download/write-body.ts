/**
 * Writes the body of an answer to the part of a file: while some of it is written, more of it arrives, and what is
 * written is taken into the digest. No more is taken than the digest can keep up with.
 *
 * Invariant: what is written before a body breaks off is a true beginning of the file, so it can be continued.
 */

import { unlessStopped } from '../http/stop.ts';
import { requireSpace } from '../storage.ts';
import type { Digest, Digests } from './digest.ts';
import { openPart, type PartOrigin, partPathOf, syncPart } from './part-file.ts';
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
  readonly digests: Digests;
  /** What the file will have in the end; null where nobody knows. */
  readonly expectedBytes: number | null;
  readonly onBytes: (bytes: number) => void;
  readonly signal: AbortSignal;
}

export interface WrittenFile {
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Appends `chunks` to the `fromByte` bytes that are there, or writes the part anew where there are none. The part is synced
 * when this resolves.
 * @throws what `chunks` throws, StorageError, and what `signal` was aborted with
 */
export async function writeBody(
  chunks: AsyncIterable<Buffer>,
  fromByte: number,
  origin: PartOrigin | null,
  target: BodyTarget,
): Promise<WrittenFile> {
  const partPath = partPathOf(target.path);
  const file = await openPart(target.path, origin, fromByte > 0 ? 'append' : 'truncate');
  try {
    const digest = await target.digests.begin(partPath, fromByte, target.expectedBytes);
    try {
      const bytes = await writeAll(chunks, digest, new WriteBehind(file, partPath, digest.written), target);
      await syncPart(partPath, file, 'all');
      return { bytes: fromByte + bytes, sha256: await unlessStopped(digest.end(), target.signal) };
    } finally {
      digest.drop();
    }
  } finally {
    await file.close();
  }
}

/** How many bytes came. When this ends, in whatever way, nothing is being written any more. */
async function writeAll(
  chunks: AsyncIterable<Buffer>,
  digest: Digest,
  behind: WriteBehind,
  { directory, reserveBytes, title, onBytes, signal }: BodyTarget,
): Promise<number> {
  let bytes = 0;
  let unlooked = 0;
  try {
    for await (const chunk of chunks) {
      unlooked += chunk.length;
      if (unlooked >= LOOK_AT_SPACE_EVERY_BYTES) {
        await requireSpace(directory, chunk.length, reserveBytes, title);
        unlooked = 0;
      }
      await behind.write(chunk);
      bytes += chunk.length;
      onBytes(chunk.length);
      const room = digest.room();
      if (room !== null) await unlessStopped(room, signal);
    }
    await behind.flush();
    return bytes;
  } finally {
    // What went wrong with it was told, or something else went wrong before.
    await behind.flush().catch(() => {});
  }
}
