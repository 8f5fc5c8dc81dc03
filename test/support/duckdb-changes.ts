/** A dataset published without a feed: its versions as write jobs for a mirror, from snapshot files and pages of changes. */

import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Dataset, DatasetVersion } from '../../fixtures/feed/model.ts';
import type { PublishOptions } from '../../fixtures/feed/publish.ts';
import { appendVersion, nextVersion } from '../../fixtures/feed/versions.ts';
import type { Change, Content, Row, SourceColumn, SourceSchema } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import { writeSnapshot } from '../../fixtures/source/snapshot.ts';
import { keyToJsonText, rowToJsonText } from '../../fixtures/source/wire.ts';
import type { Column, Schema } from '../../src/model/records.ts';
import type { ChangesJob, ObservedTable, PlannedFrom, SnapshotJob } from '../../src/model/write-jobs.ts';

/** Changes on one page, so that a few rows make more than one. */
const CHANGES_ON_A_PAGE = 5;

export interface PublishedCourse {
  readonly datasetId: string;
  newest(): DatasetVersion;
  /** Adds a version after the others. */
  publish(content: Content, options?: PublishOptions): DatasetVersion;
  /** Adds one with these rows under the schema of the one before, and the changes that lead to them. */
  publishRows(rows: readonly Row[], options?: PublishOptions): DatasetVersion;
  /** The version as a snapshot to be loaded. */
  snapshot(version: DatasetVersion, plannedFrom: PlannedFrom | null): Promise<SnapshotJob>;
  /** The changes of all versions after that of the table, up to the newest. */
  changes(observed: ObservedTable, rest?: Partial<ChangesJob>): Promise<ChangesJob>;
}

/** Files are put below `folder`. */
export function publishedCourse(folder: string, first: Content, datasetId: string): PublishedCourse {
  const dataset: Dataset = { datasetId, placeId: 'us-xx', topic: 'records', versions: [], schemas: [] };
  const publish = (content: Content, options: PublishOptions = {}): DatasetVersion => {
    const publishedAt = new Date(Date.UTC(2026, 0, 1, dataset.versions.length));
    const next = nextVersion(dataset, content, options, publishedAt);
    appendVersion(dataset, next);
    return next.version;
  };
  publish(first);
  const ahead = (version: number): readonly DatasetVersion[] =>
    dataset.versions.filter((candidate) => candidate.version > version);
  return {
    datasetId,
    newest: () => newest(dataset),
    publish,
    publishRows(rows, options) {
      const { schema, rows: before } = newest(dataset).content;
      const changes = difference(schema, before(), rows);
      return publish({ schema, rowCount: rows.length, rows: () => rows, changes }, options);
    },
    snapshot: (version, plannedFrom) => snapshotJob(folder, datasetId, version, plannedFrom),
    async changes(observed, rest = {}) {
      const versions = ahead(observed.version);
      const pages = await Promise.all(versions.map((version) => writePages(folder, datasetId, version)));
      const last = newest(dataset);
      return {
        kind: 'changes',
        fetched: { bytes: 1, elapsedMs: () => 0 },
        datasetId,
        version: last.version,
        publishedAt: new Date(last.publishedAt),
        schema: schemaOf(datasetId, last.content.schema),
        addsColumns: last.schemaVersion !== observed.schemaVersion,
        versions: versions.map(({ version, counts, rowCount }, index) => ({
          version,
          pages: pages[index] ?? [],
          counts,
          rowCount,
        })),
        plannedFrom: observed,
        ...rest,
      };
    },
  };
}

/** A table that begins with these rows. */
export function firstContent(schema: SourceSchema, rows: readonly Row[]): Content {
  return { schema, rowCount: rows.length, rows: () => rows, changes: null };
}

export function sourceSchema(
  columns: readonly SourceColumn[],
  rest: Partial<SourceSchema> = {},
): SourceSchema {
  return { schemaVersion: '1', columns, keyColumns: ['id'], envelopeColumns: [], ...rest };
}

async function snapshotJob(
  folder: string,
  datasetId: string,
  version: DatasetVersion,
  plannedFrom: PlannedFrom | null,
): Promise<SnapshotJob> {
  const { content } = version;
  const name = `v${version.version}.parquet`;
  const path = join(await folderOf(folder, datasetId), name);
  const { bytes, sha256 } = await writeSnapshot({ schema: content.schema, rows: content.rows(), path });
  return {
    kind: 'snapshot',
    fetched: { bytes: 1, elapsedMs: () => 0 },
    datasetId,
    version: version.version,
    publishedAt: new Date(version.publishedAt),
    schema: schemaOf(datasetId, content.schema),
    // A table without rows is published without files.
    files: version.rowCount === 0 ? [] : [{ path, name, bytes, rowCount: version.rowCount }],
    digest: createHash('sha256').update(sha256).digest('hex'),
    digestKind: 'stated',
    loadedThrough: null,
    loadedAt: null,
    expectedRowCounts: [{ rowCount: version.rowCount, statedBy: 'the version record' }],
    reloads: new Map(),
    plannedFrom,
  };
}

async function writePages(
  folder: string,
  datasetId: string,
  version: DatasetVersion,
): Promise<readonly string[]> {
  const changes = version.changes ?? [];
  const pageCount = Math.max(1, Math.ceil(changes.length / CHANGES_ON_A_PAGE));
  const directory = join(await folderOf(folder, datasetId), `changes-${version.version}`);
  await mkdir(directory, { recursive: true });
  return await Promise.all(
    Array.from({ length: pageCount }, async (_, index) => {
      const path = join(directory, `${index}.json`);
      const part = changes.slice(index * CHANGES_ON_A_PAGE, (index + 1) * CHANGES_ON_A_PAGE);
      await writeFile(path, pageText(datasetId, version, part));
      return path;
    }),
  );
}

function pageText(datasetId: string, version: DatasetVersion, changes: readonly Change[]): string {
  const { schema } = version.content;
  const { version: number, previousVersion, schemaVersion } = version;
  const head = JSON.stringify({ datasetId, version: number, previousVersion, schemaVersion, recorded: true });
  const texts = changes.map((change) =>
    change.op === 'removed'
      ? `{"op":"removed","key":${keyToJsonText(schema, change.key)}}`
      : `{"op":"${change.op}","row":${rowToJsonText(schema, change.row)}}`,
  );
  return `${head.slice(0, -1)},"changes":[${texts.join()}],"nextCursor":null}`;
}

function schemaOf(
  datasetId: string,
  { schemaVersion, columns, keyColumns, envelopeColumns }: SourceSchema,
): Schema {
  return {
    datasetId,
    schemaVersion,
    firstVersion: null,
    columns: columns.map(columnOf),
    keyColumns,
    envelopeColumns: envelopeColumns.map(columnOf),
    changeFromPrevious: null,
  };
}

function columnOf({ description, sourceName, ...column }: SourceColumn): Column {
  return { ...column, description: description ?? null, sourceName: sourceName ?? null };
}

async function folderOf(folder: string, datasetId: string): Promise<string> {
  const name = createHash('sha256').update(datasetId).digest('hex').slice(0, 8);
  const path = join(folder, name);
  await mkdir(path, { recursive: true });
  return path;
}

function newest({ versions }: Dataset): DatasetVersion {
  const version = versions.at(-1);
  if (version === undefined) throw new Error('nothing is published');
  return version;
}
