/** Runs of the image against a fixture feed: catch up, follow, report its health, stop. */

import { setTimeout as delay } from 'node:timers/promises';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { type GeneratedDataset, generateDatasets } from '../../fixtures/source/generate.ts';
import { type ContainerPlace, ContainerRunner, type Ended } from './container-process.ts';
import { run } from './tools.ts';

type Tell = (line: string) => void;

/** Loading, polls every second, and a slow machine. */
const LONGEST_WAIT_MS = 120_000;
const CHECK_SPACE_EVERY_MS = 500;
const LONGEST_DRAIN_SECONDS = 30;

/** @throws Error where something is not as it should be. */
export async function showRuns(
  place: Pick<ContainerPlace, 'container' | 'configuration' | 'folder'>,
  report: Tell,
): Promise<void> {
  const feed = await startFixtureFeed();
  try {
    const sources = publishCounties(feed);
    const runner = new ContainerRunner({ ...place, apiKey: feed.apiKey, baseUrl: feed.baseUrl });
    await showOnce(runner, report);
    report(`${sources.length} datasets are mirrored. On the volume:`);
    report(run('ls', ['-ln', runner.dataFolder]));
    await showRun({ runner, feed, sources, report });
  } finally {
    await feed.close();
  }
}

async function showOnce(runner: ContainerRunner, report: Tell): Promise<void> {
  for (const words of [['once'], ['once'], ['verify']]) await expectExit(runner, 0, words, report);
  await expectExit(runner, 64, ['twice'], report);
}

/** The container, the feed that it mirrors, and where it is said what was seen. */
interface Show {
  readonly runner: ContainerRunner;
  readonly feed: FixtureFeed;
  readonly sources: readonly GeneratedDataset[];
  readonly report: Tell;
}

async function showRun(show: Show): Promise<void> {
  const { runner, report } = show;
  const following = runner.start('run', '--poll-every', '1s');
  try {
    await showFollowing(show);
  } catch (error) {
    following.signal('SIGKILL');
    throw error;
  }
  const stoppedMs = performance.now();
  following.signal('SIGTERM');
  const { exitCode } = await following.ended;
  const seconds = (performance.now() - stoppedMs) / 1_000;
  if (exitCode !== 0 || seconds > LONGEST_DRAIN_SECONDS) {
    throw new Error(`After SIGTERM "run" ended with ${exitCode} after ${seconds} s.`);
  }
  report(`After SIGTERM "run" ended with ${exitCode} after ${seconds.toFixed(1)} s.`);
  const { exitCode: afterwards } = await runner.checkHealth().ended;
  if (afterwards !== 1) throw new Error(`Without "run" the check of health ends with ${afterwards}.`);
}

async function showFollowing({ runner, feed, sources, report }: Show): Promise<void> {
  await until('it is healthy', async () => (await runner.checkHealth().ended).exitCode === 0);
  report('"run" is healthy by the check of the image.');
  for (const { datasetId, next } of sources) {
    const content = feed.store.dataset(datasetId).versions[0]?.content;
    if (content !== undefined) feed.publisher.publish(datasetId, next(content, 2));
  }
  const behind = 'SELECT count(*) AS behind FROM feed_sync.datasets WHERE version < 2';
  await until('all datasets are at version 2', async () => {
    const { stdout } = await runner.start('query', behind, '--format', 'csv').ended;
    return stdout.trim().endsWith('\n0');
  });
  report(`"run" has mirrored version 2 of ${sources.length} datasets.`);
}

function publishCounties({ publisher }: FixtureFeed): readonly GeneratedDataset[] {
  const sources = generateDatasets({ seed: 1, counties: 2, rowsPerDataset: 5_000 });
  const places = [...new Set(sources.map(({ placeId }) => placeId))];
  publisher.subscribe({ subscriptionId: 'sub_1', name: 'All counties', places });
  for (const { datasetId, placeId, topic, initial } of sources) {
    publisher.addDataset({ datasetId, placeId, topic });
    publisher.publish(datasetId, initial());
  }
  return sources;
}

async function expectExit(
  runner: ContainerRunner,
  expected: number,
  words: readonly string[],
  report: Tell,
): Promise<Ended> {
  const ended = await runner.start(...words).ended;
  const said = `"${words.join(' ')}" ended with ${ended.exitCode} after ${ended.seconds.toFixed(1)} s`;
  if (ended.exitCode !== expected) throw new Error(`${said}, not with ${expected}.`);
  report(`${said}.\n${ended.stdout}`);
  return ended;
}

async function until(what: string, suspensions: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + LONGEST_WAIT_MS;
  while (!(await suspensions())) {
    if (performance.now() > endMs) throw new Error(`After ${LONGEST_WAIT_MS} ms it is not so that ${what}.`);
    await delay(CHECK_SPACE_EVERY_MS);
  }
}
