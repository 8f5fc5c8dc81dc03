/**
 * The program as it is shipped: dist, built anew where it is older than src, so that no test ever runs yesterday's
 * program. The lock keeps test files that run side by side from building at the same time.
 */

import { spawnSync } from 'node:child_process';
import { globSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import Database from 'better-sqlite3';
import { PATIENCE_MS } from './patience.ts';
import { projectRoot } from './source-tree.ts';

/** The path of the built `main.js`. @throws Error with what the compiler said where it cannot be built. */
export function builtProgram(): string {
  const uid = process.getuid?.() ?? 0;
  const lock = new Database(join(tmpdir(), `feed-sync-test-build-${uid}.sqlite`), {
    timeout: PATIENCE_MS,
  });
  try {
    lock.exec('BEGIN EXCLUSIVE');
    if (isStale()) build();
  } finally {
    lock.close();
  }
  return join(projectRoot, 'dist/main.js');
}

/** Also where a source is gone: its folder is newer then. */
function isStale(): boolean {
  const sources = globSync('{src,src/**,bundle.ts,package-lock.json,tsconfig.json}', { cwd: projectRoot });
  const built = globSync('dist/*.js', { cwd: projectRoot });
  return built.length === 0 || Math.max(...sources.map(modifiedMs)) > Math.min(...built.map(modifiedMs));
}

function modifiedMs(path: string): number {
  return statSync(join(projectRoot, path)).mtimeMs;
}

function build(): void {
  const { status, stdout, stderr } = spawnSync('npm', ['run', 'build'], {
    cwd: projectRoot,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`The program cannot be built:\n${stdout}${stderr}`);
}
