/** A copy of a file: a clone where the file system can, else its bytes, where there is room for them. */

import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { durable } from '../../../lib/durable.ts';
import { cloneFile, freeBytes, openForWriting } from '../../../lib/files.ts';
import { formatBytes } from '../../../lib/units.ts';
import { CopyError } from '../../../model/errors.ts';

/** Read and written at once. */
const CHUNK_BYTES = 4_000_000;
/** Written to the disk at once, so that the end, which cannot be interrupted, is not long. */
const MAX_UNSYNCED_BYTES = 256_000_000;

export interface CopyOptions {
  readonly from: string;
  /** Must not be there yet. */
  readonly to: string;
  readonly bytes: number;
  /** Bytes kept free on the disk. */
  readonly reserveBytes: number;
  /** Called after every part. */
  readonly onCopied: () => void;
  readonly signal: AbortSignal | undefined;
}

/**
 * Whether it is a clone. The copy may still be lost when the power goes.
 * @throws CopyError before anything is written, where the disk has no room; the system's error; the signal's reason.
 */
export async function copyFile(options: CopyOptions): Promise<boolean> {
  const { from, to, signal } = options;
  signal?.throwIfAborted();
  if (await cloneFile('destination.publish-clone', from, to)) return true;
  await requireRoom(options);
  await using source = await open(from, 'r');
  await using target = await openForWriting('destination.publish-open', to, 'truncate');
  await durable('destination.publish-copy', () => copyContent(source, target, options));
  return false;
}

async function copyContent(
  source: FileHandle,
  target: FileHandle,
  { onCopied, signal }: CopyOptions,
): Promise<void> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let unsyncedBytes = 0;
  for (let position = 0; ; ) {
    signal?.throwIfAborted();
    const { bytesRead } = await source.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) return;
    await target.writeFile(chunk.subarray(0, bytesRead));
    position += bytesRead;
    unsyncedBytes += bytesRead;
    if (unsyncedBytes >= MAX_UNSYNCED_BYTES) {
      await target.datasync();
      unsyncedBytes = 0;
    }
    onCopied();
  }
}

async function requireRoom({ to, bytes, reserveBytes }: CopyOptions): Promise<void> {
  const folder = dirname(to);
  const free = await freeBytes(folder);
  if (free - bytes >= reserveBytes) return;
  const needed = `${formatBytes(bytes)} beside the ${formatBytes(reserveBytes)} that are kept free (disk.reserve)`;
  throw new CopyError(
    `Not enough space in ${folder}: a copy of the mirror needs ${needed}, and ${formatBytes(free)} are free.`,
    {
      hint: 'Free some space, or set destination.publish to a larger disk. The copy of before stays in place.',
    },
  );
}
