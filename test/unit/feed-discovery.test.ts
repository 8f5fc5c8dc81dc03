/** The names that the interface leaves open: where they are learned, which source wins, and how wrong ones are replaced. */

import type nock from 'nock';
import { describe, expect, it } from 'vitest';
import { recogniseContract, settleContract } from '../../src/feed/discovery.ts';
import { errorOf } from '../support/feed-client.ts';
import { answerAt, interceptedFeed } from '../support/intercepted-feed.ts';

const signal = new AbortController().signal;
const INTEGER = { type: 'integer', minimum: 0 };
const ENTRY = { datasetId: 'parcels', version: 1, files: [] };

const { start, started } = interceptedFeed();

/** Answers in turn; the last one for ever. */
function answer(path: string, ...answers: readonly (readonly [number, nock.Body])[]): string[] {
  const asked: string[] = [];
  answerAt(path, ({ pathname, search }) => {
    asked.push(`${pathname}${search}`);
    return answers[Math.min(asked.length, answers.length) - 1] ?? [500, ''];
  });
  return asked;
}

function query(name: string, schema: object) {
  return { name, in: 'query', schema };
}

function versionsOperation(parameters: readonly object[], ofPath: readonly object[] = []) {
  return { '/v1/datasets/{id}/versions': { parameters: ofPath, get: { parameters } } };
}

const NOT_FOUND = { error: { code: 'not_found', message: 'No.' } };
const INVALID = { error: { code: 'invalid_request', message: 'No such parameter.' } };

describe('the newer-than parameter in the API description', () => {
  const nameIn = (paths: object, rest: object = {}) =>
    recogniseContract({ paths, ...rest })?.newerThanParameter;

  it('finds the integer parameter from 0 that turns no pages', () => {
    const parameters = [
      query('limit', INTEGER),
      query('cursor', INTEGER),
      query('page', { type: 'integer', minimum: 1 }),
      query('after', { type: 'string' }),
      { name: 'inHeader', in: 'header', schema: INTEGER },
      query('laterThan', INTEGER),
    ];
    expect(nameIn(versionsOperation(parameters))).toBe('laterThan');
    expect(nameIn(versionsOperation([query('n', { type: ['integer', 'null'], minimum: 0 })]))).toBe('n');
    expect(nameIn(versionsOperation([], [query('ofPath', INTEGER)]))).toBe('ofPath');
    expect(nameIn(versionsOperation(parameters.slice(0, 5)))).toBeNull();
  });

  it('F38 ignores a parameter name that cannot stand in a URL', () => {
    for (const name of ['', '\ud800', 'a b', 'a&b=c', 'x'.repeat(65)]) {
      expect(nameIn(versionsOperation([query(name, INTEGER), query('since[number]', INTEGER)]))).toBe(
        'since[number]',
      );
    }
  });

  it('follows references to a parameter, and ends references that lead in circles', () => {
    const components = {
      parameters: {
        'Newer/Than': { $ref: '#/components/parameters/Other' },
        Other: query('past', { $ref: '#/components/schemas/Number' }),
        Circle: { $ref: '#/components/parameters/Circle' },
      },
      schemas: { Number: INTEGER },
    };
    const refer = (...names: string[]) =>
      versionsOperation(names.map((name) => ({ $ref: `#/components/parameters/${name}` })));
    expect(nameIn(refer('Circle', 'missing', 'Newer~1Than'), { components })).toBe('past');
    expect(nameIn(versionsOperation([{ $ref: 'https://elsewhere.example/x' }]), { components })).toBeNull();
  });

  it.each([
    null,
    [],
    'text',
    { get: null },
    { get: { parameters: {} } },
    { get: { parameters: [null, 1, 'x'] } },
  ])('finds no newer-than parameter in %j', (item) =>
    expect(nameIn({ '/v1/datasets/{id}/versions': item })).toBeNull(),
  );
});

describe('the manifest path in the API description', () => {
  const pathIn = (...paths: string[]) =>
    recogniseContract({ paths: Object.fromEntries(paths.map((path) => [path, { get: {} }])) })?.manifestPath;

  it.each([
    ['/v1/subscriptions/{anything}/manifest', '/v1/subscriptions/{subscriptionId}/manifest'],
    ['/v1/subscriptions/{id}/snapshots/manifest', '/v1/subscriptions/{subscriptionId}/snapshots/manifest'],
    ['/v1/datasets/{id}/manifest', '/v1/datasets/{datasetId}/manifest'],
    ['/v1/datasets/{id}/files', null],
    ['/v1/datasets/{id}/parts/{part}/manifest', null],
    ['/v1/manifest', null],
    ['//elsewhere.example/v1/subscriptions/{id}/manifest', null],
    ['/v1/subscriptions/{id}/x?y=/manifest', null],
  ])('reads the manifest path %s as %s', (path, template) => expect(pathIn(path)).toBe(template));

  it("prefers a subscription's manifest to a dataset's, and takes only a GET", () => {
    expect(pathIn('/v1/datasets/{a}/manifest', '/v1/subscriptions/{b}/manifest')).toBe(
      '/v1/subscriptions/{subscriptionId}/manifest',
    );
    const posted = { paths: { '/v1/subscriptions/{b}/manifest': { post: {} } } };
    expect(recogniseContract(posted)?.manifestPath).toBeNull();
  });
});

it.each([null, 1, 'x', [[]], {}, { paths: null }, { paths: [] }])(
  'recognises no contract in %j',
  (document) => expect(recogniseContract(document)).toBeNull(),
);

it('prefers config to openapi to remembered to default, for each name', () => {
  const none = { manifestPath: null, newerThanParameter: null };
  const named = (name: string) => ({ manifestPath: `/${name}`, newerThanParameter: name });
  const sources = (...three: Parameters<typeof settleContract>) => {
    const contract = settleContract(...three);
    return [contract.manifestPath, contract.newerThanParameter];
  };
  const both = (name: string, source: string) => [
    { value: `/${name}`, source },
    { value: name, source },
  ];
  expect(sources(named('c'), named('o'), named('r'))).toEqual(both('c', 'config'));
  expect(sources(none, named('o'), named('r'))).toEqual(both('o', 'openapi'));
  expect(sources(none, none, named('r'))).toEqual(both('r', 'remembered'));
  expect(sources(none, none, none)).toMatchObject([
    { source: 'default' },
    { source: 'default', value: 'since' },
  ]);
  expect(sources({ ...none, manifestPath: '/c' }, { ...none, newerThanParameter: 'o' }, none)).toMatchObject([
    { source: 'config' },
    { source: 'openapi' },
  ]);
});

describe('discovery', () => {
  const described = {
    paths: {
      ...versionsOperation([query('laterThan', INTEGER)]),
      '/v1/datasets/{dataset}/manifest': { get: {} },
    },
  };

  it('learns both names and uses them', async () => {
    answer('/v1/openapi.json', [200, described]);
    const versions = answer('/v1/datasets/parcels/versions', [200, { versions: [], nextCursor: null }]);
    answer('/v1/datasets/parcels/manifest', [200, ENTRY]);
    const feed = start();
    expect(feed.manifestShape()).toBe('subscription');
    await feed.discover(signal);
    expect(feed.manifestShape()).toBe('dataset');
    expect(await feed.manifestEntry('parcels', signal)).toMatchObject({ entry: ENTRY });
    await feed.versions('parcels', 4, signal);
    expect(versions).toEqual(['/v1/datasets/parcels/versions?laterThan=4&limit=200']);
    expect(started().facts).toEqual([
      { manifestPath: '/v1/datasets/{datasetId}/manifest', newerThanParameter: 'laterThan' },
    ]);
  });

  it.each([
    ['a 404', 404, NOT_FOUND],
    ['a refusal of the key', 401, INVALID],
    ['an outage', 503, ''],
    ['HTML', 200, '<html>'],
    ['another document', 200, { hello: 'world' }],
    ['nesting', 200, '['.repeat(1_000)],
  ])('takes %s for no description, and goes on with the remembered names', async (_name, status, body) => {
    answer('/v1/openapi.json', [status, body]);
    const remembered = { manifestPath: null, newerThanParameter: 'laterThan' };
    expect(await start({ remembered }).discover(signal)).toEqual({
      manifestPath: { value: '/v1/subscriptions/{subscriptionId}/manifest', source: 'default' },
      newerThanParameter: { value: 'laterThan', source: 'remembered' },
    });
    expect(started().facts).toEqual([]);
  });

  it('keeps a remembered name where the description names only the other', async () => {
    answer('/v1/openapi.json', [200, { paths: versionsOperation([query('n', INTEGER)]) }]);
    const remembered = { manifestPath: '/v1/datasets/{datasetId}/manifest', newerThanParameter: 'old' };
    await start({ remembered }).discover(signal);
    expect(started().facts).toEqual([{ manifestPath: remembered.manifestPath, newerThanParameter: 'n' }]);
  });

  it('reads the description once for all simultaneous requests', async () => {
    const asked = answer('/v1/openapi.json', [200, described]);
    const feed = start();
    await Promise.all([feed.discover(signal), feed.discover(signal)]);
    expect(asked).toHaveLength(1);
  });
});

describe('a wrong guess', () => {
  const MANIFEST = '/v1/subscriptions/sub_1/manifest';
  const NEW_PATH = '/v1/subscriptions/sub_1/snapshots/manifest';
  const newDescription = { paths: { '/v1/subscriptions/{x}/snapshots/manifest': { get: {} } } };
  const emptyManifest = { subscriptionId: 'sub_1', datasets: [], nextCursor: null };

  it.each([
    ['in the Error shape', NOT_FOUND],
    ['of any shape', 'nothing here'],
  ])('reads the description again after a 404 %s for the manifest path, and uses it', async (_name, body) => {
    const openapi = answer('/v1/openapi.json', [503, ''], [503, ''], [200, newDescription]);
    answer(MANIFEST, [404, body]);
    answer(NEW_PATH, [200, emptyManifest]);
    const feed = start();
    await feed.discover(signal);
    expect(await feed.manifest('sub_1', signal)).toMatchObject({
      subscriptionId: 'sub_1',
      lastEventId: null,
      datasets: [],
    });
    expect(openapi).toHaveLength(3);
  });

  it('says what to configure where nothing names the manifest path', async () => {
    answer('/v1/openapi.json', [404, NOT_FOUND]);
    const asked = answer(MANIFEST, [404, NOT_FOUND]);
    const error = await errorOf(start().manifest('sub_1', signal));
    expect(error.name).toBe('ConfigurationError');
    expect(error.message).toMatch(/^manifest path unknown, set service\.contract\.manifestPath/);
    expect(asked).toHaveLength(1);
  });

  it.each(['config', 'openapi'])(
    'relays a 404 for a path from %s as a refusal, because that path is no guess',
    async (source) => {
      answer('/v1/openapi.json', [200, { paths: { '/v1/subscriptions/{x}/manifest': { get: {} } } }]);
      answer(MANIFEST, [404, NOT_FOUND]);
      const manifestPath = source === 'config' ? '/v1/subscriptions/{subscriptionId}/manifest' : null;
      const feed = start({ contract: { manifestPath, newerThanParameter: null } });
      await feed.discover(signal);
      expect((await errorOf(feed.manifest('sub_1', signal))).name).toBe('RefusalError');
    },
  );

  it('relays a 404 for a path that answered before as a refusal', async () => {
    answer('/v1/openapi.json', [404, NOT_FOUND]);
    answer(MANIFEST, [200, emptyManifest], [404, NOT_FOUND]);
    const feed = start();
    await feed.manifest('sub_1', signal);
    expect((await errorOf(feed.manifest('sub_1', signal))).name).toBe('RefusalError');
  });

  it('ends only the attempt where the description has the other shape of manifest', async () => {
    answer('/v1/openapi.json', [200, { paths: { '/v1/datasets/{x}/manifest': { get: {} } } }]);
    answer(MANIFEST, [404, NOT_FOUND]);
    const feed = start();
    expect((await errorOf(feed.manifest('sub_1', signal))).name).toBe('ServiceUnavailableError');
    expect(feed.manifestShape()).toBe('dataset');
  });

  it('reads the description again after a 400 for the parameter, and uses it', async () => {
    answer('/v1/openapi.json', [200, { paths: versionsOperation([query('past', INTEGER)]) }]);
    const asked = answer('/v1/datasets/parcels/versions', [400, INVALID], [200, { versions: [] }]);
    await start().versions('parcels', 3, signal);
    expect(asked.map((uri) => uri.split('?')[1])).toEqual(['since=3&limit=200', 'past=3&limit=200']);
  });

  it.each([
    ['in the Error shape', INVALID],
    ['of any shape', 'bad request'],
  ])('leaves out a parameter that nothing names after a 400 %s', async (_name, body) => {
    answer('/v1/openapi.json', [404, NOT_FOUND]);
    const asked = answer('/v1/datasets/parcels/versions', [400, body], [200, { versions: [] }]);
    const feed = start();
    await feed.versions('parcels', 3, signal);
    await feed.versions('parcels', 3, signal);
    expect(asked.map((uri) => uri.split('?')[1])).toEqual(['since=3&limit=200', 'limit=200', 'limit=200']);
  });

  it('relays a 400 for a configured parameter as a refusal', async () => {
    const asked = answer('/v1/datasets/parcels/versions', [400, INVALID]);
    const feed = start({ contract: { manifestPath: null, newerThanParameter: 'mine' } });
    expect((await errorOf(feed.versions('parcels', 3, signal))).name).toBe('RefusalError');
    expect(asked).toEqual(['/v1/datasets/parcels/versions?mine=3&limit=200']);
  });
});
