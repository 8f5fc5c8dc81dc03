/**
 * A whole document of every answer that is decoded, with every field that the interface knows; how it is decoded, and
 * how what was decoded would be written again.
 */

import {
  decodeAddedWebhook,
  decodeChangesPage,
  decodeCounties,
  decodeEventPage,
  decodeManifestEntry,
  decodeManifestPage,
  decodeSchemas,
  decodeSubscriptions,
  decodeVersions,
  decodeWatches,
} from '../../src/feed/wire/records.ts';
import { Secret } from '../../src/lib/secret.ts';
import { parseEventId } from '../../src/model/event.ts';
import type { Json } from './json-damage.ts';

export interface WireDocument {
  readonly operation: string;
  readonly document: Json;
  decode(json: unknown): unknown;
  /** The name of the list of a page, which `ListPage` calls `items`. */
  readonly list?: string;
}

const SUBSCRIPTION_ID = 'sub_1';
const DATASET_ID = 'us-tx-travis-parcels';
const CURSOR = 'cursor_2';
const PUBLISHED_AT = '2026-11-20T12:34:56.789Z';
const COUNTS = { added: 1, changed: 2, removed: 3 };
const EVENT = { datasetId: DATASET_ID, version: 12, previousVersion: 11, schemaVersion: '3', counts: COUNTS };
const ENTRY = {
  datasetId: DATASET_ID,
  version: 12,
  schemaVersion: '3',
  rowCount: 412_345,
  files: [
    {
      url: 'https://files.example/part-0.parquet?s=1',
      bytes: 18_231_232,
      rowCount: 200_000,
      sha256: 'ab'.repeat(32),
    },
    { url: '/part-1.parquet', bytes: null, rowCount: null, sha256: null },
  ],
};

const column = (name: string, type: string): Json => ({
  name,
  type,
  nullable: name !== 'id',
  description: 'words',
  sourceName: name.toUpperCase(),
});

export const WIRE_DOCUMENTS: readonly WireDocument[] = [
  {
    operation: 'list subscriptions',
    list: 'subscriptions',
    document: {
      subscriptions: [
        {
          id: SUBSCRIPTION_ID,
          name: 'Texas',
          places: ['us-tx'],
          topics: ['parcels', 'permits'],
          datasetIds: [DATASET_ID, 'another'],
          datasetCount: 2,
          lastEventId: 'evt_120',
        },
      ],
      nextCursor: CURSOR,
    },
    decode: (json) => decodeSubscriptions(json, 'list subscriptions'),
  },
  {
    operation: 'read events',
    document: {
      events: [
        { id: 'evt_9', type: 'dataset.updated', createdAt: PUBLISHED_AT, data: { ...EVENT, reason: null } },
        {
          id: 'evt_10',
          type: 'dataset.removed',
          createdAt: PUBLISHED_AT,
          data: { ...EVENT, reason: 'left' },
        },
      ],
      hasMore: true,
    },
    decode: (json) => decodeEventPage(json, 'read events'),
  },
  {
    operation: 'list versions',
    list: 'versions',
    document: {
      versions: [12, 11].map((version) => ({
        datasetId: DATASET_ID,
        version,
        previousVersion: version - 1,
        schemaVersion: '3',
        rowCount: 100,
        counts: COUNTS,
        resyncRequired: version === 11,
        publishedAt: PUBLISHED_AT,
      })),
      nextCursor: CURSOR,
    },
    decode: (json) => decodeVersions(json, DATASET_ID, 'list versions'),
  },
  {
    operation: 'list schemas',
    list: 'schemas',
    document: {
      schemas: [
        {
          datasetId: DATASET_ID,
          schemaVersion: '3',
          firstVersion: 7,
          columns: [column('id', 'string'), column('shape', 'geometry'), column('odd', 'raster')],
          keyColumns: ['id'],
          envelopeColumns: [column('_at', 'timestamp')],
          changeFromPrevious: { kind: 'additive', previousSchemaVersion: '2', keyColumnsChanged: false },
        },
      ],
      nextCursor: CURSOR,
    },
    decode: (json) => decodeSchemas(json, DATASET_ID, 'list schemas'),
  },
  {
    operation: 'list changes',
    document: {
      datasetId: DATASET_ID,
      version: 12,
      previousVersion: 11,
      schemaVersion: '3',
      recorded: true,
      changes: [{ op: 'added', row: { id: 'A1' } }],
      nextCursor: CURSOR,
    },
    decode: (json) => decodeChangesPage(json, { datasetId: DATASET_ID, version: 12 }, 'list changes'),
  },
  {
    operation: 'read the manifest',
    document: {
      subscriptionId: SUBSCRIPTION_ID,
      lastEventId: 'evt_120',
      datasets: [ENTRY],
      nextCursor: CURSOR,
    },
    decode: (json) => decodeManifestPage(json, SUBSCRIPTION_ID, 'read the manifest'),
  },
  {
    operation: 'read the manifest of a dataset',
    document: ENTRY,
    decode: (json) => decodeManifestEntry(json, DATASET_ID, 'read the manifest of a dataset'),
  },
  {
    operation: 'list what the workspace covers',
    list: 'counties',
    document: {
      counties: [
        { id: 'us-tx-travis', name: 'Travis', state: 'TX', population: 1_290_188, notes: { since: [2024] } },
      ],
      nextCursor: CURSOR,
    },
    decode: (json) => decodeCounties(json, 'list what the workspace covers'),
  },
  {
    operation: 'list the watches',
    list: 'watches',
    document: { watches: [{ datasetId: DATASET_ID, createdAt: PUBLISHED_AT }], nextCursor: CURSOR },
    decode: (json) => decodeWatches(json, 'list the watches'),
  },
  {
    operation: 'add a webhook',
    document: { id: 'wh_1', url: 'https://hooks.example/feed', secret: 'whsec_c2VjcmV0IG9mIHRoZSB0ZXN0' },
    decode: (json) => decodeAddedWebhook(json, 'https://hooks.example/feed', 'add a webhook'),
  },
];

/** What was decoded, written as the service writes it. Nothing but the names of lists is left out or made up. */
export function written({ list }: WireDocument, decoded: unknown): unknown {
  const plain = wire(decoded);
  if (list === undefined || typeof plain !== 'object' || plain === null) return plain;
  const { items, ...rest } = plain as { readonly items: unknown };
  return { [list]: items, ...rest };
}

function wire(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Secret) return value.reveal();
  if (Array.isArray(value)) return value.map(wire);
  if (typeof value !== 'object' || value === null) return value;
  if ('number' in value && 'text' in value && parseEventId(String(value.text)) !== null) return value.text;
  if ('unknown' in value) return value.unknown;
  // An event and a county stand in the feed's own shape.
  if ('kind' in value && 'datasetId' in value && 'id' in value)
    return event(value as Record<string, unknown>);
  const { further = new Map(), ...rest } = value as Record<string, unknown>;
  const members = [...Object.entries(rest), ...(further as ReadonlyMap<string, unknown>)];
  return Object.fromEntries(members.map(([name, member]) => [name, wire(member)]));
}

function event({ kind, id, type, createdAt, ...data }: Record<string, unknown>): unknown {
  const rest = Object.fromEntries(Object.entries(data).map(([name, member]) => [name, wire(member)]));
  return { id: wire(id), type, createdAt: wire(createdAt), data: rest };
}
