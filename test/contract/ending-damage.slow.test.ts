/** F58: a whole block in the place of another one makes DuckDB end the process that reads it. It costs the table, and no other. */

import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import {
  damageTable,
  misplaceBlock,
  writeInvalidText,
  writeLength,
  writeNextBlock,
} from '../support/damaged-mirror.ts';
import { duckdb } from '../support/duckdb-mirror.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { withHistoryAndCopy } from '../support/history-and-copy.ts';
import { program } from '../support/program.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

const KINDS = ['permits', 'parcels', 'specimens', 'zoning'] as const;
type Kind = (typeof KINDS)[number];

/** Four tables with history under a published copy; one of them has left and is archived. */
async function archiving() {
  const made = await countyFeed({ kinds: KINDS, rowsPerDataset: 200 });
  const { installed, copy } = await withHistoryAndCopy(made);
  made.feed.publisher.remove(made.datasetOf('zoning'), 'left_coverage');
  made.publishNext(made.datasetOf('parcels'));
  await once(installed);
  made.feed.requests.clear();
  const tableOf = (kind: Kind): string => `main.${made.datasetOf(kind).replaceAll('-', '_')}`;
  const quarantined = (): readonly string[] =>
    readdirSync(installed.dataDirectory).filter((name) => name.includes('.corrupt-'));
  return { ...made, installed, copy, tableOf, quarantined };
}

type Archiving = Awaited<ReturnType<typeof archiving>>;

/** Expects one catch-up to quarantine the mirror, and to leave a sound one that is right. */
async function expectRewritten({
  feed,
  installed,
  quarantined,
}: Pick<Archiving, 'feed' | 'installed' | 'quarantined'>): Promise<void> {
  await once(installed);
  expect(quarantined()).toHaveLength(1);
  await expectMirrored(installed, feed);
  const again = await installed.run('verify', '--deep');
  expect(again, again.stderr).toMatchObject({ exitCode: 0 });
}

it('F58 verify --deep names the table that ends processes, and one catch-up loads it and copies the others', async () => {
  const { feed, installed, copy, tableOf, datasetOf, quarantined } = await archiving();
  await misplaceBlock(installed.mirrorPath, tableOf('specimens'), tableOf('permits'));
  const found = await installed.run('verify', '--deep', '--json');
  expect(found, found.stderr).toMatchObject({ exitCode: 74 });
  const permits = JSON.parse(found.stdout).datasets.find(
    ({ id }: { readonly id: string }) => id === datasetOf('permits'),
  );
  expect(permits.differences).toMatchObject([{ kind: 'damaged', remedy: 'feed-sync once' }]);
  expect(permits.differences[0].message).toContain('SIGSEGV');
  feed.requests.clear();
  await once(installed);
  expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
  expect(quarantined()).toHaveLength(1);
  await expectMirrored(installed, feed);
  await expectMirrored({ ...installed, mirrorPath: copy }, feed);
  const again = await installed.run('verify', '--deep');
  expect(again, again.stdout).toMatchObject({ exitCode: 0 });
});

it('F58 a union in parts is right after its mirror was copied without the table that ends processes', async () => {
  const { feed, datasetOf } = await countyFeed({ kinds: KINDS, rowsPerDataset: 200 });
  const small = Array.from({ length: 66 }, (_, number) => `us-az-${number}-parcels`);
  for (const datasetId of small) {
    feed.publisher.addDataset({ datasetId, placeId: 'us-az-cedarville', topic: 'parcels' });
    feed.publisher.publish(datasetId, smallContent(numberedRows(2)));
  }
  await feed.prepareSnapshots();
  const installed = await program({ feed });
  writeFileSync(join(installed.home, 'work', 'feed-sync.yaml'), 'unions: {everything: "*"}\n');
  await once(installed);
  const tableOf = (kind: Kind): string => `main.${datasetOf(kind).replaceAll('-', '_')}`;
  const parts = `SELECT count(*) FROM duckdb_views() WHERE schema_name = 'union_parts'`;
  const count = `SELECT count(*) AS n, count(DISTINCT dataset_id) AS d, (${parts}) AS parts FROM everything`;
  const counted = async (): Promise<string> =>
    (await installed.run('query', '--format', 'csv', count)).stdout;
  const all = await counted();
  expect(all).toMatch(/^n,d,parts\n\d+,70,2\n$/);
  await misplaceBlock(installed.mirrorPath, tableOf('specimens'), tableOf('permits'));
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 74 });
  feed.requests.clear();
  await once(installed);
  expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
  expect(await counted()).toBe(all);
  const again = await installed.run('verify');
  expect(again, again.stdout).toMatchObject({ exitCode: 0 });
});

it('F58 the third catch-up repairs a mirror whose damage has ended two before it', async () => {
  const { feed, installed, tableOf, datasetOf, publishNext } = await archiving();
  await misplaceBlock(installed.mirrorPath, tableOf('specimens'), tableOf('permits'));
  publishNext(datasetOf('permits'));
  publishNext(datasetOf('parcels'));
  expect(await installed.run('once')).toMatchObject({ signal: 'SIGSEGV' });
  expect(await installed.run('once')).toMatchObject({ signal: 'SIGSEGV' });
  await once(installed);
  expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
  await expectMirrored(installed, feed);
});

/** A disk's end is the process's here: no file becomes larger. */
const LARGEST = 'ulimit -f "$0"; exec "$@"';

it('F58 F07 a disk without room for the copy quarantines nothing: 74, and with room the mirror is repaired', async () => {
  const { feed, installed, tableOf, datasetOf, quarantined } = await archiving();
  await misplaceBlock(installed.mirrorPath, tableOf('specimens'), tableOf('permits'));
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 74 });
  const blocks = Math.floor(statSync(installed.mirrorPath).size / 2 / 512);
  const cramped = await program({
    feed,
    environment: { FEED_SYNC_HISTORY_DATASETS: '*', FEED_SYNC_DATA_DIR: installed.dataDirectory },
    within: ['sh', '-c', LARGEST, String(blocks)],
  });
  const { stdout, stderr } = await once(cramped, 74);
  expect(`${stdout}${stderr}`).toContain('is full');
  expect(quarantined()).toEqual([]);
  expect(readdirSync(installed.dataDirectory).join()).not.toContain('.compact');
  feed.requests.clear();
  await once(installed);
  expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
  await expectMirrored(installed, feed);
});

it('F58 a published copy that ends processes is found by verify --deep, and replaced by one catch-up', async () => {
  const { feed, installed, copy, tableOf } = await archiving();
  await misplaceBlock(copy, tableOf('specimens'), tableOf('permits'));
  const found = await installed.run('verify', '--deep', '--json');
  expect(found, found.stderr).toMatchObject({ exitCode: 74 });
  expect(JSON.parse(found.stdout).copy).toMatchObject({ result: 'damaged' });
  feed.requests.clear();
  await once(installed);
  expect(downloadsOf(feed)).toEqual([]);
  await expectMirrored({ ...installed, mirrorPath: copy }, feed);
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
});

it('F58 the catch-up after verify repairs a damaged catalog table that a catch-up never reads', async () => {
  const { feed, installed, quarantined } = await archiving();
  await damageTable(installed.mirrorPath, 'feed_sync.archived');
  for (const words of [['verify', '--deep'], ['verify']]) {
    const found = await installed.run(...words);
    expect(found, found.stderr).toMatchObject({ exitCode: 74 });
  }
  await expectRewritten({ feed, installed, quarantined });
});

it('F58 text that is not valid UTF-8 in a sound block of the catalog quarantines the mirror', async () => {
  const { feed, installed, datasetOf, quarantined } = await archiving();
  writeInvalidText(installed.mirrorPath, datasetOf('zoning'));
  const found = await installed.run('verify', '--deep');
  expect(found, found.stderr).toMatchObject({ exitCode: 74 });
  await expectRewritten({ feed, installed, quarantined });
});

it('F58 an undo log with the block of another table is reported once and closed, and nothing is loaded', async () => {
  const { feed, installed, tableOf } = await archiving();
  const log = tableOf('parcels').replace('main.', 'history.');
  await misplaceBlock(installed.mirrorPath, tableOf('specimens'), log);
  const found = await installed.run('verify', '--deep');
  expect(found, found.stdout).toMatchObject({ exitCode: 74 });
  feed.requests.clear();
  const reported = await installed.run('once');
  expect(reported, reported.stderr).toMatchObject({ exitCode: 74 });
  expect(reported.stdout).toContain(`the service does not have it: ${log}.`);
  await once(installed);
  expect(downloadsOf(feed)).toEqual([]);
  const again = await installed.run('verify', '--deep');
  expect(again, again.stdout).toMatchObject({ exitCode: 0 });
});

it('F58 a catch-up that copies the sound tables closes undo logs with other rows than were written, and reports them once', async () => {
  const { installed, tableOf } = await archiving();
  const log = tableOf('parcels').replace('main.', 'history.');
  await duckdb(`ATTACH '${installed.mirrorPath}' AS file`, `DELETE FROM file.${log}`, 'DETACH file');
  await misplaceBlock(installed.mirrorPath, tableOf('specimens'), tableOf('permits'));
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 74 });
  const reported = await once(installed, 74);
  expect(reported.stdout).toContain(`the service does not have it: ${log}. It was closed`);
  await once(installed);
  const again = await installed.run('verify', '--deep');
  expect(again, again.stdout).toMatchObject({ exitCode: 0 });
});

/** Too long for the block of its column. */
const LONG = 'of a deed '.repeat(1_000);
/** Bytes of a text, as damage in the place of a length is. */
const DAMAGED_LENGTH = 0x61656420;
/** With the memory of the tests DuckDB reads so much of other values. */
const READABLE_LENGTH = 0x18656420;

/** A mirror with history under a published copy, with a text in it that is damaged. */
async function withDamagedText(text: string, damage: (path: string) => void) {
  const made = await countyFeed({ kinds: KINDS, rowsPerDataset: 200 });
  made.feed.publisher.addDataset({ datasetId: 'deeds', placeId: 'us-az-cedarville', topic: 'parcels' });
  const schema = { ...SMALL_SCHEMA, columns: [column('id', 'string', false), column('text', 'string')] };
  const rows = Array.from({ length: 200 }, (_, index) => [`r${index}`, index === 7 ? text : 'short']);
  made.feed.publisher.publish('deeds', smallContent(rows, [], schema));
  const { installed, copy } = await withHistoryAndCopy(made);
  damage(installed.mirrorPath);
  made.feed.requests.clear();
  const environment = {
    FEED_SYNC_HISTORY_DATASETS: '*',
    FEED_SYNC_DESTINATION_PUBLISH: copy,
    FEED_SYNC_DATA_DIR: installed.dataDirectory,
    FEED_SYNC_DUCKDB_MEMORY_LIMIT: '1GB',
  };
  const { run } = await program({ feed: made.feed, environment });
  return { ...made, installed: { ...installed, run }, copy };
}

const withDamagedLength = () => withDamagedText(LONG, (path) => writeLength(path, LONG, DAMAGED_LENGTH));

/** Expects that the table was loaded again, and that everything is right. */
async function expectLoadedAgain({
  feed,
  installed,
  copy,
}: Awaited<ReturnType<typeof withDamagedText>>): Promise<void> {
  expect(downloadsOf(feed)).toEqual(['deeds']);
  await expectMirrored(installed, feed);
  await expectMirrored({ ...installed, mirrorPath: copy }, feed);
  const again = await installed.run('verify', '--deep');
  expect(again, again.stdout).toMatchObject({ exitCode: 0 });
}

it('F58 verify --deep finds a length that is far beyond the mirror, which is no lack of memory, and one catch-up repairs it', async () => {
  const made = await withDamagedLength();
  const found = await made.installed.run('verify', '--deep');
  expect(found, found.stderr).toMatchObject({ exitCode: 74 });
  expect(found.stdout).toContain('could not allocate block of size');
  made.feed.requests.clear();
  await once(made.installed);
  await expectLoadedAgain(made);
});

it('F58 the catch-up that publishes a copy finds a length that is far beyond the mirror, and repairs it', async () => {
  const made = await withDamagedLength();
  made.publishNext(made.datasetOf('permits'));
  await once(made.installed);
  await expectLoadedAgain(made);
});

it('F58 a length with which DuckDB reads other values where memory suffices is found with little memory, and repaired', async () => {
  const made = await withDamagedText(LONG, (path) => {
    writeLength(path, LONG, READABLE_LENGTH);
    writeNextBlock(path, LONG, 'itself');
  });
  made.publishNext(made.datasetOf('permits'));
  await once(made.installed);
  await expectLoadedAgain(made);
});

it('F58 a text that goes on in an impossible block costs its table, and is no failure of the storage', async () => {
  const text = Array.from({ length: 40_000 }, (_, index) => `of deed ${index} `).join('');
  const made = await withDamagedText(text, (path) => writeNextBlock(path, text, 'impossible'));
  made.publishNext(made.datasetOf('permits'));
  await once(made.installed);
  await expectLoadedAgain(made);
});
