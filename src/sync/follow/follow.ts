/**
 * Brings what is wanted up to what one subscription says: its manifest at the first start and where the position is
 * lost, then its log to the head, then what the manifest has beyond the log. The manifest that snapshots are loaded
 * from is read after the log, so it can answer all that the log asks for.
 */

import type { Held } from '../../destination/destination.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import type { Subscription } from '../../model/subscription.ts';
import { standingHolds } from '../holds.ts';
import { type Offers, offersOfEntries, offersOfManifest, readEntries } from '../offers.ts';
import type { Parts } from '../parts.ts';
import { type Audited, auditChanges, membersLackedBy } from './audit.ts';
import { followLog } from './follow-log.ts';
import { type Listing, membersOf, stepFromManifest, stepFromMembers } from './from-manifest.ts';
import { isChosenDataset } from './selection.ts';
import { wantUnasked } from './want-unasked.ts';

/**
 * Brings the wants of `subscription` up to its log and its manifest, and gives what the manifest offers. Resolves only
 * where the log was read to its head.
 */
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
  await followLog(
    subscription,
    async (lost) => {
      const listing = await readManifest(subscription, auditedNow(subscription, held, parts), parts, signal);
      return stepFromManifest(subscription, listing, lost, held);
    },
    parts,
    signal,
  );
  const audited = auditedNow(subscription, held, parts);
  const { manifest, lacked } = await readManifest(subscription, audited, parts, signal);
  wantUnasked(subscription.id, auditChanges(manifest, lacked, audited), parts);
  return offersOfManifest(parts.feed, manifest);
}

/** What a manifest lacks is believed of two complete reads: the first may have met it while it was being made. */
async function readManifest(
  { id }: Subscription,
  audited: Audited,
  { feed, log }: Parts,
  signal: AbortSignal,
): Promise<Listing> {
  const first = await feed.manifest(id, signal);
  const lackedByFirst = membersLackedBy(first, audited);
  if (lackedByFirst.length === 0) return { manifest: first, lacked: [] };
  const second = await feed.manifest(id, signal);
  const lackedBySecond = new Set(membersLackedBy(second, audited));
  const lacked = lackedByFirst.filter((datasetId) => lackedBySecond.has(datasetId));
  log.info(
    { subscription: id, datasets: lacked.length },
    'The manifest lacks datasets that were in the subscription.',
  );
  return { manifest: second, lacked };
}

/** A manifest of each dataset lists no members: they are the subscription's own and what its log has added since. */
async function followByMembers(
  subscription: Subscription,
  held: Held,
  parts: Parts,
  signal: AbortSignal,
): Promise<Offers> {
  const { feed, checkpoint } = parts;
  await followLog(
    subscription,
    async (lost) => {
      const wants = checkpoint.wants();
      const mirrored = membersOf(subscription, wants).filter((datasetId) => held.datasets.has(datasetId));
      const read = await readEntries(feed, askedFor(mirrored, parts), signal);
      return stepFromMembers(subscription, readable(read), lost, wants, held);
    },
    parts,
    signal,
  );
  const wants = checkpoint.wants();
  const members = membersOf(subscription, wants);
  reportIncomplete(subscription, members.length, parts);
  const unheardOf = members.filter((datasetId) => !wants.get(datasetId)?.members.has(subscription.id));
  wantUnasked(
    subscription.id,
    unheardOf.map((datasetId) => ({ kind: 'member', datasetId })),
    parts,
  );
  const read = await readEntries(feed, askedFor(members, parts), signal);
  const manifest = { subscriptionId: subscription.id, lastEventId: null, datasets: readable(read) };
  wantUnasked(subscription.id, auditChanges(manifest, [], auditedNow(subscription, held, parts)), parts);
  return offersOfEntries(feed, subscription.id, read);
}

function auditedNow({ id }: Subscription, held: Held, { checkpoint, clock }: Parts): Audited {
  const { cursor = null, cursorAt = null } = checkpoint.followed().get(id) ?? {};
  return { cursor, cursorAt, wants: checkpoint.wants(), held, now: clock.now() };
}

function readable(read: ReadonlyMap<string, ManifestEntry | Error>): readonly ManifestEntry[] {
  return [...read.values()].filter((entry): entry is ManifestEntry => !(entry instanceof Error));
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
