/**
 * Runs the program with the recorder: an installation is loaded, follows changes, reloads, gets another schema, is compacted
 * and published, each by a process of its own.
 */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { OpenCountyFeed } from '../support/open-county-feed.ts';
import { steered } from '../support/steered-process.ts';
import { type Effect, readEffects } from './effects.ts';

const SOURCE = fileURLToPath(new URL('recorder.c', import.meta.url));
const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export interface Recording {
  /** The folder of the installation, as the program left it. */
  readonly home: string;
  readonly effects: readonly Effect[];
  readonly rootInode: string;
}

/** Whether this machine has a compiler for the recorder, and a system that loads it. */
export function canRecord(): boolean {
  return process.platform === 'linux' && spawnSync('cc', ['--version']).status === 0;
}

/** The settings of the installation, from its folder on. */
export function settingsIn(home: string): Readonly<Record<string, string>> {
  return {
    FEED_SYNC_DATA_DIR: join(home, 'data'),
    FEED_SYNC_DESTINATION_PUBLISH: join(home, 'out', 'copy.duckdb'),
    FEED_SYNC_HISTORY_DATASETS: '*',
    FEED_SYNC_DISK_RESERVE: '0MB',
    FEED_SYNC_DUCKDB_THREADS: '1',
  };
}

/** `folder` is empty. @throws where a command does not end with 0. */
export async function record(
  { feed, datasetIds, publishNext }: OpenCountyFeed,
  folder: string,
): Promise<Recording> {
  const library = join(folder, 'recorder.so');
  const compiled = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', library, SOURCE, '-ldl'], {
    encoding: 'utf8',
  });
  if (compiled.status !== 0) throw new Error(`The recorder cannot be compiled: ${compiled.stderr}`);
  const home = join(folder, 'home');
  const log = join(folder, 'journal');
  mkdirSync(home);
  const run = async (...words: readonly string[]): Promise<void> => {
    const child = spawn(process.execPath, [MAIN, ...words], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        ...settingsIn(home),
        FEED_SYNC_BASE_URL: feed.baseUrl,
        FEED_SYNC_API_KEY: feed.apiKey,
        LD_PRELOAD: library,
        POWER_ROOT: home,
        POWER_LOG: log,
        // The names of durable effects are written beside the journal, and so into it.
        ...steered({ recordTo: `${log}.marks` }),
      },
    });
    const said = Promise.all([text(child.stdout), text(child.stderr)]);
    const [exitCode] = await once(child, 'close');
    if (exitCode !== 0)
      throw new Error(`${words.join(' ')} ended with ${exitCode}: ${(await said).join('\n')}`);
  };
  await run('once');
  for (const datasetId of datasetIds) publishNext(datasetId);
  await run('once');
  await run('resync', '--all', '--yes');
  await run('once');
  for (const datasetId of datasetIds) publishNext(datasetId);
  await run('once');
  await run('compact');
  await run('once');
  return { home, effects: readEffects(readFileSync(log), home), rootInode: String(statSync(home).ino) };
}
