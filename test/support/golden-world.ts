/**
 * A feed and an installation in which a dataset, a subscription and a refusal of every kind can be seen: the
 * output of the commands is kept in `test/contract/golden`. Nothing in it depends on when and where it is made.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { DAY_MS, stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { PublishOptions } from '../../fixtures/feed/publish.ts';
import { type CommandLine, commandLine } from './command-line.ts';
import { CANARY_KEY } from './feed-client.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from './small-content.ts';

export interface GoldenWorld {
  readonly feed: FixtureFeed;
  readonly installed: CommandLine;
  /** What every catch-up so far has logged: JSON lines. */
  readonly logged: string[];
}

const HOUR_MS = 3_600_000;
/** What no event says to be gone is believed to be gone once it was absent for this long. */
const CONFIRMED_AFTER_MS = 600_000;
const START = '2025-11-20T08:00:00Z';
const TRAVIS = [
  'parcels',
  'permits',
  'zoning',
  'lots',
  'water',
  'roads',
  'flood',
  'sewers',
  'bridges',
  'drafts',
];
/** Of its second version the service claims more rows than it has. */
const ZONING = 'us-tx-travis-zoning';
const CLAIMED_ROWS = 7_000;
/** Of these the service leaves out all that it may leave out. */
const SCARCE = ['us-tx-waco-parcels', 'us-tx-travis-creeks'];
const SUBSCRIPTIONS = {
  sub_1: { name: 'Travis County', datasetIds: TRAVIS.map((kind) => `us-tx-travis-${kind}`) },
  sub_2: { name: 'Harris County', datasetIds: ['us-tx-harris-parcels'] },
  sub_3: { name: 'Bexar County', datasetIds: ['us-tx-bexar-parcels'] },
  sub_5: { name: 'Dallas County', datasetIds: ['us-tx-dallas-parcels'] },
  sub_6: { name: 'Loving County', places: ['us-tx-loving'], topics: ['parcels', 'permits'], datasetIds: [] },
} as const;

/** The feed at its first versions, mirrored once, and then with a dataset whose content is bad, and a subscription that is gone. */
export async function goldenWorld(): Promise<GoldenWorld> {
  const clock = stillClock(START);
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_4', name: 'Waco', datasetIds: ['us-tx-waco-parcels'] });
  addDataset(feed, 'us-tx-waco-parcels');
  saysLittle(feed);
  // The log of `sub_4` is past retention from here on.
  clock.advance(100 * DAY_MS);
  for (const [subscriptionId, subscription] of Object.entries(SUBSCRIPTIONS)) {
    feed.publisher.subscribe({ subscriptionId, ...subscription });
    for (const datasetId of subscription.datasetIds) addDataset(feed, datasetId);
  }
  const installed = commandLine({
    feed,
    now: clock.now,
    environment: {
      FEED_SYNC_DATASETS_EXCLUDE: '*-drafts',
      FEED_SYNC_RETRY_MAX_ATTEMPTS: '1',
    },
  });
  onTestFinished(() => installed.remove());
  const world = { feed, installed, logged: [] };
  await catchUp(world);
  clock.advance(HOUR_MS - CONFIRMED_AFTER_MS);
  feed.publisher.unsubscribe('sub_5');
  await catchUp(world);
  clock.advance(CONFIRMED_AFTER_MS);
  publishNext(feed, ZONING, { claims: { rowCount: CLAIMED_ROWS } });
  await catchUp(world);
  return world;
}

/** Runs `once`, and gives its summary. */
export async function catchUp({ installed, logged }: GoldenWorld): Promise<string> {
  const { stdout, stderr } = await installed.run('once');
  logged.push(...stderr.split('\n').filter((line) => line !== ''));
  return stdout;
}

/** What a catch-up has to do, to wait for, and cannot do. */
export async function comesToWork(world: GoldenWorld): Promise<void> {
  const { feed, installed } = world;
  const { publisher, clock, faults, access, manifest, omissions } = feed;
  clock.advance(HOUR_MS);
  // One that a list skips is not gone yet: it is where a later list lacks it, too.
  omissions.add({ list: 'subscriptions', subscriptionId: 'sub_3' });
  await catchUp(world);
  publishNext(feed, 'us-tx-travis-parcels');
  publishNext(feed, 'us-tx-travis-parcels');
  publishNext(feed, 'us-tx-waco-parcels', { announce: false });
  publishNext(feed, 'us-tx-travis-water');
  const answer = { kind: 'respond', status: 503 } as const;
  faults.add({
    match: { operation: 'versions', datasetId: 'us-tx-travis-water', times: 'always' },
    act: answer,
  });
  publishNext(feed, 'us-tx-travis-lots');
  const bent = { kind: 'rewrite', rewrite: withBadValue } as const;
  faults.add({ match: { operation: 'changes', datasetId: 'us-tx-travis-lots', times: 'always' }, act: bent });
  addDataset(feed, 'us-tx-travis-creeks');
  publisher.restore('us-tx-travis-creeks', { subscriptionId: 'sub_1' });
  const wider = {
    ...SMALL_SCHEMA,
    schemaVersion: '2',
    columns: [...SMALL_SCHEMA.columns, column('use', 'string')],
  };
  const rows = numberedRows(1_201).map((row) => [...row, null]);
  publisher.publish('us-tx-travis-permits', smallContent(rows, null, wider));
  const refused = { kind: 'dataset', datasetId: 'us-tx-travis-permits' } as const;
  access.refuse(refused, { code: 'not_distributable', message: 'The county has withdrawn its permits.' });
  manifest.freeze();
  publishNext(feed, 'us-tx-travis-roads', { notRecordedAs: 'gone' });
  publisher.resync('us-tx-travis-flood', 'subscription_changed');
  publisher.remove('us-tx-travis-sewers', 'left_coverage');
  addDataset(feed, 'us-tx-travis-trails');
  publisher.restore('us-tx-travis-trails', { subscriptionId: 'sub_1' });
  await installed.run('resync', 'us-tx-travis-bridges');
}

/**
 * One subscription is refused, one is gone after an earlier list lacked it; the record of another one no longer names its newest event,
 * and a list lacks a version.
 */
export function meetsIncidents({ feed }: GoldenWorld): void {
  feed.clock.advance(HOUR_MS);
  rewriteRecords(feed, 'sub_6', (record) => ({ ...record, lastEventId: null }));
  feed.omissions.add({ list: 'versions', datasetId: 'us-tx-travis-roads', version: 2 });
  const refused = { kind: 'subscription', subscriptionId: 'sub_2' } as const;
  feed.access.refuse(refused, { code: 'not_found', message: 'This subscription was closed.' });
  feed.publisher.unsubscribe('sub_3');
}

/** The key is known no more, and the service does not say why. */
export function losesItsKey({ feed }: GoldenWorld): void {
  feed.clock.advance(HOUR_MS);
  feed.faults.add({
    match: { operation: 'subscriptions', times: 'always' },
    act: { kind: 'respond', status: 401, body: '' },
  });
}

/** The file of a store is no database any more. */
export function losesItsStores(
  { feed, installed: { dataDirectory } }: GoldenWorld,
  ...names: readonly ('mirror.duckdb' | 'checkpoint.sqlite')[]
): void {
  feed.clock.advance(HOUR_MS);
  for (const name of names) writeFileSync(join(dataDirectory, name), 'a letter to my aunt');
}

/** A feed of twelve datasets and their mirror, all of which have left but one. */
export async function leavingWorld(): Promise<GoldenWorld> {
  const clock = stillClock(START);
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock });
  onTestFinished(feed.close);
  const datasetIds = Array.from(
    { length: 12 },
    (_, index) => `us-tx-block-${String(index + 1).padStart(2, '0')}`,
  );
  feed.publisher.subscribe({ subscriptionId: 'sub_1', name: 'Blocks', datasetIds });
  for (const datasetId of datasetIds) addDataset(feed, datasetId);
  const installed = commandLine({ feed, now: clock.now });
  onTestFinished(() => installed.remove());
  const world = { feed, installed, logged: [] };
  await catchUp(world);
  clock.advance(HOUR_MS);
  for (const datasetId of datasetIds.slice(1)) feed.publisher.remove(datasetId, 'source_retired');
  await catchUp(world);
  return world;
}

/**
 * A feed of three subscriptions and their mirror. A dataset has left the first and another one the second, whose manifest is
 * refused. The log of the third cannot be read by the next catch-up.
 */
export async function waitingWorld(): Promise<GoldenWorld> {
  const clock = stillClock(START);
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock });
  onTestFinished(feed.close);
  const contained = {
    sub_1: ['us-tx-travis-parcels', 'us-tx-travis-roads'],
    sub_2: ['us-tx-harris-parcels'],
    sub_3: ['us-tx-bexar-parcels'],
  };
  for (const [subscriptionId, datasetIds] of Object.entries(contained)) {
    feed.publisher.subscribe({ subscriptionId, datasetIds });
    for (const datasetId of datasetIds) addDataset(feed, datasetId);
  }
  const environment = { FEED_SYNC_RETRY_MAX_ATTEMPTS: '1' };
  const installed = commandLine({ feed, now: clock.now, environment });
  onTestFinished(() => installed.remove());
  const world = { feed, installed, logged: [] };
  await catchUp(world);
  clock.advance(HOUR_MS);
  feed.publisher.remove('us-tx-travis-roads', 'left_coverage', { subscriptionId: 'sub_1' });
  feed.publisher.remove('us-tx-harris-parcels', 'left_coverage', { subscriptionId: 'sub_2' });
  const error = { code: 'not_found', message: 'This subscription was closed.' };
  feed.faults.add({
    match: { operation: 'manifest', subscriptionId: 'sub_2', times: 'always' },
    act: { kind: 'respond', status: 404, json: { error } },
  });
  // A catch-up that sees a dataset leave reads every log once more.
  feed.faults.add({
    match: { operation: 'events', subscriptionId: 'sub_3', times: 2 },
    act: { kind: 'respond', status: 503 },
  });
  return world;
}

function addDataset(feed: FixtureFeed, datasetId: string): void {
  feed.publisher.addDataset({ datasetId });
  feed.publisher.publish(datasetId, smallContent(numberedRows(1_200)));
}

function publishNext(feed: FixtureFeed, datasetId: string, options: PublishOptions = {}): void {
  const rows = numberedRows(1_200 + feed.store.dataset(datasetId).versions.length);
  const added = rows.slice(-1).map((row) => ({ op: 'added' as const, row }));
  feed.publisher.publish(datasetId, smallContent(rows, added), options);
}

/** Of some the service leaves out all that it may leave out, and of one the manifest claims what the list of versions does. */
function saysLittle(feed: FixtureFeed): void {
  const alter = (operation: 'manifest' | 'versions', rewrite: (body: Body) => unknown): void => {
    const match = { operation, times: 'always' as const };
    feed.faults.add({ match, act: { kind: 'rewrite', rewrite: (body) => rewrite(body as Body) } });
  };
  const isClaimed = (record: Fields): boolean => record['datasetId'] === ZONING && record['version'] === 2;
  const isScarce = (record: Fields): boolean => SCARCE.includes(String(record['datasetId']));
  rewriteRecords(feed, 'sub_4', ({ id, datasetIds, lastEventId }) => ({ id, datasetIds, lastEventId }));
  // Its log keeps no events any more.
  rewriteRecords(feed, 'sub_6', (record) => ({ ...record, lastEventId: 'evt_1' }));
  alter('manifest', (body) => ({
    ...body,
    datasets: body.datasets?.map((one) => {
      if (isClaimed(one)) return { ...one, rowCount: CLAIMED_ROWS };
      if (!isScarce(one)) return one;
      return { ...one, rowCount: null, files: filesOf(one).map(({ url, sha256 }) => ({ url, sha256 })) };
    }),
  }));
  alter('versions', (body) => ({
    ...body,
    versions: body.versions?.map((one) =>
      isScarce(one) ? { ...one, rowCount: null, counts: null, publishedAt: null } : one,
    ),
  }));
}

function rewriteRecords(
  { faults }: FixtureFeed,
  subscriptionId: string,
  rewrite: (record: Fields) => unknown,
): void {
  const ofBody = (body: Body): unknown => ({
    ...body,
    subscriptions: body.subscriptions?.map((one) => (one['id'] === subscriptionId ? rewrite(one) : one)),
  });
  faults.add({
    match: { operation: 'subscriptions', times: 'always' },
    act: { kind: 'rewrite', rewrite: (body) => ofBody(body as Body) },
  });
}

function withBadValue(body: unknown): unknown {
  const { changes = [], ...page } = body as { changes?: readonly { op: string; row: Fields }[] };
  return { ...page, changes: changes.map((one) => ({ ...one, row: { ...one.row, amount: 'many' } })) };
}

type Fields = Readonly<Record<string, unknown>>;

interface Body {
  readonly subscriptions?: readonly Fields[];
  readonly datasets?: readonly Fields[];
  readonly versions?: readonly Fields[];
}

function filesOf({ files }: Fields): readonly Fields[] {
  return files as readonly Fields[];
}
