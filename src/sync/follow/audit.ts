/**
 * Corrects the desired state where no event did: members, versions and schemas in which the manifest differs from it.
 * Pure.
 *
 * A manifest may be older than the log, so it undoes no event that its watermark does not cover. A listed version is
 * only a reason to read the list of versions, which is the authority.
 */

import { createHash } from 'node:crypto';
import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { ObservedState } from '../../destination/destination.ts';
import { present } from '../../lib/assert.ts';
import {
  type Absence,
  type AbsenceSubject,
  absenceKey,
  absentSince,
  isConfirmed,
} from '../../model/absence.ts';
import {
  announcedVersion,
  type DesiredState,
  type DesiredStateChange,
  type FollowStep,
} from '../../model/desired-state.ts';
import { covers, type ManifestEntry, snapshotDigest, type Watermark } from '../../model/manifest.ts';
import type { Subscription } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Parts } from '../parts.ts';
import { isRefreshPending, needOf, pendingReloads } from '../plan/need.ts';
import type { Metadata } from '../plan/step.ts';

/** The datasets that a subscription contains, by its manifest or by its complete record. */
export interface Listing {
  readonly subscriptionId: string;
  readonly watermark: Watermark;
  /** When the listing was read, in service time. */
  readonly readAt: Date;
  readonly datasetIds: readonly string[];
  /** Whether a dataset that the listing lacks is absent. */
  readonly isComplete: boolean;
}

export interface Audited {
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  readonly observed: ObservedState;
}

export interface Findings {
  readonly changes: readonly DesiredStateChange[];
  /** The datasets to ask a reload of, as of now. */
  readonly reloads: readonly string[];
  /** The members that the listing lacks, and the members that it shows. */
  readonly absent: readonly AbsenceSubject[];
  readonly present: readonly AbsenceSubject[];
}

/**
 * Compares the members of a subscription with a listing. A dataset that only a listing brings back is loaded again where its table exists,
 * because the dataset may have been restarted.
 */
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

/** Returns the place of a listing's statement among the events of its log. */
export function announcedBy(
  watermark: Watermark,
  readAt: Date,
): { readonly eventNumber: bigint | null; readonly at: Date } {
  return watermark.kind === 'number'
    ? { eventNumber: watermark.through, at: readAt }
    : { eventNumber: null, at: watermark.through };
}

/**
 * Compares manifest entries with the desired states. `through`: the subscription whose manifest lists the entries; null: each dataset has
 * its own.
 */
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
    else if (isOpen(entry, table) && !isReadAnyway(desired, table))
      changes.push({ kind: 'refresh', datasetId });
  }
  return { changes, reloads };
}

/**
 * Returns whether the manifest through which the table was loaded states other content for the version the table was loaded
 * from. Where that manifest does not list the dataset any more, any manifest counts.
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

/** Returns whether the versions are read anyway. */
function isReadAnyway(desired: DesiredState, table: ObservedTable): boolean {
  return isRefreshPending(desired) || (announcedVersion(desired) ?? -1) > table.version;
}

/** Returns whether the list of versions must decide what happened. A value that neither states is no difference. */
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

/** Returns the datasets of the record; the listing is complete where the record counts as many. */
export function isCompleteRecord({ datasetIds, datasetCount }: Subscription): boolean {
  return datasetCount !== null && datasetCount === new Set(datasetIds).size;
}

const DAY_MS = 86_400_000;

/**
 * Returns whether the dataset's time of day lies between two audits of a subscription that contains it. `before` null: there
 * was no earlier audit.
 */
export function isListDue(datasetId: string, before: Date | null, now: Date): boolean {
  if (before === null) return false;
  const offsetMs = createHash('sha256').update(datasetId).digest().readUInt32BE(0) % DAY_MS;
  const dayOf = (at: Date): number => Math.floor((at.getTime() + offsetMs) / DAY_MS);
  return dayOf(before) !== dayOf(now);
}

/**
 * Notes which datasets a complete read at `readAt` (service time) lacked and showed, and returns the confirmed absences. They are
 * forgotten unless `keep` is set, so the caller must act on them now.
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

/** Does not move the position of the subscription. */
export function requestReloads(
  subscriptionId: string,
  changes: readonly DesiredStateChange[],
  { checkpoint }: Parts,
): void {
  if (changes.length === 0) return;
  const followed = present(checkpoint.followed().get(subscriptionId), 'a log that was read is followed');
  checkpoint.commitFollowStep(stepAt(followed, changes));
}

/** Returns a step that makes the changes and stays at the position. */
export function stepAt(followed: Followed, changes: readonly DesiredStateChange[]): FollowStep {
  const { subscriptionId, name, logNumber, cursor, cursorCreatedAt, cursorAt } = followed;
  const { replayedAt, coveredUntil } = followed;
  const isExpiredCursorReplay = replayedAt !== null;
  const readAt = replayedAt ?? cursorAt;
  return {
    subscriptionId,
    subscriptionName: name,
    position: { logNumber, cursor, cursorCreatedAt, isExpiredCursorReplay, coveredUntil, readAt },
    changes,
  };
}

/**
 * Returns the needs that only the versions and schemas show. The next catch-up reads these only where something is
 * requested, so it would not know of the needs.
 */
export function onlyAnnounced(
  by: Metadata,
  { desired, observed }: { readonly desired: DesiredState; readonly observed: ObservedTable | null },
): readonly DesiredStateChange[] {
  if (needOf(observed, desired) !== 'nothing') return [];
  const { datasetId } = desired;
  const need = needOf(observed, desired, by);
  return need === 'schema' || need === 'version' ? [{ kind: 'refresh', datasetId }] : [];
}
