/** What is there of a file before it is asked for. */

import type { Resumption } from './answer-kind.ts';
import type { FileJob } from './file-job.ts';
import { type KeptFile, partPathOf, readKept, readPartOrigin, sizeOf } from './part-file.ts';

export interface FileStart {
  /** What may be asked to be continued; null: the whole has to be asked for. */
  readonly resumption: Resumption | null;
  /** A finished file that is still good if the service says that it is the same. */
  readonly kept: KeptFile | null;
}

export const NOTHING_THERE: FileStart = { resumption: null, kept: null };

/**
 * What is there of the file. Without a stated digest nothing would notice that a loss of power left holes in a part,
 * so there only a part that this process has begun is continued; and a part that is whole is not taken for the file
 * without asking.
 */
export async function startOf(job: FileJob, begunHere: ReadonlySet<string>): Promise<FileStart> {
  const hasDigest = job.file.sha256 !== null;
  const kept = await keptOf(job);
  if (kept !== null) return { resumption: null, kept };
  if (!hasDigest) {
    if (!begunHere.has(job.path)) return NOTHING_THERE;
  }
  const origin = await readPartOrigin(job.path);
  const fromByte = (await sizeOf(partPathOf(job.path))) ?? 0;
  if (origin === null || fromByte === 0 || fromByte > origin.totalBytes) return NOTHING_THERE;
  if (!hasDigest && fromByte === origin.totalBytes) return NOTHING_THERE;
  return { resumption: { ...origin, fromByte, hasDigest }, kept: null };
}

/** A finished file of which only the service can say that it is still the same; null where there is none. */
export async function keptOf({ belongsByDigest, file, path }: FileJob): Promise<KeptFile | null> {
  if (belongsByDigest) return null;
  const kept = await readKept(path);
  if (kept === null || (await sizeOf(path)) !== kept.bytes) return null;
  return file.bytes === null || file.bytes === kept.bytes ? kept : null;
}
