/**
 * Brings what is wanted up to what one subscription says: its manifest at the first start and where the position is
 * lost, then its log to the head, then what the manifest has beyond the log. The manifest that snapshots are loaded
 * from is read after the log, so it can answer all that the log asks for.
 */

import type { Held } from '../destination/destination.ts';
import type { ManifestEntry } from '../model/manifest.ts';
import type { Subscription } from '../model/subscription.ts';
import type { WantChange } from '../model/want.ts';
import { auditChanges, type Listing } from './audit.ts';
import { membersOf, stepFromManifest, stepFromMembers } from './from-manifest.ts';
import { standingHolds } from './holds.ts';
import { type Offers, offersOfEntries, offersOfManifest, readEntries } from './offers.ts';
import type { Parts } from './parts.ts';
import { readLog } from './read-log.ts';
import { isChosenDataset } from './selection.ts';

/** Brings the wants of `subscription` up to its log and its manifest, and gives what the manifest offers. */
export async function follow(
  subscription: Subscription,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<Offers> {
  return parts.feed.manifestShape() === 'dataset'
    ? followByMembers(subscription, held, parts, signal)
    : followByManifest(subscription, held, parts, signal);
}

async function followByManifest(
  subscription: Subscription,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<Offers> {
  const { feed, checkpoint } = parts;
  const startAnew = async (): Promise<void> => {
    const manifest = await feed.manifest(subscription.id, signal);
    checkpoint.commitFollowStep(stepFromManifest(subscription, manifest, held));
  };
  await followLog(subscription, startAnew, parts, signal);
  const manifest = await feed.manifest(subscription.id, signal);
  const listing = {
    subscriptionId: subscription.id,
    reflects: manifest.lastEventId,
    entries: manifest.datasets,
  };
  audit(subscription, listing, held, parts);
  return offersOfManifest(feed, manifest);
}

/** A manifest of each dataset lists no members: they are the subscription's own and what its log has added since. */
async function followByMembers(
  subscription: Subscription,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<Offers> {
  const { feed, checkpoint } = parts;
  const startAnew = async (): Promise<void> => {
    checkpoint.commitFollowStep(stepFromMembers(subscription, checkpoint.wants()));
  };
  await followLog(subscription, startAnew, parts, signal);
  const wants = checkpoint.wants();
  const members = membersOf(subscription, wants);
  reportIncomplete(subscription, members.length, parts);
  const unheardOf = members.filter((datasetId) => !wants.get(datasetId)?.members.has(subscription.id));
  want(
    subscription,
    unheardOf.map((datasetId) => ({ kind: 'member', datasetId })),
    parts,
  );
  const read = await readEntries(feed, askedFor(members, parts), signal);
  const entries = [...read.values()].filter((entry): entry is ManifestEntry => !(entry instanceof Error));
  audit(subscription, { subscriptionId: subscription.id, reflects: null, entries }, held, parts);
  return offersOfEntries(feed, subscription.id, read);
}

/**
 * Reads the log to its head. Where there is no position, or the service no longer keeps what follows it, one is taken
 * anew, once.
 */
async function followLog(
  subscription: Subscription,
  startAnew: () => Promise<void>,
  parts: Parts,
  signal: AbortSignal,
): Promise<void> {
  const isKnown = parts.checkpoint.followed().has(subscription.id);
  const about = { subscription: subscription.id };
  if (!isKnown) await startAnew();
  if (await readLog(subscription, parts, signal)) return;
  if (isKnown) {
    parts.log.warn(about, 'The position in the log has expired: starting from the manifest.');
    await startAnew();
    if (await readLog(subscription, parts, signal)) return;
  }
  parts.log.warn(about, 'The log has been quiet for longer than it is kept: there is nothing to read.');
}

function audit(subscription: Subscription, listing: Listing, held: Held, parts: Parts): void {
  want(subscription, auditChanges(listing, parts.checkpoint.wants(), held), parts);
}

/** Stores what no event asked for; the position stays where it is. */
function want(subscription: Subscription, changes: readonly WantChange[], { checkpoint }: Parts): void {
  if (changes.length === 0) return;
  checkpoint.commitFollowStep({
    subscriptionId: subscription.id,
    subscriptionName: subscription.name,
    cursor: checkpoint.followed().get(subscription.id)?.cursor ?? null,
    changes,
  });
}

/** Nothing is asked of the service for what it refused or the user did not choose. */
function askedFor(members: readonly string[], parts: Parts): readonly string[] {
  const { include, exclude } = parts.choices;
  const holds = standingHolds(parts);
  return members.filter(
    (datasetId) => holds.ofDataset(datasetId) === null && isChosenDataset(datasetId, include, exclude),
  );
}

function reportIncomplete({ id, datasetCount }: Subscription, members: number, { log }: Parts): void {
  if (datasetCount === null || datasetCount === members) return;
  log.warn(
    { subscription: id, datasetCount, members },
    'The subscription is incomplete: the service counts other datasets than it lists and its log has added.',
  );
}
