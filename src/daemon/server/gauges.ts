/** The metrics that go up and down: what they are called, and how they are told from what they are about. Pure. */

import type { DatasetState, SubscriptionState } from '../state.ts';
import type { Sizes } from './sizes.ts';

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
    amountOf: ({ lastGoodPollAt }) => moment(lastGoodPollAt),
  },
  {
    name: 'last_poll_timestamp_seconds',
    help: 'When its log was last asked for, whatever came of it; 0: not since the start.',
    amountOf: ({ lastPollAt }) => moment(lastPollAt),
  },
  {
    name: 'cursor_age_seconds',
    help: 'Age of its position in the log, which the service keeps for 90 days; 0: nothing can expire.',
    amountOf: ({ cursorAgeMs }) => seconds(cursorAgeMs),
  },
  {
    name: 'stalled',
    help: '1: it is behind and nothing has moved for a long time.',
    amountOf: ({ standing }) => Number(standing === 'stalled'),
  },
];

export const DATASET_GAUGES: readonly GaugeOf<DatasetState>[] = [
  {
    name: 'dataset_versions_behind',
    help: 'Versions between the one in the mirror and the newest known.',
    amountOf: ({ version, wantedVersion }) => Math.max(0, (wantedVersion ?? 0) - (version ?? 0)),
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

/** In bytes. One that the system does not tell is left out. */
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
function moment(at: Date | null): number {
  return at === null ? 0 : seconds(at.getTime());
}

export function seconds(milliseconds: number): number {
  return milliseconds / 1_000;
}
