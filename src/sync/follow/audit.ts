/**
 * Makes good what no event told: members, versions and schemas in which the manifest and what is wanted differ. Pure.
 *
 * A manifest may be older than the log. So it never undoes an event that it does not reflect: where it says how far it
 * goes, its word stands at that place among the events; where it does not, neither what it lists nor what it lacks is
 * believed against an event until the log has told nothing for longer than a manifest lags.
 */

import type { Held, HeldDataset } from '../../destination/destination.ts';
import type { EventId } from '../../model/event.ts';
import type { Manifest, ManifestEntry } from '../../model/manifest.ts';
import type { Want, WantChange } from '../../model/want.ts';
import { owesLook, pendingReloads } from '../plan/need.ts';
import { isLongAgo, isSurelyLower } from '../plan/offer-rules.ts';
import { isLoadedFrom, reloadAt, standingAt } from './from-manifest.ts';

/** What is known without the manifest. */
export interface Audited {
  /** Up to which event the log was read. */
  readonly cursor: EventId | null;
  /** When the log last told something; null: nothing was read of it yet. */
  readonly cursorAt: Date | null;
  readonly wants: ReadonlyMap<string, Want>;
  readonly held: Held;
  readonly now: Date;
}

/**
 * The members that `manifest` does not list. A manifest that does not say how far it goes may not list yet what was just added:
 * of such a one the lack counts only once the log has told nothing for longer than it lags.
 */
export function membersLackedBy(
  { subscriptionId, lastEventId, datasets }: Manifest,
  { cursorAt, wants, now }: Audited,
): readonly string[] {
  if (lastEventId === null && !isOfQuietLog({ cursorAt, now })) return [];
  const listed = new Set(datasets.map(({ datasetId }) => datasetId));
  return [...wants.values()]
    .filter(({ datasetId, members }) => members.has(subscriptionId) && !listed.has(datasetId))
    .map(({ datasetId }) => datasetId);
}

/** `lacked`: the members that neither `manifest` lists nor the complete read of it before. */
export function auditChanges(
  manifest: Manifest,
  lacked: readonly string[],
  audited: Audited,
): readonly WantChange[] {
  const at = standingAt(manifest.lastEventId, audited.cursor);
  return [
    ...manifest.datasets.flatMap((entry) => changesOf(entry, manifest, audited)),
    ...lacked.map((datasetId) => ({ kind: 'no-member' as const, datasetId, ...at })),
  ];
}

function changesOf(entry: ManifestEntry, manifest: Manifest, audited: Audited): readonly WantChange[] {
  const { datasetId } = entry;
  const want = audited.wants.get(datasetId) ?? null;
  const table = audited.held.datasets.get(datasetId) ?? null;
  if (want === null || !want.members.has(manifest.subscriptionId)) {
    return entering(entry, want, table, manifest, audited);
  }
  const isOpen = differsInSchema(entry, table) || mayHaveBegunAnew(entry, want, table, manifest, audited);
  return [
    ...newerVersion(entry, want, table, manifest),
    ...(isOpen && !owesLook(want) ? [{ kind: 'look' as const, datasetId }] : []),
  ];
}

/** A manifest that does not say how far it goes reflects all that the log has told, once that is longer ago than it lags. */
function isOfQuietLog({ cursorAt, now }: Pick<Audited, 'cursorAt' | 'now'>): boolean {
  return cursorAt === null || isLongAgo(cursorAt, now);
}

/** A dataset that comes back may have begun anew at a lower version: what is left of it is loaded again. */
function entering(
  entry: ManifestEntry,
  want: Want | null,
  table: HeldDataset | null,
  manifest: Manifest,
  audited: Audited,
): readonly WantChange[] {
  const { cursor } = audited;
  const { subscriptionId, lastEventId: reflects } = manifest;
  const { datasetId } = entry;
  const removal = want?.formerMembers.get(subscriptionId) ?? null;
  const isBefore = reflects === null ? !isOfQuietLog(audited) : removal !== null && reflects.number < removal;
  if (removal !== null && isBefore) return [];
  const isBack = want?.formerMembers.has(subscriptionId) === true && want.members.size === 0;
  const isLeftOver = isBack && table !== null && !isLoadedFrom(entry, table);
  const isOpen = !isLeftOver && mayHaveBegunAnew(entry, want, table, manifest, audited);
  return [
    { kind: 'member', datasetId, ...standingAt(reflects, cursor) },
    ...newerVersion(entry, want, table, manifest),
    ...(isLeftOver ? [reloadAt(entry, (reflects ?? cursor)?.number ?? null)] : []),
    ...(isOpen ? [{ kind: 'look' as const, datasetId }] : []),
  ];
}

/** Under a reload the version may be lower than before; a manifest that does not say how far it goes may be from before. */
function newerVersion(
  { datasetId, version }: ManifestEntry,
  want: Want | null,
  table: HeldDataset | null,
  { subscriptionId, lastEventId: reflects }: Manifest,
): readonly WantChange[] {
  if (version <= (want?.atLeastVersion ?? -1)) return [];
  if (reflects !== null) return [{ kind: 'at-least', datasetId, version, eventNumber: reflects.number }];
  const isReloading = want !== null && pendingReloads(table, want).has(subscriptionId);
  return isReloading ? [] : [{ kind: 'at-least', datasetId, version }];
}

/**
 * The versions may have begun anew where no event told of it, in a subscription that never held them: whether they have
 * is for the list of versions to say.
 */
function mayHaveBegunAnew(
  entry: ManifestEntry,
  want: Want | null,
  table: HeldDataset | null,
  { lastEventId }: Manifest,
  { cursor, now }: Audited,
): boolean {
  if (table === null || (want !== null && pendingReloads(table, want).size > 0)) return false;
  const reflects = lastEventId?.number ?? null;
  return isSurelyLower({ entry, reflects }, table, { cursor: cursor?.number ?? null, now });
}

/** What neither of them says is no difference. */
function differsInSchema({ version, schemaVersion }: ManifestEntry, table: HeldDataset | null): boolean {
  if (table === null || table.version !== version) return false;
  return schemaVersion !== null && table.schemaVersion !== null && schemaVersion !== table.schemaVersion;
}
