/**
 * What to do next about a dataset: a pure function of what is known of it, what the manifests offer and what the
 * service says of its past. No I/O and no clock; whoever carries a step out decides nothing, and plans again after it,
 * until nothing is left to do. The table of state × situation below is complete, and the compiler checks that it is.
 */

import type { Failure, Hold } from '../../checkpoint/checkpoint.ts';
import type { Want } from '../../model/desired-state.ts';
import type { Version } from '../../model/records.ts';
import type { HeldDataset } from '../../model/write-jobs.ts';
import { type SituationsAtWork, situationAtWork } from './conditions.ts';
import { type FailedBefore, failedBefore, oversizedBefore, whyOversized } from './content.ts';
import { type AwaitedSubscription, retirementReason } from './retirement.ts';
import type { Plan, PlanInput, WaitReason } from './step.ts';

/** What a dataset may be in, and what the step that follows is made of. */
interface Situations extends SituationsAtWork {
  /** The service refused. */
  refused: Hold;
  'no-table': null;
  'logs-unread': readonly AwaitedSubscription[];
  'needs-approval': Hold;
  'may-be-retired': Omit<Plan & { kind: 'retire' }, 'kind'>;
}

type Situation<Kind extends keyof Situations> = {
  [Each in Kind]: { readonly kind: Each; readonly data: Situations[Each] };
}[Kind];

type Row<Kind extends keyof Situations> = { readonly [Each in Kind]: (data: Situations[Each]) => Plan };

const wait =
  (why: WaitReason) =>
  (until: Date | null): Plan => ({ kind: 'wait', why, until });
const reportFailure = (): Plan => ({ kind: 'report-failure' });
const reportHold = (hold: Hold): Plan => ({ kind: 'report-hold', hold });

/** Nothing stands in the way; that the last attempt failed matters only where it would be repeated. */
const AT_WORK: Row<keyof SituationsAtWork> = {
  'nothing-needed': () => ({ kind: 'keep' }),
  'history-unread': (data) => ({ kind: 'read-history', ...data }),
  'offers-unread': () => ({ kind: 'read-offers' }),
  'reload-unasked': (data) => ({ kind: 'ask-reload', ...data }),
  'announced-withdrawn': (data) => ({ kind: 'void-announced', ...data }),
  'not-offered': wait('not-offered'),
  'offer-lags': wait('offer-lags'),
  'offer-unlisted': wait('offer-unlisted'),
  'offer-differs': (data) => ({ kind: 'wait', why: 'offer-differs', ...data }),
  'offer-answers': (data) => ({ kind: 'load', ...data }),
  'offer-failed-before': reportFailure,
  'changes-lead-on': (data) => ({ kind: 'apply', ...data }),
  'changes-failed-before': reportFailure,
  'list-lags': wait('list-lags'),
};

/** The changes gave way to a snapshot that failed. */
const UNUSABLE_BEFORE = 'they could not be used before';

const HELD: Row<'refused'> = { refused: reportHold };

const RETIRED: Row<'no-table' | 'logs-unread' | 'needs-approval' | 'may-be-retired'> = {
  'no-table': () => ({ kind: 'leave' }),
  'logs-unread': (awaited) => ({ kind: 'await-subscriptions', awaited }),
  'needs-approval': reportHold,
  'may-be-retired': (data) => ({ kind: 'retire', ...data }),
};

/** @throws ContractViolationError where the only way on is over a version whose schema the service does not list. */
export function plan(input: PlanInput): Plan {
  const state = stateOf(input);
  switch (state.kind) {
    case 'absent':
    case 'live':
    case 'failed':
      return atWork(input, failedBefore(input.failure, input.now));
    case 'held':
      return step(HELD, { kind: 'refused', data: state.hold });
    case 'retired':
      return step(RETIRED, situationOfRetired(input));
  }
}

function atWork(input: PlanInput, failed: FailedBefore): Plan {
  const versions = input.history?.versions ?? [];
  const isOversized = oversizedBefore(input.failure, input.now, input.maxStagedBytes);
  const before = (
    found: (version: Version) => boolean,
    why: string,
  ): readonly (readonly [number, string])[] => versions.filter(found).map(({ version }) => [version, why]);
  const unusable = new Map([
    ...before(failed.unusable, UNUSABLE_BEFORE),
    ...before(isOversized, whyOversized(input.maxStagedBytes)),
    ...input.unusable,
  ]);
  return step(AT_WORK, situationAtWork({ ...input, unusable }, failed));
}

function step<Kind extends keyof Situations>(row: Row<Kind>, { kind, data }: Situation<Kind>): Plan {
  return row[kind](data);
}

function situationOfRetired({
  want,
  held,
  retirement,
}: PlanInput): Situation<'no-table' | 'logs-unread' | 'needs-approval' | 'may-be-retired'> {
  if (held === null) return { kind: 'no-table', data: null };
  switch (retirement.kind) {
    case 'logs-unread':
      return { kind: 'logs-unread', data: retirement.awaited };
    case 'needs-approval':
      return { kind: 'needs-approval', data: retirement.hold };
    case 'allowed':
      return {
        kind: 'may-be-retired',
        data: {
          reason: retirementReason(want),
          isApproved: want.retirementApproved,
          judgedAt: retirement.judgedAt,
        },
      };
  }
}

type DatasetState =
  /** Wanted, and there is no table yet. */
  | { readonly kind: 'absent' }
  /** A table serves. */
  | { readonly kind: 'live'; readonly held: HeldDataset }
  /** The last attempt failed; the table, if there is one, serves. */
  | { readonly kind: 'failed'; readonly failure: Failure; readonly held: HeldDataset | null }
  /** The service refused; a person has to act. The table, if there is one, serves. */
  | { readonly kind: 'held'; readonly hold: Hold; readonly held: HeldDataset | null }
  /** No subscription holds it any more. */
  | { readonly kind: 'retired'; readonly held: HeldDataset | null };

export type DatasetStateKind = DatasetState['kind'];

/** What is known of a dataset, from both stores. */
export interface Known {
  readonly want: Want;
  readonly held: HeldDataset | null;
  readonly hold: Hold | null;
  readonly failure: Failure | null;
}

export function stateOf({ want, held, hold, failure }: Known): DatasetState {
  if (want.members.size === 0) return { kind: 'retired', held };
  if (hold !== null) return { kind: 'held', hold, held };
  if (failure !== null) return { kind: 'failed', failure, held };
  return held === null ? { kind: 'absent' } : { kind: 'live', held };
}
