/**
 * What to do about a dataset: a pure function of what is known of it and what the manifests offer. No I/O and no
 * clock; whoever carries a plan out decides nothing. The table of state × situation below is complete, and the
 * compiler checks that it is.
 */

import type { Hold } from '../checkpoint/checkpoint.ts';
import type { HeldDataset } from '../destination/destination.ts';
import { present } from '../lib/assert.ts';
import { type ManifestEntry, snapshotDigest } from '../model/manifest.ts';
import type { Want } from '../model/want.ts';
import { needOf, pendingReloads } from './need.ts';
import { type DatasetStateKind, type Known, stateOf } from './state.ts';

/** A dataset as the manifest of one subscription lists it. */
export interface Offer {
  readonly subscriptionId: string;
  /** Every event of that subscription up to this number is reflected; null where the manifest does not say. */
  readonly reflects: bigint | null;
  readonly entry: ManifestEntry;
}

export type Plan =
  | { readonly kind: 'keep' }
  /** Read versions and schemas, then plan again. */
  | { readonly kind: 'look' }
  | { readonly kind: 'load'; readonly offer: Offer; readonly reloads: ReadonlyMap<string, bigint> }
  | { readonly kind: 'wait'; readonly why: 'not-offered' | 'offer-lags' }
  | { readonly kind: 'report-hold'; readonly hold: Hold }
  | { readonly kind: 'report-failure' }
  | { readonly kind: 'leave' };

export type Situation =
  | 'nothing-needed'
  | 'look-needed'
  /** Needed, and no manifest lists the dataset. */
  | 'not-offered'
  /** Needed, and what is offered is older than what is needed. */
  | 'offer-lags'
  | 'offer-answers'
  /** What is offered failed before and is the same still. */
  | 'offer-failed-before';

export interface PlanInput extends Known {
  /** Of the subscriptions that hold the dataset. */
  readonly offers: readonly Offer[];
  readonly now: Date;
}

type Row = Readonly<Record<Situation, Plan['kind']>>;

/** Nothing stands in the way; that the last attempt failed matters only where the same content is offered again. */
const AT_WORK: Row = {
  'nothing-needed': 'keep',
  'look-needed': 'look',
  'not-offered': 'wait',
  'offer-lags': 'wait',
  'offer-answers': 'load',
  'offer-failed-before': 'report-failure',
};

const TABLE: Readonly<Record<DatasetStateKind, Row>> = {
  absent: AT_WORK,
  live: AT_WORK,
  failed: AT_WORK,
  held: {
    'nothing-needed': 'report-hold',
    'look-needed': 'report-hold',
    'not-offered': 'report-hold',
    'offer-lags': 'report-hold',
    'offer-answers': 'report-hold',
    'offer-failed-before': 'report-hold',
  },
  retired: {
    'nothing-needed': 'leave',
    'look-needed': 'leave',
    'not-offered': 'leave',
    'offer-lags': 'leave',
    'offer-answers': 'leave',
    'offer-failed-before': 'leave',
  },
};

export function plan(input: PlanInput): Plan {
  const state = stateOf(input);
  const offer = bestOffer(input);
  const situation = situationOf(input, offer);
  const kind = TABLE[state.kind][situation];
  switch (kind) {
    case 'load': {
      const loaded = present(offer, 'a load has an offer');
      return { kind, offer: loaded, reloads: reloadsSatisfiedBy(loaded, input) };
    }
    case 'wait':
      return { kind, why: situation === 'not-offered' ? 'not-offered' : 'offer-lags' };
    case 'report-hold':
      return { kind, hold: present(input.hold, 'what is held has a hold') };
    case 'keep':
    case 'look':
    case 'report-failure':
    case 'leave':
      return { kind };
  }
}

/** The identity of what an entry offers: failed content is told from new content by it. */
export function contentOf(entry: ManifestEntry): string {
  const sizes = entry.files.map((file) => file.bytes ?? '?').join('+');
  return `version ${entry.version}, ${snapshotDigest(entry.files) ?? `${sizes} bytes`}`;
}

function situationOf(input: PlanInput, offer: Offer | null): Situation {
  const need = needOf(input.held, input.want);
  if (need === 'nothing') return 'nothing-needed';
  if (need === 'look') return 'look-needed';
  if (offer === null) return 'not-offered';
  if (!answers(offer, input)) return 'offer-lags';
  return failedBefore(offer, input) ? 'offer-failed-before' : 'offer-answers';
}

/** A reload is answered by the manifest of who asked for it: another's may still list what came before. Else the newest is best. */
function bestOffer({ held, want, offers }: PlanInput): Offer | null {
  const asked = pendingReloads(held, want);
  const asking = offers.filter(({ subscriptionId }) => asked.has(subscriptionId));
  return (asking.length > 0 ? asking : offers).reduce<Offer | null>(
    (best, offer) => (best === null || offer.entry.version > best.entry.version ? offer : best),
    null,
  );
}

/** Whether loading the offer gives all that is wanted. An older version never replaces a newer one but by a reload. */
function answers(offer: Offer, { held, want, offers }: PlanInput): boolean {
  if (want.atLeastVersion !== null && offer.entry.version < want.atLeastVersion) return false;
  return [...pendingReloads(held, want)].every(([subscriptionId, eventNumber]) => {
    const asked = offers.find((candidate) => candidate.subscriptionId === subscriptionId);
    if (asked === undefined) return !want.members.has(subscriptionId);
    return reflects(asked, eventNumber, held);
  });
}

/** Without word of the manifest on how far it goes, other content than the table's is taken for the asked one. */
function reflects(offer: Offer, eventNumber: bigint, held: HeldDataset | null): boolean {
  if (offer.reflects !== null) return offer.reflects >= eventNumber;
  return snapshotDigest(offer.entry.files) !== held?.snapshotDigest;
}

function failedBefore(offer: Offer, { failure, now }: PlanInput): boolean {
  if (failure === null || failure.content === null) return false;
  // What failed in the future was written down by a clock that was wrong: its word would hold for as long.
  const isRecent = failure.failedAt <= now && now < failure.retryAt;
  return isRecent && failure.content === contentOf(offer.entry);
}

/**
 * Each subscription's newest reload event that the loaded snapshot satisfies: those asked for, and those that a
 * manifest which lists this very snapshot reflects.
 */
function reloadsSatisfiedBy(loaded: Offer, { want, offers }: PlanInput): ReadonlyMap<string, bigint> {
  const satisfied = new Map(want.reloadAfter);
  for (const offer of offers) {
    if (offer.reflects === null || !isSameSnapshot(offer, loaded)) continue;
    const asked = satisfied.get(offer.subscriptionId);
    if (asked === undefined || asked < offer.reflects) satisfied.set(offer.subscriptionId, offer.reflects);
  }
  return satisfied;
}

function isSameSnapshot(left: Offer, right: Offer): boolean {
  if (left.subscriptionId === right.subscriptionId) return true;
  const digest = snapshotDigest(left.entry.files);
  return (
    left.entry.version === right.entry.version &&
    digest !== null &&
    digest === snapshotDigest(right.entry.files)
  );
}

/** The same want, asking for at least `version` too: what a look has found. */
export function wantAtLeast(want: Want, version: number): Want {
  return { ...want, atLeastVersion: Math.max(want.atLeastVersion ?? version, version) };
}
