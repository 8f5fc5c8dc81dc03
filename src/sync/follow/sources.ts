/** Reads what a subscription is taken anew from: its manifest, or its record and the manifests of its datasets. */

import type { Held } from '../../destination/destination.ts';
import type { DatasetManifest, SubscriptionList } from '../../feed/feed.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import type { Subscription } from '../../model/subscription.ts';
import { type Watermark, watermarkOf } from '../../model/watermark.ts';
import { standingHolds } from '../holds.ts';
import { readEntries } from '../offers.ts';
import type { Parts } from '../parts.ts';
import { isOfOldLog, readManifest } from '../read-manifest.ts';
import { toldBy } from './audit.ts';
import type { Source } from './from-manifest.ts';
import { newestCreatedAt } from './newest-event.ts';
import { isChosenDataset } from './selection.ts';

/** A subscription as it was listed. */
export interface Listed {
  readonly record: Subscription;
  /** In service time. */
  readonly readAt: Date;
}

export interface ReadSource {
  readonly source: Source;
  /** The subscriptions as they were listed after the manifest; null: they were not. */
  readonly listedAfter: SubscriptionList | null;
}

/** `listed`: before this. */
export async function readSource(
  listed: Listed,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<ReadSource> {
  return parts.feed.manifestShape() === 'dataset'
    ? { source: await sourceOfEntries(listed, held, parts, signal), listedAfter: null }
    : await sourceOfManifest(listed, held, parts, signal);
}

async function sourceOfManifest(
  { record, readAt }: Listed,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<ReadSource> {
  const reading = await readManifest(record.id, true, parts, signal);
  const { manifest, watermark, listedAfter } = reading;
  const reflects = isOfOldLog(reading) ? null : manifest.lastEventId;
  const source = {
    record,
    recordReadAt: readAt,
    reflects,
    coveredUntil: watermark.kind === 'time' ? watermark.through : null,
    entries: manifest.datasets,
    members: manifest.datasets.map(({ datasetId }) => datasetId),
    membersReflect: reflects,
    newestCreatedAt: await createdAtOfNewest({ record, readAt }, watermark, held, parts, signal),
  };
  return { source, listedAfter };
}

async function sourceOfEntries(
  { record, readAt }: Listed,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<Source> {
  const { checkpoint, feed, choices } = parts;
  const wants = checkpoint.wants();
  const known = [...wants.values()]
    .filter(({ members }) => members.has(record.id))
    .map(({ datasetId }) => datasetId);
  const own = record.datasetIds.filter((id) => wants.get(id)?.formerMembers.has(record.id) !== true);
  const mirrored = [...new Set([...own, ...known])].filter((datasetId) => held.datasets.has(datasetId));
  const read = await readEntries(feed, askable(mirrored, parts), signal);
  const { manifestLagMs } = choices;
  const watermark = watermarkOf({ lastEventId: null, readAt, manifestLagMs });
  return {
    record,
    recordReadAt: readAt,
    reflects: null,
    coveredUntil: toldBy(watermark, readAt).at,
    entries: readable(read),
    members: own,
    membersReflect: record.lastEventId,
    newestCreatedAt: await createdAtOfNewest({ record, readAt }, watermark, held, parts, signal),
  };
}

/** Nobody has to know where there are no tables that could be loaded again. */
async function createdAtOfNewest(
  { record, readAt }: Listed,
  watermark: Watermark,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<Date> {
  if (held.datasets.size === 0) return readAt;
  return await newestCreatedAt(record.id, watermark, readAt, parts, signal);
}

/** Nothing is asked of the service for what it refused or the user did not choose. */
export function askable(datasetIds: readonly string[], parts: Parts): readonly string[] {
  const { include, exclude } = parts.choices;
  const holds = standingHolds(parts);
  return datasetIds.filter(
    (datasetId) => holds.ofDataset(datasetId) === null && isChosenDataset(datasetId, include, exclude),
  );
}

export function readable(read: ReadonlyMap<string, DatasetManifest | Error>): readonly ManifestEntry[] {
  return [...read.values()].flatMap((one) => (one instanceof Error ? [] : [one.entry]));
}
