/**
 * The content of the status page, as data: whether all is well, what an operator can do, what is going on. Pure.
 *
 * Invariant: an answer changes only where something does, so that a quiet page costs a comparison: no field is the present time, and
 * the space of the disk is rounded.
 */

import type { SyncRun } from '../../../checkpoint/checkpoint.ts';
import { formatLeftOut, type RecordedUnion } from '../../../destination/catalog/unions.ts';
import { present } from '../../../lib/assert.ts';
import { formatCount } from '../../../lib/units.ts';
import { announcedVersion } from '../../../model/desired-state.ts';
import { ERRORS } from '../../../model/error-codes.ts';
import type { Condition } from '../../../model/notification.ts';
import { conditionsOf } from '../../../reporting/conditions.ts';
import type { DatasetReport, Report } from '../../../reporting/report.ts';
import { ownSuspension, unionsOf } from '../../../reporting/status.ts';
import type { DaemonState, DatasetActivity, OngoingIncident } from '../../state.ts';
import { reasonsNotWell } from '../health.ts';
import {
  MAX_SHOWN_COMMITS,
  MAX_SHOWN_NAMES,
  MAX_SHOWN_STEPS,
  MAX_SHOWN_SUBSCRIPTIONS,
  MAX_SHOWN_UNIONS,
} from '../limits.ts';
import type { Sizes } from '../metrics.ts';

export interface PageStores {
  readonly report: Report;
  /** The newest first. */
  readonly syncRuns: readonly SyncRun[];
}

export interface PageInput extends PageStores {
  readonly version: string;
  readonly dataDirectory: string;
  readonly state: DaemonState;
  readonly sizes: Sizes;
}

type Level = 'good' | 'work' | 'warn' | 'bad';

export function overviewOf(input: PageInput) {
  const { version, dataDirectory, state, report, syncRuns, sizes } = input;
  return {
    version,
    dataDirectory,
    startedAt: state.startedAt.toISOString(),
    headline: headlineOf(input),
    /** The states of the datasets are those of the time when the service was last reached. */
    isOutage: outageOf(state) !== undefined,
    actions: actionsOf(input),
    work: workOf(state),
    subscriptions: [...state.subscriptions.values()].slice(0, MAX_SHOWN_SUBSCRIPTIONS).map((one) => ({
      name: one.name ?? one.subscriptionId,
      state: SUBSCRIPTION_STATES[one.condition],
      readAt: one.lastGoodPollAt?.toISOString() ?? null,
      expiresAt: one.cursorExpiresAt?.toISOString() ?? null,
    })),
    commits: syncRuns.slice(0, MAX_SHOWN_COMMITS).map(({ at, kind, datasetId, detail }) => ({
      at: at.toISOString(),
      kind,
      dataset: datasetId ?? '',
      detail,
    })),
    unions: (unionsOf(report) ?? []).slice(0, MAX_SHOWN_UNIONS).map(unionOf),
    disk: {
      mirrorBytes: sizes.mirror,
      checkpointBytes: sizes.checkpoint,
      freeBytes: sizes.diskFree === null ? null : roundedBytes(sizes.diskFree),
      reserveBytes: sizes.diskReserve,
    },
  };
}

function unionOf({ name, members, leftOut, unusable }: RecordedUnion) {
  const columns = leftOut.slice(0, MAX_SHOWN_NAMES).map(formatLeftOut);
  return {
    name,
    tables: members,
    leftOutColumns: { shown: columns, count: leftOut.length },
    leftOutDatasets: { shown: unusable.slice(0, MAX_SHOWN_NAMES), count: unusable.length },
  };
}

const SUBSCRIPTION_STATES = {
  idle: 'up to date',
  behind: 'catching up',
  failing: 'cannot be read',
  stalled: 'stalled',
  suspended: 'suspended',
} as const;

/** To a hundredth of the digits that are shown. */
const FREE_STEP_BYTES = 100_000_000;

function roundedBytes(bytes: number): number {
  return bytes < FREE_STEP_BYTES ? bytes : Math.round(bytes / FREE_STEP_BYTES) * FREE_STEP_BYTES;
}

function workOf({ datasets, counters }: DaemonState) {
  const all = [...datasets.values()];
  const working = all.flatMap(({ datasetId, work }) => (work === null ? [] : [{ datasetId, work }]));
  return {
    datasets: { total: all.length, behind: all.filter(isOnItsWay).length },
    downloadedBytes: counters.downloadedBytes,
    steps: working.slice(0, MAX_SHOWN_STEPS).map(({ datasetId, work: { step, bytes } }) => {
      return { dataset: datasetId, step, bytes };
    }),
  };
}

/** A dataset that waits for an operator or for its retry is not on its way. */
function isOnItsWay({ behindSince, failure, awaitingSince, work }: DatasetActivity): boolean {
  return work !== null || (behindSince !== null && failure === null && awaitingSince === null);
}

function outageOf({ incidents }: DaemonState): OngoingIncident | undefined {
  return incidents.find(({ error }) => error === 'service_unavailable');
}

function headlineOf(input: PageInput): {
  readonly level: Level;
  readonly text: string;
  readonly detail: string;
} {
  const { state } = input;
  const { total, behind } = workOf(state).datasets;
  const [reason] = reasonsNotWell(state).filter(({ kind }) => kind !== 'suspended');
  const waiting = waitingGroups(input).reduce((sum, group) => sum + group.length, 0);
  const outage = outageOf(state);
  const failed = [...state.datasets.values()].filter(({ failure }) => failure !== null).length;
  const served = 'All tables serve their last proven version.';
  if (state.phase === 'draining') return { level: 'work', text: 'feed-sync is ending', detail: served };
  if (outage !== undefined) {
    const since = outage.since.toISOString().slice(0, 16).replace('T', ' ');
    const detail = `Since ${since} UTC. ${served} feed-sync goes on by itself once the service answers.`;
    return { level: 'bad', text: 'The service cannot be reached', detail };
  }
  if (reason !== undefined) return { level: 'bad', text: 'Something needs a look', detail: reason.message };
  if (waiting > 0) {
    const text = waiting === 1 ? 'One thing waits for you' : `${formatCount(waiting)} things wait for you`;
    return { level: 'warn', text, detail: `${served} Everything else goes on.` };
  }
  if (state.phase === 'starting' && total === 0) {
    return { level: 'work', text: 'Asking the service what there is', detail: '' };
  }
  if (behind > 0) {
    const text = `${formatCount(total - behind)} of ${formatCount(total)} datasets are up to date`;
    return { level: 'work', text, detail: 'The others are on their way; nothing waits for you.' };
  }
  if (failed > 0) {
    const text = failed === 1 ? 'One dataset fails' : `${formatCount(failed)} datasets fail`;
    return { level: 'bad', text, detail: `${served} Failed datasets are tried again by themselves.` };
  }
  const text =
    total === 1 ? 'The dataset is up to date' : `All ${formatCount(total)} datasets are up to date`;
  return { level: 'good', text, detail: 'Nothing waits for you.' };
}

/** By cause, so that one cause is one thing to do, however many datasets it strikes. */
function waitingGroups(input: PageInput): readonly (readonly Condition[])[] {
  return groupsOf(input).filter(([first]) => first?.kind === 'suspended');
}

function groupsOf({ state, report }: PageInput): readonly (readonly Condition[])[] {
  const { checkpoint, suspensions } = report;
  const conditions = conditionsOf({
    suspensions: suspensions.all,
    failures: checkpoint.failures.values(),
    followed: checkpoint.followed.values(),
    incidents: state.incidents.map(({ of, error, isStall }) => {
      return { of, error, isLoud: isStall || ERRORS[error].disposition === 'stop' };
    }),
    now: state.now,
  });
  const loud = conditions.filter(({ isLoud }) => isLoud);
  return [...Map.groupBy(loud, ({ kind, cause }) => `${kind} ${cause}`).values()];
}

/** The command in an advice: `Once you have acted on it: feed-sync resume --dataset a`, or between backquotes. */
const COMMAND = /(?:: |`)(feed-sync [^`\n]+?)(?:`|\s\(or|$)/;

function actionsOf(input: PageInput) {
  return groupsOf(input).map((group) => {
    const first = present(group[0], 'a group has a condition');
    const { kind, subject, text, advice } = first;
    const isOne = group.length === 1;
    const [command = null] = isOne ? (COMMAND.exec(advice)?.slice(1) ?? []) : ['feed-sync status'];
    return {
      level: kind === 'failing' ? 'bad' : 'warn',
      title: capitalized(
        `${subject}${isOne ? '' : ` and ${formatCount(group.length - 1)} more`}: ${VERBS[kind]}`,
      ),
      text,
      names: group.slice(0, MAX_SHOWN_NAMES).map((one) => one.subject),
      count: group.length,
      advice: isOne ? withoutCommand(advice) : 'This names each, with its own command:',
      command,
    };
  });
}

const VERBS = {
  suspended: 'suspended',
  failing: 'failing',
  retention_near: 'without events for long',
} as const;

/** The command stands below: one at the end of the text is not said twice. */
function withoutCommand(advice: string): string {
  return advice.replace(/: feed-sync [^`\n]+$/, ':').replaceAll('`', '');
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A row: id, state, version here, version at the service, rows, published, last commit, why. */
type DatasetRow = readonly [
  string,
  DatasetState,
  number | null,
  number | null,
  number | null,
  string | null,
  string | null,
  string,
];

type DatasetState =
  | 'suspended'
  | 'failed'
  | 'working'
  | 'behind'
  | 'pinned'
  | 'left out'
  | 'retiring'
  | 'up to date';

const ORDER: readonly DatasetState[] = [
  'suspended',
  'failed',
  'working',
  'behind',
  'pinned',
  'retiring',
  'up to date',
  'left out',
];

/** The most pressing first, then in order of id. Rows without names of fields: 12,000 of them are asked for again and again. */
export function datasetsOf({ state, report }: Pick<PageInput, 'state' | 'report'>) {
  const rows = [...report.datasets.values()].map((dataset): DatasetRow => {
    const { id, desired, observed } = dataset;
    const is = stateOf(dataset, state);
    const version = observed?.version ?? null;
    const announced = desired === null ? null : announcedVersion(desired);
    return [
      id,
      is,
      version,
      // Nothing is announced of a version that a first load brought.
      announced ?? (is === 'up to date' ? version : null),
      observed?.rowCount ?? null,
      observed?.publishedAt?.toISOString() ?? null,
      observed?.appliedAt.toISOString() ?? null,
      whyOf(dataset),
    ];
  });
  return { datasets: rows.toSorted(([, left], [, right]) => ORDER.indexOf(left) - ORDER.indexOf(right)) };
}

function stateOf(
  { id, isChosen, suspension, failure, phase, need, retirement }: DatasetReport,
  { datasets }: DaemonState,
) {
  const activity = datasets.get(id);
  if (!isChosen) return 'left out';
  if (suspension !== null) return 'suspended';
  if (activity !== undefined && activity.work !== null) return 'working';
  if (failure !== null) return 'failed';
  if (phase === 'pinned') return 'pinned';
  if (retirement !== null) return 'retiring';
  return (need === null || need === 'nothing') && (activity?.behindSince ?? null) === null
    ? 'up to date'
    : 'behind';
}

function whyOf(dataset: DatasetReport): string {
  const { failure, retirement } = dataset;
  return ownSuspension(dataset)?.refusal.message ?? failure?.message ?? retirement?.reason ?? '';
}
