/** Every field of every record, missing or null: whether the answer still fits. */

import { expect, it } from 'vitest';
import {
  decodeEvent,
  decodeEventPage,
  decodeManifestEntry,
  decodeManifestPage,
  decodeSchemas,
  decodeSubscriptions,
  decodeVersions,
} from '../../src/feed/wire/records.ts';
import { ContractViolationError } from '../../src/model/errors.ts';

const TIME = '2026-01-02T03:04:05Z';
const COUNTS = { added: 1, changed: 2, removed: 3 };
const COLUMN = { name: 'id', type: 'string', nullable: false, description: 'The key.', sourceName: 'ID' };
const CHANGE = { kind: 'additive', previousSchemaVersion: '1', added: [COLUMN], keyColumnsChanged: false };

interface Wire {
  /** With every field there is. */
  readonly whole: object;
  readonly needed: readonly string[];
  /** Paths of inner objects whose fields are tested, too. */
  readonly inside?: readonly string[];
  /** @throws ContractViolationError, or answers that it cannot be read. */
  readonly decode: (json: unknown) => unknown;
}

const WIRE: Readonly<Record<string, Wire>> = {
  'a subscription': {
    whole: {
      id: 'sub_1',
      name: 'Travis',
      places: ['us-tx-travis'],
      topics: ['parcels'],
      datasetIds: ['parcels'],
      delivery: { type: 'pull' },
      datasetCount: 1,
      createdAt: TIME,
      format: 'geoparquet',
      lastEventId: 'evt_9',
    },
    needed: ['id'],
    decode: (json) => decodeSubscriptions({ subscriptions: [json] }, 'do it'),
  },
  'an event': {
    whole: {
      id: 'evt_9',
      type: 'dataset.updated',
      createdAt: TIME,
      subscriptionId: 'sub_1',
      data: {
        datasetId: 'parcels',
        version: 4,
        previousVersion: 3,
        schemaVersion: '2',
        counts: COUNTS,
        schemaChange: CHANGE,
        reason: 'left_coverage',
        links: { version: 'https://feed.example/v1' },
      },
    },
    needed: ['id', 'type', 'data', 'data.datasetId'],
    inside: ['data'],
    decode: decodeEvent,
  },
  'a version': {
    whole: {
      datasetId: 'parcels',
      version: 4,
      schemaVersion: '2',
      publishedAt: TIME,
      rowCount: 9,
      counts: COUNTS,
      previousVersion: 3,
      sourceFetchedAt: TIME,
      resyncRequired: false,
    },
    needed: ['datasetId', 'version'],
    decode: (json) => decodeVersions({ versions: [json] }, 'parcels', 'do it'),
  },
  'a schema': {
    whole: {
      datasetId: 'parcels',
      schemaVersion: '2',
      firstVersion: 4,
      columns: [COLUMN],
      keyColumns: ['id'],
      envelopeColumns: [{ ...COLUMN, name: 'fetched' }],
      changeFromPrevious: CHANGE,
    },
    needed: ['schemaVersion', 'columns', 'columns.0.name', 'columns.0.type', 'keyColumns'],
    inside: ['columns.0', 'changeFromPrevious'],
    decode: (json) => decodeSchemas({ schemas: [json] }, 'parcels', 'do it'),
  },
  'an entry of a manifest': {
    whole: {
      datasetId: 'parcels',
      version: 4,
      schemaVersion: '2',
      rowCount: 9,
      files: [{ url: 'part-0.parquet', bytes: 7, rowCount: 9, sha256: 'ab'.repeat(32) }],
    },
    needed: ['datasetId', 'version', 'files', 'files.0.url'],
    inside: ['files.0'],
    decode: (json) => decodeManifestEntry(json, 'parcels', 'do it'),
  },
  'a page of a log': {
    whole: { events: [], hasMore: false },
    needed: ['events', 'hasMore'],
    decode: (json) => decodeEventPage(json, 'do it'),
  },
  'a page of a list': {
    whole: { versions: [], nextCursor: 'next' },
    needed: ['versions'],
    decode: (json) => decodeVersions(json, 'parcels', 'do it'),
  },
  'a page of a manifest': {
    whole: { subscriptionId: 'sub_1', lastEventId: 'evt_9', datasets: [], nextCursor: 'next' },
    needed: ['datasets'],
    decode: (json) => decodeManifestPage(json, 'sub_1', 'do it'),
  },
};

function objectAt(json: unknown, path: string): object {
  const steps = path === '' ? [] : path.split('.');
  return Object(steps.reduce((at, step) => Object(at)[step], json));
}

function fits({ decode }: Wire, json: unknown): boolean {
  try {
    const decoded = Object(decode(json));
    return decoded.kind !== 'unreadable';
  } catch (error) {
    if (error instanceof ContractViolationError) return false;
    throw error;
  }
}

it.each(Object.entries(WIRE))('R10 needs of %s only the required fields', (_, wire) => {
  const places = ['', ...(wire.inside ?? [])];
  const paths = places.flatMap((place) =>
    Object.keys(objectAt(wire.whole, place)).map((name) => [place, name] as const),
  );
  const needed = (value: null | undefined) =>
    paths.flatMap(([place, name]) => {
      const spoilt = structuredClone(wire.whole);
      Object.assign(objectAt(spoilt, place), { [name]: value });
      const sent: unknown = JSON.parse(JSON.stringify(spoilt));
      return fits(wire, sent) ? [] : [place === '' ? name : `${place}.${name}`];
    });
  expect(fits(wire, wire.whole)).toBe(true);
  expect(needed(undefined).toSorted()).toEqual(wire.needed.toSorted());
  expect(needed(null).toSorted()).toEqual(wire.needed.toSorted());
});
