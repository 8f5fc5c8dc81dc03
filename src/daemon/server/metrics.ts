/**
 * The metrics, in the conventions of Prometheus: base units, `_total` for values that only grow. README.md lists them.
 *
 * Invariant: all values of one scrape are of the same time. All but the durations come from a snapshot of the daemon's state
 * made on request. Each server has a registry of its own, because a process may start a second server.
 */

import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Suspension } from '../../checkpoint/checkpoint.ts';
import { freeBytes, systemCode } from '../../lib/files.ts';
import { EVENT_TYPES } from '../../model/event.ts';
import type { Counters, DaemonState, DatasetActivity, Observed, SubscriptionState } from '../state.ts';
import {
  MAX_LABEL_CHARACTERS,
  MAX_LABELLED_CODES,
  MAX_LABELLED_DATASETS,
  MAX_LABELLED_INCIDENTS,
  MAX_LABELLED_SUBSCRIPTIONS,
} from './limits.ts';

export interface Metrics {
  readonly contentType: string;
  render(state: DaemonState, sizes: Sizes): Promise<string>;
  countDelivery(outcome: DeliveryOutcome): void;
  /** Ends the observation. */
  stop(): void;
}

const DELIVERY_OUTCOMES = ['woke', 'repeated', 'refused'] as const;

/** The result of a webhook delivery: it woke the loop, was a repetition, or was refused. */
export type DeliveryOutcome = (typeof DELIVERY_OUTCOMES)[number];

const PREFIX = 'feed_sync_';

const DURATION_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600];

export function createMetrics(version: string, observed: Observed): Metrics {
  const registry = new Registry();
  const options = (name: string, help: string, labelNames: readonly string[] = []) => {
    return { name: `${PREFIX}${name}`, help, labelNames, registers: [registry] };
  };
  const measured = METRICS.map(({ type, name, help, labels, amounts }) => {
    const metric = new { gauge: Gauge, counter: Counter }[type](options(name, help, labels));
    return { metric, labels, amounts };
  });
  const deliveries = new Counter(
    options('webhook_deliveries_total', 'Webhooks, by what came of them.', ['outcome']),
  );
  for (const outcome of DELIVERY_OUTCOMES) deliveries.inc({ outcome }, 0);
  new Gauge(options('build_info', 'Always 1; the version of the program.', ['version'])).set({ version }, 1);
  const durations = (name: string, help: string): Histogram =>
    new Histogram({ ...options(name, help), buckets: DURATION_BUCKETS_SECONDS });
  const apply = durations('apply_duration_seconds', 'From the first request to the commit.');
  const download = durations('download_duration_seconds', 'Until all files or pages had arrived.');
  const stop = observed.observe((daemonEvent) => {
    if (daemonEvent.kind === 'commit') apply.observe(seconds(daemonEvent.commit.durationMs));
    if (daemonEvent.kind === 'download') download.observe(seconds(daemonEvent.durationMs));
  });
  return {
    contentType: registry.contentType,
    async render(state, sizes) {
      for (const { metric, labels, amounts } of measured) {
        // A metric without labels would be 0 after a reset, instead of missing.
        if (labels.length === 0) metric.remove();
        else metric.reset();
        // A counter gets its total, not its increase.
        for (const [values, amount] of amounts(state, sizes)) metric.labels(...values).inc(amount);
      }
      return `${await registry.metrics()}\n${await processMetrics()}`;
    },
    countDelivery: (outcome) => deliveries.inc({ outcome }),
    stop,
  };
}

/** The values of the labels, in the order of their names, and the amount. */
type Amount = readonly [values: readonly string[], amount: number];

interface Metric {
  readonly type: 'gauge' | 'counter';
  /** Without the program's name in front. */
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly amounts: (state: DaemonState, sizes: Sizes) => readonly Amount[];
}

const METRICS: readonly Metric[] = [
  ofSubscriptions(
    'last_success_timestamp_seconds',
    'When its log was last read to its head; 0: not since the start.',
    ({ lastGoodPollAt }) => seconds(lastGoodPollAt?.getTime() ?? 0),
  ),
  ofSubscriptions(
    'last_poll_timestamp_seconds',
    'When its log was last asked for, whatever came of it; 0: not since the start.',
    ({ lastPollAt }) => seconds(lastPollAt?.getTime() ?? 0),
  ),
  ofSubscriptions(
    'cursor_age_seconds',
    'Age of its position in the log, which the service keeps for 90 days; 0: nothing can expire.',
    ({ cursorAgeMs }) => seconds(cursorAgeMs),
  ),
  ofSubscriptions('stalled', '1: it is behind and nothing has moved for a long time.', ({ condition }) =>
    Number(condition === 'stalled'),
  ),
  {
    type: 'gauge',
    name: 'datasets',
    help: 'Datasets that a subscription contains, or that have a table.',
    labels: [],
    amounts: ({ datasets }) => [[[], datasets.size]],
  },
  {
    type: 'gauge',
    name: 'datasets_pinned',
    help: 'Datasets that a rollback keeps where they are, until an operator resumes them.',
    labels: [],
    amounts: ({ datasets }) => [
      [[], [...datasets.values()].filter(({ pinnedSince }) => pinnedSince !== null).length],
    ],
  },
  ofDatasets(
    'dataset_versions_behind',
    'Versions between the one in the mirror and the newest known.',
    ({ version, targetVersion }) => Math.max(0, (targetVersion ?? 0) - (version ?? 0)),
  ),
  ofDatasets(
    'dataset_lag_seconds',
    'Since when it is not where it should be; 0: it is.',
    ({ behindSince }, now) => (behindSince === null ? 0 : secondsBetween(behindSince, now)),
  ),
  ofDatasets(
    'dataset_failures',
    'Failed attempts in a row; 0: the last one went well.',
    ({ failure }) => failure?.attempts ?? 0,
  ),
  ofDatasets(
    'dataset_awaiting_approval_seconds',
    'How long a commit has waited for approval; 0: none does.',
    ({ awaitingSince }, now) => (awaitingSince === null ? 0 : secondsBetween(awaitingSince, now)),
  ),
  {
    type: 'gauge',
    name: 'suspensions',
    help: 'Suspensions that wait for an operator, by scope and code.',
    labels: ['scope', 'code'],
    amounts: ({ suspensions }) => countSuspensions(suspensions),
  },
  {
    type: 'gauge',
    name: 'incident_seconds',
    help: 'How long an incident that is not of a dataset has lasted, by its owner.',
    labels: ['of'],
    amounts: ({ incidents, now }) =>
      incidents.slice(0, MAX_LABELLED_INCIDENTS).map(({ of, since }) => {
        return [[labelOf(of)], secondsBetween(since, now)];
      }),
  },
  counter('downloaded_bytes_total', 'Bytes of files and of pages of changes.', (of) => of.downloadedBytes),
  counter('polls_total', 'Times that the service was asked for news.', ({ polls }) => polls),
  counter(
    'audits_total',
    'Times that the desired state was compared with the manifests.',
    ({ audits }) => audits,
  ),
  counter(
    'interruptions_total',
    'Times that running work made no progress and was interrupted.',
    ({ interruptions }) => interruptions,
  ),
  labelledCounter('events', 'events_total', 'Events that were read, by type.', 'type', [
    ...EVENT_TYPES,
    'unreadable',
  ]),
  labelledCounter(
    'rows',
    'rows_applied_total',
    'Rows by what a commit did with them; loaded: of a table that was replaced as a whole.',
    'op',
    ['added', 'changed', 'removed', 'loaded'],
  ),
  labelledCounter('commits', 'commits_total', 'Commits to the mirror, by kind.', 'kind', [
    'snapshot',
    'changes',
    'retirement',
    'rollback',
  ]),
  labelledCounter('resyncs', 'resyncs_total', 'Snapshots that replaced a table, by why.', 'reason', [
    'reload',
    'resync',
    'schema',
    'version',
  ]),
  labelledCounter('exports', 'exports_total', 'Exports, by what came of them.', 'outcome', [
    'written',
    'failed',
  ]),
  {
    type: 'gauge',
    name: 'last_export_timestamp_seconds',
    help: 'When the newest generation of the export was written; 0: there is none.',
    labels: [],
    amounts: (_state, { exportedAtMs = null }) =>
      exportedAtMs === null ? [] : [[[], seconds(exportedAtMs)]],
  },
  {
    type: 'gauge',
    name: 'scrub_completed_timestamp_seconds',
    help: 'When every block of the mirror and the checkpoint had last been read; 0: never.',
    labels: [],
    amounts: ({ scrub }) => (scrub === null ? [] : [[[], seconds(scrub.completedAt?.getTime() ?? 0)]]),
  },
  {
    type: 'counter',
    name: 'http_requests_total',
    help: 'Requests to the service, by operation and status; none: no answer came.',
    labels: ['operation', 'status'],
    amounts: ({ counters }) =>
      [...counters.requests].flatMap(([operation, statuses]) =>
        [...statuses].map(([status, count]): Amount => [[operation, status], count]),
      ),
  },
  size('mirror_bytes', 'The mirror with its log.', 'mirror'),
  size('checkpoint_bytes', 'The checkpoint with its log.', 'checkpoint'),
  size('disk_free_bytes', 'What the disk of the data directory has left for us.', 'diskFree'),
  size('disk_reserve_bytes', 'What is kept free of it.', 'diskReserve'),
];

function ofSubscriptions(
  name: string,
  help: string,
  amountOf: (subscription: SubscriptionState) => number,
): Metric {
  const amounts: Metric['amounts'] = ({ subscriptions }) =>
    [...subscriptions]
      .slice(0, MAX_LABELLED_SUBSCRIPTIONS)
      .map(([id, subscription]) => [[labelOf(id)], amountOf(subscription)]);
  return { type: 'gauge', name, help, labels: ['subscription'], amounts };
}

function ofDatasets(
  name: string,
  help: string,
  amountOf: (dataset: DatasetActivity, now: Date) => number,
): Metric {
  const amounts: Metric['amounts'] = ({ datasets, now }) =>
    mostPressing([...datasets.values()], MAX_LABELLED_DATASETS).map((dataset) => {
      return [[labelOf(dataset.datasetId)], amountOf(dataset, now)];
    });
  return { type: 'gauge', name, help, labels: ['dataset'], amounts };
}

function counter(name: string, help: string, amountOf: (counters: Counters) => number): Metric {
  return { type: 'counter', name, help, labels: [], amounts: ({ counters }) => [[[], amountOf(counters)]] };
}

/** The counters that have a label. */
type Labelled = 'events' | 'rows' | 'commits' | 'resyncs' | 'exports';
type KeyOf<Name extends Labelled> = Counters[Name] extends ReadonlyMap<infer Key, number> ? Key : never;

/** `values`: every value of the label. Each is 0 from the start, so that its first occurrence counts as an increase. */
function labelledCounter<Name extends Labelled>(
  of: Name,
  name: string,
  help: string,
  label: string,
  values: readonly (KeyOf<Name> & string)[],
): Metric {
  const amounts: Metric['amounts'] = ({ counters }) => {
    const counts: ReadonlyMap<string, number> = counters[of];
    return values.map((value) => [[value], counts.get(value) ?? 0]);
  };
  return { type: 'counter', name, help, labels: [label], amounts };
}

/** A size that the system does not state is left out. */
function size(name: string, help: string, of: Exclude<keyof Sizes, 'exportedAtMs'>): Metric {
  const amounts: Metric['amounts'] = (_state, { [of]: bytes }) => (bytes === null ? [] : [[[], bytes]]);
  return { type: 'gauge', name, help, labels: [], amounts };
}

function seconds(milliseconds: number): number {
  return milliseconds / 1_000;
}

function secondsBetween(since: Date, now: Date): number {
  return seconds(Math.max(0, now.getTime() - since.getTime()));
}

let ofProcess: Registry | null = null;

/**
 * Returns lines for Prometheus. Collecting begins with the first call and never ends, so the whole process shares one
 * collection, however many servers it starts.
 */
function processMetrics(): Promise<string> {
  if (ofProcess === null) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  return ofProcess.metrics();
}

const DIGEST_CHARACTERS = 16;

/** Returns the id, or its beginning and a digest where the id is long. */
function labelOf(id: string): string {
  if (id.length <= MAX_LABEL_CHARACTERS) return id;
  const digest = createHash('sha256').update(id).digest('hex').slice(0, DIGEST_CHARACTERS);
  return `${id.slice(0, MAX_LABEL_CHARACTERS - DIGEST_CHARACTERS - 1).toWellFormed()}…${digest}`;
}

/** Returns at most `most` datasets: failed ones and ones that are behind before all others, the longest first. */
export function mostPressing(datasets: readonly DatasetActivity[], most: number): readonly DatasetActivity[] {
  if (datasets.length <= most) return datasets;
  return datasets.toSorted((left, right) => pressure(left) - pressure(right)).slice(0, most);
}

/** Smaller is more pressing. */
function pressure({ failure, behindSince }: DatasetActivity): number {
  if (behindSince !== null) return behindSince.getTime();
  return failure === null ? Number.MAX_VALUE : Number.MAX_SAFE_INTEGER;
}

/** Counts the suspensions of each scope and code. The service defines the codes, so beyond a limit all further codes count as one. */
function countSuspensions(suspensions: readonly Suspension[]): readonly Amount[] {
  const codes = new Set<string>();
  return suspensions.map(({ refusal }) => {
    const own = labelOf(refusal.code ?? 'none');
    if (codes.size < MAX_LABELLED_CODES) codes.add(own);
    return [[refusal.scope.kind, codes.has(own) ? own : 'other'], 1];
  });
}

export interface Folders {
  readonly mirrorPath: string;
  /** Counts the bytes of a database, which is no file; null where it does not say. Missing for a file. */
  readonly databaseBytes?: () => Promise<number | null>;
  readonly checkpointPath: string;
  readonly dataDirectory: string;
  /** Bytes kept free. */
  readonly diskReserveBytes: number;
  /** The manifest of the export; missing where nothing is exported. */
  readonly exportManifestPath?: string;
}

/** The sizes, in bytes; null where the system does not state the size. */
export interface Sizes {
  /** With its log. 0: there is no file yet. */
  readonly mirror: number | null;
  readonly checkpoint: number | null;
  readonly diskFree: number | null;
  readonly diskReserve: number;
  /** When the manifest of the export was written, in milliseconds since 1970, 0 where there is none; missing where nothing is exported. */
  readonly exportedAtMs?: number | null;
}

/** Measures the files of the stores and the disk. */
export async function measure(places: Folders): Promise<Sizes> {
  const { exportManifestPath: manifest } = places;
  const [mirror, checkpoint, diskFree, exportedAtMs] = await Promise.all([
    places.databaseBytes?.() ?? orNull(() => fileBytes(places.mirrorPath, '.wal')),
    orNull(() => fileBytes(places.checkpointPath, '-wal')),
    orNull(() => freeBytes(places.dataDirectory)),
    manifest === undefined ? null : orNull(() => changedAtMs(manifest)),
  ]);
  return { mirror, checkpoint, diskFree, diskReserve: places.diskReserveBytes, exportedAtMs };
}

async function changedAtMs(path: string): Promise<number> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    return 0;
  }
}

async function fileBytes(path: string, log: string): Promise<number> {
  let bytes = 0;
  for (const one of [path, `${path}${log}`]) {
    try {
      bytes += (await stat(one)).size;
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
    }
  }
  return bytes;
}

/** Errors of a measurement are dropped, because the loop reports errors of the disk more clearly. */
async function orNull(measurement: () => Promise<number>): Promise<number | null> {
  try {
    return await measurement();
  } catch (error) {
    if (systemCode(error) === null) throw error;
    return null;
  }
}
