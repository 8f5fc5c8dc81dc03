/** The metrics: exact values after known traffic, escaped hostile ids, and a bounded number of series. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  MAX_LABEL_CHARACTERS,
  MAX_LABELLED_CODES,
  MAX_LABELLED_DATASETS,
} from '../../src/daemon/server/limits.ts';
import { createMetrics } from '../../src/daemon/server/metrics.ts';
import type { DaemonState, DatasetActivity, OngoingIncident } from '../../src/daemon/state.ts';
import {
  counters,
  daemonState,
  datasetState,
  SteeredObserved,
  secondsAgo,
  subscriptionState,
} from '../support/daemon-state.ts';
import { failure, NOW, refusal, suspension, table } from '../support/sync-values.ts';

const SIZES = { mirror: 5_300_000, checkpoint: 40_960, diskFree: 9e9, diskReserve: 1e9 };
const NOW_SECONDS = NOW.getTime() / 1_000;

/** The values of our own metrics, by name and labels; those of the process are left out. */
async function scrape(
  state: DaemonState,
  sizes: Parameters<ReturnType<typeof createMetrics>['render']>[1] = SIZES,
): Promise<ReadonlyMap<string, number>> {
  return valuesIn(await createMetrics('1.2.3', new SteeredObserved()).render(state, sizes));
}

/** @throws where a series is there twice, or a line is none. */
function valuesIn(text: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split('\n').filter((line) => line.startsWith('feed_sync_'))) {
    const [, series = '', value = ''] =
      /^([a-z_]+(?:\{(?:[a-z]+="(?:[^"\\]|\\[\\"n])*",?)+\})?) (\S+)$/.exec(line) ?? [];
    if (series === '' || values.has(series)) throw new Error(`not a line, or there twice: ${line}`);
    values.set(series.replace(/^feed_sync_/, ''), Number(value));
  }
  return values;
}

function ongoingIncident(of: string, lastedSeconds: number): OngoingIncident {
  const since = secondsAgo(lastedSeconds);
  return { of, error: 'copy_failed', message: 'No room.', hint: null, since, attempts: 2, isStall: false };
}

function datasets(...states: readonly DatasetActivity[]): ReadonlyMap<string, DatasetActivity> {
  return new Map(states.map((state) => [state.datasetId, state]));
}

describe('the values of the metrics', () => {
  it('starts at zero in a daemon that has just begun', async () => {
    const state = daemonState({
      subscriptions: new Map([
        ['sub_1', subscriptionState('sub_1', { lastPollAt: null, lastGoodPollAt: null, cursorAgeMs: 0 })],
      ]),
      datasets: new Map(),
    });
    const values = await scrape(state, { mirror: 0, checkpoint: null, diskFree: null, diskReserve: 0 });
    const ofDurations = [...values].filter(([series]) => series.includes('duration_seconds'));
    expect(ofDurations.filter(([, value]) => value !== 0)).toEqual([]);
    const others = [...values].filter(([series]) => !series.includes('duration_seconds'));
    expect(Object.fromEntries(others)).toEqual({
      'build_info{version="1.2.3"}': 1,
      'last_success_timestamp_seconds{subscription="sub_1"}': 0,
      'last_poll_timestamp_seconds{subscription="sub_1"}': 0,
      'cursor_age_seconds{subscription="sub_1"}': 0,
      'stalled{subscription="sub_1"}': 0,
      datasets: 0,
      datasets_pinned: 0,
      mirror_bytes: 0,
      disk_reserve_bytes: 0,
      downloaded_bytes_total: 0,
      polls_total: 0,
      audits_total: 0,
      interruptions_total: 0,
      'events_total{type="dataset.added"}': 0,
      'events_total{type="dataset.updated"}': 0,
      'events_total{type="dataset.schema_changed"}': 0,
      'events_total{type="dataset.resync_required"}': 0,
      'events_total{type="dataset.removed"}': 0,
      'events_total{type="unreadable"}': 0,
      'rows_applied_total{op="added"}': 0,
      'rows_applied_total{op="changed"}': 0,
      'rows_applied_total{op="removed"}': 0,
      'rows_applied_total{op="loaded"}': 0,
      'commits_total{kind="snapshot"}': 0,
      'commits_total{kind="changes"}': 0,
      'commits_total{kind="retirement"}': 0,
      'commits_total{kind="rollback"}': 0,
      'resyncs_total{reason="reload"}': 0,
      'resyncs_total{reason="resync"}': 0,
      'resyncs_total{reason="schema"}': 0,
      'resyncs_total{reason="version"}': 0,
      scrub_completed_timestamp_seconds: 0,
      'exports_total{outcome="written"}': 0,
      'exports_total{outcome="failed"}': 0,
      'webhook_deliveries_total{outcome="woke"}': 0,
      'webhook_deliveries_total{outcome="repeated"}': 0,
      'webhook_deliveries_total{outcome="refused"}': 0,
    });
  });

  it('exports polls, cursor age and stalls of each subscription', async () => {
    const state = daemonState({
      subscriptions: new Map([
        ['sub_1', subscriptionState('sub_1')],
        [
          'sub_2',
          subscriptionState('sub_2', {
            condition: 'stalled',
            lastGoodPollAt: secondsAgo(900),
            cursorAgeMs: 86_400_500,
          }),
        ],
      ]),
    });
    expect(Object.fromEntries(await scrape(state))).toMatchObject({
      'last_success_timestamp_seconds{subscription="sub_1"}': NOW_SECONDS - 10,
      'last_success_timestamp_seconds{subscription="sub_2"}': NOW_SECONDS - 900,
      'last_poll_timestamp_seconds{subscription="sub_2"}': NOW_SECONDS - 10,
      'cursor_age_seconds{subscription="sub_1"}': 7_200,
      'cursor_age_seconds{subscription="sub_2"}': 86_400.5,
      'stalled{subscription="sub_1"}': 0,
      'stalled{subscription="sub_2"}': 1,
    });
  });

  it('F13 exports the lag of each dataset: none where it is current, and never a negative one', async () => {
    const state = daemonState({
      datasets: datasets(
        datasetState('a-current'),
        datasetState('b-behind', { targetVersion: 7, behindSince: secondsAgo(61.5) }),
        datasetState('c-reload', { behindSince: secondsAgo(5), failure: failure({ attempts: 4 }) }),
        datasetState('d-new', { version: null, targetVersion: 2, behindSince: NOW }),
        datasetState('e-future', { targetVersion: null, behindSince: secondsAgo(-5) }),
        datasetState('f-ahead', { version: 9 }),
      ),
    });
    const values = await scrape(state);
    const of = (name: string) =>
      [...state.datasets.keys()].map((id) => values.get(`${name}{dataset="${id}"}`));
    expect(values.get('datasets')).toBe(6);
    expect(of('dataset_versions_behind')).toEqual([0, 4, 0, 2, 0, 0]);
    expect(of('dataset_lag_seconds')).toEqual([0, 61.5, 5, 0, 0, 0]);
    expect(of('dataset_failures')).toEqual([0, 0, 4, 0, 0, 0]);
  });

  it('exports counters, suspensions, incidents and the disk', async () => {
    const state = daemonState({
      counters: counters({
        events: new Map([['dataset.updated', 7]]),
        rows: new Map([
          ['added', 5],
          ['loaded', 100],
        ]),
        commits: new Map([['changes', 2]]),
        resyncs: new Map([['schema', 1]]),
        exports: new Map([['failed', 2]]),
        downloadedBytes: 1_234,
        requests: new Map([
          [
            'read events',
            new Map([
              ['200', 40],
              ['none', 2],
            ]),
          ],
        ]),
        polls: 42,
        audits: 3,
        interruptions: 1,
      }),
      suspensions: [
        suspension(),
        suspension(),
        { ...suspension(), refusal: refusal({ kind: 'workspace' }, { code: null }).refusal },
      ],
      incidents: [ongoingIncident('published copy', 90.5), ongoingIncident('service', -3)],
    });
    expect(Object.fromEntries(await scrape(state))).toMatchObject({
      'events_total{type="dataset.updated"}': 7,
      'events_total{type="dataset.added"}': 0,
      'rows_applied_total{op="added"}': 5,
      'rows_applied_total{op="loaded"}': 100,
      'commits_total{kind="changes"}': 2,
      'resyncs_total{reason="schema"}': 1,
      'exports_total{outcome="failed"}': 2,
      downloaded_bytes_total: 1_234,
      'http_requests_total{operation="read events",status="200"}': 40,
      'http_requests_total{operation="read events",status="none"}': 2,
      polls_total: 42,
      audits_total: 3,
      interruptions_total: 1,
      'suspensions{scope="dataset",code="outside_coverage"}': 2,
      'suspensions{scope="workspace",code="none"}': 1,
      'incident_seconds{of="published copy"}': 90.5,
      'incident_seconds{of="service"}': 0,
      mirror_bytes: 5_300_000,
      checkpoint_bytes: 40_960,
      disk_free_bytes: 9e9,
      disk_reserve_bytes: 1e9,
    });
  });

  it('exports the values of the last scrape, without series that have ended', async () => {
    const metrics = createMetrics('1.2.3', new SteeredObserved());
    const incidents = [ongoingIncident('service', 5)];
    const before = daemonState({ counters: counters({ polls: 5 }), suspensions: [suspension()], incidents });
    await metrics.render(before, SIZES);
    const after = daemonState({
      counters: counters({ polls: 6 }),
      datasets: datasets(datasetState('roads')),
    });
    const values = valuesIn(await metrics.render(after, { ...SIZES, diskFree: null }));
    expect(values.get('polls_total')).toBe(6);
    const gone = [...values.keys()].filter((series) =>
      /parcels|^suspensions|^incident|disk_free/.test(series),
    );
    expect(gone).toEqual([]);
    expect(values.get('dataset_lag_seconds{dataset="roads"}')).toBe(0);
  });

  it('exports the durations of commits and downloads', async () => {
    const observed = new SteeredObserved();
    const metrics = createMetrics('1.2.3', observed);
    for (const durationMs of [40, 2_000, 4_000_000]) {
      const commit = { kind: 'changes', tableName: 't', fromVersion: 1, toVersion: 2, rowCount: 1 } as const;
      const rest = { net: null, versions: 1, bytes: 1, durationMs, observed: table(2) };
      observed.report({ kind: 'commit', datasetId: 'd', commit: { ...commit, ...rest }, resync: null });
    }
    observed.report({ kind: 'download', datasetId: 'd', durationMs: 500 });
    const values = valuesIn(await metrics.render(daemonState(), SIZES));
    const applied = (bucket: string) => values.get(`apply_duration_seconds_bucket{le="${bucket}"}`);
    expect(['0.05', '1', '2.5', '3600', '+Inf'].map(applied)).toEqual([1, 1, 2, 2, 3]);
    expect(values.get('apply_duration_seconds_sum')).toBeCloseTo(4_002.04);
    expect(values.get('download_duration_seconds_bucket{le="0.5"}')).toBe(1);
    expect(values.get('download_duration_seconds_sum')).toBe(0.5);
    metrics.stop();
    expect(observed.observers).toBe(0);
  });
});

it('exports the process metrics of Node, for a second server too', async () => {
  const text = async () => createMetrics('1.2.3', new SteeredObserved()).render(daemonState(), SIZES);
  for (const scraped of [await text(), await text()]) {
    expect(scraped).toMatch(/^process_cpu_seconds_total \d/m);
    expect(scraped).toMatch(/^process_resident_memory_bytes \d/m);
    expect(scraped).toMatch(/^nodejs_eventloop_lag_seconds /m);
    expect(scraped.endsWith('\n')).toBe(true);
  }
});

it('gives each metric a help and a type, and names in base units', async () => {
  const text = await createMetrics('1.2.3', new SteeredObserved()).render(daemonState(), SIZES);
  const types = [...text.matchAll(/^# TYPE (feed_sync_\S+) (\S+)$/gm)].map(([, name = '', type]) => ({
    name,
    type,
  }));
  expect(types.length).toBeGreaterThan(20);
  for (const { name, type } of types) {
    expect(text).toMatch(new RegExp(`^# HELP ${name} \\S.*\\.$`, 'm'));
    expect(name.endsWith('_total')).toBe(type === 'counter');
  }
});

it('documents every metric in the README, with its type and labels', async () => {
  const readme = readFileSync(new URL('../../src/daemon/server/README.md', import.meta.url), 'utf8');
  const rows = [...readme.matchAll(/^\| (`[a-z_`, ]+`) \| (gauge|counter|histogram) \| ([a-z, ]*?) ?\|/gm)];
  const documented = rows.flatMap(([, names = '', type, labels]) =>
    [...names.matchAll(/`([a-z_]+)`/g)].map(([, name]) => `${name} ${type} ${labels}`),
  );
  const state = daemonState({
    suspensions: [suspension()],
    incidents: [ongoingIncident('service', 1)],
    counters: counters({ requests: new Map([['x', new Map([['200', 1]])]]) }),
  });
  const text = await createMetrics('1.2.3', new SteeredObserved()).render(state, SIZES);
  const types = [...text.matchAll(/^# TYPE feed_sync_(\S+) (\S+)$/gm)];
  const served = types.map(([, name, type]) => {
    const labels = new RegExp(`^feed_sync_${name}\\{(.*)\\} `, 'm').exec(text)?.[1] ?? '';
    return `${name} ${type} ${[...labels.matchAll(/([a-z]+)="/g)].map(([, label]) => label).join(', ')}`;
  });
  expect(documented.toSorted()).toEqual(served.toSorted());
});

it('exports every metric that the alert rules name', async () => {
  const rules = readFileSync(new URL('../../config/prometheus-alerts.yaml', import.meta.url), 'utf8');
  const asked = new Set(rules.match(/\bfeed_sync_\w+/g));
  const text = await createMetrics('1.2.3', new SteeredObserved()).render(daemonState(), SIZES);
  expect(asked.size).toBeGreaterThan(5);
  expect([...asked].filter((name) => !text.includes(`# TYPE ${name} `))).toEqual([]);
});

describe('the labels of the metrics', () => {
  it('escapes hostile ids, and keeps them different (F38)', async () => {
    const ids = [
      'a"} 1\nfeed_sync_stalled{subscription="x"} 1',
      'back\\slash',
      'back\\\\slash',
      'new\nline',
      'new\\nline',
      '__proto__',
      'constructor',
      'ünï ☃ \u0000\r\u2028',
      '',
      `${'x'.repeat(5_000)}1`,
      `${'x'.repeat(5_000)}2`,
      `${'☃'.repeat(MAX_LABEL_CHARACTERS - 18)}😀😀😀😀😀😀😀😀😀😀😀😀`,
    ];
    const values = await scrape(daemonState({ datasets: datasets(...ids.map((id) => datasetState(id))) }));
    const series = [...values.keys()].filter((name) => name.startsWith('dataset_failures{'));
    expect(series).toHaveLength(ids.length);
    expect([...values.keys()].filter((name) => name.startsWith('stalled{'))).toEqual([
      'stalled{subscription="sub_1"}',
    ]);
    expect(Math.max(...series.map((name) => name.length))).toBeLessThan(MAX_LABEL_CHARACTERS + 40);
    expect(series.every((name) => name.isWellFormed())).toBe(true);
  });

  it('labels a bounded number of datasets, those furthest behind', async () => {
    const many = Array.from({ length: MAX_LABELLED_DATASETS + 50 }, (_, index) =>
      datasetState(`d${index}`, { behindSince: index % 100 === 99 ? secondsAgo(index) : null }),
    );
    const failed = datasetState('failed', { failure: failure() });
    const values = await scrape(daemonState({ datasets: datasets(...many, failed) }));
    const shown = [...values.keys()].filter((name) => name.startsWith('dataset_lag_seconds{'));
    expect(values.get('datasets')).toBe(MAX_LABELLED_DATASETS + 51);
    expect(shown).toHaveLength(MAX_LABELLED_DATASETS);
    expect(shown[0]).toContain(`"d${MAX_LABELLED_DATASETS - 1}"`);
    expect(shown.filter((name) => /"(?:failed|d99|d4899)"/.test(name))).toHaveLength(3);
  });

  it('labels a bounded number of codes of suspensions', async () => {
    const suspensions = Array.from({ length: MAX_LABELLED_CODES + 30 }, (_, index) => ({
      ...suspension(),
      refusal: refusal({ kind: 'dataset', datasetId: `d${index}` }, { code: `code_${index}` }).refusal,
    }));
    const values = [...(await scrape(daemonState({ suspensions })))].filter(([name]) =>
      name.startsWith('suspensions'),
    );
    expect(values).toHaveLength(MAX_LABELLED_CODES + 1);
    expect(values.at(-1)).toEqual(['suspensions{scope="dataset",code="other"}', 30]);
  });
});
