/** Values that a catch-up decides by: each builder gives an ordinary one with the changes of a test. */

import type { Failure, Suspension } from '../../src/checkpoint/checkpoint.ts';
import { baseOf, type Candidate } from '../../src/model/candidate.ts';
import type { DesiredState, FormerMember, Member, Reload } from '../../src/model/desired-state.ts';
import { RefusalError, type RefusalScope } from '../../src/model/errors.ts';
import type { EventId, EventType, FeedEvent, UnreadableEvent } from '../../src/model/event.ts';
import { type ListedEntry, type ManifestEntry, snapshotDigest } from '../../src/model/manifest.ts';
import type { Column, Schema, Subscription, Version } from '../../src/model/records.ts';
import type { ObservedColumn, ObservedTable } from '../../src/model/write-jobs.ts';
import type { Metadata } from '../../src/sync/plan/step.ts';

export const NOW = new Date('2026-03-01T12:00:00.000Z');
/** Before anything that a manifest may lag behind. */
export const LONG_AGO = new Date('2026-02-01T12:00:00.000Z');

export function id(number: bigint | number): EventId {
  return { text: `evt_${number}`, number: BigInt(number) };
}

/** The digest that a file with this content has, as far as these tests go. */
export function digestOf(content: string): string {
  return Buffer.from(content).toString('hex').padEnd(64, '0').slice(0, 64);
}

/** A manifest entry of one file; `content` stands for what is in it. */
export function entry(
  datasetId: string,
  version: number,
  content: string | null = `v${version}`,
): ManifestEntry {
  const sha256 = content === null ? null : digestOf(content);
  const file = { url: `https://files.example/${datasetId}`, bytes: 100, rowCount: 10, sha256 };
  return { datasetId, version, schemaVersion: '1', rowCount: 10, files: [file] };
}

export function listedEntry(
  version: number,
  changed: Partial<ListedEntry> & { content?: string | null } = {},
): ListedEntry {
  const { content, ...rest } = changed;
  return {
    subscriptionId: 'sub_1',
    logNumber: 1,
    through: 'sub_1',
    watermark: { kind: 'number', through: 100n },
    readAt: NOW,
    entry: entry('parcels', version, content === undefined ? `v${version}` : content),
    ...rest,
  };
}

/** Since long ago, and nothing was announced. */
export function membersAt(...ids: string[]): ReadonlyMap<string, Member> {
  return new Map(ids.map((one) => [one, member()]));
}

/** Members of which each has announced the version: a part of a desired state. */
export function announcing(version: number, ...ids: string[]): Pick<DesiredState, 'members'> {
  const named = ids.length === 0 ? ['sub_1'] : ids;
  return { members: new Map(named.map((one) => [one, member({ announced: version })])) };
}

export function member(changed: Partial<Member> = {}): Member {
  return { eventNumber: null, since: LONG_AGO, announced: null, ...changed };
}

export function formerMember(changed: Partial<FormerMember> = {}): FormerMember {
  return { eventNumber: null, at: LONG_AGO, reason: null, ...changed };
}

/** A reload that the event of this number of `sub_1` asked for, long ago. */
export function reload(number: bigint | number, changed: Partial<Reload> = {}): Reload {
  return {
    subscriptionId: 'sub_1',
    logNumber: 1,
    eventNumber: BigInt(number),
    createdAt: LONG_AGO,
    readAt: LONG_AGO,
    knownVersion: null,
    listedVersion: null,
    isWithdrawal: false,
    ...changed,
  };
}

export function desired(changed: Partial<DesiredState> = {}): DesiredState {
  return {
    datasetId: 'parcels',
    members: membersAt('sub_1'),
    formerMembers: new Map(),
    reloads: [],
    resyncNumber: 0,
    moveNumber: 0,
    refreshesRequested: 0,
    refreshesDone: 0,
    retirementApproved: false,
    ...changed,
  };
}

/** A table that was loaded from the snapshot of `entry(datasetId, version)`. */
export function table(version: number, changed: Partial<ObservedTable> = {}): ObservedTable {
  return {
    datasetId: 'parcels',
    schemaName: 'main',
    tableName: 'parcels',
    commitNumber: version,
    version,
    schemaVersion: '1',
    rowCount: 10,
    keyColumns: ['id'],
    snapshotVersion: version,
    snapshotDigest: snapshotDigest(entry('parcels', version).files) ?? '',
    digestKind: 'stated',
    loadedThrough: null,
    loadedAt: null,
    publishedAt: null,
    appliedAt: NOW,
    pinnedSince: null,
    columns: [observedColumn('id', { role: 'key' })],
    reloads: new Map(),
    ...changed,
  };
}

/** A column of a live table. */
export function observedColumn(name: string, changed: Partial<ObservedColumn> = {}): ObservedColumn {
  return { name, columnName: name, type: 'string', role: 'data', crs: null, ...changed };
}

export function failure(changed: Partial<Failure> = {}): Failure {
  return {
    datasetId: 'parcels',
    error: 'data_invalid',
    message: 'The file is broken.',
    hint: null,
    contents: [],
    differing: [],
    attempts: 1,
    failedAt: NOW,
    retryAt: new Date(NOW.getTime() + 60_000),
    ...changed,
  };
}

export function refusal(scope: RefusalScope, changed: Partial<RefusalError['refusal']> = {}): RefusalError {
  return new RefusalError({
    scope,
    operation: 'list versions',
    status: 403,
    code: 'outside_coverage',
    message: 'The county is not covered.',
    links: new Map([['coverage', 'https://app.example/coverage']]),
    ...changed,
  });
}

export function suspension(scope: RefusalScope = { kind: 'dataset', datasetId: 'parcels' }): Suspension {
  return { refusal: refusal(scope).refusal, suspendedAt: NOW, keyHash: 'key-1' };
}

export function event(
  number: bigint | number,
  type: EventType,
  changed: Partial<Omit<FeedEvent, 'kind' | 'id' | 'type'>> = {},
): FeedEvent {
  return {
    kind: 'event',
    id: id(number),
    type,
    datasetId: 'parcels',
    version: null,
    previousVersion: null,
    schemaVersion: null,
    counts: null,
    reason: null,
    createdAt: NOW,
    ...changed,
  };
}

export function unreadable(changed: Partial<UnreadableEvent> = {}): UnreadableEvent {
  return { kind: 'unreadable', id: id(1), datasetId: 'parcels', problem: 'type: unknown', ...changed };
}

export function subscription(changed: Partial<Subscription> = {}): Subscription {
  return {
    id: 'sub_1',
    name: 'Travis',
    places: [],
    topics: [],
    datasetIds: [],
    datasetCount: null,
    lastEventId: id(100),
    ...changed,
  };
}

/** A column of a schema. */
export function column(name: string, changed: Partial<Column> = {}): Column {
  return { name, type: 'string', nullable: true, description: null, sourceName: null, ...changed };
}

/** The list of versions was read after every manifest. */
export const EVERY_ENTRY: ReadonlySet<ManifestEntry> = Object.assign(new Set<ManifestEntry>(), {
  has: () => true,
});

/** What the service says of a dataset's past, all of it: `versions` in any order, one schema if none is given. */
export function metadata(
  versions: readonly Version[],
  schemas: readonly Schema[] = [schema('parcels')],
): Metadata {
  const newestFirst = versions.toSorted((left, right) => right.version - left.version);
  return { newerThan: null, versions: newestFirst, schemas, readAt: NOW, entriesBefore: EVERY_ENTRY };
}

export function schema(datasetId: string, changed: Partial<Schema> = {}): Schema {
  return {
    datasetId,
    schemaVersion: '1',
    firstVersion: 1,
    columns: [column('id', { nullable: false })],
    keyColumns: ['id'],
    envelopeColumns: [],
    changeFromPrevious: null,
    ...changed,
  };
}

export function version(datasetId: string, number: number, changed: Partial<Version> = {}): Version {
  return {
    datasetId,
    version: number,
    previousVersion: number - 1,
    schemaVersion: '1',
    rowCount: 10,
    counts: null,
    resyncRequired: false,
    publishedAt: NOW,
    ...changed,
  };
}

/** A snapshot of version 2 that waits for approval, as the checkpoint keeps it. */
export function candidate(changed: Partial<Candidate> = {}): Candidate {
  const listed: ListedEntry = {
    subscriptionId: 'sub_1',
    logNumber: 1,
    through: null,
    watermark: { kind: 'number', through: 2n ** 62n },
    readAt: NOW,
    entry: entry('parcels', 2),
  };
  const file = {
    keptAs: 'a.parquet',
    name: 'part-0.parquet',
    bytes: 100,
    sha256: 'a'.repeat(64),
    rowCount: 4,
  };
  return {
    datasetId: 'parcels',
    base: baseOf(table(1)),
    version: 2,
    judged: {
      digest: '3f9a1c20'.padEnd(64, '0'),
      counts: { before: 1_000, after: 402, added: 2, changed: 3, removed: 600, isByKey: true },
      keys: { added: [['n1'], ['n2']], changed: [['c1', 'east']], removed: [['r1'], ["r'2"]] },
    },
    since: NOW,
    approvedAt: null,
    identity: 'version 2',
    content: {
      kind: 'snapshot',
      listed,
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 7n, createdAt: NOW }]]),
      files: [file],
    },
    alike: ['version 2'],
    later: [],
    ...changed,
  };
}
