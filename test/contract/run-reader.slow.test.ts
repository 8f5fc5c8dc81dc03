/**
 * A reader beside `feed-sync run`, which applies versions without a pause: refused, it tries again every 10 ms. A thousand
 * times it gets in within the longest commit, and sees every dataset at one published version.
 */

import process from 'node:process';
import { expect, it, onTestFinished } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { Change, Content, Row } from '../../fixtures/source/content.ts';
import { scriptPath } from '../support/child.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { LastingDaemon } from '../support/lasting-daemon.ts';
import { MirrorReader, type Opening, type Sight } from '../support/mirror-reader.ts';
import { program } from '../support/program.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { digestOfContent } from '../support/table-digest.ts';

const OPENINGS = 1_000;
/** Of the reader. */
const RETRY_MS = 10;
const DATASETS = ['parcels', 'permits', 'zoning'] as const;
const KEYS = numberedRows(200).map(([key]) => String(key));
/** Each version changes one row of so many, another one than the version before. */
const SPREAD = 10;
/** Of so many versions one has no changes: its snapshot is loaded. */
const SNAPSHOT_EVERY = 20;

type Span = Opening['waited'];

/** In each row stands the version that changed it last. */
function contentAt(version: number): Content {
  const rows = KEYS.map((key, index): Row => {
    const behind = (version + index) % SPREAD;
    return [key, Math.max(0, version - behind)];
  });
  const changes = rows.flatMap((row): Change[] => (row[1] === version ? [{ op: 'changed', row }] : []));
  return smallContent(rows, version % SNAPSHOT_EVERY === 0 ? null : changes);
}

function overlap(left: Span, right: Span): boolean {
  return left.fromMs <= right.toMs && right.fromMs <= left.toMs;
}

function lengthMs({ fromMs, toMs }: Span): number {
  return toMs - fromMs;
}

/** Three datasets, of which one after the other gets its next version; and every version that there was. */
async function endlessFeed() {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', name: 'All', datasetIds: DATASETS });
  const known = new Set<string>();
  const newest = new Map<string, number>();
  const publish = (datasetId: string): void => {
    const version = (newest.get(datasetId) ?? 0) + 1;
    newest.set(datasetId, version);
    const content = contentAt(version);
    known.add(`${datasetId} ${version} ${digestOfContent(content)}`);
    feed.publisher.publish(datasetId, content);
  };
  for (const datasetId of DATASETS) {
    feed.publisher.addDataset({ datasetId });
    publish(datasetId);
  }
  let turn = 0;
  return {
    feed,
    publishNext(): void {
      turn += 1;
      publish(DATASETS[turn % DATASETS.length] ?? 'parcels');
    },
    /** Every dataset is there, at a version that was published. */
    has: (sight: Sight): boolean =>
      DATASETS.every((datasetId) =>
        known.has(`${datasetId} ${sight[datasetId]?.version} ${sight[datasetId]?.digest}`),
      ),
  };
}

it(`lets a reader in ${OPENINGS} times within its longest commit, to one version of each dataset`, async () => {
  const { feed, publishNext, has } = await endlessFeed();
  const installed = await program({ feed, environment: { FEED_SYNC_POLL_EVERY: '1s' } });
  const timed = { NODE_OPTIONS: `--import ${scriptPath('timed-mirror-child.ts')}` };
  const daemon = new LastingDaemon(installed, timed);
  await daemon.logged('Loaded a snapshot.', DATASETS.length);

  const wrong: Sight[] = [];
  const waits: Span[] = [];
  const done = Promise.withResolvers<void>();
  const reader = new MirrorReader(installed.mirrorPath, (sight, waited) => {
    if (!has(sight)) wrong.push(sight);
    waits.push(waited);
    if (waits.length === OPENINGS) done.resolve();
    publishNext();
    daemon.signal('SIGUSR2');
  });
  onTestFinished(() => reader.stop());
  await Promise.race([done.promise, reader.ended]);
  await reader.stop();
  await daemon.stop();

  expect(wrong).toEqual([]);
  const windows = daemon.lines().filter(({ msg }) => msg === 'window') as unknown as readonly Span[];
  const undisturbed = waits.filter((wait) => !windows.some((one) => overlap(wait, one)));
  const longestCommitMs = Math.max(...windows.map(lengthMs));
  const longestWaitMs = Math.max(...waits.map(lengthMs));
  // What opening a file takes where nobody is in the way is the machine's doing.
  const slowestOpeningMs = Math.max(...undisturbed.map(lengthMs));
  const told = `waited ${longestWaitMs} ms at most, commits took up to ${longestCommitMs} ms, opening ${slowestOpeningMs} ms`;
  process.stderr.write(`${OPENINGS} openings, ${windows.length} commits: ${told}\n`);
  expect(longestWaitMs, told).toBeLessThanOrEqual(longestCommitMs + slowestOpeningMs + RETRY_MS);
  expect(windows.length).toBeGreaterThan(OPENINGS / 10);
  expect(reader.distinct).toBeGreaterThan(OPENINGS / 10);
});
