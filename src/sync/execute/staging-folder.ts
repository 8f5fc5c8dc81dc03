/**
 * The staging folder: downloads on their way into the destination. Each dataset has a folder, named by a hash of its id
 * because an id may contain any character. The folder contains the files of a snapshot, a folder for the pages of changes, and a
 * folder for the content of its candidate. The content may be lost at any time, also in a loss of power; it only saves work.
 *
 * Every call may throw `StorageError`.
 */

import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import pLimit from 'p-limit';
import { isThere, makeScratchDirectory, remove, renameScratch, systemCode } from '../../lib/files.ts';
import { onDisk } from '../../model/disk-errors.ts';

/** Beside the files of the snapshot, which are named by digests. */
const CHANGES_FOLDER = 'changes';
const CANDIDATE_FOLDER = 'candidate';
const PAGE_DIGITS = 5;

export interface Staging {
  /** Returns the folder of a dataset, which is created if missing. */
  folderOf(datasetId: string): Promise<string>;
  /** Returns the path for each page of the changes of one version, from 0. Creates their folder if it is missing. */
  pagesOfChanges(datasetId: string, version: number): Promise<(page: number) => string>;
  /**
   * Discards the changes of one version, or of all. Changes that were not committed at once are worthless, because they
   * are fetched again.
   */
  discardChanges(datasetId: string, version?: number): Promise<void>;
  /**
   * Moves these files, each to its name, to those of the dataset's candidate, in place of the files of an earlier one. Then evicts
   * the files of the oldest candidates where all together have more than `maxBytes`.
   */
  keepCandidate(datasetId: string, files: ReadonlyMap<string, string>, maxBytes: number): Promise<void>;
  /** Returns the path of a file of the candidate, which may have been evicted. */
  candidatePath(datasetId: string, name: string): string;
  discardCandidate(datasetId: string): Promise<void>;
  /** Discards all files of a dataset but those of its candidate, once they are committed or worthless. */
  discard(datasetId: string): Promise<void>;
  /**
   * Discards the folders of datasets that are not in the list, such as downloads that are not desired any more. Anything else stays: an
   * operator may have linked or mounted another disk here, with what lies on it.
   */
  keepOnly(datasetIds: Iterable<string>): Promise<void>;
}

export function openStaging(directory: string): Staging {
  const pathOf = (datasetId: string): string => join(directory, folderName(datasetId));
  const changesOf = (datasetId: string): string => join(pathOf(datasetId), CHANGES_FOLDER);
  const candidateOf = (datasetId: string): string => join(pathOf(datasetId), CANDIDATE_FOLDER);
  // An eviction looks into the folders of all candidates, and would meet one that another dataset is filling or removing.
  const oneByOne = pLimit(1);
  /** The existing folders, once they were listed: a quiet catch-up need not try to remove a folder for every dataset. */
  let folders: Set<string> | null = null;
  return {
    async folderOf(datasetId) {
      const path = pathOf(datasetId);
      folders?.add(folderName(datasetId));
      await onDisk(path, () => makeScratchDirectory('sync.make-staging-folder', path));
      return path;
    },
    async pagesOfChanges(datasetId, version) {
      const path = changesOf(datasetId);
      folders?.add(folderName(datasetId));
      await onDisk(path, () => makeScratchDirectory('sync.make-changes-folder', path));
      return (page) => join(path, `${beginningOf(version)}${String(page).padStart(PAGE_DIGITS, '0')}.json`);
    },
    async discardChanges(datasetId, version) {
      const path = changesOf(datasetId);
      await onDisk(path, async () => {
        const worthless = version === undefined ? [path] : await filesOfVersion(path, version);
        for (const one of worthless) await remove('sync.discard-changes', one);
      });
    },
    async keepCandidate(datasetId, files, maxBytes) {
      const path = candidateOf(datasetId);
      const keep = async (): Promise<void> => {
        await removeCandidate(path);
        await makeScratchDirectory('sync.make-candidate-folder', path);
        for (const [from, name] of files) {
          // A file that was lost meanwhile is fetched again once the candidate is let through.
          if (await isThere(from)) await renameScratch('sync.keep-candidate', from, join(path, name));
        }
        // Notes beside the files are of no use any more.
        for (const name of await namesIn(pathOf(datasetId))) {
          if (name !== CANDIDATE_FOLDER) await removeStaged(join(pathOf(datasetId), name));
        }
        await evictOldest(directory, maxBytes);
      };
      await onDisk(path, () => oneByOne(keep));
    },
    candidatePath: (datasetId, name) => join(candidateOf(datasetId), name),
    async discardCandidate(datasetId) {
      const path = candidateOf(datasetId);
      await onDisk(path, () => oneByOne(() => removeCandidate(path)));
    },
    async discard(datasetId) {
      if (folders?.has(folderName(datasetId)) === false) return;
      const path = pathOf(datasetId);
      await onDisk(path, async () => {
        const names = await namesIn(path);
        if (!names.includes(CANDIDATE_FOLDER)) {
          folders?.delete(folderName(datasetId));
          return await removeStaged(path);
        }
        for (const name of names) {
          if (name !== CANDIDATE_FOLDER) await removeStaged(join(path, name));
        }
      });
    },
    async keepOnly(datasetIds) {
      const needed = new Set(Array.from(datasetIds, folderName));
      const keep = async (): Promise<void> => {
        await makeScratchDirectory('sync.make-staging', directory);
        const found = await readdir(directory);
        for (const name of found) {
          if (OWN_NAME.test(name) && !needed.has(name))
            await remove('sync.discard-unwanted', join(directory, name));
        }
        folders = new Set(found.filter((name) => needed.has(name)));
      };
      await onDisk(directory, () => oneByOne(keep));
    },
  };
}

/** What the names of all files of a version begin with: its pages, and what is made of them. */
function beginningOf(version: number): string {
  return `${version}-`;
}

async function filesOfVersion(folder: string, version: number): Promise<readonly string[]> {
  const names = await namesIn(folder);
  return names.filter((name) => name.startsWith(beginningOf(version))).map((name) => join(folder, name));
}

function removeCandidate(path: string): Promise<void> {
  return remove('sync.discard-candidate', path);
}

function removeStaged(path: string): Promise<void> {
  return remove('sync.discard-staged', path);
}

async function namesIn(path: string): Promise<readonly string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  }
}

interface KeptCandidate {
  readonly path: string;
  readonly bytes: number;
  /** When its folder was made. */
  readonly keptAtMs: number;
}

async function evictOldest(directory: string, maxBytes: number): Promise<void> {
  const kept: KeptCandidate[] = [];
  for (const dataset of (await namesIn(directory)).filter((name) => OWN_NAME.test(name))) {
    const path = join(directory, dataset, CANDIDATE_FOLDER);
    const files = await namesIn(path);
    if (files.length === 0) continue;
    const sizes = await Promise.all(files.map(async (name) => (await stat(join(path, name))).size));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    kept.push({ path, bytes, keptAtMs: (await stat(path)).mtimeMs });
  }
  let total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of kept.toSorted((left, right) => left.keptAtMs - right.keptAtMs)) {
    if (total <= maxBytes) return;
    await remove('sync.evict-candidate', path);
    total -= bytes;
  }
}

const NAME_DIGITS = 32;
const OWN_NAME = new RegExp(`^[0-9a-f]{${NAME_DIGITS}}$`);

function folderName(datasetId: string): string {
  return createHash('sha256').update(datasetId).digest('hex').slice(0, NAME_DIGITS);
}
