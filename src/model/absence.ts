/**
 * Confirmed absence: that something is gone, without an event that says so, is believed of two complete reads that are far
 * enough apart in service time, with no read in between that shows it. Pure.
 */

/** What is absent from where it was. */
export type AbsenceSubject =
  /** A dataset, from the manifest or the complete record of a subscription that contained it. */
  | { readonly kind: 'member'; readonly subscriptionId: string; readonly datasetId: string }
  /** A subscription, from the list of subscriptions. */
  | { readonly kind: 'subscription'; readonly subscriptionId: string }
  /** The log as it was: the newest event that the service names is older than one that was read, or is not named any more. */
  | { readonly kind: 'log'; readonly subscriptionId: string }
  /** A version, from the list of versions. */
  | { readonly kind: 'version'; readonly datasetId: string; readonly version: number }
  /** The dataset of a table, from every subscription. */
  | { readonly kind: 'table'; readonly datasetId: string };

export interface Absence {
  readonly subject: AbsenceSubject;
  /** When it was first seen to be absent, in service time. */
  readonly since: Date;
}

const MINUTE_MS = 60_000;

/** How long each kind has to be absent before it is believed. */
const CONFIRMED_AFTER_MS: Readonly<Record<AbsenceSubject['kind'], number>> = {
  member: 10 * MINUTE_MS,
  subscription: 10 * MINUTE_MS,
  log: 10 * MINUTE_MS,
  version: 60 * MINUTE_MS,
  table: 10 * MINUTE_MS,
};

/**
 * Since when it is absent, after a complete read at `readAt` that did not show it. A moment in the future was stored by
 * another time of the service: the measurement starts again.
 */
export function absentSince(before: Date | null, readAt: Date): Date {
  return before === null || before > readAt ? readAt : before;
}

export function confirmedAt({ subject, since }: Absence): Date {
  return new Date(since.getTime() + CONFIRMED_AFTER_MS[subject.kind]);
}

/** Whether a complete read at `readAt` that does not show it confirms the absence. */
export function isConfirmed(absence: Absence, readAt: Date): boolean {
  return absence.since <= readAt && confirmedAt(absence) <= readAt;
}

/** A text by which subjects are told apart. */
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
