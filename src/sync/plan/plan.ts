/**
 * What to do next about a dataset: a pure function of what is known of it, what the manifests offer and what the
 * service says of its past. No I/O and no clock; whoever carries a step out decides nothing, and plans again after it,
 * until nothing is left to do. The table of state × situation below is complete, and the compiler checks that it is.
 */

import type { Failure, Suspension } from '../../checkpoint/checkpoint.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { type ConditionsAtWork, conditionAtWork } from './conditions.ts';
import { type FailedBefore, failedBefore, oversizedBefore, whyOversized } from './content.ts';
import { type AwaitedSubscription, retirementReason } from './retirement.ts';
import type { Plan, PlanInput, WaitReason } from './step.ts';

/** What a dataset may be in, and what the step that follows is made of. */
interface Conditions extends ConditionsAtWork {
  /** The service refused. */
  refused: Suspension;
  'no-table': null;
  'logs-unread': readonly AwaitedSubscription[];
  'needs-approval': Suspension;
  'may-be-retired': Omit<Plan & { kind: 'retire' }, 'kind'>;
}

type Condition<Kind extends keyof Conditions> = {
  [Each in Kind]: { readonly kind: Each; readonly data: Conditions[Each] };
}[Kind];

type Row<Kind extends keyof Conditions> = { readonly [Each in Kind]: (data: Conditions[Each]) => Plan };

const wait =
  (why: WaitReason) =>
  (until: Date | null): Plan => ({ kind: 'wait', why, until });
const reportFailure = (): Plan => ({ kind: 'report-failure' });
const reportSuspension = (suspension: Suspension): Plan => ({ kind: 'report-suspension', suspension });

/** Nothing stands in the way; that the last attempt failed matters only where it would be repeated. */
const AT_WORK: Row<keyof ConditionsAtWork> = {
  'nothing-needed': () => ({ kind: 'keep' }),
  'history-unread': (data) => ({ kind: 'read-history', ...data }),
  'manifest-unread': () => ({ kind: 'read-manifest' }),
  'reload-unasked': (data) => ({ kind: 'ask-reload', ...data }),
  'announced-withdrawn': (data) => ({ kind: 'void-announced', ...data }),
  'not-listed': wait('not-listed'),
  'manifest-lags': wait('manifest-lags'),
  'entry-unlisted': wait('entry-unlisted'),
  'entry-differs': (data) => ({ kind: 'wait', why: 'entry-differs', ...data }),
  'entry-satisfies': (data) => ({ kind: 'load', ...data }),
  'entry-failed-before': reportFailure,
  'changes-lead-on': (data) => ({ kind: 'apply', ...data }),
  'changes-failed-before': reportFailure,
  'list-lags': wait('list-lags'),
};

/** The changes gave way to a snapshot that failed. */
const INAPPLICABLE_BEFORE = 'they could not be used before';

const SUSPENDED: Row<'refused'> = { refused: reportSuspension };

const RETIRED: Row<'no-table' | 'logs-unread' | 'needs-approval' | 'may-be-retired'> = {
  'no-table': () => ({ kind: 'leave' }),
  'logs-unread': (awaited) => ({ kind: 'await-subscriptions', awaited }),
  'needs-approval': reportSuspension,
  'may-be-retired': (data) => ({ kind: 'retire', ...data }),
};

/** @throws ContractViolationError where the only way on is over a version whose schema the service does not list. */
export function plan(input: PlanInput): Plan {
  const state = phaseOf(input);
  switch (state.kind) {
    case 'absent':
    case 'live':
    case 'failed':
      return atWork(input, failedBefore(input.failure, input.now));
    case 'suspended':
      return step(SUSPENDED, { kind: 'refused', data: state.suspension });
    case 'retired':
      return step(RETIRED, conditionOfRetired(input));
  }
}

function atWork(input: PlanInput, failed: FailedBefore): Plan {
  const versions = input.history?.versions ?? [];
  const isOversized = oversizedBefore(input.failure, input.now, input.maxStagedBytes);
  const before = (
    found: (version: Version) => boolean,
    why: string,
  ): readonly (readonly [number, string])[] => versions.filter(found).map(({ version }) => [version, why]);
  const inapplicable = new Map([
    ...before(failed.inapplicable, INAPPLICABLE_BEFORE),
    ...before(isOversized, whyOversized(input.maxStagedBytes)),
    ...input.inapplicable,
  ]);
  return step(AT_WORK, conditionAtWork({ ...input, inapplicable }, failed));
}

function step<Kind extends keyof Conditions>(row: Row<Kind>, { kind, data }: Condition<Kind>): Plan {
  return row[kind](data);
}

function conditionOfRetired({
  desired,
  observed,
  retirement,
}: PlanInput): Condition<'no-table' | 'logs-unread' | 'needs-approval' | 'may-be-retired'> {
  if (observed === null) return { kind: 'no-table', data: null };
  switch (retirement.kind) {
    case 'logs-unread':
      return { kind: 'logs-unread', data: retirement.awaited };
    case 'needs-approval':
      return { kind: 'needs-approval', data: retirement.suspension };
    case 'allowed':
      return {
        kind: 'may-be-retired',
        data: {
          reason: retirementReason(desired),
          isApproved: desired.retirementApproved,
          judgedAt: retirement.judgedAt,
        },
      };
  }
}

type DatasetPhase =
  /** Wanted, and there is no table yet. */
  | { readonly kind: 'absent' }
  /** A table serves. */
  | { readonly kind: 'live'; readonly observed: ObservedTable }
  /** The last attempt failed; the table, if there is one, serves. */
  | { readonly kind: 'failed'; readonly failure: Failure; readonly observed: ObservedTable | null }
  /** The service refused; a person has to act. The table, if there is one, serves. */
  | { readonly kind: 'suspended'; readonly suspension: Suspension; readonly observed: ObservedTable | null }
  /** No subscription contains it any more. */
  | { readonly kind: 'retired'; readonly observed: ObservedTable | null };

export type DatasetPhaseKind = DatasetPhase['kind'];

/** What is known of a dataset, from both stores. */
export interface DatasetState {
  readonly desired: DesiredState;
  readonly observed: ObservedTable | null;
  readonly suspension: Suspension | null;
  readonly failure: Failure | null;
}

export function phaseOf({ desired, observed, suspension, failure }: DatasetState): DatasetPhase {
  if (desired.members.size === 0) return { kind: 'retired', observed };
  if (suspension !== null) return { kind: 'suspended', suspension, observed };
  if (failure !== null) return { kind: 'failed', failure, observed };
  return observed === null ? { kind: 'absent' } : { kind: 'live', observed };
}
