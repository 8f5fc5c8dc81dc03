/**
 * The metrics, in the conventions of Prometheus: base units, `_total` for values that only grow. README.md lists them.
 *
 * Invariant: all values of one scrape are of the same time. All but the durations come from a snapshot of the daemon's state made on
 * request. Each server has a registry of its own, because a process may start a second server.
 */

import { createHash } from 'node:crypto';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Suspension } from '../../checkpoint/checkpoint.ts';
import type { DaemonState, DatasetActivity, Observed, Observer } from '../state.ts';
import {
  MAX_LABEL_CHARACTERS,
  MAX_LABELLED_CODES,
  MAX_LABELLED_DATASETS,
  MAX_LABELLED_INCIDENTS,
  MAX_LABELLED_SUBSCRIPTIONS,
} from './limits.ts';
import {
  COUNTERS,
  DATASET_GAUGES,
  type GaugeOf,
  LABELLED_COUNTERS,
  SIZE_GAUGES,
  SUBSCRIPTION_GAUGES,
  seconds,
} from './metric-definitions.ts';
import type { Sizes } from './sizes.ts';

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

type Fill = (state: DaemonState) => void;

export function createMetrics(version: string, observed: Observed): Metrics {
  const registry = new Registry();
  const fills: readonly Fill[] = [
    subscriptionGauges(registry),
    datasetGauges(registry),
    suspensionGauge(registry),
    incidentGauge(registry),
    eventCounters(registry),
  ];
  const fillSizes = sizeGauges(registry);
  const deliveries = counter(registry, 'webhook_deliveries_total', 'Webhooks, by what came of them.', [
    'outcome',
  ]);
  for (const outcome of DELIVERY_OUTCOMES) deliveries.inc({ outcome }, 0);
  gauge(registry, 'build_info', 'Always 1; the version of the program.', ['version']).set({ version }, 1);
  const stop = observed.observe(durationObserver(registry));
  return {
    contentType: registry.contentType,
    async render(state, sizes) {
      for (const fill of fills) fill(state);
      fillSizes(sizes);
      return `${await registry.metrics()}\n${await processMetrics()}`;
    },
    countDelivery: (outcome) => deliveries.inc({ outcome }),
    stop,
  };
}

function subscriptionGauges(registry: Registry): Fill {
  const fill = labelledGauges(registry, SUBSCRIPTION_GAUGES, 'subscription');
  return ({ subscriptions, now }) => {
    const shown = [...subscriptions].slice(0, MAX_LABELLED_SUBSCRIPTIONS);
    fill(new Map(shown.map(([id, subscription]) => [labelOf(id), subscription])), now);
  };
}

function datasetGauges(registry: Registry): Fill {
  const count = gauge(registry, 'datasets', 'Datasets that are wanted or have a table.');
  const fill = labelledGauges(registry, DATASET_GAUGES, 'dataset');
  return ({ datasets, now }) => {
    const shown = mostPressing([...datasets.values()], MAX_LABELLED_DATASETS);
    count.set(datasets.size);
    fill(new Map(shown.map((dataset) => [labelOf(dataset.datasetId), dataset])), now);
  };
}

function labelledGauges<Source>(registry: Registry, definitions: readonly GaugeOf<Source>[], label: string) {
  const gauges = definitions.map(({ name, help }) => gauge(registry, name, help, [label]));
  return (sources: ReadonlyMap<string, Source>, now: Date): void => {
    definitions.forEach(({ amountOf }, index) => {
      gauges[index]?.reset();
      for (const [value, source] of sources) gauges[index]?.set({ [label]: value }, amountOf(source, now));
    });
  };
}

function suspensionGauge(registry: Registry): Fill {
  const metric = gauge(registry, 'suspensions', 'Suspensions that wait for an operator, by scope and code.', [
    'scope',
    'code',
  ]);
  return ({ suspensions }) => {
    metric.reset();
    for (const { scope, code, count } of countSuspensions(suspensions)) metric.set({ scope, code }, count);
  };
}

function incidentGauge(registry: Registry): Fill {
  const help = 'How long an incident that is not of a dataset has lasted, by its owner.';
  const metric = gauge(registry, 'incident_seconds', help, ['of']);
  return ({ incidents, now }) => {
    metric.reset();
    for (const { of, since } of incidents.slice(0, MAX_LABELLED_INCIDENTS)) {
      metric.set({ of: labelOf(of) }, seconds(Math.max(0, now.getTime() - since.getTime())));
    }
  };
}

function sizeGauges(registry: Registry): (sizes: Sizes) => void {
  const gauges = SIZE_GAUGES.map(({ name, help, of }) => ({ metric: gauge(registry, name, help), of }));
  return (sizes) => {
    for (const { metric, of } of gauges) {
      const bytes = sizes[of];
      if (bytes === null) metric.remove();
      else metric.set(bytes);
    }
  };
}

/** A counter gets its total, not its increase. */
function eventCounters(registry: Registry): Fill {
  const fills = [...plainCounters(registry), ...labelledCounters(registry), requestCounter(registry)];
  return (state) => {
    for (const fill of fills) fill(state);
  };
}

function plainCounters(registry: Registry): readonly Fill[] {
  return COUNTERS.map(({ name, help, amountOf }) => {
    const metric = counter(registry, name, help);
    return ({ counters }) => {
      metric.reset();
      metric.inc(amountOf(counters));
    };
  });
}

function labelledCounters(registry: Registry): readonly Fill[] {
  return LABELLED_COUNTERS.map(({ name, help, label, values, amountsOf }) => {
    const metric = counter(registry, name, help, [label]);
    return ({ counters }) => {
      const counts = amountsOf(counters);
      metric.reset();
      for (const value of values) metric.inc({ [label]: value }, counts.get(value) ?? 0);
    };
  });
}

function requestCounter(registry: Registry): Fill {
  const help = 'Requests to the service, by operation and status; none: no answer came.';
  const metric = counter(registry, 'http_requests_total', help, ['operation', 'status']);
  return ({ counters }) => {
    metric.reset();
    for (const [operation, statuses] of counters.requests) {
      for (const [status, count] of statuses) metric.inc({ operation, status }, count);
    }
  };
}

function durationObserver(registry: Registry): Observer {
  const apply = durations(registry, 'apply_duration_seconds', 'From the first request to the commit.');
  const download = durations(registry, 'download_duration_seconds', 'Until all files or pages had arrived.');
  return (daemonEvent) => {
    if (daemonEvent.kind === 'commit') apply.observe(seconds(daemonEvent.commit.durationMs));
    if (daemonEvent.kind === 'download') download.observe(seconds(daemonEvent.durationMs));
  };
}

function gauge(registry: Registry, name: string, help: string, labelNames: readonly string[] = []): Gauge {
  return new Gauge({ name: `${PREFIX}${name}`, help, labelNames, registers: [registry] });
}

function counter(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly string[] = [],
): Counter {
  return new Counter({ name: `${PREFIX}${name}`, help, labelNames, registers: [registry] });
}

function durations(registry: Registry, name: string, help: string): Histogram {
  const buckets = DURATION_BUCKETS_SECONDS;
  return new Histogram({ name: `${PREFIX}${name}`, help, buckets, registers: [registry] });
}

let registry: Registry | null = null;

/**
 * Returns lines for Prometheus. Collecting begins with the first call and never ends, so the whole process shares one collection,
 * however many servers it starts.
 */
function processMetrics(): Promise<string> {
  if (registry === null) {
    registry = new Registry();
    collectDefaultMetrics({ register: registry });
  }
  return registry.metrics();
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

interface SuspensionCount {
  readonly scope: string;
  readonly code: string;
  readonly count: number;
}

/** Counts the suspensions of each scope and code. The service defines the codes, so beyond a limit all further codes count as one. */
function countSuspensions(suspensions: readonly Suspension[]): readonly SuspensionCount[] {
  const counts = new Map<string, SuspensionCount>();
  const codes = new Set<string>();
  for (const { refusal } of suspensions) {
    const own = labelOf(refusal.code ?? 'none');
    if (codes.size < MAX_LABELLED_CODES) codes.add(own);
    const code = codes.has(own) ? own : 'other';
    const scope = refusal.scope.kind;
    const key = `${scope} ${code}`;
    counts.set(key, { scope, code, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()];
}
