/** Snapshots that lie on disk already: the fixture feed serves them as they are and leaves them where they are. */

import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { writeSnapshot } from '../../fixtures/source/snapshot.ts';
import { call } from '../support/feed-calls.ts';
import { numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

const folder = await mkdtemp(join(tmpdir(), 'written-files-'));

afterEach(() => rm(folder, { recursive: true }));

it('lists files on disk with their facts, sends them byte for byte, and leaves them where they are', async () => {
  const rows = numberedRows(10);
  const files = [];
  for (const [number, part] of [rows.slice(0, 6), rows.slice(6)].entries()) {
    const path = join(folder, `${number}.parquet`);
    files.push({ path, ...(await writeSnapshot({ schema: SMALL_SCHEMA, rows: part, path })) });
  }
  const feed = await startFixtureFeed({ files: { keepSnapshots: 1 } });
  try {
    feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['a'] });
    feed.publisher.addDataset({ datasetId: 'a' });
    feed.publisher.publish('a', { ...smallContent(rows), files });
    const { body } = await call(feed, '/v1/subscriptions/sub_1/manifest');
    const listed = body.datasets[0].files;
    expect(listed).toMatchObject(files.map(({ path, ...facts }) => facts));
    const answer = await fetch(listed[1].url);
    expect((await answer.arrayBuffer()).byteLength).toBe(files[1]?.bytes);
    feed.publisher.publish('a', smallContent(numberedRows(11)));
    const after = await call(feed, '/v1/subscriptions/sub_1/manifest');
    expect(after.body.datasets[0].files).toHaveLength(1);
    expect((await fetch(listed[1].url)).status).toBe(404);
  } finally {
    await feed.close();
  }
  expect(files.map(({ path }) => existsSync(path))).toEqual([true, true]);
});
