/**
 * What to do next about a dataset: a pure function of what is known of it, what the manifests offer and what the
 * service says of its past. No I/O and no clock; whoever carries a step out decides nothing, and plans again after it,
 * until nothing is left to do. The table of state × situation below is complete, and the compiler checks that it is.
 */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import type { Schema } from '../../model/schema.ts';
import type { Version } from '../../model/version.ts';
import { type FailedBefore, failedBefore } from './content.ts';
import type { History } from './history.ts';
import { type RetirementVerdict, retirementReason } from './retirement.ts';
import { type SituationsAtWork, situationAtWork } from './situations.ts';
import { type Known, stateOf } from './state.ts';

/** A dataset as the manifest of one subscription lists it. */
export interface Offer {
  readonly subscriptionId: string;
  /** Every event of that subscription up to this number is reflected; null where the manifest does not say. */
  readonly reflects: bigint | null;
  readonly entry: ManifestEntry;
}

export interface PlanInput extends Known {
  /** Of the subscriptions that hold the dataset. Null: not read yet. */
  readonly offers: readonly Offer[] | null;
  /** Null: not read yet. */
  readonly history: History | null;
  /** Versions whose changes cannot be used, learned on the way, with why: a clause (`they were not recorded`). */
  readonly unusable: ReadonlyMap<number, string>;
  /** Whether a table that no subscription holds may go now; without meaning for the others. */
  readonly retirement: RetirementVerdict;
  readonly schemaChanges: 'reload' | 'alter';
  readonly now: Date;
}

/** One step. */
export type Plan =
  /**
   * Nothing is needed. Looks that were owed are done: what they ask for was read, and the table is at the head. A
   * failure that stands is over; no other step ends it, so that what failed is not fetched again too soon.
   */
  | { readonly kind: 'keep' }
  /** Read versions newer than `newerThan` (null: all there are) and schemas, and plan again with them. */
  | { readonly kind: 'read-history'; readonly newerThan: number | null }
  /** Read what the manifests offer, and plan again with it: a snapshot is needed, or could be less work. */
  | { readonly kind: 'read-offers' }
  /** Load the snapshot. Once it is committed, the resyncs that were asked for when it was planned are done. */
  | {
      readonly kind: 'load';
      readonly offer: Offer;
      /** The reload events that the snapshot satisfies, by subscription id. */
      readonly reloads: ReadonlyMap<string, bigint>;
      /** Why it is the snapshot, for people: `the changes of version 12 are not recorded`. */
      readonly why: string;
    }
  /** Apply the changes of these versions as one, oldest first; the table has `schema` afterwards. */
  | {
      readonly kind: 'apply';
      readonly versions: readonly Version[];
      readonly schema: Schema;
      /** The schema is another than the table's: columns of it that the table lacks are added. */
      readonly addsColumns: boolean;
    }
  | { readonly kind: 'retire'; readonly reason: string }
  | { readonly kind: 'wait'; readonly why: WaitReason }
  | { readonly kind: 'report-hold'; readonly hold: Hold }
  /** What would be fetched failed before and is the same still. */
  | { readonly kind: 'report-failure' }
  | { readonly kind: 'leave' };

export type WaitReason =
  /** No manifest that may answer lists the dataset. */
  | 'not-offered'
  /** What is offered is older than what is needed. */
  | 'offer-lags'
  /** The list of versions ends before what was announced. */
  | 'list-lags'
  /** The table of a dataset that nobody holds any more stays until all logs are read. */
  | 'logs-unread';

/** What a dataset may be in, and what the step that follows is made of. */
interface Situations extends SituationsAtWork {
  /** The service refused. */
  refused: Hold;
  'no-table': null;
  'logs-unread': null;
  'needs-approval': Hold;
  'may-be-retired': Omit<Plan & { kind: 'retire' }, 'kind'>;
}

type Situation<Kind extends keyof Situations> = {
  [Each in Kind]: { readonly kind: Each; readonly data: Situations[Each] };
}[Kind];

type Row<Kind extends keyof Situations> = { readonly [Each in Kind]: (data: Situations[Each]) => Plan };

const wait = (why: WaitReason) => (): Plan => ({ kind: 'wait', why });
const reportFailure = (): Plan => ({ kind: 'report-failure' });
const reportHold = (hold: Hold): Plan => ({ kind: 'report-hold', hold });

/** Nothing stands in the way; that the last attempt failed matters only where it would be repeated. */
const AT_WORK: Row<keyof SituationsAtWork> = {
  'nothing-needed': () => ({ kind: 'keep' }),
  'history-unread': (data) => ({ kind: 'read-history', ...data }),
  'offers-unread': () => ({ kind: 'read-offers' }),
  'not-offered': wait('not-offered'),
  'offer-lags': wait('offer-lags'),
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
  'logs-unread': wait('logs-unread'),
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
  const before = versions.filter(failed.unusable).map(({ version }) => [version, UNUSABLE_BEFORE] as const);
  return step(
    AT_WORK,
    situationAtWork({ ...input, unusable: new Map([...before, ...input.unusable]) }, failed),
  );
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
      return { kind: 'logs-unread', data: null };
    case 'needs-approval':
      return { kind: 'needs-approval', data: retirement.hold };
    case 'allowed':
      return { kind: 'may-be-retired', data: { reason: retirementReason(want) } };
  }
}
