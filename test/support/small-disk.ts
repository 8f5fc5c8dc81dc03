/**
 * A disk of a size that a test chooses: a file system in memory, which only those see who are started within its namespace.
 * No administrator is needed where the system lets anybody have namespaces; where it does not, there is none.
 */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { onTestFinished } from 'vitest';

/** Whether there can be one here. */
export const hasSmallDisks =
  spawnSync('unshare', ['--map-root-user', '--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

/** Until nobody writes to it any more: it does not outlive the test, however that ends. */
const HOLD = 'mount -t tmpfs -o size="$1" none "$0" && echo mounted && exec cat';

/** Attempts to give a disk another size while somebody writes on it. */
const MAX_RESIZES = 50;

export interface SmallDisk {
  /** Where it is mounted, for those within. */
  readonly path: string;
  /** What a command that is to see it begins with. */
  readonly within: readonly string[];
  /** Gives it so many bytes beside those that are taken. */
  leave(freeBytes: number): void;
  /** Lets so many further files be made on it, however many bytes are free. */
  leaveInodes(freeInodes: number): void;
  /** From now on nothing can be written, or everything again. */
  set(mode: 'ro' | 'rw'): void;
  /** Copies what is on it into a folder that all see. */
  copyTo(folder: string): void;
}

/** Is gone when the test has finished. */
export async function smallDisk(bytes: number): Promise<SmallDisk> {
  const path = mkdtempSync(join(tmpdir(), 'feed-sync-disk-'));
  const arguments_ = ['--map-root-user', '--mount', 'sh', '-c', HOLD, path, String(bytes)];
  const holder = spawn('unshare', arguments_, { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => {
    holder.kill('SIGKILL');
    rmSync(path, { recursive: true });
  });
  await once(holder.stdout, 'data');
  return diskAt(path, [
    'nsenter',
    `--target=${holder.pid}`,
    '--user',
    '--mount',
    '--preserve-credentials',
    '--',
  ]);
}

/** Whether there can be one here that every process sees, as a server that runs as another user needs it. */
export const hasMountedDisks = process.getuid?.() === 0 && isMountable();

function isMountable(): boolean {
  const path = mkdtempSync(join(tmpdir(), 'feed-sync-disk-'));
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', 'none', path]).status === 0;
  if (isMounted) spawnSync('umount', [path]);
  rmdirSync(path);
  return isMounted;
}

/** Is seen by every process, and gone when the test has finished: whoever uses it has ended by then. */
export function mountedDisk(bytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'feed-sync-disk-'));
  const disk = diskAt(path, []);
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'none', path]);
  if (status !== 0) throw new Error(`${path} could not be mounted: ${stderr}`);
  onTestFinished(() => {
    spawnSync('umount', ['--lazy', path]);
    rmdirSync(path);
  });
  return disk;
}

function diskAt(path: string, within: readonly string[]): SmallDisk {
  const attempt = (...words: readonly string[]) => {
    const [command = '', ...rest] = [...within, ...words];
    return spawnSync(command, rest, { encoding: 'utf8' });
  };
  const inside = (...words: readonly string[]): string => {
    const { status, stdout, stderr } = attempt(...words);
    if (status !== 0) throw new Error(`${words.join(' ')}: ${stderr}`);
    return stdout;
  };
  /** Whoever writes meanwhile takes more than was found, and a disk cannot be smaller than what is on it. */
  const resize = (limit: 'size' | 'nr_inodes', taken: 'used' | 'iused', free: number): void => {
    let why = '';
    for (let tries = 1; tries <= MAX_RESIZES; tries += 1) {
      const counted = inside('df', '--block-size=1', `--output=${taken}`, path).split('\n')[1];
      const { status, stderr } = attempt('mount', '-o', `remount,${limit}=${Number(counted) + free}`, path);
      if (status === 0) return;
      why = stderr;
    }
    throw new Error(`${path} could not be given another size: ${why}`);
  };
  return {
    path,
    within,
    leave: (freeBytes) => resize('size', 'used', freeBytes),
    leaveInodes: (freeInodes) => resize('nr_inodes', 'iused', freeInodes),
    set: (mode) => void inside('mount', '-o', `remount,${mode}`, path),
    copyTo(folder) {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
      inside('cp', '-r', `${path}/.`, folder);
    },
  };
}
