/**
 * A reader beside `feed-sync run`, which applies versions without a pause: refused, it tries again every 10 ms. A thousand
 * times it gets in, and sees every dataset at one published version. It is refused only while something is committed, and
 * between two commits there is time for it: so it waits for one at most, wherever the machine lets it run.
 */

import process from 'node:process';
import { expect, it, onTestFinished } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { Change, Content, Row } from '../../fixtures/source/content.ts';
import { scriptPath } from '../support/child.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { LastingDaemon } from '../support/lasting-daemon.ts';
import { MirrorReader, type Sight, type Span } from '../support/mirror-reader.ts';
import { program } from '../support/program.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { digestOfContent } from '../support/table-digest.ts';

const OPENINGS = 1_000;
/** Sights that differ: so many commits at the least. */
const DISTINCT = OPENINGS / 10;
/** After each commit the file is left alone for so long. */
const READER_GRACE_MS = 50;
/** What two processes may disagree about the time. */
const DISAGREED_MS = 2;
/** A timer counts in whole milliseconds, and may be one early. */
const TIMER_MS = 3;
const DATASETS = ['parcels', 'permits', 'zoning'] as const;
const KEYS = numberedRows(200).map(([key]) => String(key));
/** Each version changes one row of so many, another one than the version before. */
const SPREAD = 10;
/** Of so many versions one has no changes: its snapshot is loaded. */
const SNAPSHOT_EVERY = 20;

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
  return left.fromMs <= right.toMs + DISAGREED_MS && right.fromMs <= left.toMs + DISAGREED_MS;
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

it(`run lets a reader in ${OPENINGS} times, to one version of each dataset: whenever nothing is committed, which is 50 ms after each`, async () => {
  const { feed, publishNext, has } = await endlessFeed();
  const installed = await program({ feed, environment: { FEED_SYNC_POLL_EVERY: '1s' } });
  const timed = { NODE_OPTIONS: `--import ${scriptPath('timed-mirror-child.ts')}` };
  const daemon = new LastingDaemon(installed, timed);
  await daemon.logged('Loaded a snapshot.', DATASETS.length);

  const wrong: Sight[] = [];
  const refusals: Span[] = [];
  let openings = 0;
  const done = Promise.withResolvers<void>();
  const reader = new MirrorReader(installed.mirrorPath, ({ sight, refused }) => {
    if (!has(sight)) wrong.push(sight);
    refusals.push(...refused);
    openings += 1;
    if (openings >= OPENINGS && reader.distinct > DISTINCT) done.resolve();
    publishNext();
    daemon.signal('SIGUSR2');
  });
  onTestFinished(() => reader.stop());
  await Promise.race([done.promise, reader.ended]);
  await reader.stop();
  await daemon.stop();

  expect(wrong).toEqual([]);
  const sessions = daemon.lines().filter(({ msg }) => msg === 'write session') as unknown as readonly Span[];
  expect(refusals.filter((refusal) => !sessions.some((one) => overlap(refusal, one)))).toEqual([]);
  const betweenMs = sessions.slice(1).map(({ fromMs }, index) => fromMs - (sessions[index]?.toMs ?? 0));
  const leastMs = Math.min(...betweenMs);
  expect(leastMs).toBeGreaterThanOrEqual(READER_GRACE_MS - TIMER_MS);
  const reported = `refused ${refusals.length} times, between two commits ${leastMs.toFixed(1)} ms at least`;
  process.stderr.write(`${openings} openings, ${sessions.length} commits: ${reported}\n`);
});
