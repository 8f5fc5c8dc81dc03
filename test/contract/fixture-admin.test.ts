/** The admin surface of the fixture feed, and the command that starts the feed by hand. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, it } from 'vitest';
import { type AdminSurface, startAdminSurface } from '../../fixtures/feed/admin.ts';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { type DatasetSource, publishFirstVersions } from '../../fixtures/sources.ts';
import { call, send } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const EVENTS = '/v1/subscriptions/sub_1/events';
const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A dataset `a` with three versions of one, two and three rows. */
function threeVersions(): DatasetSource {
  let rows = 0;
  const next = async () => {
    if (rows === 3) return null;
    rows += 1;
    return smallContent(numberedRows(rows), [{ op: 'added', row: [`r0000${rows - 1}`, rows - 1] }]);
  };
  return { dataset: { datasetId: 'a' }, next };
}

async function started() {
  const feed = await startFixtureFeed({ clock: stillClock('2026-01-01T00:00:00Z') });
  closers.push(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['a'] });
  const sources = [threeVersions()];
  await publishFirstVersions(feed, sources);
  const admin = await startAdminSurface(feed, sources);
  closers.push(admin.close);
  return { feed, act: (path: string, body: object = {}) => actOn(admin, path, body) };
}

function actOn({ adminUrl }: AdminSurface, path: string, body: object) {
  const headers = { 'content-type': 'application/json' };
  return send(adminUrl + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function eventTypes(feed: FixtureFeed): Promise<string[]> {
  const { body } = await call(feed, EVENTS);
  return body.events.map(({ type }: { type: string }) => type);
}

describe('the admin surface', () => {
  it('the admin surface publishes next versions until there are no more', async () => {
    const { feed, act } = await started();
    const state = await act('/publish', { datasetId: 'a', times: 2, notRecordedAs: 'gone' });
    expect(state.body.datasets).toEqual([{ datasetId: 'a', version: 3, rowCount: 3, subscriptions: 1 }]);
    expect((await call(feed, '/v1/datasets/a/changes?version=3')).status).toBe(410);
    const more = await act('/publish', { datasetId: 'a' });
    expect([more.status, more.body.error.message]).toEqual([400, 'a has no further versions']);
  });

  it('the admin surface withdraws a version, and publishes the next one under its number with the right changes', async () => {
    const { feed, act } = await started();
    const versions = async () => (await call(feed, '/v1/datasets/a/versions')).body.versions;
    await act('/publish', { datasetId: 'a' });
    const [withdrawn] = await versions();
    const state = await act('/withdraw', { datasetId: 'a' });
    expect(state.body.datasets).toMatchObject([{ datasetId: 'a', version: 1 }]);
    await act('/publish', { datasetId: 'a' });
    const [newest] = await versions();
    expect(newest).toMatchObject({ version: 2, rowCount: 3, counts: { added: 2, changed: 0, removed: 0 } });
    expect(newest.publishedAt).not.toBe(withdrawn.publishedAt);
    const { body } = await call(feed, '/v1/datasets/a/changes?version=2');
    expect(body.changes).toMatchObject([{ row: { id: 'r00001' } }, { row: { id: 'r00002' } }]);
    await act('/withdraw', { datasetId: 'a' });
    expect((await act('/withdraw', { datasetId: 'a' })).status).toBe(400);
  });

  it('the admin surface issues a version anew, and restarts versions', async () => {
    const { feed, act } = await started();
    const replaced = await act('/replace', { datasetId: 'a', announce: false, keepsRowCount: true });
    expect(replaced.body.datasets).toMatchObject([{ version: 1, rowCount: 1 }]);
    const { body } = await call(feed, '/v1/subscriptions/sub_1/manifest');
    expect(body.datasets).toMatchObject([{ version: 1, rowCount: 2 }]);
    const restarted = await act('/restart', { datasetId: 'a', version: 4, announce: 'removed+added' });
    expect(restarted.body.datasets).toMatchObject([{ version: 4, rowCount: 3 }]);
    expect(await eventTypes(feed)).toEqual(['dataset.added', 'dataset.removed', 'dataset.added']);
  });

  it('the admin surface removes, restores and announces a resync', async () => {
    const { feed, act } = await started();
    await act('/remove', { datasetId: 'a', reason: 'source_retired' });
    await act('/restore', { datasetId: 'a' });
    await act('/resync', { datasetId: 'a' });
    const types = ['added', 'removed', 'added', 'resync_required'].map((type) => `dataset.${type}`);
    expect(await eventTypes(feed)).toEqual(types);
  });

  it('the admin surface removes and restores without an event', async () => {
    const { feed, act } = await started();
    const removed = await act('/remove', { datasetId: 'a', announce: false });
    expect(removed.body.datasets).toMatchObject([{ datasetId: 'a', subscriptions: 0 }]);
    const restored = await act('/restore', { datasetId: 'a', announce: false });
    expect(restored.body.datasets).toMatchObject([{ datasetId: 'a', subscriptions: 1 }]);
    expect(await eventTypes(feed)).toEqual(['dataset.added']);
  });

  it('the admin surface moves a dataset without its record, freezes the record, and omits from lists', async () => {
    const { feed, act } = await started();
    const subscriptions = async () => (await call(feed, '/v1/subscriptions')).body.subscriptions;
    await act('/remove', { datasetId: 'a', subscriptionId: 'sub_1', record: false });
    expect(await subscriptions()).toMatchObject([{ datasetIds: ['a'], lastEventId: 'evt_2' }]);
    await act('/record', { subscriptionId: 'sub_1', frozen: true });
    await act('/restore', { datasetId: 'a', subscriptionId: 'sub_1' });
    expect(await subscriptions()).toMatchObject([{ lastEventId: 'evt_2' }]);
    await act('/record', { subscriptionId: 'sub_1', frozen: false });
    expect(await subscriptions()).toMatchObject([{ lastEventId: 'evt_3' }]);
    const omission = { list: 'subscriptions', subscriptionId: 'sub_1' };
    const state = await act('/omit', { ...omission, reads: 2 });
    expect(state.body.omissions).toEqual([{ omission, readsLeft: 2 }]);
    const counts = [await subscriptions(), await subscriptions(), await subscriptions()];
    expect(counts.map(({ length }) => length)).toEqual([0, 0, 1]);
  });

  it('the admin surface lets positions expire', async () => {
    const { feed, act } = await started();
    await act('/expire');
    expect((await call(feed, `${EVENTS}?after=evt_1`)).status).toBe(410);
  });

  it('the admin surface refuses, lifts, and revokes the key', async () => {
    const { feed, act } = await started();
    const target = { kind: 'dataset', datasetId: 'a' };
    await act('/refuse', { target, code: 'not_distributable' });
    expect((await call(feed, '/v1/datasets/a/versions')).status).toBe(403);
    await act('/lift', { target });
    expect((await call(feed, '/v1/datasets/a/versions')).status).toBe(200);
    await act('/key', { scopes: ['feeds'] });
    expect((await call(feed, '/v1/datasets/a/changes?version=1')).status).toBe(403);
    await act('/key', { revoked: true });
    expect((await call(feed, EVENTS)).status).toBe(401);
  });

  it('the admin surface adds faults, removes them, and makes the manifest lag', async () => {
    const { feed, act } = await started();
    const headers = { 'retry-after': '3' };
    const added = await act('/break', {
      match: { operation: 'events', times: 'always' },
      act: { kind: 'respond', status: 503, headers },
    });
    const answer = await call(feed, EVENTS);
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '3']);
    expect((await act('/mend', { id: added.body.id })).body.faults).toEqual([]);
    expect((await call(feed, EVENTS)).status).toBe(200);
    await act('/manifest', { frozen: true });
    await act('/publish', { datasetId: 'a' });
    const { body } = await call(feed, '/v1/subscriptions/sub_1/manifest');
    expect(body.datasets).toMatchObject([{ version: 1 }]);
  });

  it('the admin surface freezes and thaws one manifest, or one entry', async () => {
    const { feed, act } = await started();
    const version = async () =>
      (await call(feed, '/v1/subscriptions/sub_1/manifest')).body.datasets[0].version;
    await act('/manifest', { frozen: true, subscriptionId: 'sub_1' });
    await act('/publish', { datasetId: 'a' });
    expect(await version()).toBe(1);
    await act('/manifest', { frozen: false, subscriptionId: 'sub_1' });
    await act('/manifest', { frozen: true, datasetId: 'a' });
    await act('/publish', { datasetId: 'a' });
    expect(await version()).toBe(2);
    await act('/manifest', { frozen: false });
    expect(await version()).toBe(3);
  });

  it('the admin surface does an action at the nth request, before it is answered', async () => {
    const { feed, act } = await started();
    const match = { operation: 'versions', nth: 2 };
    const added = await act('/at', { match, action: 'publish', request: { datasetId: 'a', times: 2 } });
    expect(added.body).toMatchObject({ id: 1, match, fired: 0 });
    const newest = async () => (await call(feed, '/v1/datasets/a/versions')).body.versions[0].version;
    expect([await newest(), await newest(), await newest()]).toEqual([1, 3, 3]);
    await act('/at', { match: {}, action: 'expire' });
    expect((await call(feed, `${EVENTS}?after=evt_1`)).status).toBe(410);
  });

  it('the admin surface adds and ends a subscription', async () => {
    const { feed, act } = await started();
    const state = await act('/subscribe', { subscriptionId: 'sub_2', datasetIds: ['a'] });
    expect(state.body.subscriptions).toMatchObject([{}, { subscriptionId: 'sub_2', datasets: 1 }]);
    await act('/unsubscribe', { subscriptionId: 'sub_1' });
    expect((await call(feed, EVENTS)).status).toBe(404);
    expect((await act('/unsubscribe', { subscriptionId: 'sub_1' })).status).toBe(400);
  });

  it('the admin surface restarts the log of a subscription', async () => {
    const { feed, act } = await started();
    const state = await act('/restartLog', { subscriptionId: 'sub_1', firstNumber: 30, announce: true });
    expect(state.body.subscriptions).toMatchObject([{ lastEventId: 'evt_30' }]);
    expect((await call(feed, `${EVENTS}?after=evt_1`)).status).toBe(400);
    await act('/settings', { answers: { unknownPosition: 'taken' } });
    expect((await call(feed, `${EVENTS}?after=evt_1`)).body.events).toMatchObject([{ id: 'evt_30' }]);
  });

  it('the admin surface changes settings while the feed runs', async () => {
    const { feed, act } = await started();
    await act('/settings', {
      answers: { date: 'none' },
      contract: { openapi: false, manifestLastEventId: false },
      files: { sha256: false, bytes: false },
      defaultLimit: 1,
    });
    const { headers, body } = await call(feed, '/v1/subscriptions/sub_1/manifest');
    expect([headers.has('date'), Object.keys(body), Object.keys(body.datasets[0].files[0])]).toEqual([
      false,
      ['subscriptionId', 'datasets', 'nextCursor'],
      ['url', 'rowCount'],
    ]);
    expect((await call(feed, '/v1/openapi.json')).status).toBe(404);
    expect(feed.settings.defaultLimit).toBe(1);
    await act('/settings', { contract: { lastEventIdOf: { sub_1: { manifest: true } } } });
    await act('/settings', { answers: { leftOut: { version: ['publishedAt'] } } });
    await act('/settings', { answers: { leftOut: { entry: ['rowCount'] } } });
    const manifest = (await call(feed, '/v1/subscriptions/sub_1/manifest')).body;
    expect(manifest.lastEventId).toBe('evt_1');
    expect(manifest.datasets[0]).not.toHaveProperty('rowCount');
    const { versions } = (await call(feed, '/v1/datasets/a/versions')).body;
    expect(versions[0]).not.toHaveProperty('publishedAt');
    expect((await act('/settings', { contract: { manifest: 'dataset' } })).status).toBe(400);
    expect((await act('/settings', { answers: { leftOut: { event: ['id'] } } })).status).toBe(400);
  });

  it.each([
    ['/break', { match: { operation: 'dance' }, act: { kind: 'reset' } }],
    ['/break', { match: {}, act: { kind: 'explode' } }],
    ['/break', { match: {}, act: { kind: 'delay' } }],
    ['/remove', { datasetId: 'a', reason: 'boredom' }],
    ['/remove', {}],
    ['/publish', { datasetId: 'unknown' }],
    ['/manifest', { frozen: true, subscriptionId: 'unknown' }],
    ['/manifest', { frozen: true, subscriptionId: 'sub_1', datasetId: 'a' }],
    ['/at', { match: {}, action: 'dance' }],
    ['/at', { match: {}, action: 'expire', request: { weeks: 2 } }],
    ['/omit', { list: 'manifest', subscriptionId: 'sub_1' }],
    ['/restart', { datasetId: 'a', announce: true }],
    ['/replace', { datasetId: 'unknown' }],
    ['/mend', { id: 7 }],
    ['/expire', { weeks: 2 }],
  ])('the admin surface rejects %s %j', async (path, body) => {
    const { act } = await started();
    expect(await act(path, body)).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_request' } },
    });
  });

  it('the admin surface shows requests of one operation', async () => {
    const { feed } = await started();
    const admin = await startAdminSurface(feed, []);
    closers.push(admin.close);
    await call(feed, EVENTS);
    await call(feed, '/v1/coverage');
    const { body } = await send(`${admin.adminUrl}/requests?operation=coverage`);
    expect(body).toMatchObject([{ operation: 'coverage', path: '/v1/coverage', status: 200 }]);
  });
});

describe('the command of the fixture feed', () => {
  it('the command starts a feed, says how to use it, and ends cleanly on SIGTERM', async () => {
    const command = spawn(
      process.execPath,
      ['fixtures/main.ts', '--counties', '1', '--rows', '5', '--api-key', 'by-hand'],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    closers.push(() => command.kill('SIGKILL'));
    const { baseUrl, apiKey } = await greeted(command);
    const headers = { authorization: `Bearer ${apiKey}` };
    const { body } = await send(`${baseUrl}/v1/subscriptions`, { headers });
    expect(body.subscriptions).toMatchObject([{ id: 'sub_counties', datasetCount: 5 }]);
    command.kill('SIGTERM');
    expect(await once(command, 'exit')).toEqual([0, null]);
  });
});

/** Reads the two variables that the command prints. */
async function greeted(command: ChildProcess): Promise<{ baseUrl: string; apiKey: string }> {
  if (command.stdout === null) throw new Error('the command has no output');
  let baseUrl = '';
  for await (const line of createInterface({ input: command.stdout })) {
    const [, name, value = ''] = /^export (\w+)=(.*)$/.exec(line) ?? [];
    if (name === 'FEED_SYNC_BASE_URL') baseUrl = value;
    if (name === 'FEED_SYNC_API_KEY') return { baseUrl, apiKey: value };
  }
  throw new Error('the command ended before it greeted');
}
