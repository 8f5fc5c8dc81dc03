/**
 * The real histories with `history.everyVersion`: each version is a commit of its own, and the state as of that commit equals the
 * file of the version; without the setting a backlog is one commit.
 */

import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Content } from '../../fixtures/source/content.ts';
import { readDatasetFolder } from '../../fixtures/source/folder.ts';
import { commandLine } from '../support/command-line.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { realDataDirectory } from '../support/real-data.ts';
import { startedFeed } from '../support/started-feed.ts';

const realData = realDataDirectory();

interface RealHistory {
  readonly datasetId: string;
  /** Oldest first. */
  readonly versions: readonly Content[];
}

async function readHistory(folder: string): Promise<RealHistory> {
  const { datasetId, versionCount, content } = await readDatasetFolder(folder);
  const versions: Content[] = [];
  for (let version = 1; version <= versionCount; version += 1) versions.push(await content(version));
  return { datasetId, versions };
}

/** The row count and the checksum of a table or a state. */
const sumOf = (from: string): string =>
  `SELECT count(*)::VARCHAR, coalesce(sum(hash(hash(*COLUMNS(*)))), 0)::HUGEINT::VARCHAR FROM ${from}`;

async function mirroredWith(everyVersion: 'on' | 'off', { datasetId, versions }: RealHistory) {
  const feed = await startedFeed();
  feed.publisher.addDataset({ datasetId, placeId: 'us-tx-travis', topic: 'parcels' });
  const environment = { FEED_SYNC_HISTORY_DATASETS: '*', FEED_SYNC_HISTORY_EVERY_VERSION: everyVersion };
  const line = commandLine({ feed, now: () => feed.clock.now(), environment });
  onTestFinished(() => line.remove());
  const publish = (first: number, end: number): void => {
    for (const content of versions.slice(first, end)) feed.publisher.publish(datasetId, content);
  };
  const once = async (): Promise<void> => {
    const said = await line.run('once');
    expect(said, said.stderr).toMatchObject({ exitCode: 0 });
  };
  return { folder: line.dataDirectory, publish, once };
}

/** The content of the file of each version, loaded into a mirror of its own. */
async function filesOf({ datasetId, versions }: RealHistory): Promise<readonly (readonly unknown[])[]> {
  const world = await mirrorAtWork();
  const sums: (readonly unknown[])[] = [];
  const [first, ...others] = versions;
  if (first === undefined) throw new Error('a dataset has versions');
  const course = await world.loaded(first, datasetId);
  const { tableName } = await world.observed(datasetId);
  sums.push((await inMirror(world.folder, sumOf(tableName)))[0] ?? []);
  for (const content of others) {
    course.publish(content);
    await world.load(course);
    sums.push((await inMirror(world.folder, sumOf(tableName)))[0] ?? []);
  }
  return sums;
}

describe.skipIf(realData === null).each(['ourairports-navaids', 'toronto-short-term-rentals'])(
  'the real history of %s',
  (name) => {
    const read = () => readHistory(join(realData ?? '', name));

    it("history.everyVersion commits each version by itself, and its state equals the version's file", async () => {
      const dataset = await read();
      const { folder, publish, once } = await mirroredWith('on', dataset);
      publish(0, 1);
      await once();
      publish(1, dataset.versions.length);
      await once();
      const commits = await inMirror(
        folder,
        'SELECT to_version FROM feed_sync.commits ORDER BY commit_number',
      );
      expect(commits).toEqual(dataset.versions.map((_, index) => [String(index + 1)]));
      const [[log] = []] = await inMirror(folder, 'SELECT log_name FROM feed_sync.history_logs');
      const files = await filesOf(dataset);
      for (const [index, file] of files.entries()) {
        const state = await inMirror(folder, sumOf(`history."${log}_as_of_commit"(${index + 1})`));
        expect(state, `version ${index + 1}`).toEqual([file]);
      }
    });

    it('without history.everyVersion every version that a catch-up stopped at equals its file', async () => {
      const dataset = await read();
      const { folder, publish, once } = await mirroredWith('off', dataset);
      const stops: number[] = [];
      for (let end = 1; end <= dataset.versions.length; end += 2) {
        publish(stops.at(-1) ?? 0, end);
        await once();
        stops.push(end);
      }
      const commits = await inMirror(
        folder,
        'SELECT to_version FROM feed_sync.commits ORDER BY commit_number',
      );
      expect(commits).toEqual(stops.map((version) => [String(version)]));
      const [[log] = []] = await inMirror(folder, 'SELECT log_name FROM feed_sync.history_logs');
      const files = await filesOf(dataset);
      for (const [index, version] of stops.entries()) {
        const state = await inMirror(folder, sumOf(`history."${log}_as_of_commit"(${index + 1})`));
        expect(state, `version ${version}`).toEqual([files[version - 1]]);
      }
    });
  },
);
