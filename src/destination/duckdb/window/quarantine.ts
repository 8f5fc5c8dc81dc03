/**
 * What becomes of a mirror that cannot be opened: it is set aside under another name, never deleted, and rebuilt. A
 * file that never was a DuckDB database is not touched, because it is not ours: the path points at the wrong thing.
 *
 * Nothing here may run while DuckDB has the file open: the locks are those of POSIX, and closing any handle on the
 * file would take them from the whole process.
 */

import { open, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isThere, remove, renameFile } from '../../../lib/files.ts';
import type { Log } from '../../../lib/log.ts';
import { systemCode, systemReason } from '../../../lib/system-code.ts';
import { ConfigurationError, StorageError } from '../../../model/errors.ts';

/** The most files set aside beside one mirror. More of them point at the disk, not at the mirror. */
export const MAX_QUARANTINED = 3;

/** The header of a database: a checksum of 8 bytes, then these. */
const MAGIC = Buffer.from('DUCK');
const MAGIC_OFFSET = 8;

export const WAL_SUFFIX = '.wal';
const QUARANTINE_INFIX = '.corrupt-';

export type FileState = 'absent' | 'empty' | 'database' | 'other';

/** What lies at the path, by its first bytes. A damaged database is still a `database` while these are whole. */
export async function fileState(path: string): Promise<FileState> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(path, 'r');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return 'absent';
    throw new StorageError(`The mirror ${path} cannot be opened: ${systemReason(error)}.`, {
      hint: 'Make it readable for this user, or set dataDir or destination.path to another place.',
      cause: error,
    });
  }
  try {
    if (!(await file.stat()).isFile()) return 'other';
    const head = Buffer.alloc(MAGIC_OFFSET + MAGIC.length);
    const { bytesRead } = await file.read(head, 0, head.length, 0);
    if (bytesRead === 0) return 'empty';
    return head.subarray(MAGIC_OFFSET, bytesRead).equals(MAGIC) ? 'database' : 'other';
  } finally {
    await file.close();
  }
}

/**
 * Makes way for a new mirror at `path`, which DuckDB could not read because of `reason`.
 * @throws ConfigurationError where the file is none of ours, StorageError after `MAX_QUARANTINED` files.
 */
export async function setAside(path: string, reason: string, now: Date, log: Log): Promise<void> {
  const state = await fileState(path);
  if (state === 'other') throw notADatabase(path);
  if (state === 'empty') {
    // Left by a process or a disk that gave up while the file was made: there is nothing to keep.
    await remove('destination.remove-empty', path);
    return;
  }
  const quarantined = await quarantinedFiles(path);
  if (quarantined.length >= MAX_QUARANTINED) {
    throw new StorageError(
      `The mirror ${path} cannot be read (${reason}), and ${quarantined.length} unreadable mirrors already lie beside it.`,
      {
        hint: `Check the disk, then move ${path}${QUARANTINE_INFIX}* away, or set destination.path to another disk.`,
      },
    );
  }
  const target = `${path}${QUARANTINE_INFIX}${timestamp(now)}`;
  // The log first: a crash between the two leaves an older mirror that can be read, never a log without its file.
  if (await isThere(path + WAL_SUFFIX)) {
    await renameFile('destination.quarantine-log', path + WAL_SUFFIX, target + WAL_SUFFIX);
  }
  if (state === 'database') await renameFile('destination.quarantine', path, target);
  log.error(
    { path, quarantinedAs: target, why: reason },
    'The mirror cannot be read: set aside and built again.',
  );
}

export async function quarantinedFiles(path: string): Promise<readonly string[]> {
  const prefix = basename(path) + QUARANTINE_INFIX;
  const names = await readdir(dirname(path));
  return names
    .filter((name) => name.startsWith(prefix) && !name.endsWith(WAL_SUFFIX))
    .map((name) => join(dirname(path), name));
}

export function notADatabase(path: string): ConfigurationError {
  return new ConfigurationError(`${path} is no DuckDB database, so it is left as it is.`, {
    hint: 'Set destination.path (FEED_SYNC_DESTINATION_PATH) to a file of its own, or move this one away.',
  });
}

/** `20261120T110312345Z`: sorts by time and needs no quoting in a shell. */
function timestamp(now: Date): string {
  return now.toISOString().replaceAll(/[-:.]/g, '');
}
