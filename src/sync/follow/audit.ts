/**
 * Makes good what no event told: members, versions and schemas in which the manifest and what is wanted differ. Pure.
 *
 * A manifest may be older than the log, so it undoes no event that its watermark does not cover. What it lists is a reason to
 * look at the versions; they are the authority.
 */

import { createHash } from 'node:crypto';
import type { ObservedState } from '../../destination/destination.ts';
import { present } from '../../lib/assert.ts';
import {
  type Absence,
  type AbsenceSubject,
  absenceKey,
  absentSince,
  isConfirmed,
} from '../../model/absence.ts';
import { announcedVersion, type DesiredState, type DesiredStateChange } from '../../model/desired-state.ts';
import { covers, type ManifestEntry, snapshotDigest, type Watermark } from '../../model/manifest.ts';
import type { Subscription } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Parts } from '../parts.ts';
import { isRefreshPending, needOf, pendingReloads } from '../plan/need.ts';
import type { History } from '../plan/step.ts';

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
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  readonly observed: ObservedState;
}

export interface Findings {
  readonly changes: readonly DesiredStateChange[];
  /** Datasets of which a reload is to be asked for at this moment. */
  readonly reloads: readonly string[];
  /** Members that the listing lacks, and members that it shows. */
  readonly absent: readonly AbsenceSubject[];
  readonly present: readonly AbsenceSubject[];
}

/** A dataset that only a listing brings back is loaded again where its table exists: it may have begun anew. */
export function auditMembers(listing: Listing, { desiredStates, observed }: Audited): Findings {
  const { subscriptionId, watermark, readAt, datasetIds, isComplete } = listing;
  const listed = new Set(datasetIds);
  const reported = announcedBy(watermark, readAt);
  const joining = datasetIds.filter((datasetId) => {
    const desired = desiredStates.get(datasetId);
    if (desired?.members.has(subscriptionId) === true) return false;
    const former = desired?.formerMembers.get(subscriptionId);
    return (
      former === undefined || covers(watermark, { eventNumber: former.eventNumber, createdAt: former.at })
    );
  });
  const members = [...desiredStates.values()].flatMap(({ datasetId, members: of }) => {
    const member = of.get(subscriptionId);
    return member === undefined ? [] : [{ datasetId, member }];
  });
  const missing = members.filter(
    ({ datasetId, member: { eventNumber, since } }) =>
      isComplete && !listed.has(datasetId) && covers(watermark, { eventNumber, createdAt: since }),
  );
  const subjectOf = (datasetId: string): AbsenceSubject => ({ kind: 'member', subscriptionId, datasetId });
  return {
    changes: joining.map((datasetId) => ({ kind: 'member', datasetId, ...reported, version: null })),
    reloads: joining.filter((datasetId) => observed.datasets.has(datasetId)),
    absent: missing.map(({ datasetId }) => subjectOf(datasetId)),
    present: members
      .filter(({ datasetId }) => listed.has(datasetId))
      .map(({ datasetId }) => subjectOf(datasetId)),
  };
}

/** Where the word of a listing stands among the events of its log. */
export function announcedBy(
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
  { desiredStates, observed }: Audited,
): Pick<Findings, 'changes' | 'reloads'> {
  const changes: DesiredStateChange[] = [];
  const reloads: string[] = [];
  for (const entry of entries) {
    const { datasetId } = entry;
    const desired = desiredStates.get(datasetId);
    const table = observed.datasets.get(datasetId);
    if (desired === undefined || table === undefined || !desired.members.has(subscriptionId)) continue;
    if (isOtherContent(entry, through, desired, table)) reloads.push(datasetId);
    else if (isOpen(entry, table) && !isLookedAt(desired, table))
      changes.push({ kind: 'refresh', datasetId });
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
  desired: DesiredState,
  table: ObservedTable,
): boolean {
  const { loadedThrough } = table;
  const isLeft = loadedThrough !== null && !desired.members.has(loadedThrough);
  if ((loadedThrough !== through && !isLeft) || table.digestKind !== 'stated') return false;
  return differsInContent(entry, table) && pendingReloads(table, desired).length === 0;
}

/** Whether the versions are read anyway. */
function isLookedAt(desired: DesiredState, table: ObservedTable): boolean {
  return isRefreshPending(desired) || (announcedVersion(desired) ?? -1) > table.version;
}

/** Whether the list of versions is to say what happened. What neither of them says is no difference. */
function isOpen(entry: ManifestEntry, table: ObservedTable): boolean {
  const { version, schemaVersion, rowCount } = entry;
  if (version !== table.version) return true;
  const isOtherSchema =
    schemaVersion !== null && table.schemaVersion !== null && schemaVersion !== table.schemaVersion;
  const isOtherCount = rowCount !== null && rowCount !== table.rowCount;
  return isOtherSchema || isOtherCount || (table.digestKind === 'stated' && differsInContent(entry, table));
}

function differsInContent({ version, files }: ManifestEntry, table: ObservedTable): boolean {
  const digest = snapshotDigest(files);
  return table.snapshotVersion === version && digest !== null && digest !== table.snapshotDigest;
}

/** The datasets of the record; complete where it counts as many. */
export function isCompleteRecord({ datasetIds, datasetCount }: Subscription): boolean {
  return datasetCount !== null && datasetCount === new Set(datasetIds).size;
}

const DAY_MS = 86_400_000;

/** Whether the dataset's time of day lies between two audits of a subscription that contains it. Null: there was none before. */
export function isListDue(datasetId: string, before: Date | null, now: Date): boolean {
  if (before === null) return false;
  const offsetMs = createHash('sha256').update(datasetId).digest().readUInt32BE(0) % DAY_MS;
  const dayOf = (at: Date): number => Math.floor((at.getTime() + offsetMs) / DAY_MS);
  return dayOf(before) !== dayOf(now);
}

/**
 * Notes what a complete read at `readAt` (service time) lacked and what it showed. Gives what is confirmed to be gone. Of that
 * nothing is remembered, so whoever asks acts on it now; with `keep` it is remembered until it is shown.
 */
export function noteAbsences(
  absent: readonly AbsenceSubject[],
  present: readonly AbsenceSubject[],
  readAt: Date,
  { checkpoint }: Pick<Parts, 'checkpoint'>,
  mode: 'act' | 'keep' = 'act',
): readonly AbsenceSubject[] {
  if (absent.length + present.length === 0) return [];
  const known = new Map(checkpoint.absences().map((absence) => [absenceKey(absence.subject), absence.since]));
  const absences = absent.map((subject): Absence => {
    const before = known.get(absenceKey(subject)) ?? null;
    return { subject, since: absentSince(before, readAt) };
  });
  const confirmed = absences.filter((absence) => isConfirmed(absence, readAt)).map(({ subject }) => subject);
  const gone = new Set(mode === 'act' ? confirmed : []);
  const isNews = ({ subject, since }: Absence): boolean =>
    known.get(absenceKey(subject))?.getTime() !== since.getTime();
  checkpoint.noteAbsences(
    absences.filter((absence) => !gone.has(absence.subject) && isNews(absence)),
    [...present, ...gone].filter((subject) => known.has(absenceKey(subject))),
  );
  return confirmed;
}

/** The position of the subscription stays as it is. */
export function requestReloads(
  subscriptionId: string,
  changes: readonly DesiredStateChange[],
  { checkpoint }: Parts,
): void {
  if (changes.length === 0) return;
  const followed = present(checkpoint.followed().get(subscriptionId), 'a log that was read is followed');
  const {
    name: subscriptionName,
    logNumber,
    cursor,
    cursorCreatedAt,
    cursorAt,
    replayedAt,
    coveredUntil,
  } = followed;
  checkpoint.commitFollowStep({
    subscriptionId,
    subscriptionName,
    position: {
      logNumber,
      cursor,
      cursorCreatedAt,
      isExpiredCursorReplay: replayedAt !== null,
      coveredUntil,
      readAt: replayedAt ?? cursorAt,
    },
    changes,
  });
}

/**
 * What the table lacks that only versions and schemas tell. They are read only where something is wanted: the next
 * catch-up would not know of it.
 */
export function onlyAnnounced(
  by: History,
  { desired, observed }: { readonly desired: DesiredState; readonly observed: ObservedTable | null },
): readonly DesiredStateChange[] {
  if (needOf(observed, desired) !== 'nothing') return [];
  const { datasetId } = desired;
  const need = needOf(observed, desired, by);
  return need === 'schema' || need === 'version' ? [{ kind: 'refresh', datasetId }] : [];
}
