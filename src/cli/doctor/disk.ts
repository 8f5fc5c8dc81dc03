/**
 * Checks the folders that feed-sync writes to: permissions and free space. Folders and files are examined without changing
 * them: no file is created to test whether one could be.
 */

import { constants } from 'node:fs';
import { access, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Inspection } from '../../configuration/configuration.ts';
import { FREE_INODES, type FreeSpace, freeSpace, systemCode } from '../../lib/files.ts';
import { formatBytes, plural } from '../../lib/units.ts';
import { ConfigurationError } from '../../model/errors.ts';
import { newestGeneration, refuseExportFolder } from '../../post-commit/export/folder.ts';
import { stagingFolder } from '../../staging/engine/engine.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { ownFolders } from '../own-folders.ts';
import { type Facts, type Finding, findingOf, notKnown, ok, problem, skipped, warning } from './check.ts';

interface Place {
  readonly about: string;
  readonly folder: string;
  /** Whether the folder is feed-sync's alone; a folder with other files, too, may be open for others. */
  readonly isOwn: boolean;
}

export async function checkDisk({ inspection, context }: Facts): Promise<readonly Finding[]> {
  const reserveBytes = inspection.known('disk.reserve');
  const findings: Finding[] = [];
  for (const place of foldersOf(inspection)) {
    try {
      const seen = await seeFolder(place.folder);
      findings.push(...judgeFolder(place, seen, reserveBytes, context.identity.uid));
    } catch (error) {
      findings.push(cannotBeSeen(place, error));
    }
  }
  const dataDirectory = inspection.known('dataDir');
  if (dataDirectory === null) findings.unshift(notKnown('data directory', 'dataDir'));
  else findings.push(await stagingFinding(stagingFolder(dataDirectory)));
  return [...findings, ...(await exportFindings(inspection)), ...(await openFiles(inspection))];
}

/** Null where the mirror is a database, or unknown. */
function mirrorFileOf(inspection: Inspection): string | null {
  return inspection.known('destination.url') === null ? inspection.known('destination.path') : null;
}

/** Files of the export are written in its folder and renamed there, so nothing else is needed of its file system. */
const EXPORT = 'export folder';

/** Returns what the export itself refuses. The findings about its folder say the rest. */
async function exportFindings(inspection: Inspection): Promise<readonly Finding[]> {
  const folder = inspection.known('export.path');
  if (folder === null) return [];
  const dataDirectory = inspection.known('dataDir');
  try {
    await refuseExportFolder(folder, dataDirectory === null ? [] : ownFolders(dataDirectory));
    await newestGeneration(folder, inspection.configuration?.destination.place ?? null);
    return [];
  } catch (error) {
    return error instanceof ConfigurationError ? [findingOf(EXPORT, error)] : [];
  }
}

/** Each folder once, under the name of its most important content. */
function foldersOf(inspection: Inspection): readonly Place[] {
  const folderOf = (path: string | null): string | null => (path === null ? null : dirname(path));
  const all = [
    { about: 'data directory', folder: inspection.known('dataDir'), isOwn: true },
    { about: 'mirror directory', folder: folderOf(mirrorFileOf(inspection)), isOwn: false },
    { about: EXPORT, folder: inspection.known('export.path'), isOwn: false },
    { about: 'checkpoint directory', folder: folderOf(inspection.known('checkpoint.path')), isOwn: false },
  ];
  const known = all.flatMap(({ folder, ...rest }) => (folder === null ? [] : [{ ...rest, folder }]));
  return known.filter(({ folder }, index) => known.findIndex((one) => one.folder === folder) === index);
}

/** Returns the findings about one folder. Pure. */
export function judgeFolder(
  { about, isOwn }: Pick<Place, 'about' | 'isOwn'>,
  seen: FolderSeen,
  reserveBytes: number | null,
  uid: number | null,
): readonly Finding[] {
  const { path, nearest, isFolder, refusal, mode, freeBytes } = seen;
  if (!isFolder) {
    const found = `${nearest} is a file, where a folder is needed${nearest === path ? '' : ` for ${path}`}.`;
    return [problem(about, found, EXIT_CODES.storageFault, 'Move the file away, or set another path.')];
  }
  const where = nearest === path ? path : `${path}, which will be made in ${nearest}`;
  const findings = [
    refusal === null ? ok(about, `${where} (${formatBytes(freeBytes)} free)`) : notWritable(about, seen, uid),
  ];
  if (reserveBytes !== null && freeBytes < reserveBytes) {
    const kept = `the ${formatBytes(reserveBytes)} that are kept free (disk.reserve)`;
    const stopped = about === EXPORT ? 'exported' : 'downloaded';
    const found = `${formatBytes(freeBytes)} are free, less than ${kept}: nothing would be ${stopped}.`;
    const hint = 'Free some space, or set disk.reserve lower.';
    findings.push(problem(about, found, EXIT_CODES.storageFault, hint));
  }
  if (seen.isOutOfInodes) {
    const found = `The file system of ${nearest} has no inodes left for another file (${formatBytes(freeBytes)} are free).`;
    findings.push(problem(about, found, EXIT_CODES.storageFault, FREE_INODES));
  }
  if (isOwn && nearest === path && readableByOthers(seen)) {
    findings.push(warning(about, `Others may enter it (mode ${mode.toString(8)}).`, `chmod 700 ${path}`));
  }
  return findings;
}

function notWritable(
  about: string,
  { path, nearest, refusal, ownerUid, mode }: FolderSeen,
  uid: number | null,
): Finding {
  if (refusal === 'EROFS') {
    const found = `${nearest} lies on a file system that is mounted read-only.`;
    const hint = 'Mount it for writing, or set dataDir to another place.';
    return problem(about, found, EXIT_CODES.storageFault, hint);
  }
  const user = uid === null ? 'This user' : `User id ${uid}`;
  const found = `${user} may not write in ${nearest}, which belongs to ${ownerUid} (mode ${mode.toString(8)}, ${refusal}).`;
  return problem(about, found, EXIT_CODES.storageFault, handOver(path, nearest, uid));
}

/** A folder above is never handed over, because it may belong to everybody. */
function handOver(path: string, nearest: string, uid: number | null): string {
  if (uid === null) return `Give ${path} to the user that runs this.`;
  const make = nearest === path ? '' : `mkdir -p ${path} && `;
  return `As somebody who may: ${make}chown ${uid} ${path} && chmod 700 ${path}`;
}

function cannotBeSeen({ about, folder }: Place, error: unknown): Finding {
  if (!(error instanceof Error) || !('syscall' in error)) return findingOf(about, error);
  const found = `${folder} cannot be examined: ${error.message}.`;
  return problem(about, found, EXIT_CODES.storageFault, 'Give this user the folder, or set another path.');
}

async function stagingFinding(folder: string): Promise<Finding> {
  const about = 'downloads';
  const size = await sizeOf(folder);
  if (size === null) return skipped(about, `${folder} cannot be examined.`);
  if (size.files === 0) return ok(about, 'none on their way');
  const least = size.isWhole ? '' : 'at least ';
  const found = `${least}${formatBytes(size.bytes)} in ${plural(size.files, 'file')} in ${folder}`;
  return ok(about, `${found}; a catch-up uses or removes them`);
}

/** The content of a feed may be private. */
async function openFiles(inspection: Inspection): Promise<readonly Finding[]> {
  const paths = [mirrorFileOf(inspection), inspection.known('checkpoint.path')];
  const seen = await Promise.all(paths.map((path) => (path === null ? null : seeFile(path))));
  return seen.flatMap((file) => {
    if (file === null || !readableByOthers(file)) return [];
    const found = `Others on this machine may read or write ${file.path} (mode ${file.mode.toString(8)}).`;
    return [warning('file', found, `Where that is not on purpose: chmod 600 ${file.path}`)];
  });
}

export interface FolderSeen extends FreeSpace {
  /** The requested folder. */
  readonly path: string;
  /** The folder itself, or its nearest existing parent. */
  readonly nearest: string;
  /** Whether a folder is at `nearest`; a file there is an obstacle. */
  readonly isFolder: boolean;
  readonly mode: number;
  readonly ownerUid: number;
  /** Why this user may not create files in the folder, as the system's code (`EACCES`, `EROFS`); null where it may. */
  readonly refusal: string | null;
}

const MODE_BITS = 0o777;

/** @throws the system's error where not even the root can be examined. */
async function seeFolder(path: string): Promise<FolderSeen> {
  const nearest = await nearestOf(path);
  const found = await stat(nearest);
  const space = await freeSpace(nearest);
  const refusal = await access(nearest, constants.R_OK | constants.W_OK | constants.X_OK).then(
    () => null,
    (error: unknown) => systemCode(error) ?? String(error),
  );
  return {
    path,
    nearest,
    isFolder: found.isDirectory(),
    mode: found.mode & MODE_BITS,
    ownerUid: found.uid,
    refusal,
    ...space,
  };
}

/** A missing folder can be created; a file, or a folder that cannot be examined, is an obstacle. */
async function nearestOf(path: string): Promise<string> {
  try {
    await stat(path);
    return path;
  } catch (error) {
    const mayBeAbove = ['ENOENT', 'ENOTDIR', 'EACCES'].includes(systemCode(error) ?? '');
    if (!mayBeAbove || dirname(path) === path) throw error;
    return nearestOf(dirname(path));
  }
}

export interface FileSeen {
  readonly path: string;
  readonly mode: number;
  readonly bytes: number;
  /** When the content was last written. */
  readonly changedAt: Date;
}

/** Examines a file; null where there is none, or it cannot be examined. */
export async function seeFile(path: string): Promise<FileSeen | null> {
  try {
    const { mode, size, mtime } = await stat(path);
    return { path, mode: mode & MODE_BITS, bytes: size, changedAt: mtime };
  } catch {
    return null;
  }
}

const GROUP_AND_OTHERS = 0o077;

/** Returns whether group or others may read or change the file. */
export function readableByOthers({ mode }: Pick<FileSeen, 'mode'>): boolean {
  return (mode & GROUP_AND_OTHERS) !== 0;
}

interface FolderSize {
  readonly files: number;
  readonly bytes: number;
  /** False where the folder contains more than was counted. */
  readonly isWhole: boolean;
}

const MAX_ENTRIES = 20_000;

/** Returns the size of everything below a folder, 0 where there is no folder; null where the folder cannot be examined. */
async function sizeOf(folder: string): Promise<FolderSize | null> {
  try {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).slice(0, MAX_ENTRIES);
    let bytes = 0;
    for (const { parentPath, name } of files) bytes += (await seeFile(join(parentPath, name)))?.bytes ?? 0;
    return { files: files.length, bytes, isWhole: files.length < MAX_ENTRIES };
  } catch (error) {
    const isMissing = ['ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '');
    return isMissing ? { files: 0, bytes: 0, isWhole: true } : null;
  }
}
