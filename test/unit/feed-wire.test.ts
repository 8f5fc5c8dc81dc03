/** Decoding: required fields must fit, deciding fields must fit where present, displayed fields may be anything. */

import { describe, expect, it } from 'vitest';
import {
  decodeChangesPage,
  decodeErrorBody,
  decodeEvent,
  decodeEventPage,
  decodeManifestEntry,
  decodeManifestPage,
  decodeSchemas,
  decodeSubscriptions,
  decodeVersions,
} from '../../src/feed/wire/records.ts';
import { ContractViolationError } from '../../src/model/errors.ts';

const SECRET_CONTENT = 'content of the body';
const SHA256 = 'ab'.repeat(32);

/** The path that a violation names; its message must not repeat what was sent. */
function violationPath(decode: () => unknown): string {
  try {
    decode();
  } catch (error) {
    if (!(error instanceof ContractViolationError)) throw error;
    expect(error.message).toContain(
      `Could not do it: the answer does not fit the interface at ${error.path}`,
    );
    expect(error.message).not.toContain(SECRET_CONTENT);
    return error.path;
  }
  throw new Error('expected a violation');
}

const version = { datasetId: 'parcels', version: 3 };
const versions = (...items: unknown[]) => decodeVersions({ versions: items }, 'parcels', 'do it');

describe('decodeVersions', () => {
  it('needs a dataset and a number of a version; every other field may be missing or null', () => {
    const bare = {
      ...version,
      previousVersion: null,
      schemaVersion: null,
      rowCount: null,
      counts: null,
      resyncRequired: false,
      publishedAt: null,
    };
    expect(versions(version)).toEqual({ items: [bare], nextCursor: null });
    const nulls = {
      previousVersion: null,
      schemaVersion: null,
      rowCount: null,
      counts: null,
      resyncRequired: null,
    };
    expect(versions({ ...version, ...nulls, publishedAt: null, unknownField: 1 }).items).toEqual([bare]);
  });

  it('reads every field of a version', () => {
    const counts = { added: 1, changed: 2, removed: 3 };
    const whole = {
      ...version,
      previousVersion: 2,
      schemaVersion: '7',
      rowCount: 9,
      counts,
      resyncRequired: true,
    };
    expect(versions({ ...whole, publishedAt: '2026-01-02T03:04:05.678+06:00' }).items).toEqual([
      { ...whole, publishedAt: new Date('2026-01-01T21:04:05.678Z') },
    ]);
  });

  it.each([
    ['versions[0].version', { datasetId: 'parcels' }],
    ['versions[0].version', { ...version, version: SECRET_CONTENT }],
    ['versions[0].version', { ...version, version: 1.5 }],
    ['versions[0].version', { ...version, version: -1 }],
    ['versions[0].version', { ...version, version: 2 ** 60 }],
    ['versions[0].datasetId', { version: 1 }],
    ['versions[0].datasetId', { ...version, datasetId: '' }],
    ['versions[0].datasetId', { ...version, datasetId: 'parcels\0' }],
    ['versions[0].datasetId', { ...version, datasetId: '\ud800' }],
    ['versions[0].datasetId', { ...version, datasetId: 'another' }],
    ['versions[0].rowCount', { ...version, rowCount: SECRET_CONTENT }],
    ['versions[0].previousVersion', { ...version, previousVersion: '2' }],
    ['versions[0].counts.changed', { ...version, counts: { added: 1, removed: 1 } }],
    ['versions[0].resyncRequired', { ...version, resyncRequired: 'yes' }],
    ['versions[0]', null],
  ])('refuses a version, naming %s: %j', (path, item) => {
    expect(violationPath(() => versions(item))).toBe(path);
  });

  it('names the place of the version that does not fit', () => {
    expect(violationPath(() => versions(version, version, { ...version, version: null }))).toBe(
      'versions[2].version',
    );
    expect(violationPath(() => decodeVersions([], 'parcels', 'do it'))).toBe('(the whole body)');
    expect(violationPath(() => decodeVersions({ versions: {} }, 'parcels', 'do it'))).toBe('versions');
    expect(violationPath(() => decodeVersions({ versions: [], nextCursor: 5 }, 'parcels', 'do it'))).toBe(
      'nextCursor',
    );
  });

  it('F38 refuses a cursor with half a character, which no URL can contain', () => {
    const nextCursor = 'page \ud83d';
    expect(violationPath(() => decodeVersions({ versions: [], nextCursor }, 'parcels', 'do it'))).toBe(
      'nextCursor',
    );
  });

  it('reads no publication time from a text that is no time', () => {
    expect(versions({ ...version, publishedAt: 'yesterday' }).items[0]?.publishedAt).toBeNull();
    expect(versions({ ...version, publishedAt: 7 }).items[0]?.publishedAt).toBeNull();
  });
});

describe('decodeSchemas', () => {
  const column = { name: 'id', type: 'string', nullable: false };
  const schema = { schemaVersion: '1', columns: [column], keyColumns: ['id'] };
  const schemas = (...items: unknown[]) => decodeSchemas({ schemas: items }, 'parcels', 'do it').items;

  it('needs a version, columns and keys of a schema', () => {
    expect(schemas(schema)).toEqual([
      {
        datasetId: 'parcels',
        ...schema,
        columns: [{ ...column, description: null, sourceName: null }],
        firstVersion: null,
        envelopeColumns: [],
        changeFromPrevious: null,
      },
    ]);
  });

  it('R11 keeps an unknown column type, and takes a change of unknown kind for breaking', () => {
    const odd = { ...column, type: 'raster' };
    const change = { kind: 'cosmetic', previousSchemaVersion: '0' };
    expect(schemas({ ...schema, envelopeColumns: [odd], changeFromPrevious: change })[0]).toMatchObject({
      envelopeColumns: [{ type: { unknown: 'raster' } }],
      changeFromPrevious: { kind: 'breaking', previousSchemaVersion: '0', keyColumnsChanged: false },
    });
    for (const kind of [undefined, null, 1, { additive: true }]) {
      const [read] = schemas({ ...schema, changeFromPrevious: { ...change, kind } });
      expect(read?.changeFromPrevious?.kind).toBe('breaking');
    }
    const additive = { ...schema, changeFromPrevious: { kind: 'additive', previousSchemaVersion: '0' } };
    expect(schemas(additive)[0]?.changeFromPrevious?.kind).toBe('additive');
  });

  it('changes no prototype', () => {
    const hostile: unknown = JSON.parse(
      '{"schemaVersion":"1","__proto__":{"polluted":1},"columns":[{"name":"__proto__","type":"constructor"}],"keyColumns":["constructor"]}',
    );
    expect(schemas(hostile)[0]).toMatchObject({
      columns: [{ name: '__proto__', type: { unknown: 'constructor' }, nullable: true }],
      keyColumns: ['constructor'],
    });
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });

  it.each([
    ['schemas[0].schemaVersion', { ...schema, schemaVersion: 1 }],
    ['schemas[0].columns', { ...schema, columns: null }],
    ['schemas[0].keyColumns', { ...schema, keyColumns: null }],
    ['schemas[0].columns[0].name', { ...schema, columns: [{ type: 'string' }] }],
    ['schemas[0].columns[0].name', { ...schema, columns: [{ ...column, name: 'a\0' }] }],
    ['schemas[0].columns[0].type', { ...schema, columns: [{ name: 'a' }] }],
    ['schemas[0].datasetId', { ...schema, datasetId: 'another' }],
  ])('refuses a schema, naming %s: %j', (path, item) => {
    expect(violationPath(() => schemas(item))).toBe(path);
  });
});

describe('decodeSubscriptions', () => {
  const subscriptions = (...items: unknown[]) => decodeSubscriptions({ subscriptions: items }, 'do it').items;

  it('needs only the id of a subscription, and reads displayed fields that do not fit as absent', () => {
    const bare = {
      id: 's',
      name: null,
      places: [],
      topics: [],
      datasetIds: [],
      datasetCount: null,
      lastEventId: null,
    };
    expect(subscriptions({ id: 's' })).toEqual([bare]);
    const odd = { name: 1, places: 'all', topics: [1], datasetCount: 'many', lastEventId: 'latest' };
    expect(subscriptions({ id: 's', ...odd })).toEqual([bare]);
    expect(subscriptions({ id: 's', lastEventId: 'evt_10', datasetIds: ['a'] })).toMatchObject([
      { lastEventId: { number: 10n }, datasetIds: ['a'] },
    ]);
  });

  it('refuses a subscription with members that do not fit', () => {
    expect(violationPath(() => subscriptions({ id: 's', datasetIds: ['a', 1] }))).toBe(
      'subscriptions[0].datasetIds[1]',
    );
    expect(violationPath(() => subscriptions({}))).toBe('subscriptions[0].id');
  });
});

describe('decodeEvent', () => {
  const event = { id: 'evt_9', type: 'dataset.updated', data: { datasetId: 'parcels', version: 4 } };

  it('reads every field of an event', () => {
    expect(decodeEvent({ ...event, createdAt: '2026-01-01T00:00:00Z' })).toEqual({
      kind: 'event',
      id: { text: 'evt_9', number: 9n },
      type: 'dataset.updated',
      datasetId: 'parcels',
      version: 4,
      previousVersion: null,
      schemaVersion: null,
      counts: null,
      reason: null,
      createdAt: new Date('2026-01-01T00:00:00Z'),
    });
  });

  it.each(['left\0', 'left \ud83d'])('F38 drops a reason that no database would store: %j', (reason) => {
    const data = { datasetId: 'parcels', reason };
    const read = decodeEvent({ id: 'evt_5', type: 'dataset.removed', data });
    expect(read).toMatchObject({ kind: 'event', type: 'dataset.removed', reason: null });
  });

  it('reads an event without the fields that do not fit, beyond id, type and dataset', () => {
    const data = { datasetId: 'parcels', version: 'four', counts: 1, reason: 7, schemaVersion: {} };
    expect(decodeEvent({ ...event, createdAt: 5, data })).toMatchObject({
      kind: 'event',
      version: null,
      counts: null,
      reason: null,
      schemaVersion: null,
      createdAt: null,
    });
  });

  it.each([
    [null, null, null, '(the whole body)'],
    ['text', null, null, '(the whole body)'],
    [{ ...event, id: 'event 9' }, null, 'parcels', 'id'],
    [{ ...event, id: 'evt_99999999999999999999' }, null, 'parcels', 'id'],
    [{ ...event, id: undefined }, null, 'parcels', 'id'],
    [{ ...event, type: 'dataset.renamed' }, 'evt_9', 'parcels', 'type'],
    [{ ...event, type: 5 }, 'evt_9', 'parcels', 'type'],
    [{ ...event, data: {} }, 'evt_9', null, 'data.datasetId'],
    [{ ...event, data: { datasetId: 'a\0b' } }, 'evt_9', null, 'data.datasetId'],
    [{ ...event, data: 'x' }, 'evt_9', null, 'data'],
  ])('reports %j as unreadable, and does not stop the log', (json, id, datasetId, path) => {
    const decoded = decodeEvent(json);
    expect(decoded).toMatchObject({ kind: 'unreadable', datasetId });
    expect(decoded.id?.text ?? null).toBe(id);
    expect(decoded.kind === 'unreadable' && decoded.problem.startsWith(`${path}: `)).toBe(true);
  });

  it('needs a list of events and hasMore in a page of a log', () => {
    expect(decodeEventPage({ events: [event, 1], hasMore: true }, 'do it')).toMatchObject({
      events: [{ kind: 'event' }, { kind: 'unreadable' }],
      hasMore: true,
    });
    expect(violationPath(() => decodeEventPage({ events: [] }, 'do it'))).toBe('hasMore');
    expect(violationPath(() => decodeEventPage({ hasMore: false }, 'do it'))).toBe('events');
  });
});

describe('decodeManifestEntry', () => {
  const file = { url: 'part-0.parquet' };
  const entry = { datasetId: 'parcels', version: 1, files: [file] };

  it('needs a dataset, a version and addresses of files in a manifest entry', () => {
    expect(decodeManifestEntry(entry, 'parcels', 'do it')).toEqual({
      ...entry,
      schemaVersion: null,
      rowCount: null,
      files: [{ url: 'part-0.parquet', bytes: null, rowCount: null, sha256: null }],
    });
    const page = decodeManifestPage(
      { lastEventId: 'evt_5', datasets: [entry], nextCursor: 'c' },
      's',
      'do it',
    );
    expect(page).toMatchObject({ lastEventId: { number: 5n }, datasets: [{ version: 1 }], nextCursor: 'c' });
  });

  it('reads digests in upper and lower case', () => {
    const shouted = { ...entry, files: [{ ...file, sha256: SHA256.toUpperCase() }] };
    expect(decodeManifestEntry(shouted, 'parcels', 'do it').files[0]?.sha256).toBe(SHA256);
  });

  it.each([
    ['files', { ...entry, files: null }],
    ['files[0].url', { ...entry, files: [{}] }],
    ['files[0].bytes', { ...entry, files: [{ ...file, bytes: '1' }] }],
    ['files[0].sha256', { ...entry, files: [{ ...file, sha256: SECRET_CONTENT }] }],
    ['files[0].sha256', { ...entry, files: [{ ...file, sha256: `${SHA256}0` }] }],
    ['files[0].sha256', { ...entry, files: [{ ...file, sha256: SHA256.replace(/^./, 'g') }] }],
    ['files[0].sha256', { ...entry, files: [{ ...file, sha256: `0x${SHA256}` }] }],
    ['datasetId', { ...entry, datasetId: 'another' }],
    ['rowCount', { ...entry, rowCount: -1 }],
  ])('refuses a manifest entry, naming %s', (path, json) => {
    expect(violationPath(() => decodeManifestEntry(json, 'parcels', 'do it'))).toBe(path);
  });

  it('refuses the manifest of another subscription', () => {
    const another = { subscriptionId: 'other', datasets: [] };
    expect(violationPath(() => decodeManifestPage(another, 's', 'do it'))).toBe('subscriptionId');
    expect(
      violationPath(() => decodeManifestPage({ datasets: [{ ...entry, version: null }] }, 's', 'do it')),
    ).toBe('datasets[0].version');
  });
});

describe('decodeChangesPage', () => {
  const asked = { datasetId: 'parcels', version: 2 };
  const page = (json: unknown) => decodeChangesPage(json, asked, 'do it');

  it('takes a page of changes for recorded unless it says no', () => {
    expect(page({ changes: [1, 'rows are not read'] })).toMatchObject({
      recorded: true,
      nextCursor: null,
    });
    expect(page({ recorded: false })).toMatchObject({ recorded: false });
    expect(page({ recorded: true, changes: [], previousVersion: 1, schemaVersion: 's' })).toMatchObject({
      previousVersion: 1,
      schemaVersion: 's',
    });
  });

  it.each([
    ['changes', { recorded: true }],
    ['changes', {}],
    ['changes', { changes: {} }],
    ['recorded', { recorded: 'no', changes: [] }],
    ['version', { version: 3, changes: [] }],
    ['datasetId', { datasetId: 'another', changes: [] }],
  ])('refuses a page of changes, naming %s: %j', (path, json) => {
    expect(violationPath(() => page(json))).toBe(path);
  });
});

describe('decodeErrorBody', () => {
  const same = (text: string) => text;

  it('needs code and message, and keeps at most 20 web links', () => {
    const others = {
      script: 'javascript:alert(1)',
      like: 'xhttps://x.example/',
      more: 'httpsx://x.example/',
    };
    const links = { web: 'https://x.example/', plain: 'http://x.example/', ...others, number: 5 };
    expect(decodeErrorBody({ error: { code: 'c', message: 'm', links } }, same)).toEqual({
      code: 'c',
      message: 'm',
      links: new Map([
        ['web', 'https://x.example/'],
        ['plain', 'http://x.example/'],
      ]),
    });
    expect(decodeErrorBody({ error: { code: 'c', message: 'm', links: 'none' } }, same)?.links.size).toBe(0);
    const many = Object.fromEntries([...Array(25).keys()].map((n) => [`n${n}`, `https://x.example/${n}`]));
    expect(decodeErrorBody({ error: { code: 'c', message: 'm', links: many } }, same)?.links.size).toBe(20);
  });

  it('F38 replaces half characters in an error, also where it is cut, and drops links that are not followed', () => {
    const message = `${'x'.repeat(1_999)}😀`;
    const links = { odd: 'ht\u200btps://x.example/', broken: 'ht\ntps://x.example/' };
    expect(decodeErrorBody({ error: { code: '\ud800', message, links } }, same)).toEqual({
      code: '\ufffd',
      message: `${'x'.repeat(1_999)}\ufffd…`,
      links: new Map(),
    });
  });

  it.each([
    null,
    'text',
    {},
    { error: 'no' },
    { error: { code: 'c' } },
    { error: { code: 1, message: 'm' } },
  ])('finds no Error shape in %j', (json) => expect(decodeErrorBody(json, same)).toBeNull());
});
