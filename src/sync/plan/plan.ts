/**
 * Plans the next step of a dataset: a pure function of both stores' state, the manifest entries and the service's
 * lists. No I/O and no clock. The executor decides nothing: the dataset is planned again after each step, until nothing
 * is left to do. The table of state × condition below is complete, and the compiler checks that.
 */

import type { Failure, Suspension } from '../../checkpoint/checkpoint.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { type ConditionsAtWork, conditionAtWork } from './conditions.ts';
import { type FailedBefore, failedBefore, oversizedBefore, whyOversized } from './content.ts';
import { type AwaitedSubscription, retirementReason } from './retirement.ts';
import type { Plan, PlanInput, WaitReason } from './step.ts';

/** The conditions of a dataset, each with the data of the step that follows. */
interface Conditions extends ConditionsAtWork {
  /** The service refused a request. */
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

/** The dataset is neither suspended nor retired. A failed last attempt matters only where the same step would be repeated. */
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

/** The dataset fell back from the changes to a snapshot that failed. */
const INAPPLICABLE_BEFORE = 'they could not be used before';

const SUSPENDED: Row<'refused'> = { refused: reportSuspension };

const RETIRED: Row<'no-table' | 'logs-unread' | 'needs-approval' | 'may-be-retired'> = {
  'no-table': () => ({ kind: 'leave' }),
  'logs-unread': (awaited) => ({ kind: 'await-subscriptions', awaited }),
  'needs-approval': reportSuspension,
  'may-be-retired': (data) => ({ kind: 'retire', ...data }),
};

/** @throws ContractViolationError where the only path leads over a version whose schema the service does not list. */
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
  /** The dataset is desired, and has no table yet. */
  | { readonly kind: 'absent' }
  /** The table serves readers. */
  | { readonly kind: 'live'; readonly observed: ObservedTable }
  /** The last attempt failed. A table that exists still serves readers. */
  | { readonly kind: 'failed'; readonly failure: Failure; readonly observed: ObservedTable | null }
  /** The service refused, and an operator has to act. A table that exists still serves readers. */
  | { readonly kind: 'suspended'; readonly suspension: Suspension; readonly observed: ObservedTable | null }
  /** No subscription contains the dataset any more. */
  | { readonly kind: 'retired'; readonly observed: ObservedTable | null };

export type DatasetPhaseKind = DatasetPhase['kind'];

/** The state of one dataset, from both stores. */
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
