/**
 * Judges which tables without a subscription may retire, once in a catch-up, after the logs were read. Stores a
 * suspension where an operator has to approve, and lifts it where no approval is needed any more.
 */

import type { Mention, Suspension } from '../checkpoint/checkpoint.ts';
import type { ObservedState } from '../destination/destination.ts';
import { printable } from '../lib/text.ts';
import { type AbsenceSubject, absenceKey } from '../model/absence.ts';
import type { DesiredStateChange } from '../model/desired-state.ts';
import type { Refusal } from '../model/errors.ts';
import type { Subscription } from '../model/records.ts';
import { noteAbsences, requestReloads } from './follow/audit.ts';
import { doubtedLogs } from './follow/log-restart.ts';
import { isChosenDataset } from './follow/subscriptions.ts';
import { waysOut } from './incidents.ts';
import type { Parts } from './parts.ts';
import { readMentions } from './plan/mentions.ts';
import {
  type AwaitedSubscription,
  awaitedSubscriptions,
  MASS_RETIREMENT_WITHIN_MS,
  orphansOf,
  type RetirementInput,
  type RetirementVerdict,
  retirementVerdicts,
  type VerdictOf,
} from './plan/retirement.ts';
import type { Waiting } from './result.ts';
import { currentSuspensions, storeSuspension } from './suspensions.ts';

/** The verdict on a dataset that a subscription contains. */
const WITHOUT_MEANING: RetirementVerdict = { kind: 'logs-unread', awaited: [] };

export interface Judging {
  readonly observed: ObservedState;
  /** The subscriptions as they were listed last. */
  readonly records: readonly Subscription[];
  /** The subscriptions whose logs were read to their heads in this catch-up. */
  readonly readToHead: ReadonlySet<string>;
  /** When the logs were read, in service time. */
  readonly readAt: Date;
}

export function judgeRetirements(judging: Judging, parts: Parts): VerdictOf {
  adoptOrphans(judging, parts);
  forgetAbsences(judging.observed, parts);
  const input = inputOf(judging, parts);
  const { verdicts, awaited, refusal } = retirementVerdicts(input);
  const isAllRead = ![...verdicts.values()].includes('logs-unread');
  if (refusal === null && isAllRead) release(parts);
  const suspension = refusal === null ? null : suspendRetirements(refusal, parts);
  return (desired) => {
    const { datasetId } = desired;
    if (desired.members.size > 0) return WITHOUT_MEANING;
    const verdict = verdicts.get(datasetId);
    if (verdict === 'needs-approval' && suspension !== null) return { kind: 'needs-approval', suspension };
    if (verdict === 'allowed') return { kind: 'allowed', judgedAt: judging.readAt };
    // A dataset that was dropped after these reads waits until every log is read again.
    const later = (): readonly AwaitedSubscription[] =>
      awaitedSubscriptions(desired, { ...input, readToHead: new Set() });
    return { kind: 'logs-unread', awaited: awaited.get(datasetId) ?? later() };
  };
}

/** Tables that the user did not choose neither retire nor count. */
function inputOf(judging: Judging, parts: Parts): RetirementInput {
  const { observed, readToHead, readAt } = judging;
  const { checkpoint, choices } = parts;
  const isChosen = (datasetId: string): boolean =>
    isChosenDataset(datasetId, choices.include, choices.exclude);
  const chosen = <T>(all: ReadonlyMap<string, T>): ReadonlyMap<string, T> =>
    new Map([...all].filter(([datasetId]) => isChosen(datasetId)));
  const since = readAt.getTime() - MASS_RETIREMENT_WITHIN_MS;
  const retiredLately = observed.retired.filter(
    ({ datasetId, retiredAt, isApproved }) =>
      !isApproved && isChosen(datasetId) && retiredAt.getTime() > since && !observed.datasets.has(datasetId),
  );
  return {
    desiredStates: chosen(checkpoint.desiredStates()),
    observed: { ...observed, datasets: chosen(observed.datasets) },
    named: namedByRecords(judging, parts),
    retiredLately: new Set(retiredLately.map(({ datasetId }) => datasetId)).size,
    followed: new Set(checkpoint.followed().keys()),
    suspendedSubscriptions: currentSuspensions(parts).subscriptions,
    readToHead,
    doubted: doubtedLogs(checkpoint.absences()),
    forgotten: new Set(checkpoint.forgotten()),
  };
}

/**
 * Returns the datasets that a subscription contains by its record, with the ids of these subscriptions; its manifest may not
 * list them yet. A dataset that no subscription contains counts until its absence from the record is confirmed.
 */
function namedByRecords({ observed, records, readAt }: Judging, parts: Parts): RetirementInput['named'] {
  const { checkpoint, choices } = parts;
  const earlier = checkpoint.mentions();
  const { named, news, shown, lacking, over } = readMentions({
    records,
    readAt,
    manifestLagMs: choices.manifestLagMs,
    desiredStates: checkpoint.desiredStates(),
    tables: observed.datasets,
    earlier,
  });
  const isThere = [...shown, ...over].map(memberOf);
  const confirmed = new Set(noteAbsences(lacking.map(memberOf), isThere, readAt, parts).map(absenceKey));
  const gone = lacking.filter((mention) => confirmed.has(absenceKey(memberOf(mention))));
  const ended = new Set([...over, ...gone]);
  checkpoint.noteMentions(news, [...ended]);
  const counting = [...named, ...earlier.filter((mention) => !ended.has(mention))];
  const byDataset = Map.groupBy(counting, ({ datasetId }) => datasetId);
  return new Map(
    [...byDataset].map(([datasetId, of]) => [
      datasetId,
      [...new Set(of.map(({ subscriptionId }) => subscriptionId))],
    ]),
  );
}

function memberOf(mention: Mention): AbsenceSubject {
  return { kind: 'member', ...mention };
}

/**
 * Tables without a desired state count as dropped once it is confirmed that no subscription contains them. One of the
 * subscriptions that were read stands for all; from then on these tables retire like any other.
 */
function adoptOrphans(judging: Judging, parts: Parts): void {
  const { readToHead, readAt } = judging;
  const orphans = orphansOf(inputOf(judging, parts));
  const [subscriptionId] = readToHead;
  if (orphans === null || subscriptionId === undefined) return;
  const noted = parts.checkpoint
    .absences()
    .flatMap(({ subject }) => (subject.kind === 'table' ? [subject] : []));
  const ids = new Set(orphans.map((subject) => ('datasetId' in subject ? subject.datasetId : '')));
  const shown = noted.filter(({ datasetId }) => !ids.has(datasetId));
  const gone = noteAbsences(orphans, shown, readAt, parts);
  if (gone.length === 0) return;
  parts.log.warn({ datasets: gone.length }, 'The mirror has tables that no subscription lists.');
  const changes = gone.flatMap((subject): readonly DesiredStateChange[] =>
    subject.kind === 'table'
      ? [
          {
            kind: 'no-member',
            datasetId: subject.datasetId,
            eventNumber: null,
            at: readAt,
            reason: 'not listed any more',
          },
        ]
      : [],
  );
  requestReloads(subscriptionId, changes, parts);
}

/** No version is expected of a dataset that has no table and no subscription, so no version is absent. */
function forgetAbsences({ datasets }: ObservedState, { checkpoint }: Parts): void {
  const desiredStates = checkpoint.desiredStates();
  const over = checkpoint.absences().flatMap(({ subject }) => {
    if (subject.kind !== 'version' || datasets.has(subject.datasetId)) return [];
    return (desiredStates.get(subject.datasetId)?.members.size ?? 0) === 0 ? [subject] : [];
  });
  if (over.length > 0) checkpoint.noteAbsences([], over);
}

/** A suspension with the same content keeps its first time. */
function suspendRetirements(refusal: Refusal, parts: Parts): Suspension {
  const stored = currentSuspensions(parts).retirement;
  return stored?.refusal.message === refusal.message ? stored : storeSuspension(parts, refusal);
}

function release(parts: Parts): void {
  if (currentSuspensions(parts).retirement !== null) parts.checkpoint.lift({ kind: 'retirement' });
}

/** How many subscriptions a message names per reason before it counts the rest. */
const MAX_NAMED = 5;

type Reason = AwaitedSubscription['reason'];

/** In the order of the message. */
const WORDS: Readonly<Record<Reason, { readonly one: string; readonly several: string }>> = {
  suspended: { one: 'which is suspended', several: 'which are suspended' },
  'log-unread': {
    one: 'whose log was not read to its end since the dataset left',
    several: 'whose logs were not read to their ends since the dataset left',
  },
  'log-in-doubt': { one: 'whose log may have restarted', several: 'whose logs may have restarted' },
  'record-names-dataset': {
    one: 'whose record names the dataset or named it lately',
    several: 'whose records name the dataset or named it lately',
  },
};
const REASONS: readonly Reason[] = ['suspended', 'log-unread', 'log-in-doubt', 'record-names-dataset'];

/** Returns the wait of a table that is to retire. `awaited` must not be empty. */
export function retirementWaits(awaited: readonly AwaitedSubscription[]): Waiting {
  const why = `no subscription contains it any more; its retirement waits ${reportAwaited(awaited)}`;
  return { kind: 'waiting', why, until: null, awaited };
}

/**
 * Names the awaited subscriptions: `for subscription sub_2, which is suspended, and for subscription sub_3, whose log …`. `awaited` must
 * not be empty.
 */
export function reportAwaited(
  awaited: readonly Pick<AwaitedSubscription, 'subscriptionId' | 'reason'>[],
): string {
  const clauses = REASONS.flatMap((reason) => {
    const ids = awaited.filter((one) => one.reason === reason).map(({ subscriptionId }) => subscriptionId);
    if (ids.length === 0) return [];
    const words = WORDS[reason];
    return ids.length === 1
      ? [`for subscription ${named(ids)}, ${words.one}`]
      : [`for subscriptions ${named(ids)}, ${words.several}`];
  });
  return clauses.join(', and ');
}

/** Returns whether running again helps only after an operator has acted. */
export function awaitsOperator({ awaited }: Pick<Waiting, 'awaited'>): boolean {
  return awaited.length > 0 && awaited.every(({ reason }) => reason === 'suspended');
}

/** Returns what an operator can do about the suspended subscriptions: a clause and a command each. */
export function waysToEnd(awaited: readonly AwaitedSubscription[]): readonly string[] {
  return awaited.flatMap((one) => (one.reason === 'suspended' ? waysOut(one.ofSubscription.refusal) : []));
}

function named(ids: readonly string[]): string {
  const shown = ids.slice(0, MAX_NAMED).map(printable).join(', ');
  return ids.length > MAX_NAMED ? `${shown} and ${ids.length - MAX_NAMED} more` : shown;
}
