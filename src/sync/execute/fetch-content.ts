/**
 * Fetches the content that the service has for the version of a table: the newest snapshot that is not newer than the table, and the
 * changes from there to the table's version. Nothing is changed by it.
 */

import { present } from '../../lib/assert.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { type ListedEntry, type ManifestEntry, snapshotDigest } from '../../model/manifest.ts';
import type { Version } from '../../model/records.ts';
import type { ObservedTable, VersionChanges, VersionContent } from '../../model/write-jobs.ts';
import type { EntrySource } from '../manifest-cache.ts';
import { contentOf } from '../plan/content.ts';
import { lacksSatisfied } from '../plan/need.ts';
import type { Metadata } from '../plan/step.ts';
import { columnsOf, followChain } from '../plan/version-chain.ts';
import {
  confirmationOf,
  findSchemaOfSnapshot,
  namingOf,
  publishedAtOf,
  recordOf,
  schemaNamed,
} from '../plan/versions.ts';
import { fetchChanges } from './fetch-changes.ts';
import type { FetchTools } from './step-tools.ts';
import { changesOf, fetchSnapshot } from './steps.ts';

export type FoundContent =
  | {
      readonly kind: 'content';
      readonly listedEntry: ListedEntry;
      /** The versions after the snapshot up to the table's, oldest first. */
      readonly versions: readonly Version[];
      /** Distinguishes this content from other content of the version. */
      readonly identity: string;
      readonly metadata: Metadata;
    }
  /** Every snapshot is newer than the table, the oldest of them of this version. */
  | { readonly kind: 'newer'; readonly version: number }
  /** The service has no content for the version. `why` is a clause. */
  | { readonly kind: 'none'; readonly why: string };

/**
 * Finds the newest snapshot from which a known way leads to the version of the table. A manifest that may lag behind a reload which
 * the table satisfies lists older content under the same version: a repair would bring it back. Pure.
 */
export function contentFor(
  table: ObservedTable,
  listedEntries: readonly ListedEntry[],
  metadata: Metadata,
): FoundContent {
  if (namingOf(table, metadata) === 'another')
    return { kind: 'none', why: `version ${table.version} was published anew` };
  const listed = listedEntries.filter((each) => confirmationOf(each, metadata) === 'named');
  if (listed.length === 0) return { kind: 'none', why: 'no manifest lists a snapshot of a listed version' };
  const current = listed.filter((each) => isOwn(each.entry, table) || !lacksSatisfied(each, table));
  if (current.length === 0) {
    return { kind: 'none', why: 'no manifest surely lists the content that its last reload has brought' };
  }
  const usable = current
    .filter(({ entry }) => entry.version <= table.version)
    .toSorted(
      ({ entry: left }, { entry: right }) =>
        right.version - left.version || Number(isOwn(right, table)) - Number(isOwn(left, table)),
    );
  if (usable.length === 0) {
    return { kind: 'newer', version: Math.min(...current.map(({ entry }) => entry.version)) };
  }
  let why = '';
  for (const listedEntry of usable) {
    const way = versionsTo(table, listedEntry, metadata);
    if (typeof way !== 'string') {
      const identity = contentOf(listedEntry.entry, publishedAtOf(listedEntry.entry.version, metadata));
      return { kind: 'content', listedEntry, versions: way, identity, metadata };
    }
    why ||= way;
  }
  return { kind: 'none', why };
}

/** Returns whether the table was loaded from this snapshot, which then is the content of its last reload, wherever it is listed. */
function isOwn({ version, files }: ManifestEntry, table: ObservedTable): boolean {
  return version === table.snapshotVersion && snapshotDigest(files) === table.snapshotDigest;
}

/** Returns the versions after the snapshot up to the table's, or a clause why they do not lead there. */
function versionsTo(
  { version }: ObservedTable,
  { entry }: ListedEntry,
  metadata: Metadata,
): readonly Version[] | string {
  if (entry.version === version) return [];
  const schema = findSchemaOfSnapshot(entry, metadata);
  if (schema === null) return `the schema of version ${entry.version} is not listed`;
  const start = { ...columnsOf(schema), version: entry.version, publishedAt: null };
  const { path, stop } = followChain(start, { metadata, inapplicable: new Map(), schemaChanges: 'alter' });
  const versions = path.filter((one) => one.version <= version);
  if (versions.at(-1)?.version === version) return versions;
  return stop?.why ?? `the list of versions lacks version ${version}`;
}

/** Asks the service for manifest, versions and schemas. @throws the errors of the service's port. */
export async function findContent(
  table: ObservedTable,
  desired: DesiredState,
  source: EntrySource,
  { parts: { feed }, signal }: Pick<FetchTools, 'parts' | 'signal'>,
): Promise<FoundContent> {
  const { datasetId } = table;
  await source.read(desired, signal);
  const listedEntries = source.of(desired) ?? [];
  const oldest = Math.min(table.version, ...listedEntries.map(({ entry }) => entry.version));
  const { versions, readAt } = await feed.versions(datasetId, oldest - 1, signal);
  const schemas = await feed.schemas(datasetId, signal);
  const entriesBefore = new Set(listedEntries.map(({ entry }) => entry));
  const metadata = { newerThan: oldest - 1, versions, schemas, readAt, entriesBefore };
  return contentFor(table, listedEntries, metadata);
}

/**
 * Downloads the content. Returns a clause where the service does not give it.
 * @throws the errors of the service's port, and ContractViolationError where the schema of the snapshot is not listed.
 */
export async function fetchContent(
  table: ObservedTable,
  { listedEntry, versions, metadata }: Extract<FoundContent, { readonly kind: 'content' }>,
  source: EntrySource,
  tools: FetchTools,
): Promise<VersionContent | string> {
  const { datasetId, version } = table;
  const snapshot = await fetchSnapshot(listedEntry, metadata, source.manifestOf(listedEntry), tools);
  if (snapshot === null) return 'the snapshot was replaced while it was downloaded';
  const content = { datasetId, version, snapshot, rowCount: recordOf(version, metadata)?.rowCount ?? null };
  const last = versions.at(-1);
  if (last === undefined) return { ...content, changes: null };
  const changes = await fetchAll(versions, tools);
  if (typeof changes === 'string') return changes;
  const schemaVersion = present(last.schemaVersion, 'a path stops before a version without one');
  const schema = schemaNamed(schemaVersion, last, metadata);
  const addsColumns = schemaVersion !== snapshot.schema.schemaVersion;
  const { publishedAt } = last;
  const { fetched: measured } = snapshot;
  const job = { datasetId, version, publishedAt, schema, addsColumns, versions: changes, fetched: measured };
  return { ...content, changes: { kind: 'changes', ...job } };
}

/** Returns the changes of all versions, or a clause why some cannot be used. */
async function fetchAll(
  versions: readonly Version[],
  tools: FetchTools,
): Promise<readonly VersionChanges[] | string> {
  const { maxStagedBytes } = tools.parts.choices;
  const path = { versions, maxSpooledBytes: maxStagedBytes, maxStagedBytes };
  const { fetched, inapplicable, oversized } = await fetchChanges(path, tools, async () => null);
  const [first] = inapplicable;
  if (first !== undefined) return `the changes of version ${first[0]} cannot be used: ${first[1]}`;
  if (oversized !== null || fetched.length < versions.length) {
    return 'the changes since the snapshot have more bytes than changes.maxStagedBytes';
  }
  return changesOf(fetched);
}
