/** The metrics that only grow while the process lives: what they are called, and how they are told from the tally. Pure. */

import { EVENT_TYPES } from '../../model/event.ts';
import type { Tally } from '../state.ts';

export interface CounterOfTally {
  /** Without the program's name in front. */
  readonly name: string;
  readonly help: string;
  readonly amountOf: (tally: Tally) => number;
}

export interface LabelledCounterOfTally {
  readonly name: string;
  readonly help: string;
  readonly label: string;
  /** Every value that the label can have. Each is there from the start as 0, so that its first time counts as an increase. */
  readonly values: readonly string[];
  readonly amountsOf: (tally: Tally) => ReadonlyMap<string, number>;
}

export const COUNTERS: readonly CounterOfTally[] = [
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

export const LABELLED_COUNTERS: readonly LabelledCounterOfTally[] = [
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

/** What a map of the tally has for keys. */
type KeyOf<Name extends keyof Tally> = Tally[Name] extends ReadonlyMap<infer Key, number> ? Key : never;
