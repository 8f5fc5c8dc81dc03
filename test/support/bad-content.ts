/**
 * Datasets of which each is bad in its own way, beside sound ones, through a real feed, client and mirror in one
 * catch-up: so that each of many bad things is seen to stay with its dataset, and a test of them takes no longer than one.
 */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { Content, Row, SourceSchema, WrittenFile } from '../../fixtures/source/content.ts';
import { exitCodeOfResult, summarize } from '../../src/cli/render/summary.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { parquet } from './duckdb-mirror.ts';
import { mirrorDifferences } from './mirror-comparison.ts';
import { everythingPublished } from './published.ts';
import { publishNext, SERVED, withRealMirror } from './served-world.ts';
import { numberedRows, SMALL_SCHEMA, smallContent } from './small-content.ts';
import { elapse, kinds } from './small-world.ts';

export type BadWorld = Awaited<ReturnType<typeof withRealMirror>>;

export interface BadDataset {
  readonly datasetId: string;
  /** Its first version, which is sound; small rows where it is left out. */
  readonly first?: Content;
  /** Publishes a version that cannot be mirrored, under this id. */
  readonly spoil: (world: Pick<BadWorld, 'feed' | 'folder'>, datasetId: string) => Promise<void> | void;
  /** What the message must say. */
  readonly says: readonly string[];
  /** What is asked for of its content, until it fails. */
  readonly requests: readonly ('changes' | 'file')[];
}

const DAY_MS = 24 * 3_600_000;

/**
 * Mirrors the first versions, spoils each dataset, and expects of the next catch-ups: each bad dataset fails with its
 * message and its old table, the sound ones move on, and nothing bad is fetched again for a day.
 */
export async function expectEachFailsAlone(
  bad: readonly BadDataset[],
  ...options: Parameters<typeof withRealMirror>
): Promise<BadWorld> {
  const world = await withSpoiled(bad, ...options);
  const { feed } = world;
  const failed = Object.fromEntries(bad.map(({ datasetId }) => [datasetId, 'failed']));
  const result = await world.catchUp();
  expect(kinds(result)).toEqual({ parcels: 'applied', permits: 'applied', roads: 'applied', ...failed });
  expectMessages(result, bad);
  const asked = bad.map(({ datasetId }) => [datasetId, contentRequests(feed, datasetId)] as const);
  expect(Object.fromEntries(asked)).toEqual(
    Object.fromEntries(bad.map(({ datasetId, requests }) => [datasetId, requests])),
  );
  feed.requests.clear();
  const again = await world.catchUp();
  expect(kinds(again)).toEqual({ parcels: 'current', permits: 'current', roads: 'current', ...failed });
  expectMessages(again, bad);
  expect(bad.flatMap(({ datasetId }) => contentRequests(feed, datasetId))).toEqual([]);

  elapse(world, DAY_MS);
  expect(kinds(await world.catchUp())).toMatchObject(failed);
  for (const { datasetId } of bad) expect(contentRequests(feed, datasetId), datasetId).not.toEqual([]);
  await expectOldTables(world, bad);
  return world;
}

/** The first versions are mirrored; the sound datasets have a second one since, and the others a bad one. */
async function withSpoiled(
  bad: readonly BadDataset[],
  ...options: Parameters<typeof withRealMirror>
): Promise<BadWorld> {
  const world = await withRealMirror(...options);
  const { feed } = world;
  const datasetIds = bad.map(({ datasetId }) => datasetId);
  feed.publisher.subscribe({ subscriptionId: 'sub_bad', datasetIds });
  for (const { datasetId, first = smallContent(numberedRows(2)) } of bad) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, first);
  }
  const loaded = Object.fromEntries(datasetIds.map((id) => [id, 'loaded']));
  expect(kinds(await world.catchUp())).toMatchObject(loaded);
  for (const { datasetId, spoil } of bad) await spoil(world, datasetId);
  for (const datasetId of SERVED) publishNext(feed, datasetId);
  feed.requests.clear();
  return world;
}

function expectMessages(result: CatchUpResult, bad: readonly BadDataset[]): void {
  expect(exitCodeOfResult(result)).toBe(65);
  for (const { datasetId, says } of bad) {
    const message = messageOf(result, datasetId);
    for (const words of says) expect(message, datasetId).toContain(words);
    const alone = { ...result, datasets: result.datasets.filter((one) => one.datasetId === datasetId) };
    expect(summarize(alone)).toContain(`${datasetId}: `);
  }
}

/** Of the error that a dataset failed with. */
export function messageOf({ datasets }: CatchUpResult, datasetId: string): string {
  const found = datasets.find((one) => one.datasetId === datasetId);
  if (found?.kind === 'failed') return found.error.message;
  throw new Error(`${datasetId} should have failed, but was ${found?.kind}`);
}

async function expectOldTables({ feed, folder }: BadWorld, bad: readonly BadDataset[]): Promise<void> {
  const at = Object.fromEntries(
    bad.flatMap(({ datasetId }) => {
      const [first] = feed.store.dataset(datasetId).versions;
      return first === undefined ? [] : [[datasetId, first]];
    }),
  );
  const expected = everythingPublished(feed, { at });
  expect(await mirrorDifferences(join(folder, 'mirror.duckdb'), expected)).toEqual([]);
}

/** The requests for files and pages of changes of a dataset since the log of requests was cleared. */
export function contentRequests({ requests }: FixtureFeed, datasetId: string): readonly string[] {
  return requests
    .entries()
    .filter((entry) => entry.datasetId === datasetId && ['file', 'changes'].includes(entry.operation))
    .map(({ operation }) => operation);
}

/** Publishes a version whose changes are `pages`: for each page, the JSON texts of its changes. */
export function publishChanges(feed: FixtureFeed, datasetId: string, ...pages: readonly string[][]): void {
  const before = feed.store.dataset(datasetId).versions.at(-1);
  if (before === undefined) throw new Error(`${datasetId} has no version`);
  const listed = (op: string) => pages.flat().filter((text) => text.startsWith(`{"op":"${op}"`)).length;
  const counts = { added: listed('added'), changed: listed('changed'), removed: listed('removed') };
  const rowCount = before.rowCount + counts.added - counts.removed;
  const { version } = feed.publisher.publish(
    datasetId,
    { ...before.content, changes: [] },
    {
      claims: { counts, rowCount },
    },
  );
  respondWithChanges(feed, datasetId, version, pages);
}

/** Answers for the changes of a version with `pages`: for each page, the JSON texts of its changes. */
export function respondWithChanges(
  feed: FixtureFeed,
  datasetId: string,
  version: number,
  pages: readonly (readonly string[])[],
): void {
  for (const [index, changes] of pages.entries()) {
    const next = index === pages.length - 1 ? 'null' : `"page ${index + 2}"`;
    const body = `{"datasetId":${JSON.stringify(datasetId)},"version":${version},"changes":[${changes.join()}],"nextCursor":${next}}`;
    const act = {
      kind: 'respond',
      status: 200,
      headers: { 'content-type': 'application/json' },
      body,
    } as const;
    const page = index === 0 ? ('first' as const) : ('later' as const);
    feed.faults.add({ match: { operation: 'changes', datasetId, page, times: 'always' }, act });
  }
}

/** A dataset whose changes are these; they are refused with the place and these words. */
export function badChanges(
  datasetId: string,
  table: { readonly schema?: SourceSchema; readonly rows?: readonly Row[] },
  pages: readonly string[][],
  ...says: readonly string[]
): BadDataset {
  return {
    datasetId,
    first: smallContent(table.rows ?? numberedRows(2), [], table.schema ?? SMALL_SCHEMA),
    spoil: ({ feed }) => publishChanges(feed, datasetId, ...pages),
    says,
    requests: pages.map(() => 'changes'),
  };
}

/** Publishes a version of which there is a snapshot only, in these files. */
export function publishFiles(
  feed: FixtureFeed,
  datasetId: string,
  files: readonly WrittenFile[],
  schema: SourceSchema = SMALL_SCHEMA,
): void {
  const rowCount = files.reduce((sum, file) => sum + file.rowCount, 0);
  const content = { schema, rowCount, rows: () => [], changes: null, files };
  feed.publisher.publish(datasetId, content, { notRecordedAs: 'flag' });
}

/** A file with the rows of a query, by another writer than that of the fixture feed. */
export async function queried(
  folder: string,
  name: string,
  select: string,
  rowCount = 1,
): Promise<WrittenFile> {
  const path = await parquet(folder, name, select);
  const bytes = await readFile(path);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { path, bytes: bytes.byteLength, rowCount, sha256 };
}

/** A dataset with a snapshot that cannot be mirrored, made of the rows of a query. */
export function badSnapshot(
  datasetId: string,
  table: { readonly schema?: SourceSchema; readonly first?: readonly Row[] },
  { select, rowCount = 1 }: { readonly select: string; readonly rowCount?: number },
  ...says: readonly string[]
): BadDataset {
  const schema = table.schema ?? SMALL_SCHEMA;
  return {
    datasetId,
    first: smallContent(table.first ?? numberedRows(2), [], schema),
    async spoil({ feed, folder }) {
      publishFiles(
        feed,
        datasetId,
        [await queried(folder, `${datasetId}.parquet`, select, rowCount)],
        schema,
      );
    },
    says,
    requests: ['changes', 'file'],
  };
}
