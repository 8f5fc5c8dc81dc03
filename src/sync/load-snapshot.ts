/**
 * Carries out a load: read what describes the snapshot, download it, have it examined, have it committed. The schemas
 * are read before the files, so columns that they do not know make them be read once more.
 */

import type { Outcome, Prepared, SnapshotUnit } from '../destination/destination.ts';
import type { DownloadedFile } from '../feed/feed.ts';
import { assert } from '../lib/assert.ts';
import { ContractViolationError, UnknownColumnsError } from '../model/errors.ts';
import { type ManifestEntry, snapshotDigest } from '../model/manifest.ts';
import type { Schema } from '../model/schema.ts';
import type { Version } from '../model/version.ts';
import type { Offers } from './offers.ts';
import type { Parts } from './parts.ts';
import type { Offer } from './plan.ts';
import type { Staging } from './staging.ts';
import type { Known } from './state.ts';
import type { Writer } from './writer.ts';

export interface Load {
  readonly known: Known;
  readonly offer: Offer;
  readonly offers: Offers;
  readonly reloads: ReadonlyMap<string, bigint>;
}

export type LoadOutcome =
  | {
      readonly kind: 'settled';
      readonly outcome: Outcome;
      readonly bytes: number;
      /** The list of versions, read for this load, names none past the loaded one. */
      readonly atHead: boolean;
    }
  /** The manifest names something else by now: plan again. */
  | { readonly kind: 'superseded' };

export async function loadSnapshot(
  load: Load,
  parts: Parts,
  staging: Staging,
  writer: Writer,
  signal: AbortSignal,
): Promise<LoadOutcome> {
  const { entry } = load.offer;
  const { datasetId } = entry;
  const versions = await parts.feed.versions(datasetId, entry.version - 1, signal);
  const schemas = await parts.feed.schemas(datasetId, signal);
  let newest: ManifestEntry | null = entry;
  const refresh = async (): Promise<ManifestEntry | null> => {
    newest = await load.offers.refresh(newest ?? entry, signal);
    return newest;
  };
  const download = await parts.feed.download(
    {
      entry,
      directory: await staging.folderOf(datasetId),
      refresh,
      onBytes: (bytes) => parts.progress.downloaded(bytes),
    },
    signal,
  );
  if (download.kind === 'superseded') return { kind: 'superseded' };
  const version = versions.find((candidate) => candidate.version === entry.version) ?? null;
  const prepare = (known: readonly Schema[]): Promise<Prepared> =>
    parts.destination.prepare(snapshotUnit(load, schemaOf(entry, version, known), version, download.files));
  const prepared = await prepare(schemas).catch(async (error: unknown) => {
    if (!(error instanceof UnknownColumnsError)) throw error;
    return prepare(await parts.feed.schemas(datasetId, signal));
  });
  const outcome = await writer.commit(prepared);
  return {
    kind: 'settled',
    outcome,
    bytes: download.files.reduce((sum, file) => sum + file.bytes, 0),
    atHead: versions.every((candidate) => candidate.version <= entry.version),
  };
}

/** The schema that the entry or the version's record names; where neither does, the newest that had begun by then. */
function schemaOf(entry: ManifestEntry, version: Version | null, schemas: readonly Schema[]): Schema {
  const named = entry.schemaVersion ?? version?.schemaVersion ?? null;
  const schema =
    named === null
      ? schemas.find(({ firstVersion }) => firstVersion === null || firstVersion <= entry.version)
      : schemas.find(({ schemaVersion }) => schemaVersion === named);
  if (schema !== undefined) return schema;
  const wanted = named === null ? `of version ${entry.version}` : `"${named}" of version ${entry.version}`;
  throw new ContractViolationError(
    `The schema ${wanted} of dataset ${entry.datasetId} is not in the service's list of schemas.`,
    'schemas',
    { hint: 'It is asked for again at the next catch-up. If it stays so, tell the service.' },
  );
}

function snapshotUnit(
  { known, offer: { entry }, reloads }: Load,
  schema: Schema,
  version: Version | null,
  files: readonly DownloadedFile[],
): SnapshotUnit {
  const digest = snapshotDigest(files);
  assert(digest !== null, 'downloaded files have digests');
  const stated = [
    { rowCount: version?.rowCount ?? null, statedBy: 'the version record' },
    { rowCount: entry.rowCount, statedBy: 'the manifest' },
  ];
  return {
    kind: 'snapshot',
    datasetId: entry.datasetId,
    version: entry.version,
    publishedAt: version?.publishedAt ?? null,
    schema,
    files,
    digest,
    expectedRowCounts: stated.flatMap(({ rowCount, statedBy }) =>
      rowCount === null ? [] : [{ rowCount, statedBy }],
    ),
    reloads,
    plannedFrom:
      known.held === null ? null : { version: known.held.version, snapshotDigest: known.held.snapshotDigest },
  };
}
