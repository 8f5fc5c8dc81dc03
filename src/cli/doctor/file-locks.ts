/**
 * Who has a file locked, as Linux tells in /proc/locks. Unlike an attempt to open the file this disturbs nobody, and it
 * shows readers too. Pure; where the system tells nothing, nobody is seen.
 */

export interface FileLock {
  readonly pid: number;
  /** A reader lets other readers in; a writer nobody. */
  readonly mode: 'reads' | 'writes';
}

/** The device and the number of a file, as `stat` gives them. */
export interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/** `1: POSIX  ADVISORY  WRITE 1234 fe:00:131 0 EOF`; a line that waits for a lock has an arrow before its kind. */
const LINE = /^\d+: POSIX\s+\S+\s+(READ|WRITE)\s+(\d+)\s+([\da-f]+):([\da-f]+):(\d+)\s/;

/** `locks` is the text of /proc/locks. A process is told once, as a writer where it is both. */
export function locksOn({ dev, ino }: FileIdentity, locks: string): readonly FileLock[] {
  const modes = new Map<number, FileLock['mode']>();
  for (const line of locks.split('\n')) {
    const [, mode, pid, major, minor, inode] = LINE.exec(line) ?? [];
    if (mode === undefined || Number(inode) !== ino) continue;
    if (deviceOf(Number.parseInt(major ?? '', 16), Number.parseInt(minor ?? '', 16)) !== dev) continue;
    const known = modes.get(Number(pid));
    modes.set(Number(pid), mode === 'WRITE' || known === 'writes' ? 'writes' : 'reads');
  }
  return [...modes].map(([pid, mode]) => ({ pid, mode }));
}

/** How Linux puts the two numbers of a device into one. */
function deviceOf(major: number, minor: number): number {
  const low = (minor % 0x100) + (major % 0x1000) * 0x100;
  return low + Math.floor(minor / 0x100) * 0x100000 + Math.floor(major / 0x1000) * 0x1_0000_0000;
}
