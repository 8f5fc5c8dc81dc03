/**
 * What can be noticed of a file whose digest the service does not state: whether it has the marks of Parquet at both
 * ends, and a footer that fits between them. A file that was cut, or replaced by a page for people, has not.
 */

import { type FileHandle, open } from 'node:fs/promises';

const MARK = Buffer.from('PAR1');
/** The length of the footer in four bytes, and the mark. */
const END_BYTES = 8;

/** Whether the file at `path` looks like a whole Parquet file. */
export async function hasParquetShape(path: string, bytes: number): Promise<boolean> {
  if (bytes < MARK.length + END_BYTES) return false;
  const file = await open(path, 'r');
  try {
    const begin = await bytesAt(file, 0, MARK.length);
    const end = await bytesAt(file, bytes - END_BYTES, END_BYTES);
    const footerBytes = end.readUInt32LE(0);
    const isMarked = begin.equals(MARK) && end.subarray(END_BYTES - MARK.length).equals(MARK);
    return isMarked && footerBytes <= bytes - MARK.length - END_BYTES;
  } finally {
    await file.close();
  }
}

async function bytesAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  await file.read(bytes, 0, length, position);
  return bytes;
}
