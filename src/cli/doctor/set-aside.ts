/** Damaged files that were moved out of the way. Pure. */

import { counted } from './counted.ts';
import { type Finding, warning } from './findings.ts';

/** Logs and their indexes follow the file they belong to. */
const FOLLOWERS = /(?:\.wal|-wal|-shm)$/;

export function setAsideFindings(
  what: 'checkpoint' | 'mirror',
  paths: readonly string[],
): readonly Finding[] {
  const files = paths.filter((path) => !FOLLOWERS.test(path));
  if (files.length === 0) return [];
  const found = `${counted(files.length, 'damaged file')} of earlier days: ${files.join(', ')}.`;
  const hint = `Look at the disk, then remove them: with three of them a damaged ${what} is not built anew any more.`;
  return [warning('set aside', found, hint)];
}
