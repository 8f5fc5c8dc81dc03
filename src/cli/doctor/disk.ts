/** Checks the folders that feed-sync writes to: permissions and free space. */

import { dirname, join } from 'node:path';
import { formatBytes } from '../../lib/units.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import {
  type Check,
  type Checked,
  type CheckInput,
  counted,
  type Finding,
  ok,
  problem,
  skipped,
  troubleOf,
  warning,
} from './check.ts';
import { type FolderSeen, readableByOthers, seeFile, seeFolder, sizeOf } from './places.ts';

const LIMIT_MS = 15_000;

export const diskCheck: Check = { name: 'disk', limitMs: LIMIT_MS, run: checkDisk };

interface Place {
  readonly about: string;
  readonly folder: string;
  /** Whether the folder is feed-sync's alone; a folder with other files, too, may be open for others. */
  readonly isOwn: boolean;
}

async function checkDisk({ inspection, context }: CheckInput): Promise<Checked> {
  const reserveBytes = inspection.known('disk.reserve');
  const { uid } = context.identity;
  const findings: Finding[] = [];
  for (const place of foldersOf(inspection)) {
    try {
      findings.push(...judgeFolder(place, await seeFolder(place.folder), reserveBytes, uid));
    } catch (error) {
      findings.push(cannotBeSeen(place, error));
    }
  }
  const dataDirectory = inspection.known('dataDir');
  if (dataDirectory === null) findings.unshift(skipped('data directory', 'dataDir is not known.'));
  else findings.push(await stagingFinding(join(dataDirectory, 'staging')));
  return { findings: [...findings, ...(await openFiles(inspection))] };
}

/** Each folder once, under the name of its most important content. */
function foldersOf(inspection: CheckInput['inspection']): readonly Place[] {
  const dataDirectory = inspection.known('dataDir');
  const folderOf = (path: string | null): string | null => (path === null ? null : dirname(path));
  const all = [
    { about: 'data directory', folder: dataDirectory, isOwn: true },
    { about: 'mirror directory', folder: folderOf(inspection.known('destination.path')), isOwn: false },
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
  const state = `${where} (${formatBytes(freeBytes)} free)`;
  const isOpen = isOwn && nearest === path && readableByOthers(seen);
  return [
    ...(refusal === null ? [ok(about, state)] : [notWritable(about, seen, uid)]),
    ...(reserveBytes !== null && freeBytes < reserveBytes ? [tooFull(about, seen, reserveBytes)] : []),
    ...(isOpen
      ? [warning(about, `Others may enter it (mode ${mode.toString(8)}).`, `chmod 700 ${path}`)]
      : []),
  ];
}

function notWritable(
  about: string,
  { path, nearest, refusal, ownerUid, mode }: FolderSeen,
  uid: number | null,
): Finding {
  const user = uid === null ? 'This user' : `User id ${uid}`;
  if (refusal === 'EROFS') {
    const found = `${nearest} lies on a file system that is mounted read-only.`;
    return problem(
      about,
      found,
      EXIT_CODES.storageFault,
      'Mount it for writing, or set dataDir to another place.',
    );
  }
  const found = `${user} may not write in ${nearest}, which belongs to ${ownerUid} (mode ${mode.toString(8)}, ${refusal}).`;
  return problem(about, found, EXIT_CODES.storageFault, handOver(path, nearest, uid));
}

/** A folder above is never handed over, because it may belong to everybody. */
function handOver(path: string, nearest: string, uid: number | null): string {
  if (uid === null) return `Give ${path} to the user that runs this.`;
  const make = nearest === path ? '' : `mkdir -p ${path} && `;
  return `As somebody who may: ${make}chown ${uid} ${path} && chmod 700 ${path}`;
}

function tooFull(about: string, { freeBytes }: FolderSeen, reserveBytes: number): Finding {
  const kept = `the ${formatBytes(reserveBytes)} that are kept free (disk.reserve)`;
  const found = `${formatBytes(freeBytes)} are free, less than ${kept}: nothing would be downloaded.`;
  return problem(about, found, EXIT_CODES.storageFault, 'Free some space, or set disk.reserve lower.');
}

function cannotBeSeen({ about, folder }: Place, error: unknown): Finding {
  if (!(error instanceof Error) || !('syscall' in error)) return troubleOf(about, error);
  const found = `${folder} cannot be looked at: ${error.message}.`;
  return problem(about, found, EXIT_CODES.storageFault, 'Give this user the folder, or set another path.');
}

async function stagingFinding(folder: string): Promise<Finding> {
  const about = 'downloads';
  const size = await sizeOf(folder);
  if (size === null) return skipped(about, `${folder} cannot be looked at.`);
  if (size.files === 0) return ok(about, 'none on their way');
  const least = size.isWhole ? '' : 'at least ';
  const found = `${least}${formatBytes(size.bytes)} in ${counted(size.files, 'file')} in ${folder}`;
  return ok(about, `${found}; a catch-up uses or removes them`);
}

/** The content of a feed may be private. */
async function openFiles(inspection: CheckInput['inspection']): Promise<readonly Finding[]> {
  const paths = [inspection.known('destination.path'), inspection.known('checkpoint.path')];
  const seen = await Promise.all(paths.flatMap((path) => (path === null ? [] : [seeFile(path)])));
  return seen.flatMap((file) =>
    file !== null && readableByOthers(file)
      ? [
          warning(
            'file',
            `Others on this machine may read or write ${file.path} (mode ${file.mode.toString(8)}).`,
            `Where that is not on purpose: chmod 600 ${file.path}`,
          ),
        ]
      : [],
  );
}
