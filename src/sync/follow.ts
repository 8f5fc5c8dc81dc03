/**
 * Reads one subscription: from its manifest at the first start and where the position is lost, then its log page by
 * page. The wants and the cursor of a page commit together, so an event read is never lost and a dataset in trouble
 * never holds the log up.
 */

import type { Held } from '../destination/destination.ts';
import { CursorExpiredError, ServiceUnavailableError } from '../model/errors.ts';
import type { EventId } from '../model/event.ts';
import type { Manifest } from '../model/manifest.ts';
import type { Subscription } from '../model/subscription.ts';
import type { Want } from '../model/want.ts';
import { cursorAfter, foldEvents } from './fold.ts';
import { stepFromManifest, stepFromMembers } from './from-manifest.ts';
import { standingHolds } from './holds.ts';
import { type Offers, offersOfEntries, offersOfManifest } from './offers.ts';
import type { Parts } from './parts.ts';

/** Pages of the log read in one go: 50,000 events at the most, after which the next catch-up goes on. */
const MAX_PAGES = 500;

/** Brings the wants of `subscription` up to its log and its manifest, and gives what the manifest offers. */
export async function follow(
  subscription: Subscription,
  held: Held,
  parts: Parts,
  onTrouble: (error: unknown) => void,
  signal: AbortSignal,
): Promise<Offers> {
  if (parts.feed.manifestShape() === 'dataset') {
    return followByMembers(subscription, parts, onTrouble, signal);
  }
  const followed = parts.checkpoint.followed().get(subscription.id);
  if (followed === undefined) return startFromManifest(subscription, held, parts, signal);
  try {
    await readLog(subscription, parts, signal);
  } catch (error) {
    if (!(error instanceof CursorExpiredError)) throw error;
    parts.log.warn(
      { subscription: subscription.id },
      'The position in the log has expired: starting from the manifest.',
    );
    return startFromManifest(subscription, held, parts, signal);
  }
  const manifest = await parts.feed.manifest(subscription.id, signal);
  audit(subscription, manifest, parts);
  return offersOfManifest(parts.feed, manifest);
}

async function startFromManifest(
  subscription: Subscription,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<Offers> {
  const manifest = await parts.feed.manifest(subscription.id, signal);
  parts.checkpoint.commitFollowStep(stepFromManifest(subscription, manifest, held));
  return offersOfManifest(parts.feed, manifest);
}

/** A manifest of each dataset lists no members: they are the subscription's own and what its log has added since. */
async function followByMembers(
  subscription: Subscription,
  parts: Parts,
  onTrouble: (error: unknown) => void,
  signal: AbortSignal,
): Promise<Offers> {
  if (!parts.checkpoint.followed().has(subscription.id)) {
    parts.checkpoint.commitFollowStep(stepFromMembers(subscription));
  }
  await readLog(subscription, parts, signal);
  const holds = standingHolds(parts);
  const members = membersOf(subscription.id, parts.checkpoint.wants()).filter(
    (datasetId) => holds.ofDataset(datasetId) === null,
  );
  return offersOfEntries(parts.feed, subscription.id, members, onTrouble, signal);
}

async function readLog(subscription: Subscription, parts: Parts, signal: AbortSignal): Promise<void> {
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const before = parts.checkpoint.followed().get(subscription.id)?.cursor ?? null;
    const page = await parts.feed.events(subscription.id, before, signal);
    const cursor = cursorAfter(page.events, before);
    if (page.events.length > 0) {
      parts.checkpoint.commitFollowStep({
        subscriptionId: subscription.id,
        subscriptionName: subscription.name,
        cursor,
        changes: foldEvents(page.events, subscription.id, parts.checkpoint.wants()),
      });
    }
    if (!page.hasMore) return;
    refuseStandstill(subscription, before, cursor);
  }
  parts.log.warn(
    { subscription: subscription.id, pages: MAX_PAGES },
    'The log goes on; the next catch-up reads on.',
  );
}

function refuseStandstill(subscription: Subscription, before: EventId | null, after: EventId | null): void {
  if (after !== null && (before === null || after.number > before.number)) return;
  throw new ServiceUnavailableError(
    `The log of subscription ${subscription.id} makes no progress: it says that more events follow, and gives none past ${before?.text ?? 'its start'}.`,
    { hint: 'It is read again at the next poll. If it stays so, tell the service.' },
  );
}

/** Makes good what no event told: members and versions in the manifest that nobody wants yet. */
function audit(subscription: Subscription, manifest: Manifest, { checkpoint }: Parts): void {
  const wants = checkpoint.wants();
  const changes = manifest.datasets.flatMap(({ datasetId, version }) => {
    const want = wants.get(datasetId);
    return [
      ...(want?.members.has(subscription.id) ? [] : [{ kind: 'member' as const, datasetId }]),
      ...((want?.atLeastVersion ?? -1) >= version ? [] : [{ kind: 'at-least' as const, datasetId, version }]),
    ];
  });
  if (changes.length === 0) return;
  const cursor = checkpoint.followed().get(subscription.id)?.cursor ?? null;
  checkpoint.commitFollowStep({
    subscriptionId: subscription.id,
    subscriptionName: subscription.name,
    cursor,
    changes,
  });
}

function membersOf(subscriptionId: string, wants: ReadonlyMap<string, Want>): readonly string[] {
  return [...wants.values()]
    .filter(({ members }) => members.has(subscriptionId))
    .map(({ datasetId }) => datasetId);
}
