/** What is there of a file before it is asked for. */

import type { Resumption } from './answer-kind.ts';
import type { FileJob } from './file-job.ts';
import { type KeptFile, partPathOf, readKept, readPartOrigin, sizeOf } from './part-file.ts';
import { type Beginning, emptyBeginning, hashPart } from './write-body.ts';

export interface FileStart {
  /** The bytes of the part. */
  readonly beginning: Beginning;
  /** What may be asked to be continued; null: the whole has to be asked for. */
  readonly resumption: Resumption | null;
  /** A finished file whose digest nobody states: still good if the service says that it is the same. */
  readonly kept: KeptFile | null;
}

export function nothingThere(): FileStart {
  return { beginning: emptyBeginning(), resumption: null, kept: null };
}

/**
 * What is there of the file. Without a stated digest nothing would notice that a loss of power left holes in a part,
 * so there only a part that this process has begun is continued.
 */
export async function startOf(job: FileJob, begunHere: ReadonlySet<string>): Promise<FileStart> {
  const nothing = nothingThere();
  if (job.file.sha256 === null) {
    const kept = await readKept(job.path);
    if (kept !== null && (await sizeOf(job.path)) === kept.bytes) return { ...nothing, kept };
    if (!begunHere.has(job.path)) return nothing;
  }
  const origin = await readPartOrigin(job.path);
  if (origin === null || (await sizeOf(partPathOf(job.path))) === null) return nothing;
  const beginning = await hashPart(job.path);
  if (beginning.bytes === 0 || beginning.bytes > origin.totalBytes) return nothing;
  return { beginning, resumption: { ...origin, fromByte: beginning.bytes }, kept: null };
}
