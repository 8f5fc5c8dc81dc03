/**
 * Decides what an operator is notified of: transitions only. Pure.
 *
 * Invariants: a cause is reported at most once an hour, however many datasets it concerns, and its end once. The ledger has
 * everything that was sent, so a restart repeats nothing. A notification holds ids, codes, counts, names of columns and the words of
 * refusals: never a row, never a message that may quote one.
 */

import { formatCount } from '../lib/units.ts';

export type NotificationKind = ConditionKind | OccurrenceKind | 'recovered' | 'test';

type ConditionKind = 'suspended' | 'failing' | 'retention_near';
type OccurrenceKind = 'damaged' | 'large_change' | 'schema_changed';

/** A condition, which lasts until something or somebody ends it. */
export interface Condition {
  readonly kind: ConditionKind;
  /** A code: conditions of one kind and cause are sent together. */
  readonly cause: string;
  /** Distinguishes the conditions of a cause: another key is another transition. */
  readonly key: string;
  /** `dataset parcels`, `subscription sub_1`. */
  readonly subject: string;
  readonly text: string;
  readonly advice: string;
  /** False: too young to be reported, but not over. */
  readonly isLoud: boolean;
}

/** An occurrence, which has happened and does not end. */
export interface Occurrence {
  readonly kind: OccurrenceKind;
  readonly subject: string;
  readonly text: string;
}

interface Item {
  readonly subject: string;
  readonly text: string;
}

export interface Notification {
  readonly kind: NotificationKind;
  readonly cause: string;
  readonly title: string;
  /** The first of those concerned. */
  readonly items: readonly Item[];
  /** How many are concerned. */
  readonly count: number;
  readonly advice: string;
}

/** The notifications that were sent, by kind and cause. The ledger is plain JSON, which the checkpoint stores as text. */
export interface NotificationLedger {
  readonly sent: Readonly<Record<string, Sent>>;
  /** Occurrences that are not sent yet, by kind. */
  readonly pending: Readonly<Record<string, Pending>>;
}

interface Sent {
  /** ISO 8601. */
  readonly at: string;
  /** The keys of the conditions that were sent and are not over; empty once all of them are, and for occurrences. */
  readonly keys: readonly string[];
}

interface Pending {
  readonly items: readonly Item[];
  readonly count: number;
}

export const EMPTY_LEDGER: NotificationLedger = { sent: {}, pending: {} };

/** A cause is sent again after this time at the earliest. */
export const CAUSE_PAUSE_MS = 3_600_000;
/** Further subjects are counted, not named. */
export const MAX_ITEMS = 10;
/** Longer texts are cut. */
export const MAX_ITEM_CHARACTERS = 500;
/** Codes are the service's: more causes than these wait until an hour has passed. */
export const MAX_CAUSES_AN_HOUR = 50;

/** Adds occurrences to those that are not sent yet. */
export function withOccurrences(
  ledger: NotificationLedger,
  occurrences: readonly Occurrence[],
): NotificationLedger {
  const pending: Record<string, Pending> = { ...ledger.pending };
  for (const { kind, subject, text } of occurrences) {
    const { items, count } = pending[kind] ?? { items: [], count: 0 };
    pending[kind] = { items: [...items, { subject, text }].slice(0, MAX_ITEMS), count: count + 1 };
  }
  return { ...ledger, pending };
}

/** Forgets conditions that are over while others of their cause last: should they come back, they are sent again. */
export function withoutEnded(
  ledger: NotificationLedger,
  conditions: readonly Condition[],
): NotificationLedger {
  const lasting = new Set(conditions.map(({ kind, cause, key }) => `${nameOf(kind, cause)} ${key}`));
  const sent = Object.entries(ledger.sent).map(([name, { at, keys }]): [string, Sent] => {
    const kept = keys.filter((key) => lasting.has(`${name} ${key}`));
    return [name, { at, keys: kept.length === 0 ? keys : kept }];
  });
  return { ...ledger, sent: Object.fromEntries(sent) };
}

export interface DueNotification {
  readonly notification: Notification;
  /** The ledger once the notification has been delivered. */
  readonly after: NotificationLedger;
}

/**
 * Returns the next notification, or null. `isComplete`: `conditions` has everything that lasts, so that whatever is missing from it is
 * over; false while a process has not yet met again what it met before it was restarted.
 */
export function nextNotification(
  ledger: NotificationLedger,
  conditions: readonly Condition[],
  now: Date,
  isComplete: boolean,
): DueNotification | null {
  const groups = Map.groupBy(conditions, ({ kind, cause }) => nameOf(kind, cause));
  const recent = Object.values(ledger.sent).filter(({ at }) => isRecent(at, now));
  if (recent.length < MAX_CAUSES_AN_HOUR) {
    const due = dueOccurrence(ledger, now) ?? dueCondition(ledger, groups, now);
    if (due !== null) return due;
  }
  return isComplete ? dueRecovery(ledger, groups, now) : null;
}

const OCCURRENCES: readonly OccurrenceKind[] = ['damaged', 'large_change', 'schema_changed'];

const OCCURRENCE_ADVICE: Readonly<Record<OccurrenceKind, string>> = {
  damaged: 'Check the disk. `feed-sync status` shows what is loaded again.',
  large_change: '`feed-sync status` shows the dataset; a gate (gates.removedRows) makes such commits wait.',
  schema_changed: 'Check what reads these columns.',
};

function dueOccurrence(ledger: NotificationLedger, now: Date): DueNotification | null {
  for (const kind of OCCURRENCES) {
    const { [kind]: pending, ...others } = ledger.pending;
    const name = nameOf(kind, kind);
    if (pending === undefined || isRecent(ledger.sent[name]?.at, now)) continue;
    const notification = notificationOf(kind, kind, pending, OCCURRENCE_ADVICE[kind]);
    return { notification, after: { sent: noted(ledger, name, [], now), pending: others } };
  }
  return null;
}

type Groups = ReadonlyMap<string, readonly Condition[]>;

function dueCondition(ledger: NotificationLedger, groups: Groups, now: Date): DueNotification | null {
  for (const [name, group] of groups) {
    const sent = ledger.sent[name];
    if (isRecent(sent?.at, now)) continue;
    const known = new Set(sent?.keys);
    const fresh = group.filter(({ key, isLoud }) => isLoud && !known.has(key));
    const [first] = fresh;
    if (first === undefined) continue;
    const items = fresh.slice(0, MAX_ITEMS).map(({ subject, text }) => ({ subject, text }));
    const of = { items, count: fresh.length };
    const keys = [
      ...group.map(({ key }) => key).filter((key) => known.has(key)),
      ...fresh.map(({ key }) => key),
    ];
    return {
      notification: notificationOf(first.kind, first.cause, of, first.advice),
      after: { ...ledger, sent: noted(ledger, name, [...new Set(keys)], now) },
    };
  }
  return null;
}

/** The end of a cause is sent once every condition of it is over, one that was not sent yet, too; its hour goes on. */
function dueRecovery(ledger: NotificationLedger, groups: Groups, now: Date): DueNotification | null {
  for (const [name, { at, keys }] of Object.entries(ledger.sent)) {
    if (keys.length === 0 || groups.has(name)) continue;
    const [kind = '', cause = ''] = name.split(' ');
    return {
      notification: {
        kind: 'recovered',
        cause,
        title: `Over: ${TITLES[kind as ConditionKind].toLowerCase()} (${cause})`,
        items: [],
        count: keys.length,
        advice: 'Nothing to do.',
      },
      after: { ...ledger, sent: { ...withoutOld(ledger, now), [name]: { at, keys: [] } } },
    };
  }
  return null;
}

const TITLES: Readonly<Record<ConditionKind | OccurrenceKind, string>> = {
  suspended: 'Suspended',
  failing: 'Failing',
  retention_near: 'Position about to expire',
  damaged: 'Damaged',
  large_change: 'Large change',
  schema_changed: 'Schema changed',
};

function notificationOf(
  kind: ConditionKind | OccurrenceKind,
  cause: string,
  { items, count }: Pending,
  advice: string,
): Notification {
  const others = count > 1 ? ` and ${formatCount(count - 1)} more` : '';
  const code = cause === kind ? '' : ` (${cause})`;
  const title = `${TITLES[kind]}: ${items[0]?.subject ?? ''}${others}${code}`;
  return { kind, cause, title, items, count, advice };
}

/** No kind has a space in it, and codes lose theirs. */
function nameOf(kind: string, cause: string): string {
  return `${kind} ${cause.replaceAll(/\s/g, '_')}`;
}

/** Returns whether a name in the ledger begins with a kind that this version knows. */
export function isKnownName(name: string): boolean {
  const [kind = ''] = name.split(' ', 1);
  return Object.hasOwn(TITLES, kind);
}

/** A time in the future was written before the clock was set back: it holds nothing up. */
function isRecent(at: string | undefined, now: Date): boolean {
  if (at === undefined) return false;
  const agoMs = now.getTime() - Date.parse(at);
  return agoMs >= 0 && agoMs < CAUSE_PAUSE_MS;
}

function noted(ledger: NotificationLedger, name: string, keys: readonly string[], now: Date) {
  return { ...withoutOld(ledger, now), [name]: { at: now.toISOString(), keys } };
}

/** A cause that is over and whose hour has passed is forgotten. */
function withoutOld({ sent }: NotificationLedger, now: Date): NotificationLedger['sent'] {
  return Object.fromEntries(
    Object.entries(sent).filter(([, { at, keys }]) => keys.length > 0 || isRecent(at, now)),
  );
}
