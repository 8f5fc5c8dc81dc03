/**
 * Reads the manifest of a subscription together with what tells how far it goes: its own word, or service time; and after it
 * the subscription's record, which tells a manifest of a log that the service has begun anew since.
 */

import type { SubscriptionList } from '../feed/feed.ts';
import type { Manifest } from '../model/manifest.ts';
import { type Watermark, watermarkOf } from '../model/watermark.ts';
import type { Parts } from './parts.ts';

export interface ManifestReading {
  /** Without datasets where it belongs to an old log: nothing is loaded from it. */
  readonly manifest: Manifest;
  /** The log that the manifest belongs to, counted as positions are. */
  readonly logNumber: number;
  readonly watermark: Watermark;
  /** The subscriptions as they were listed after the manifest; null: they were not. */
  readonly listedAfter: SubscriptionList | null;
}

/** No event is covered by it. */
const NOTHING: Watermark = { kind: 'number', through: -1n };

/** `isListed`: the subscriptions are listed after it also where the manifest does not say how far it goes. */
export async function readManifest(
  subscriptionId: string,
  isListed: boolean,
  { feed, checkpoint, choices: { manifestLagMs } }: Parts,
  signal: AbortSignal,
): Promise<ManifestReading> {
  const logNumber = checkpoint.followed().get(subscriptionId)?.logNumber ?? 1;
  const manifest = await feed.manifest(subscriptionId, signal);
  const { lastEventId, readAt } = manifest;
  const isToBeListed = isListed || lastEventId !== null;
  const listedAfter = isToBeListed ? await feed.subscriptions(signal) : null;
  const record = listedAfter?.subscriptions.find(({ id }) => id === subscriptionId);
  const newest = record?.lastEventId ?? null;
  const isOfOldLog = lastEventId !== null && newest !== null && newest.number < lastEventId.number;
  if (isOfOldLog)
    return { manifest: { ...manifest, datasets: [] }, logNumber, watermark: NOTHING, listedAfter };
  return { manifest, logNumber, watermark: watermarkOf({ lastEventId, readAt, manifestLagMs }), listedAfter };
}

/** Whether the manifest belongs to a log that the service has begun anew since. */
export function isOfOldLog({ watermark }: Pick<ManifestReading, 'watermark'>): boolean {
  return watermark === NOTHING;
}
