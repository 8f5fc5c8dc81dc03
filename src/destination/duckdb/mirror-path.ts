/**
 * Where the mirror really lies. DuckDB compares the folders it may use with real paths, and keeps the log beside the
 * path it was given: every process has to name the file in the same way.
 */

import { readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { makeDirectory } from '../../lib/files.ts';
import { systemCode, systemReason } from '../../lib/system-code.ts';
import { ConfigurationError, StorageError } from '../../model/errors.ts';

/**
 * The path without links, also of a file that is still to be made; its folder is made where it is missing.
 * @throws StorageError, ConfigurationError
 */
export async function mirrorPath(path: string): Promise<string> {
  try {
    await makeDirectory('destination.make-directory', dirname(resolve(path)));
    const real = await withoutLinks(resolve(path));
    if (!real.includes('?')) return real;
  } catch (cause) {
    throw new StorageError(`The folder of the mirror ${path} cannot be used: ${systemReason(cause)}.`, {
      hint: 'Make it writable, or set destination.path (FEED_SYNC_DESTINATION_PATH).',
      cause,
    });
  }
  // DuckDB takes what follows for the query of an address, and puts the name of its log before it.
  throw new ConfigurationError(`The path of the mirror has a question mark in it: ${path}.`, {
    hint: 'Set destination.path (FEED_SYNC_DESTINATION_PATH) or dataDir to a path without one.',
  });
}

/** The path as the system resolves it. A link may lead to a file that is still to be made. @throws the system's error */
export async function withoutLinks(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
  }
  const place = join(await realpath(dirname(path)), basename(path));
  const target = await targetOf(place);
  return target === null ? place : withoutLinks(resolve(dirname(place), target));
}

/** Null where the path is no link. */
async function targetOf(path: string): Promise<string | null> {
  try {
    return await readlink(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT' || systemCode(error) === 'EINVAL') return null;
    throw error;
  }
}
