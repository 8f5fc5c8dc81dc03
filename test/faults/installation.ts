/** The installation that is damaged: what it has gone through, and the folders in which its states are kept. */

import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { builtProgram } from '../support/built-program.ts';
import { type OpenCountyFeed, openCountyFeed } from '../support/open-county-feed.ts';
import { KILLED, runCommand } from '../support/program-runner.ts';
import { projectRoot } from '../support/source-tree.ts';
import { steered } from '../support/steered-process.ts';
import type { State } from './fault.ts';

/** Few and small rows: what a fault costs grows with them. */
const ROWS = 50;
const KINDS = ['permits', 'parcels', 'ordinances', 'zoning'] as const;

export interface Installation {
  readonly county: OpenCountyFeed;
  /** The folder of the copy of the built program. */
  readonly program: string;
  /** The folder of an installation in that state. */
  readonly states: Readonly<Record<State, string>>;
  /** The folder of the installation at an earlier time. */
  readonly earlier: string;
  /** The datasets that an operator has asked to be loaded again in some states. */
  readonly resynced: Readonly<Partial<Record<State, readonly string[]>>>;
  /** The commands that let each commit through that waits in the state `waiting`. */
  readonly approvals: readonly (readonly string[])[];
}

/** Every commit that changes or removes a row waits for approval. */
export const GATED = { FEED_SYNC_GATES_CHANGED_ROWS: '0', FEED_SYNC_GATES_REMOVED_ROWS: '0' };
const WAITS = 77;

export function settingsIn(
  home: string,
  { baseUrl, apiKey }: OpenCountyFeed['feed'],
): Readonly<Record<string, string>> {
  return {
    FEED_SYNC_BASE_URL: baseUrl,
    FEED_SYNC_API_KEY: apiKey,
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
  const built = dirname(builtProgram());
  const run = async (
    exitCode: number,
    words: readonly string[],
    environment: Readonly<Record<string, string>> = {},
  ): Promise<string> => {
    const said = await runCommand(built, words, { ...settingsIn(home, county.feed), ...environment });
    if (said.exitCode === exitCode) return said.stdout;
    throw new Error(`${words.join(' ')} ended with ${said.exitCode}: ${said.stderr}`);
  };
  const caughtUp = () => run(0, ['once']);
  const killed = (killAt: string) => run(KILLED, ['once'], steered({ killAt }));
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
  await killed('before destination.checkpoint');
  const beforeCheckpoint = kept('killed');
  await caughtUp();
  const reloaded = [county.datasetOf('permits'), county.datasetOf('parcels')];
  await run(0, ['resync', ...reloaded]);
  publishAll();
  // One of the two is finished then, and the other one is a part.
  await killed('before feed.finish-file 2');
  const loading = kept('loading');
  await caughtUp();
  publishAll();
  await killed('before destination.commit');
  const applying = kept('applying');
  await caughtUp();
  const waitingReload = [county.datasetOf('permits')];
  await run(0, ['resync', ...waitingReload]);
  publishAll();
  await run(WAITS, ['once'], GATED);
  const waiting = kept('waiting');
  const approvals = approvalsOf(await run(0, ['approve', '--json'], GATED));
  await caughtUp();
  return {
    county,
    program,
    earlier,
    states: { behind, killed: beforeCheckpoint, loading, applying, waiting, ended: home },
    resynced: { loading: reloaded, waiting: waitingReload },
    approvals,
  };
}

interface Waiting {
  readonly datasets: readonly { readonly id: string; readonly version: number; readonly content: string }[];
}

function approvalsOf(json: string): readonly (readonly string[])[] {
  const { datasets }: Waiting = JSON.parse(json);
  if (datasets.length === 0) throw new Error('nothing waits for approval');
  return datasets.map(({ id, version, content }) => [
    ...['approve', id, '--version', String(version), '--content', content],
  ]);
}
