/** Files that a person names, read whole: a wrong name may mean anything, also what has no end. */

import { closeSync, openSync, readSync } from 'node:fs';

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
