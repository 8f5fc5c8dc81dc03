/** Defines the metrics that only grow while the process lives: their names, and their values from the counters. Pure. */

import { EVENT_TYPES } from '../../model/event.ts';
import type { Counters, DatasetActivity, SubscriptionState } from '../state.ts';
import type { Sizes } from './sizes.ts';

interface CounterOf {
  /** Without the program's name in front. */
  readonly name: string;
  readonly help: string;
  readonly amountOf: (counters: Counters) => number;
}

interface LabelledCounterOf {
  readonly name: string;
  readonly help: string;
  readonly label: string;
  /** Every value of the label. Each is 0 from the start, so that its first occurrence counts as an increase. */
  readonly values: readonly string[];
  readonly amountsOf: (counters: Counters) => ReadonlyMap<string, number>;
}

export const COUNTERS: readonly CounterOf[] = [
  {
    name: 'downloaded_bytes_total',
    help: 'Bytes of files and of pages of changes.',
    amountOf: ({ downloadedBytes }) => downloadedBytes,
  },
  { name: 'polls_total', help: 'Times that the service was asked for news.', amountOf: ({ polls }) => polls },
  {
    name: 'audits_total',
    help: 'Times that all that is wanted was compared with the manifests.',
    amountOf: ({ audits }) => audits,
  },
  {
    name: 'interruptions_total',
    help: 'Units of work that made no progress and were interrupted.',
    amountOf: ({ interruptions }) => interruptions,
  },
];

export const LABELLED_COUNTERS: readonly LabelledCounterOf[] = [
  {
    name: 'events_total',
    help: 'Events that were read, by type.',
    label: 'type',
    values: [...EVENT_TYPES, 'unreadable'] satisfies readonly KeyOf<'events'>[],
    amountsOf: ({ events }) => events,
  },
  {
    name: 'rows_applied_total',
    help: 'Rows by what a commit did with them; loaded: of a table that was replaced as a whole.',
    label: 'op',
    values: ['added', 'changed', 'removed', 'loaded'] satisfies readonly KeyOf<'rows'>[],
    amountsOf: ({ rows }) => rows,
  },
  {
    name: 'commits_total',
    help: 'Commits to the mirror, by kind.',
    label: 'kind',
    values: ['snapshot', 'changes', 'retirement'] satisfies readonly KeyOf<'commits'>[],
    amountsOf: ({ commits }) => commits,
  },
  {
    name: 'resyncs_total',
    help: 'Snapshots that replaced a table, by why.',
    label: 'reason',
    values: ['reload', 'resync', 'schema', 'version'] satisfies readonly KeyOf<'resyncs'>[],
    amountsOf: ({ resyncs }) => resyncs,
  },
];

/** The keys of a map among the counters. */
type KeyOf<Name extends keyof Counters> = Counters[Name] extends ReadonlyMap<infer Key, number> ? Key : never;

export interface GaugeOf<Source> {
  /** Without the program's name in front. */
  readonly name: string;
  readonly help: string;
  readonly amountOf: (source: Source, now: Date) => number;
}

export const SUBSCRIPTION_GAUGES: readonly GaugeOf<SubscriptionState>[] = [
  {
    name: 'last_success_timestamp_seconds',
    help: 'When its log was last read to its head; 0: not since the start.',
    amountOf: ({ lastGoodPollAt }) => timestamp(lastGoodPollAt),
  },
  {
    name: 'last_poll_timestamp_seconds',
    help: 'When its log was last asked for, whatever came of it; 0: not since the start.',
    amountOf: ({ lastPollAt }) => timestamp(lastPollAt),
  },
  {
    name: 'cursor_age_seconds',
    help: 'Age of its position in the log, which the service keeps for 90 days; 0: nothing can expire.',
    amountOf: ({ cursorAgeMs }) => seconds(cursorAgeMs),
  },
  {
    name: 'stalled',
    help: '1: it is behind and nothing has moved for a long time.',
    amountOf: ({ condition }) => Number(condition === 'stalled'),
  },
];

export const DATASET_GAUGES: readonly GaugeOf<DatasetActivity>[] = [
  {
    name: 'dataset_versions_behind',
    help: 'Versions between the one in the mirror and the newest known.',
    amountOf: ({ version, targetVersion }) => Math.max(0, (targetVersion ?? 0) - (version ?? 0)),
  },
  {
    name: 'dataset_lag_seconds',
    help: 'Since when it is not where it should be; 0: it is.',
    amountOf: ({ behindSince }, now) =>
      behindSince === null ? 0 : seconds(Math.max(0, now.getTime() - behindSince.getTime())),
  },
  {
    name: 'dataset_failures',
    help: 'Failed attempts in a row; 0: the last one went well.',
    amountOf: ({ failure }) => failure?.attempts ?? 0,
  },
];

/** In bytes. A size that the system does not state is left out. */
export const SIZE_GAUGES: readonly {
  readonly name: string;
  readonly help: string;
  readonly of: keyof Sizes;
}[] = [
  { name: 'mirror_bytes', help: 'The mirror with its log.', of: 'mirror' },
  { name: 'checkpoint_bytes', help: 'The checkpoint with its log.', of: 'checkpoint' },
  { name: 'disk_free_bytes', help: 'What the disk of the data directory has left for us.', of: 'diskFree' },
  { name: 'disk_reserve_bytes', help: 'What is kept free of it.', of: 'diskReserve' },
];

/** Seconds since 1970. */
function timestamp(at: Date | null): number {
  return at === null ? 0 : seconds(at.getTime());
}

export function seconds(milliseconds: number): number {
  return milliseconds / 1_000;
}
