/**
 * Makes good what no event told: members, versions and schemas in which the manifest and what is wanted differ. Pure.
 *
 * A manifest may be older than the log, so it undoes no event that its watermark does not cover. What it lists is a reason to
 * look at the versions; they are the authority.
 */

import type { Held, HeldDataset } from '../../destination/destination.ts';
import type { AbsenceSubject } from '../../model/absence.ts';
import { type ManifestEntry, snapshotDigest } from '../../model/manifest.ts';
import type { Subscription } from '../../model/subscription.ts';
import { announcedVersion, type Want, type WantChange } from '../../model/want.ts';
import { covers, type Watermark } from '../../model/watermark.ts';
import { owesLook, pendingReloads } from '../plan/need.ts';

/** What a subscription contains, by its manifest or by its complete record. */
export interface Listing {
  readonly subscriptionId: string;
  readonly watermark: Watermark;
  /** When it was read, in service time. */
  readonly readAt: Date;
  readonly datasetIds: readonly string[];
  /** Whether what it does not list is absent. */
  readonly isComplete: boolean;
}

export interface Audited {
  readonly wants: ReadonlyMap<string, Want>;
  readonly held: Held;
}

export interface Findings {
  readonly changes: readonly WantChange[];
  /** Datasets of which a reload is to be asked for at this moment. */
  readonly reloads: readonly string[];
  /** Members that the listing lacks, and members that it shows. */
  readonly absent: readonly AbsenceSubject[];
  readonly present: readonly AbsenceSubject[];
}

/** A dataset that only a listing brings back is loaded again where its table exists: it may have begun anew. */
export function auditMembers(listing: Listing, { wants, held }: Audited): Findings {
  const { subscriptionId, watermark, readAt, datasetIds, isComplete } = listing;
  const listed = new Set(datasetIds);
  const told = toldBy(watermark, readAt);
  const joining = datasetIds.filter((datasetId) => {
    const want = wants.get(datasetId);
    if (want?.members.has(subscriptionId) === true) return false;
    const former = want?.formerMembers.get(subscriptionId);
    return (
      former === undefined || covers(watermark, { eventNumber: former.eventNumber, createdAt: former.at })
    );
  });
  const members = [...wants.values()].flatMap(({ datasetId, members: of }) => {
    const member = of.get(subscriptionId);
    return member === undefined ? [] : [{ datasetId, member }];
  });
  const lacked = members.filter(
    ({ datasetId, member: { eventNumber, since } }) =>
      isComplete && !listed.has(datasetId) && covers(watermark, { eventNumber, createdAt: since }),
  );
  const subjectOf = (datasetId: string): AbsenceSubject => ({ kind: 'member', subscriptionId, datasetId });
  return {
    changes: joining.map((datasetId) => ({ kind: 'member', datasetId, ...told, version: null })),
    reloads: joining.filter((datasetId) => held.datasets.has(datasetId)),
    absent: lacked.map(({ datasetId }) => subjectOf(datasetId)),
    present: members
      .filter(({ datasetId }) => listed.has(datasetId))
      .map(({ datasetId }) => subjectOf(datasetId)),
  };
}

/** Where the word of a listing stands among the events of its log. */
export function toldBy(
  watermark: Watermark,
  readAt: Date,
): { readonly eventNumber: bigint | null; readonly at: Date } {
  return watermark.kind === 'number'
    ? { eventNumber: watermark.through, at: readAt }
    : { eventNumber: null, at: watermark.through };
}

/** `through`: the manifest that the entries come from; null: each dataset has its own. */
export function auditEntries(
  entries: readonly ManifestEntry[],
  subscriptionId: string,
  through: string | null,
  { wants, held }: Audited,
): Pick<Findings, 'changes' | 'reloads'> {
  const changes: WantChange[] = [];
  const reloads: string[] = [];
  for (const entry of entries) {
    const { datasetId } = entry;
    const want = wants.get(datasetId);
    const table = held.datasets.get(datasetId);
    if (want === undefined || table === undefined || !want.members.has(subscriptionId)) continue;
    if (isOtherContent(entry, through, want, table)) reloads.push(datasetId);
    else if (isOpen(entry, table) && !isLookedAt(want, table)) changes.push({ kind: 'look', datasetId });
  }
  return { changes, reloads };
}

/**
 * The manifest that the table was loaded through states other content for the very version it was loaded from. Where that
 * one lists the dataset no more, any does.
 */
function isOtherContent(
  entry: ManifestEntry,
  through: string | null,
  want: Want,
  table: HeldDataset,
): boolean {
  const { loadedThrough } = table;
  const isLeft = loadedThrough !== null && !want.members.has(loadedThrough);
  if ((loadedThrough !== through && !isLeft) || table.digestKind !== 'stated') return false;
  return differsInContent(entry, table) && pendingReloads(table, want).length === 0;
}

/** Whether the versions are read anyway. */
function isLookedAt(want: Want, table: HeldDataset): boolean {
  return owesLook(want) || (announcedVersion(want) ?? -1) > table.version;
}

/** Whether the list of versions is to say what happened. What neither of them says is no difference. */
function isOpen(entry: ManifestEntry, table: HeldDataset): boolean {
  const { version, schemaVersion, rowCount } = entry;
  if (version !== table.version) return true;
  const isOtherSchema =
    schemaVersion !== null && table.schemaVersion !== null && schemaVersion !== table.schemaVersion;
  const isOtherCount = rowCount !== null && rowCount !== table.rowCount;
  return isOtherSchema || isOtherCount || (table.digestKind === 'stated' && differsInContent(entry, table));
}

function differsInContent({ version, files }: ManifestEntry, table: HeldDataset): boolean {
  const digest = snapshotDigest(files);
  return table.snapshotVersion === version && digest !== null && digest !== table.snapshotDigest;
}

/** The datasets of the record; complete where it counts as many. */
export function isCompleteRecord({ datasetIds, datasetCount }: Subscription): boolean {
  return datasetCount !== null && datasetCount === new Set(datasetIds).size;
}
