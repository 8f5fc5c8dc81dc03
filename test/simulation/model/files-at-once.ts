/**
 * Files are changed at once instead of by the threads of the process, whose order is another one in every run: a history
 * has to be the same each time. What becomes of the files is the same.
 */

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

type Promises = typeof fs.promises;

/** As far as the program uses one. */
interface OpenFile {
  readonly writeFile: (content: string | Uint8Array) => Promise<void>;
  readonly chmod: (mode: number) => Promise<void>;
  readonly sync: () => Promise<void>;
  readonly close: () => Promise<void>;
}

function open(path: fs.PathLike, flags?: string | number, mode?: fs.Mode): OpenFile {
  const file = fs.openSync(path, flags ?? 'r', mode);
  return {
    writeFile: async (content) => fs.writeFileSync(file, content),
    chmod: async (mode) => fs.fchmodSync(file, mode),
    // Nothing of a history has to survive a loss of power.
    sync: async () => {},
    close: async () => fs.closeSync(file),
  };
}

const AT_ONCE = {
  mkdir: async (path: fs.PathLike, options?: fs.MakeDirectoryOptions) => fs.mkdirSync(path, options),
  readdir: async (path: fs.PathLike) => fs.readdirSync(path),
  rm: async (path: fs.PathLike, options?: fs.RmOptions) => fs.rmSync(path, options),
  stat: async (path: fs.PathLike) => fs.statSync(path),
  rename: async (from: fs.PathLike, to: fs.PathLike) => fs.renameSync(from, to),
  writeFile: async (path: fs.PathLike, content: string | Uint8Array, options?: fs.WriteFileOptions) =>
    fs.writeFileSync(path, content, options),
  open: async (path: fs.PathLike, flags?: string | number, mode?: fs.Mode) => open(path, flags, mode),
};

/** From now on, until what it gives is called. */
export function changeFilesAtOnce(): () => void {
  const { promises } = fs;
  const before: Partial<Promises> = { ...promises };
  put(promises, AT_ONCE);
  return () => put(promises, before);
}

function put(promises: Promises, members: object): void {
  Object.assign(promises, members);
  syncBuiltinESMExports();
}
