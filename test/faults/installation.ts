/** The installation that is damaged: what it has gone through, and the folders in which its states are kept. */

import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { builtProgram } from '../support/built-program.ts';
import type { Said } from '../support/command-line.ts';
import { type OpenCountyFeed, openCountyFeed } from '../support/open-county-feed.ts';
import { projectRoot } from '../support/source-tree.ts';
import { steered } from '../support/steered-process.ts';
import type { State } from './fault.ts';
import { runCommand } from './runner.ts';

const ROWS = 200;
const KINDS = ['permits', 'parcels', 'specimens', 'zoning'] as const;

export interface Installation {
  readonly county: OpenCountyFeed;
  /** The folder of the copy of the built program. */
  readonly program: string;
  /** The folder of an installation in that state. */
  readonly states: Readonly<Record<State, string>>;
  /** The folder of the installation at an earlier time. */
  readonly earlier: string;
}

export function settingsIn(home: string): Readonly<Record<string, string>> {
  return {
    FEED_SYNC_DATA_DIR: join(home, 'data'),
    FEED_SYNC_DESTINATION_PUBLISH: join(home, 'out', 'copy.duckdb'),
    FEED_SYNC_HISTORY_DATASETS: '*',
    FEED_SYNC_DISK_RESERVE: '0MB',
    FEED_SYNC_DUCKDB_THREADS: '1',
  };
}

/**
 * Four tables with history, one of which has left and is archived, under a published copy. `folder` is empty. The program is
 * copied first: what happens to the sources meanwhile changes nothing. @throws where a command does not end as it should.
 */
export async function installationIn(folder: string): Promise<Installation> {
  const program = join(folder, 'program', 'dist');
  cpSync(dirname(builtProgram()), program, { recursive: true });
  writeFileSync(join(folder, 'program', 'package.json'), readFileSync(join(projectRoot, 'package.json')));
  symlinkSync(join(projectRoot, 'node_modules'), join(folder, 'program', 'node_modules'));
  const county = await openCountyFeed({ kinds: KINDS, rowsPerDataset: ROWS });
  const home = join(folder, 'home');
  mkdirSync(home);
  const kept = (name: string): string => {
    cpSync(home, join(folder, name), { recursive: true });
    return join(folder, name);
  };
  // What steers a process knows where the project is built, and no copy.
  const built = { program: dirname(builtProgram()), feed: county.feed };
  const catchUp = (environment: Readonly<Record<string, string>> = {}): Promise<Said> =>
    runCommand(built, ['once'], { ...settingsIn(home), ...environment });
  const caughtUp = async (): Promise<void> => {
    const { exitCode, stderr } = await catchUp();
    if (exitCode !== 0) throw new Error(`once ended with ${exitCode}: ${stderr}`);
  };
  const leaving = county.datasetOf('zoning');
  const followed = county.datasetIds.filter((datasetId) => datasetId !== leaving);
  const publishAll = (): void => followed.forEach((datasetId) => void county.publishNext(datasetId));
  await caughtUp();
  county.publishNext(leaving);
  publishAll();
  await caughtUp();
  const earlier = kept('earlier');
  county.feed.publisher.remove(leaving, 'left_coverage');
  publishAll();
  await caughtUp();
  const behind = kept('behind');
  publishAll();
  await catchUp(steered({ killAt: 'before destination.checkpoint' }));
  const killed = kept('killed');
  await caughtUp();
  return { county, program, earlier, states: { behind, killed, ended: home } };
}
