/**
 * A copy of the project in which decisions are broken. The checkout itself is never touched, so whatever ends this
 * process leaves nothing behind in it.
 */

import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../support/source-tree.ts';
import { broken, type Mutant, occurrences } from './mutant.ts';

/** Files that are generated, large, or a developer's own. */
const LEFT_OUT: ReadonlySet<string> = new Set(['.git', 'node_modules', 'dist', 'dist.new', 'data']);

/** An import that nobody needs any more is no reason not to try. */
const STRICTER_THAN_NEEDED = /"noUnused(?:Locals|Parameters)": true/g;

export interface ScratchCopy {
  readonly path: string;
  /** For temporary files of the tests. */
  readonly temporaryPath: string;
  /** Runs `act` while the decision is broken. `stale`: the text stands in the file no more, or more than once. */
  whileBroken<T>(mutant: Mutant, act: () => Promise<T>): Promise<T | 'stale'>;
  remove(): Promise<void>;
}

export async function makeScratchCopy(): Promise<ScratchCopy> {
  const path = await mkdtemp(join(tmpdir(), 'feed-sync-mutants-'));
  const temporaryPath = join(path, 'data');
  await mkdir(temporaryPath);
  for (const name of await readdir(projectRoot)) {
    if (LEFT_OUT.has(name)) continue;
    await cp(join(projectRoot, name), join(path, name), { recursive: true, preserveTimestamps: true });
  }
  await linkPackages(path);
  await rewrite(join(path, 'tsconfig.json'), (content) =>
    content.replaceAll(STRICTER_THAN_NEEDED, (setting) => setting.replace('true', 'false')),
  );
  return {
    path,
    temporaryPath,
    async whileBroken(mutant, act) {
      const file = join(path, mutant.file);
      const content = await readFile(file, 'utf8').catch(() => '');
      if (occurrences(mutant.text, content) !== 1) return 'stale';
      await writeFile(file, broken(mutant, content));
      try {
        return await act();
      } finally {
        await writeFile(file, content);
      }
    },
    remove: () => rm(path, { recursive: true, force: true }),
  };
}

/** One by one, so that what tools keep beside the packages is kept in the copy. */
async function linkPackages(path: string): Promise<void> {
  const from = join(projectRoot, 'node_modules');
  const to = join(path, 'node_modules');
  await mkdir(to);
  const packages = (await readdir(from)).filter((name) => name === '.bin' || !name.startsWith('.'));
  for (const name of packages) await symlink(join(from, name), join(to, name));
}

async function rewrite(path: string, change: (content: string) => string): Promise<void> {
  await writeFile(path, change(await readFile(path, 'utf8')));
}
