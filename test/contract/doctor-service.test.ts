/** `feed-sync doctor` and the service: key and scopes, names, subscriptions, suspensions, the clock; each also with a problem (F14, F23, F24). */

import { describe, expect, it } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { keyHashOf } from '../../src/cli/service-client.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { openAt, suspensionOf } from '../support/checkpoint-files.ts';
import { countyFeed } from '../support/county-feed.ts';
import { type LocalInstallation, localInstallation } from '../support/local-installation.ts';

const KEY = 'canary+key/that=must&stay%secret';

/** Before anything was mirrored. */
async function fresh(
  options: FixtureFeedOptions = {},
  further: Parameters<typeof localInstallation>[0] = {},
): Promise<{ readonly feed: FixtureFeed; readonly datasetId: string; readonly one: LocalInstallation }> {
  const { feed, datasetOf } = await countyFeed({
    apiKey: KEY,
    kinds: ['zoning'],
    rowsPerDataset: 5,
    ...options,
  });
  return { feed, datasetId: datasetOf('zoning'), one: localInstallation({ feed, ...further }) };
}

describe('a key that is good', () => {
  it('doctor with a good key asks each operation once, and for one item', async () => {
    const { feed, datasetId, one } = await fresh();
    const diagnosis = await one.diagnose();
    expect(diagnosis).toMatchObject({ exitCode: 0, problems: 0, warnings: 0, skipped: 0 });
    expect(diagnosis.of('key')[0]?.found).toBe('accepted; it sees 1 subscription');
    expect(diagnosis.of('contract').map(({ about, found }) => [about, found])).toEqual([
      ['manifest path', '/v1/subscriptions/{subscriptionId}/manifest (from what the service says of itself)'],
      ['newer than', 'since (from what the service says of itself)'],
      ['manifest', 'is there (asked of sub_1)'],
    ]);
    expect(diagnosis.of('scopes').map(({ about, found }) => [about, found])).toEqual([
      ['events', 'may be read (asked of sub_1)'],
      ['versions', `may be read (asked of ${datasetId})`],
      ['schemas', `may be read (asked of ${datasetId})`],
      [
        'changes',
        expect.stringContaining(
          `not those of version 1 of ${datasetId}: the service says that it has not recorded them`,
        ),
      ],
    ]);
    expect(diagnosis.of('subscriptions')[0]).toMatchObject({
      about: 'sub_1',
      found: 'All counties: 1 dataset, chosen',
    });
    const asked = feed.requests.entries();
    expect(asked.map(({ operation }) => operation)).toEqual([
      'unknown',
      'subscriptions',
      'openapi',
      'manifest',
      'events',
      'versions',
      'schemas',
      'changes',
    ]);
    expect(asked.filter(({ hasAuthorization }) => !hasAuthorization).map(({ method }) => method)).toEqual([
      'HEAD',
    ]);
    expect(asked.slice(3).map(({ query }) => query['limit'])).toEqual(['1', '1', '1', '1', '1']);
  });

  it('doctor checks the manifest of a dataset where nothing is described', async () => {
    const { one, datasetId } = await fresh(
      { contract: { manifest: 'dataset', openapi: false } },
      { environment: { FEED_SYNC_MANIFEST_PATH: '/v1/datasets/{datasetId}/manifest' } },
    );
    const before = await one.diagnose();
    expect(before.of('contract').map(({ found }) => found)).toEqual([
      '/v1/datasets/{datasetId}/manifest (from the configuration)',
      'since (the default: the service does not describe itself)',
      'There is nothing to ask it about.',
    ]);
    // The log names a dataset where nothing else does yet.
    expect(before.of('scopes')[1]?.found).toBe(`may be read (asked of ${datasetId})`);
    expect(await one.run('once')).toMatchObject({ exitCode: 0 });
    expect((await one.diagnose()).of('contract')[2]?.found).toBe(`is there (asked of ${datasetId})`);
  });
});

describe('a key that lacks something', () => {
  it('F23 doctor reports an unknown key once, with what to do, and asks nothing more', async () => {
    const { feed, one } = await fresh();
    feed.keys.get(KEY).revoked = true;
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(77);
    expect(diagnosis.of('key')).toMatchObject([
      {
        state: 'problem',
        found: expect.stringContaining('This API key was revoked.'),
        hints: [expect.stringContaining('settings, API keys')],
      },
    ]);
    expect(diagnosis.all('skipped')).toEqual(['contract names', 'scopes scopes', 'subscriptions seen']);
    expect(feed.requests.entries().map(({ operation }) => operation)).toEqual(['unknown', 'subscriptions']);
  });

  it('F23 doctor names the scope that the key lacks for the feed, with the links of the service', async () => {
    const { feed, one } = await fresh();
    feed.keys.get(KEY).scopes = ['changes'];
    const [found] = (await one.diagnose()).of('key');
    expect(found).toMatchObject({
      state: 'problem',
      exitCode: 77,
      hints: [expect.stringContaining('"feeds"')],
    });
    expect(Object.keys(found?.links ?? {})).not.toEqual([]);
  });

  it('doctor warns of a key that may not read changes', async () => {
    const { feed, one } = await fresh();
    feed.keys.get(KEY).scopes = ['feeds'];
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(0);
    expect(diagnosis.all('warning')).toEqual(['scopes changes']);
    expect(diagnosis.of('scopes').at(-1)?.found).toContain('every new version loads a whole snapshot');
  });

  it.each(['events', 'versions', 'schemas'] as const)(
    'doctor names %s where the key may not read them, and asks the others',
    async (operation) => {
      const { feed, one } = await fresh();
      const error = { code: 'insufficient_scope', message: `Needs ${operation}.` };
      feed.faults.add({
        match: { operation, times: 'always' },
        act: { kind: 'respond', status: 403, json: { error } },
      });
      const diagnosis = await one.diagnose();
      expect(diagnosis.all('problem')).toEqual([`scopes ${operation}`]);
      expect(diagnosis.of('scopes')).toHaveLength(4);
      expect(diagnosis.exitCode).toBe(77);
    },
  );
});

describe('suspensions', () => {
  it('F23 doctor asks nothing while the workspace is suspended, unless for another key', async () => {
    const { feed, one } = await fresh();
    const checkpoint = await openAt(one.checkpointPath);
    const keyHash = keyHashOf({ apiKey: new Secret(KEY), baseUrl: feed.baseUrl });
    checkpoint.suspend({ ...suspensionOf({ kind: 'workspace' }, 'No credits.'), keyHash });
    const observed = await one.diagnose();
    expect(observed.exitCode).toBe(77);
    expect(observed.of('checkpoint').at(-1)).toMatchObject({
      state: 'problem',
      found: expect.stringContaining('No credits.'),
      hints: [expect.stringContaining('feed-sync resume --workspace')],
    });
    expect(observed.of('connection')[0]?.found).toContain('nothing is asked of it');
    expect(observed.of('key')[0]?.found).toContain('until you have acted on it');
    expect(feed.requests.entries()).toEqual([]);

    checkpoint.suspend({ ...suspensionOf({ kind: 'workspace' }), keyHash: 'of another key' });
    const ofAnotherKey = await one.diagnose();
    expect(ofAnotherKey.of('key')[0]?.state).toBe('ok');
    expect(ofAnotherKey.exitCode).toBe(0);
  });

  it('F24 doctor asks nothing about a suspended subscription or dataset', async () => {
    const { feed, datasetId, one } = await fresh();
    const checkpoint = await openAt(one.checkpointPath);
    checkpoint.suspend(suspensionOf({ kind: 'dataset', datasetId }));
    await one.diagnose();
    expect(feed.requests.entries().filter((entry) => entry.datasetId === datasetId)).toEqual([]);
    checkpoint.suspend(suspensionOf({ kind: 'subscription', subscriptionId: 'sub_1' }));
    feed.requests.clear();
    await one.diagnose();
    expect(feed.requests.entries().filter((entry) => entry.subscriptionId === 'sub_1')).toEqual([]);
  });
});

describe('the service', () => {
  it('F14 doctor reports a service that is not there, is known by no name, or hangs', async () => {
    const unreachable = localInstallation({ feed: { baseUrl: 'http://127.0.0.1:1', apiKey: KEY } });
    const diagnosis = await unreachable.diagnose();
    expect(diagnosis.exitCode).toBe(75);
    expect(diagnosis.of('connection')).toMatchObject([
      { state: 'problem', found: expect.stringContaining('connection refused at 127.0.0.1:1') },
    ]);
    expect(diagnosis.all('skipped')).toEqual(
      expect.arrayContaining([
        'clock clock',
        'key key',
        'contract names',
        'scopes scopes',
        'subscriptions seen',
      ]),
    );
    const nameless = localInstallation({ feed: { baseUrl: 'https://feed.invalid', apiKey: KEY } });
    expect((await nameless.diagnose()).all('problem')).toEqual(['connection name']);
    const { feed, one } = await fresh({}, { environment: { FEED_SYNC_HTTP_TIMEOUT: '2s' } });
    feed.faults.add({ match: { times: 'always' }, act: { kind: 'delay', delayMs: 60_000 } });
    expect((await one.diagnose()).of('connection')[0]?.found).toContain('no answer from 127.0.0.1');
  });

  it('doctor reports a clock of the service that is minutes away from ours', async () => {
    const off = (offMs: number) => ({ ...systemClock, now: () => new Date(Date.now() + offMs) });
    const { feed, one } = await fresh({}, { context: { clock: off(10 * 60_000) } });
    const diagnosis = await one.diagnose();
    expect(diagnosis.of('clock')[0]).toMatchObject({
      state: 'problem',
      exitCode: 75,
      hints: [expect.stringContaining('NTP')],
    });
    expect(diagnosis.exitCode).toBe(75);
    const behind = localInstallation({ feed, context: { clock: off(-2 * 60_000) } });
    expect((await behind.diagnose()).all('warning')).toEqual(['clock clock']);
  });

  it('doctor reports a manifest path that leads nowhere as a wrong configuration', async () => {
    const { one } = await fresh(
      {},
      { environment: { FEED_SYNC_MANIFEST_PATH: '/v1/{subscriptionId}/nowhere' } },
    );
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(78);
    expect(diagnosis.of('contract').at(-1)).toMatchObject({
      state: 'problem',
      found: expect.stringContaining('/v1/{subscriptionId}/nowhere (404)'),
      hints: [expect.stringContaining('Correct service.contract.manifestPath')],
    });
  });

  it('doctor names the field of an answer that violates the contract', async () => {
    const { feed, one } = await fresh();
    feed.faults.add({
      match: { operation: 'schemas', times: 'always' },
      act: { kind: 'merge', fields: { schemas: 7 } },
    });
    const diagnosis = await one.diagnose();
    expect(diagnosis.of('scopes').find(({ about }) => about === 'schemas')).toMatchObject({
      state: 'problem',
      exitCode: 65,
      found: expect.stringContaining('schemas'),
    });
  });
});

describe('subscriptions', () => {
  it('doctor reports chosen subscriptions that the key does not see, and those that are gone', async () => {
    const { feed, one } = await fresh({}, { environment: { FEED_SYNC_SUBSCRIPTIONS: 'Some counties' } });
    const unknown = await one.diagnose();
    expect(unknown.exitCode).toBe(78);
    expect(unknown.of('subscriptions').at(-1)).toMatchObject({
      state: 'problem',
      hints: [expect.stringContaining('It sees: sub_1 (All counties)')],
    });
    delete one.environment['FEED_SYNC_SUBSCRIPTIONS'];
    expect(await one.run('once')).toMatchObject({ exitCode: 0 });
    feed.publisher.subscribe({ subscriptionId: 'sub_2', places: [] });
    feed.publisher.unsubscribe('sub_1');
    const gone = await one.diagnose();
    expect(gone.of('subscriptions').filter(({ state }) => state === 'problem')).toMatchObject([
      { about: 'sub_1', exitCode: 77, found: expect.stringContaining('the key does not see it') },
      { about: 'mirror', exitCode: 78 },
    ]);
  });
});
