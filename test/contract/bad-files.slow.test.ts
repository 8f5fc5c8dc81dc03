/** F43 over the wire: files that are not what they should be fail their dataset alone, after three downloads at most. */

import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Act } from '../../fixtures/feed/faults.ts';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { WrittenFile } from '../../fixtures/source/content.ts';
import {
  type BadDataset,
  badSnapshot,
  expectEachFailsAlone,
  messageOf,
  publishFiles,
  queried,
} from '../support/bad-content.ts';
import { withRealMirror } from '../support/served-world.ts';
import { kinds } from '../support/small-world.ts';

const ROWS = 1_000;
const SELECT = "SELECT 'r' || i AS id, i::BIGINT AS amount FROM range(1000) t(i)";
const HTML = Buffer.from('<!doctype html><h1>Sorry</h1>');
/** The length of the footer, and the mark of Parquet. */
const END_BYTES = 8;

type Damage = (content: Buffer) => Buffer;

const overwritten =
  (from: (content: Buffer) => number, to: (content: Buffer) => number): Damage =>
  (content) =>
    Buffer.from(content).fill(0xff, from(content), to(content));

const footerOf = (content: Buffer): number =>
  content.length - END_BYTES - content.readUInt32LE(content.length - END_BYTES);

const withDamagedPages = overwritten(
  () => 40,
  (content) => footerOf(content) - 1,
);
const withDamagedFooter = overwritten(footerOf, (content) => content.length - END_BYTES);
const withHugeFooter = overwritten(
  (content) => content.length - END_BYTES,
  (content) => content.length - END_BYTES / 2,
);
const cut: Damage = (content) => content.subarray(0, -100);
const longer: Damage = (content) => Buffer.concat([content, Buffer.alloc(1)]);

/** A dataset of one file, which `spoil` publishes. */
function badFile(
  datasetId: string,
  downloads: number,
  says: readonly string[],
  spoil: (feed: FixtureFeed, file: WrittenFile) => Promise<void>,
): BadDataset {
  return {
    datasetId,
    async spoil({ feed, folder }) {
      await spoil(feed, await queried(folder, `${datasetId}.parquet`, SELECT, ROWS));
    },
    says: ['file part-0.parquet of ', datasetId, ...says],
    requests: ['changes', ...Array.from({ length: downloads }, () => 'file' as const)],
  };
}

/** A file that is damaged on its way, every time. */
function damagedOnItsWay(
  datasetId: string,
  damage: Damage | Act,
  { downloads = 3, says }: { readonly downloads?: number; readonly says: readonly string[] },
): BadDataset {
  return badFile(datasetId, downloads, says, async (feed, file) => {
    publishFiles(feed, datasetId, [file]);
    const act = typeof damage === 'function' ? answering(damage(await readFile(file.path))) : damage;
    feed.faults.add({ match: { operation: 'file', datasetId, times: 'always' }, act });
  });
}

function answering(body: Buffer): Act {
  const headers = { 'content-length': String(body.length) };
  const stream = async function* () {
    yield body;
  };
  return { kind: 'stream', status: 200, headers, body: stream };
}

/** A file that the service itself has damaged, or describes wrongly. */
function published(
  datasetId: string,
  {
    damage = (content) => content,
    stated = {},
  }: { readonly damage?: Damage; readonly stated?: Partial<WrittenFile> },
  downloads: number,
  ...says: readonly string[]
): BadDataset {
  return badFile(datasetId, downloads, says, async (feed, file) => {
    const content = damage(await readFile(file.path));
    await writeFile(file.path, content);
    const sha256 = createHash('sha256').update(content).digest('hex');
    publishFiles(feed, datasetId, [{ ...file, bytes: content.length, sha256, ...stated }]);
  });
}

it('F43 M4 fails only the dataset whose file is damaged or wrongly described, with lengths and digests stated', async () => {
  const differs = 'differs from what its manifest states: stated';
  await expectEachFailsAlone([
    damagedOnItsWay('flipped-bit', { kind: 'flipBit', atByte: 500 }, { says: [`${differs} sha256`] }),
    damagedOnItsWay('cut', cut, { says: [differs, 'bytes, found', 'in each of 3 downloads'] }),
    damagedOnItsWay('empty', () => Buffer.alloc(0), { says: [differs, 'found 0 bytes'] }),
    damagedOnItsWay('html', () => HTML, { says: [differs, `found ${HTML.length} bytes`] }),
    damagedOnItsWay('longer', longer, { says: [differs, 'bytes, found'] }),
    damagedOnItsWay('huge-footer', withHugeFooter, { says: [`${differs} sha256`] }),
    published('wrong-digest', { stated: { sha256: 'ab'.repeat(32) } }, 3, `${differs} sha256 abab`),
    published('wrong-rows', { stated: { rowCount: 17 } }, 1, 'has 1,000 rows, but the manifest states 17'),
    published('published-html', { damage: () => HTML }, 1, 'cannot be read'),
    published('published-empty', { damage: () => Buffer.alloc(0) }, 1, 'cannot be read'),
    published('published-cut', { damage: cut }, 1, 'cannot be read'),
    published('published-damage', { damage: withDamagedPages }, 1, 'cannot be read'),
    badSnapshot(
      'missing',
      {},
      { select: "SELECT 'a' AS id" },
      'The column "amount" of missing is missing in the file part-0.parquet',
    ),
    badSnapshot(
      'extra',
      {},
      { select: "SELECT 'a' AS id, 1::BIGINT AS amount, 2 AS more" },
      'The file part-0.parquet of extra has columns that the schema does not know: "more"',
    ),
  ]);
});

it('F43 fails only the dataset whose file is noticeably damaged, without stated lengths and digests', async () => {
  const noParquet = 'stated a Parquet file, found';
  await expectEachFailsAlone(
    [
      damagedOnItsWay('cut', cut, { says: [noParquet, 'in each of 3 downloads'] }),
      damagedOnItsWay('empty', () => Buffer.alloc(0), { says: [noParquet] }),
      damagedOnItsWay('html', () => HTML, { says: [noParquet, `${HTML.length} bytes`] }),
      damagedOnItsWay('headless', (content) => content.subarray(4), { says: [noParquet] }),
      damagedOnItsWay('huge-footer', withHugeFooter, { says: [noParquet] }),
      damagedOnItsWay('damaged-footer', withDamagedFooter, { downloads: 1, says: ['cannot be read'] }),
      damagedOnItsWay('damaged-pages', withDamagedPages, { downloads: 1, says: ['cannot be read'] }),
    ],
    { files: { sha256: false, bytes: false } },
  );
});

it('F38 uses no file name of a link as a path, and shows it without control characters', async () => {
  const names = [
    '..%2F..%2Fevil',
    '%2e%2e%2f',
    "';DROP%20TABLE%20x;--",
    '%1B[2J',
    '%E6%97%A5%20*[a]%3F',
    'x'.repeat(5_000),
    '$(reboot)',
  ];
  const datasetIds = names.map((_, index) => `linked-${index}`);
  const world = await withRealMirror();
  const { feed, folder } = world;
  feed.publisher.subscribe({ subscriptionId: 'sub_links', datasetIds });
  for (const datasetId of datasetIds) {
    feed.publisher.addDataset({ datasetId });
    const file = await queried(folder, `${datasetId}.parquet`, SELECT, ROWS);
    publishFiles(feed, datasetId, [file]);
    const act = answering(await readFile(file.path));
    feed.faults.add({ match: { operation: 'file', datasetId, times: 'always' }, act });
  }
  const rewrite = (body: unknown): unknown => {
    const changed = structuredClone(body);
    for (const { datasetId, files } of Object(changed).datasets) {
      for (const file of files) file.url = file.url.replace('part-0', names[datasetIds.indexOf(datasetId)]);
    }
    return changed;
  };
  const match = { operation: 'manifest', subscriptionId: 'sub_links', times: 'always' } as const;
  const hostileLinks = { match, act: { kind: 'rewrite', rewrite } } as const;
  feed.faults.add(hostileLinks);
  const before = await readdir(folder);
  expect(kinds(await world.catchUp())).toMatchObject(
    Object.fromEntries(datasetIds.map((id) => [id, 'loaded'])),
  );
  const made = (await readdir(folder)).filter((name) => !before.includes(name));
  expect(made.sort()).toEqual(['mirror.duckdb', 'staging']);
  expect(await readdir(join(folder, 'staging'))).toEqual([]);

  feed.faults.clear();
  feed.faults.add(hostileLinks);
  feed.faults.add({ match: { operation: 'file', times: 'always' }, act: answering(HTML) });
  world.checkpoint.requestResync(datasetIds);
  const result = await world.catchUp();
  for (const [index, datasetId] of datasetIds.entries()) {
    const message = messageOf(result, datasetId);
    expect(message).toContain(`file ${names[index]?.slice(0, 100)}`);
    expect(message.length).toBeLessThan(500);
  }
});
