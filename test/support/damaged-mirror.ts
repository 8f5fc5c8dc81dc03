/** Damages a mirror as a disk does: a byte of one block is another. */

import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** Changes a byte of the block that holds the text. @throws Error where no block holds it as it is. */
export function damageBlock(path: string, text: string): void {
  const at = readFileSync(path).indexOf(text);
  if (at < 0) throw new Error(`${text} is not in the file`);
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.from('#'), 0, 1, at);
  closeSync(file);
}
