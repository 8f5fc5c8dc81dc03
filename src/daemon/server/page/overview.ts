/**
 * The content of the status page, as data: whether all is well, what an operator can do, what is going on. Pure.
 *
 * Invariant: an answer changes only where something does, so that a quiet page costs a comparison: no field is the present time, and
 * the space of the disk is rounded.
 */

import type { SyncRun } from '../../../checkpoint/checkpoint.ts';
import { formatLeftOut, type RecordedUnion } from '../../../destination/catalog/unions.ts';
import { present } from '../../../lib/assert.ts';
import { shellWord } from '../../../lib/text.ts';
import { formatCount } from '../../../lib/units.ts';
import { announcedVersion } from '../../../model/desired-state.ts';
import { ERRORS } from '../../../model/error-codes.ts';
import type { Condition } from '../../../model/notification.ts';
import { conditionsOf } from '../../../reporting/conditions.ts';
import type { DatasetReport, Report } from '../../../reporting/report.ts';
import { ownSuspension, unionsOf } from '../../../reporting/status.ts';
import {
  backlogOf,
  backlogWords,
  type DatasetCondition,
  datasetCondition,
} from '../../../reporting/up-to-date.ts';
import { ONCE_ACTED } from '../../../sync/incidents.ts';
import type { DaemonState, OngoingIncident, SubscriptionState } from '../../state.ts';
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
  /** The options by which a command finds this instance, as words. */
  readonly placeOptions: readonly string[];
  readonly state: DaemonState;
  readonly sizes: Sizes;
}

type Level = 'good' | 'work' | 'warn' | 'bad';

export function overviewOf(input: PageInput) {
  const { version, dataDirectory, state, report, syncRuns, sizes } = input;
  const states = statesOf(input);
  return {
    version,
    dataDirectory,
    startedAt: state.startedAt.toISOString(),
    headline: headlineOf(input, states),
    /** The states of the datasets are those of the time when the service was last reached. */
    isOutage: outageOf(state) !== undefined,
    actions: actionsOf(input),
    work: workOf(state, states),
    subscriptions: [...state.subscriptions.values()].slice(0, MAX_SHOWN_SUBSCRIPTIONS).map((one) => ({
      name: one.name ?? one.subscriptionId,
      state: subscriptionWords(one, report),
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
  failing: 'cannot be read',
  stalled: 'stalled',
  suspended: 'suspended',
} as const;

/** A log that was read to its end says nothing of datasets that wait for somebody. */
function subscriptionWords({ subscriptionId, condition }: SubscriptionState, { datasets }: Report): string {
  if (condition !== 'idle' && condition !== 'behind') return SUBSCRIPTION_STATES[condition];
  const backlog = backlogOf(subscriptionId, datasets.values());
  return condition === 'behind' && backlog?.behind === 0 ? 'catching up' : backlogWords(backlog);
}

/** Free bytes are rounded to a hundredth of the last digit that is shown. */
const FREE_STEP_BYTES = 100_000_000;

function roundedBytes(bytes: number): number {
  return bytes < FREE_STEP_BYTES ? bytes : Math.round(bytes / FREE_STEP_BYTES) * FREE_STEP_BYTES;
}

/** How many of the chosen datasets are in each state. */
function statesOf({ state, report }: PageInput): ReadonlyMap<DatasetState, number> {
  const states = new Map<DatasetState, number>();
  for (const dataset of report.datasets.values()) {
    const is = stateOf(dataset, state);
    if (is !== 'left out') states.set(is, (states.get(is) ?? 0) + 1);
  }
  return states;
}

type States = ReturnType<typeof statesOf>;

/** Datasets that wait for an operator or for their retry are not on their way. */
function countsOf(states: States) {
  return {
    total: [...states.values()].reduce((sum, count) => sum + count, 0),
    upToDate: states.get('up to date') ?? 0,
    behind: (states.get('working') ?? 0) + (states.get('behind') ?? 0),
  };
}

function workOf({ datasets, counters }: DaemonState, states: States) {
  const working = [...datasets.values()].flatMap(({ datasetId, work }) =>
    work === null ? [] : [{ datasetId, work }],
  );
  return {
    datasets: countsOf(states),
    downloadedBytes: counters.downloadedBytes,
    steps: working.slice(0, MAX_SHOWN_STEPS).map(({ datasetId, work: { step, bytes } }) => {
      return { dataset: datasetId, step, bytes };
    }),
  };
}

function outageOf({ incidents }: DaemonState): OngoingIncident | undefined {
  return incidents.find(({ error }) => error === 'service_unavailable');
}

interface Headline {
  readonly level: Level;
  readonly text: string;
  readonly detail: string;
}

const SERVED = 'All tables serve their last proven version.';

function headlineOf(input: PageInput, states: States): Headline {
  const { state } = input;
  const [reason] = reasonsNotWell(state).filter(({ kind }) => kind !== 'suspended');
  const waiting = waitingGroups(input).reduce((sum, group) => sum + group.length, 0);
  const outage = outageOf(state);
  if (state.phase === 'draining') return { level: 'work', text: 'feed-sync is ending', detail: SERVED };
  if (outage !== undefined) {
    const since = outage.since.toISOString().slice(0, 16).replace('T', ' ');
    const detail = `Since ${since} UTC. ${SERVED} feed-sync goes on by itself once the service answers.`;
    return { level: 'bad', text: 'The service cannot be reached', detail };
  }
  if (reason !== undefined)
    return { level: 'bad', text: 'Something needs attention', detail: reason.message };
  if (waiting > 0) {
    const text = waiting === 1 ? 'One thing waits for you' : `${formatCount(waiting)} things wait for you`;
    return { level: 'warn', text, detail: `${SERVED} Everything else goes on.` };
  }
  if (state.phase === 'starting' && states.size === 0) {
    return { level: 'work', text: 'Asking the service what there is', detail: '' };
  }
  return headlineOfDatasets(states);
}

/** Nothing waits for an operator, and the service answers. */
function headlineOfDatasets(states: States): Headline {
  const { total, upToDate, behind } = countsOf(states);
  const share = `${formatCount(upToDate)} of ${formatCount(total)} datasets are up to date`;
  if (behind > 0) {
    const onTheirWay =
      upToDate + behind === total
        ? 'The others are on their way; nothing'
        : `Of the others: ${formatCount(behind)} on the way, ${othersOf(states)}. Nothing`;
    return { level: 'work', text: share, detail: `${onTheirWay} waits for you.` };
  }
  const failed = states.get('failed') ?? 0;
  if (failed > 0) {
    const text = failed === 1 ? 'One dataset fails' : `${formatCount(failed)} datasets fail`;
    return { level: 'bad', text, detail: `${SERVED} Failed datasets are tried again by themselves.` };
  }
  const detail = 'Nothing waits for you.';
  if (upToDate < total) {
    return { level: 'good', text: share, detail: `Of the others: ${othersOf(states)}. ${detail}` };
  }
  const all = `All ${formatCount(total)} datasets are up to date`;
  return { level: 'good', text: total === 1 ? 'The dataset is up to date' : all, detail };
}

/** `1 pinned, 2 to be retired`. */
function othersOf(states: States): string {
  const others = ORDER.filter((one) => !['up to date', 'working', 'behind'].includes(one));
  return others
    .flatMap((one) => (states.has(one) ? [`${formatCount(states.get(one) ?? 0)} ${one}`] : []))
    .join(', ');
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
  const isOutage = outageOf(input.state) !== undefined;
  return groupsOf(input).map((group) => {
    const first = present(group[0], 'a group has a condition');
    const { kind, subject, text, advice } = first;
    const isOne = group.length === 1;
    const [command] = isOne ? (COMMAND.exec(advice)?.slice(1) ?? []) : ['feed-sync status'];
    return {
      level: kind === 'failing' ? 'bad' : 'warn',
      title: capitalized(
        `${subject}${isOne ? '' : ` and ${formatCount(group.length - 1)} more`}: ${VERBS[kind]}`,
      ),
      text,
      names: group.slice(0, MAX_SHOWN_NAMES).map((one) => one.subject),
      count: group.length,
      advice: isOne
        ? withoutCommand(isOutage ? onceReached(advice) : advice)
        : 'This names each, with its own command:',
      command: command === undefined ? null : inPlace(command, subject, input.placeOptions),
    };
  });
}

const VERBS = {
  suspended: 'suspended',
  failing: 'failing',
  retention_near: 'without events for long',
} as const;

/** While the service cannot be reached, nothing comes of a suspension that is lifted. */
function onceReached(advice: string): string {
  return advice.replace(ONCE_ACTED, `${ONCE_ACTED} and the service answers again`);
}

/** The command as it can be copied: for this dataset and for this instance, from any folder. */
function inPlace(command: string, subject: string, placeOptions: readonly string[]): string {
  const own = command.replace(/\bDATASET$/, shellWord(subject.replace(/^dataset /, '')));
  return [own, ...placeOptions.map(shellWord)].join(' ');
}

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

/** A dataset that is to be loaded counts as behind, too. */
type DatasetState = Exclude<DatasetCondition, 'to be loaded'> | 'working';

const ORDER: readonly DatasetState[] = [
  'suspended',
  'failed',
  'working',
  'behind',
  'not known',
  'pinned',
  'to be retired',
  'up to date',
  'left out',
];

/**
 * Returns the datasets, the most pressing first, then in order of id. Rows without names of fields: 12,000 of them are asked for again and
 * again.
 */
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

function stateOf(dataset: DatasetReport, { datasets }: DaemonState): DatasetState {
  const condition = datasetCondition(dataset);
  const isWorkedOn = (datasets.get(dataset.id)?.work ?? null) !== null;
  if (isWorkedOn && condition !== 'left out' && condition !== 'suspended') return 'working';
  return condition === 'to be loaded' ? 'behind' : condition;
}

function whyOf(dataset: DatasetReport): string {
  const { failure, retirement } = dataset;
  return ownSuspension(dataset)?.refusal.message ?? failure?.message ?? retirement?.reason ?? '';
}
