/** How the fixture feed hands out rows: changes of a version, manifests, snapshot files, and its description. */

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import type { Change } from '../../fixtures/source/content.ts';
import { call, firstFileUrl, send } from '../support/feed-calls.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const MANIFEST = '/v1/subscriptions/sub_1/manifest';
const CHANGES = '/v1/datasets/a/changes?version=2';

/** A feed whose subscription sub_1 contains the dataset `a` with ten rows. */
async function started(options: FixtureFeedOptions = {}): Promise<FixtureFeed> {
  const feed = await startedFeed(options);
  publishSmall(feed, ['a'], 10);
  return feed;
}

describe('changes', () => {
  it('serves changes with rows, keys and 64-bit integers exactly', async () => {
    const feed = await started();
    const changes: Change[] = [
      { op: 'added', row: ['high', 9223372036854775807n] },
      { op: 'changed', row: ['low', -9223372036854775808n] },
      { op: 'changed', row: ['nothing', null] },
      { op: 'removed', key: ['gone'] },
    ];
    feed.publisher.publish('a', smallContent(numberedRows(10), changes));
    const { text, headers } = await call(feed, CHANGES);
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(text).toBe(
      '{"datasetId":"a","version":2,"previousVersion":1,"schemaVersion":"1","recorded":true,"changes":[' +
        '{"op":"added","row":{"id":"high","amount":9223372036854775807}},' +
        '{"op":"changed","row":{"id":"low","amount":-9223372036854775808}},' +
        '{"op":"changed","row":{"id":"nothing"}},' +
        '{"op":"removed","key":{"id":"gone"}}],"nextCursor":null}',
    );
  });

  it('serves changes in pages of at most a thousand', async () => {
    const feed = await started();
    const rows = numberedRows(1200);
    feed.publisher.publish(
      'a',
      smallContent(
        rows,
        rows.map((row) => ({ op: 'changed', row })),
      ),
    );
    const first = await call(feed, CHANGES);
    const second = await call(feed, `${CHANGES}&limit=200&cursor=${first.body.nextCursor}`);
    expect([first.body.changes.length, second.body.changes.length, second.body.nextCursor]).toEqual([
      1000,
      200,
      null,
    ]);
    expect(second.body.changes[0].row.id).toBe('r01000');
  });

  it.each([
    ['flag', 200, undefined],
    ['error', 409, 'changes_not_recorded'],
    ['not_found', 404, 'not_found'],
    ['gone', 410, 'gone'],
    ['insufficient_scope', 403, 'insufficient_scope'],
  ] as const)('says in the form "%s" that changes were not recorded', async (form, status, code) => {
    const feed = await started();
    const changes: Change[] = [{ op: 'added', row: ['x', 1] }];
    feed.publisher.publish('a', smallContent(numberedRows(10), changes), { notRecordedAs: form });
    const answer = await call(feed, CHANGES);
    expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
    if (form === 'flag')
      expect(answer.body).toMatchObject({ recorded: false, changes: [], nextCursor: null });
    const { body } = await call(feed, '/v1/datasets/a/versions');
    expect(body.versions[0].counts).toEqual({ added: 1, changed: 0, removed: 0 });
  });

  it('records no changes where the publisher did not know them, nor for a first version', async () => {
    const feed = await started();
    feed.publisher.publish('a', smallContent(numberedRows(10), null));
    expect((await call(feed, CHANGES)).body.recorded).toBe(false);
    expect((await call(feed, '/v1/datasets/a/changes?version=1')).body.recorded).toBe(false);
    expect((await call(feed, '/v1/datasets/a/versions')).body.versions[0]).not.toHaveProperty('counts');
  });
});

describe('manifests', () => {
  it('the manifest of a subscription names version, schema, rows and files', async () => {
    const feed = await started();
    const { body } = await call(feed, MANIFEST);
    const [file] = body.datasets[0].files;
    const bytes = Buffer.from(await (await fetch(file.url)).arrayBuffer());
    expect(body).toEqual({
      subscriptionId: 'sub_1',
      lastEventId: 'evt_1',
      datasets: [{ datasetId: 'a', version: 1, schemaVersion: '1', rowCount: 10, files: [file] }],
      nextCursor: null,
    });
    expect(file).toEqual({
      url: expect.stringMatching(`^${feed.filesUrl}/files/`),
      bytes: bytes.length,
      rowCount: 10,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    });
    expect(bytes.subarray(0, 4).toString()).toBe('PAR1');
  });

  it('the manifest of a dataset has one entry, at any path', async () => {
    const feed = await started({
      contract: { manifest: 'dataset', manifestPath: '/v1/datasets/{id}/current/manifest' },
    });
    const { body } = await call(feed, '/v1/datasets/a/current/manifest');
    expect(body).toMatchObject({ datasetId: 'a', version: 1, rowCount: 10, files: [{ rowCount: 10 }] });
    expect((await call(feed, '/v1/datasets/b/current/manifest')).status).toBe(404);
    expect((await call(feed, '/v1/datasets/a/current/manifest?limit=1')).status).toBe(400);
    expect((await call(feed, MANIFEST)).status).toBe(404);
  });

  it('the manifest splits a snapshot and leaves out optional fields', async () => {
    const files = { filesPerSnapshot: 3, bytes: false, rowCount: false, sha256: false };
    const feed = await started({ contract: { manifestLastEventId: false }, files });
    publishSmall(feed, ['b'], 0);
    const { body } = await call(feed, MANIFEST);
    expect(body).not.toHaveProperty('lastEventId');
    expect(body.datasets[0].files.map(Object.keys)).toEqual([['url'], ['url'], ['url']]);
    expect(body.datasets[1]).toMatchObject({ datasetId: 'b', rowCount: 0, files: [] });
    feed.settings.files.rowCount = true;
    const counted = await call(feed, MANIFEST);
    expect(counted.body.datasets[0].files).toMatchObject([{ rowCount: 4 }, { rowCount: 4 }, { rowCount: 2 }]);
  });

  it.each([
    ['base-origin', (feed: FixtureFeed, url: string) => url.startsWith(`${feed.baseUrl}/files/`)],
    ['relative', (_feed: FixtureFeed, url: string) => url.startsWith('/files/')],
  ] as const)('the manifest links to files as %s, which then require the key', async (urls, looksRight) => {
    const feed = await started({ files: { urls } });
    const url = await firstFileUrl(feed);
    expect(looksRight(feed, url)).toBe(true);
    const absolute = new URL(url, feed.baseUrl).href;
    const authorization = `Bearer ${feed.apiKey}`;
    expect((await send(absolute)).status).toBe(401);
    expect((await send(absolute, { headers: { authorization } })).status).toBe(200);
  });

  it('the manifest lags behind while it is frozen', async () => {
    const feed = await started();
    feed.manifest.freeze();
    feed.publisher.publish('a', smallContent(numberedRows(12)));
    const frozen = await call(feed, MANIFEST);
    expect(frozen.body).toMatchObject({ lastEventId: 'evt_1', datasets: [{ version: 1, rowCount: 10 }] });
    feed.manifest.thaw();
    const thawed = await call(feed, MANIFEST);
    expect(thawed.body).toMatchObject({ lastEventId: 'evt_2', datasets: [{ version: 2, rowCount: 12 }] });
  });

  it('the manifest shows other files of the same version after it was issued anew', async () => {
    const feed = await started();
    const before = await call(feed, MANIFEST);
    feed.publisher.resync('a', 'source_retired', { content: smallContent(numberedRows(3)) });
    const after = await call(feed, MANIFEST);
    expect(after.body.datasets[0]).toMatchObject({ version: 1, rowCount: 3 });
    expect(after.body.datasets[0].files[0].sha256).not.toBe(before.body.datasets[0].files[0].sha256);
    const { body } = await call(feed, '/v1/subscriptions/sub_1/events?after=evt_1');
    expect(body.events).toMatchObject([
      { type: 'dataset.resync_required', data: { version: 1, reason: 'source_retired' } },
    ]);
  });

  it('keeps the files of the newest versions only', async () => {
    const feed = await started({ files: { keepSnapshots: 1 } });
    const old = await firstFileUrl(feed);
    feed.publisher.publish('a', smallContent(numberedRows(11)));
    expect((await send(old)).status).toBe(200);
    const current = await firstFileUrl(feed);
    expect([(await send(old)).status, (await send(current)).status]).toEqual([404, 200]);
  });
});

describe('files', () => {
  it('sends files whole, in part, or not at all where nothing changed', async () => {
    const feed = await started();
    const url = await firstFileUrl(feed);
    const whole = Buffer.from(await (await fetch(url)).arrayBuffer());
    const head = await send(url, { method: 'HEAD' });
    const etag = head.headers.get('etag') ?? '';
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
    expect([head.status, head.headers.get('content-length'), head.text]).toEqual([
      200,
      String(whole.length),
      '',
    ]);
    const last = whole.length - 1;
    const ranges: [Record<string, string>, number, string | null, Buffer][] = [
      [{ range: 'bytes=0-3' }, 206, `bytes 0-3/${whole.length}`, whole.subarray(0, 4)],
      [{ range: 'bytes=10-' }, 206, `bytes 10-${last}/${whole.length}`, whole.subarray(10)],
      [{ range: 'bytes=-4' }, 206, `bytes ${last - 3}-${last}/${whole.length}`, whole.subarray(-4)],
      [{ range: 'bytes=4-99999999' }, 206, `bytes 4-${last}/${whole.length}`, whole.subarray(4)],
      [{ range: 'bytes=5-', 'if-range': etag }, 206, `bytes 5-${last}/${whole.length}`, whole.subarray(5)],
      [{ range: 'bytes=5-', 'if-range': '"other"' }, 200, null, whole],
      [{ range: 'bytes=0-1,4-5' }, 200, null, whole],
      [{ range: 'lines=1-2' }, 200, null, whole],
      [{ 'if-none-match': `"other", ${etag}` }, 304, null, Buffer.alloc(0)],
    ];
    for (const [headers, status, contentRange, expected] of ranges) {
      const response = await fetch(url, { headers });
      expect([headers, response.status, response.headers.get('content-range')]).toEqual([
        headers,
        status,
        contentRange,
      ]);
      expect(Buffer.from(await response.arrayBuffer()).equals(expected)).toBe(true);
    }
  });
});

describe('openapi.json', () => {
  it('openapi.json names the open parameters, through references', async () => {
    const contract = {
      newerThanParameter: 'newerThan',
      manifestPath: '/v1/subscriptions/{sub}/contents/manifest',
    };
    const feed = await started({ contract });
    const { body } = await call(feed, '/v1/openapi.json');
    const { parameters } = body.paths['/v1/datasets/{datasetId}/versions'].get;
    const resolved = parameters.map(
      ({ $ref }: { $ref: string }) => body.components.parameters[$ref.split('/').at(-1) ?? ''],
    );
    expect(resolved).toContainEqual({
      name: 'newerThan',
      in: 'query',
      schema: { type: 'integer', minimum: 0 },
    });
    expect(body.paths).toHaveProperty([contract.manifestPath, 'get']);
    expect((await call(feed, '/v1/subscriptions/sub_1/contents/manifest')).status).toBe(200);
    expect((await call(feed, MANIFEST)).status).toBe(404);
  });

  it('openapi.json can be switched off while the feed runs', async () => {
    const feed = await started();
    expect((await call(feed, '/v1/openapi.json')).status).toBe(200);
    feed.settings.contract.openapi = false;
    expect((await call(feed, '/v1/openapi.json')).body.error.code).toBe('not_found');
  });
});

it('leaves columns of every type to the row’s own text', async () => {
  const feed = await started();
  const schema = {
    ...SMALL_SCHEMA,
    schemaVersion: '2',
    columns: [column('id', 'string', false), column('shape', 'geometry'), column('more', 'json')],
    envelopeColumns: [column('_at', 'timestamp')],
  };
  const row = [
    'x',
    { type: 'Point', coordinates: [1, 2, 3] },
    { json: null },
    '2026-01-01T00:00:00.123456+02:00',
  ] as const;
  feed.publisher.publish('a', smallContent([row], [{ op: 'added', row }], schema), {
    claims: { resyncRequired: false },
  });
  const { body } = await call(feed, CHANGES);
  const geometry = { type: 'Point', coordinates: [1, 2, 3] };
  expect(body.changes[0].row).toEqual({
    id: 'x',
    shape: geometry,
    more: null,
    _at: '2026-01-01T00:00:00.123456+02:00',
  });
});
