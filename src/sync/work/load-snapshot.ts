/** Carries out a load: download the snapshot, have it examined, have it committed. */

import type { HeldDataset, SnapshotUnit } from '../../destination/destination.ts';
import type { DownloadedFile } from '../../feed/feed.ts';
import { assert } from '../../lib/assert.ts';
import { type ManifestEntry, snapshotDigest } from '../../model/manifest.ts';
import type { ReloadMark } from '../../model/reload-mark.ts';
import type { Offers } from '../offers.ts';
import type { History } from '../plan/history.ts';
import { recordOf, schemaOfSnapshot } from '../plan/schemas.ts';
import type { Offer } from '../plan/step.ts';
import { commitUnit, type Tools, type WorkOutcome } from './work.ts';

export interface Load {
  /** Null: there is no table yet. */
  readonly held: HeldDataset | null;
  readonly history: History;
  readonly offer: Offer;
  /** Those that the offer comes from. */
  readonly offers: Offers;
  readonly reloads: ReadonlyMap<string, ReloadMark>;
}

/**
 * `overtaken` where the manifest names something else by now.
 * @throws ContractViolationError where the schema is not in the service's list.
 */
export async function loadSnapshot(load: Load, tools: Tools): Promise<WorkOutcome> {
  const { parts, staging, signal } = tools;
  const { entry } = load.offer;
  const startedMs = parts.clock.monotonicMs();
  let newest: ManifestEntry | null = entry;
  const download = await parts.feed.download(
    {
      entry,
      directory: await staging.folderOf(entry.datasetId),
      refresh: async () => {
        newest = await load.offers.refresh(newest ?? entry, signal);
        return newest;
      },
      onBytes: (bytes) => parts.progress.downloaded(bytes, entry.datasetId),
    },
    signal,
  );
  if (download.kind === 'superseded') return { kind: 'overtaken' };
  const bytes = download.files.reduce((sum, file) => sum + file.bytes, 0);
  return commitUnit(snapshotUnit(load, download.files), { versions: 1, bytes, startedMs }, tools);
}

function snapshotUnit(
  { held, history, offer, reloads }: Load,
  files: readonly DownloadedFile[],
): SnapshotUnit {
  const { entry } = offer;
  const digest = snapshotDigest(files);
  assert(digest !== null, 'downloaded files have digests');
  const record = recordOf(entry.version, history);
  const stated = [
    { rowCount: record?.rowCount ?? null, statedBy: 'the version record' },
    { rowCount: entry.rowCount, statedBy: 'the manifest' },
  ];
  return {
    kind: 'snapshot',
    datasetId: entry.datasetId,
    version: entry.version,
    publishedAt: record?.publishedAt ?? null,
    schema: schemaOfSnapshot(entry, history),
    files,
    digest,
    ...originOf(offer),
    expectedRowCounts: stated.flatMap(({ rowCount, statedBy }) =>
      rowCount === null ? [] : [{ rowCount, statedBy }],
    ),
    reloads,
    plannedFrom: held === null ? null : { version: held.version, snapshotDigest: held.snapshotDigest },
  };
}

/** What is known of where a snapshot comes from, beside its version and digest. */
export function originOf({
  entry,
  through,
  readAt,
}: Offer): Pick<SnapshotUnit, 'digestKind' | 'loadedThrough' | 'loadedAt'> {
  const digestKind = snapshotDigest(entry.files) === null ? 'computed' : 'stated';
  return { digestKind, loadedThrough: through, loadedAt: readAt };
}
