/**
 * Confirmed absence: without an event, a missing thing counts as gone only after two complete reads without it, far enough
 * apart in service time, and no read with it in between. Pure.
 */

/** The missing thing and the place where it should be. */
export type AbsenceSubject =
  /** A dataset, missing in the manifest or the complete record of a subscription that contained it. */
  | { readonly kind: 'member'; readonly subscriptionId: string; readonly datasetId: string }
  /** A subscription, missing in the list of subscriptions. */
  | { readonly kind: 'subscription'; readonly subscriptionId: string }
  /** The known event log: the service's newest event is older than an event that was read, or is no longer named. */
  | { readonly kind: 'log'; readonly subscriptionId: string }
  /** A version, missing in the list of versions. */
  | { readonly kind: 'version'; readonly datasetId: string; readonly version: number }
  /** The dataset of a table, missing in every subscription. */
  | { readonly kind: 'table'; readonly datasetId: string };

export interface Absence {
  readonly subject: AbsenceSubject;
  /** The service time of the first read without it. */
  readonly since: Date;
}

const MINUTE_MS = 60_000;

/** How long each kind must be absent before the absence is confirmed. */
const CONFIRMED_AFTER_MS: Readonly<Record<AbsenceSubject['kind'], number>> = {
  member: 10 * MINUTE_MS,
  subscription: 10 * MINUTE_MS,
  log: 10 * MINUTE_MS,
  version: 60 * MINUTE_MS,
  table: 10 * MINUTE_MS,
};

/**
 * Returns the beginning of the absence, after a complete read at `readAt`. A stored time in the future means that the service's
 * clock was set back, so the measurement starts again.
 */
export function absentSince(before: Date | null, readAt: Date): Date {
  return before === null || before > readAt ? readAt : before;
}

export function confirmedAt({ subject, since }: Absence): Date {
  return new Date(since.getTime() + CONFIRMED_AFTER_MS[subject.kind]);
}

/** Returns whether a complete read at `readAt` without the subject confirms the absence. */
export function isConfirmed(absence: Absence, readAt: Date): boolean {
  return absence.since <= readAt && confirmedAt(absence) <= readAt;
}

/** Returns a text that identifies the subject. */
export function absenceKey(subject: AbsenceSubject): string {
  switch (subject.kind) {
    case 'member':
      return JSON.stringify([subject.kind, subject.subscriptionId, subject.datasetId]);
    case 'subscription':
    case 'log':
      return JSON.stringify([subject.kind, subject.subscriptionId]);
    case 'version':
      return JSON.stringify([subject.kind, subject.datasetId, subject.version]);
    case 'table':
      return JSON.stringify([subject.kind, subject.datasetId]);
  }
}
