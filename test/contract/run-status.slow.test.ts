/** The status server of a daemon that really runs: each question, exact values after known traffic, and webhooks that wake it. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { WAKE_PAUSE_MS } from '../../src/daemon/server/limits.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored } from '../support/expect-mirrored.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { logged } from '../support/logged.ts';
import { eventually, until } from '../support/patience.ts';
import { type Program, program } from '../support/program.ts';
import { secretsInText } from '../support/secret-search.ts';
import { ask } from '../support/status-server.ts';

const SELDOM = { FEED_SYNC_POLL_EVERY: '1h', FEED_SYNC_DISK_RESERVE: '0MB' };
/** The fastest of so many is what the program needs; the others have met whatever else the machine does. */
const ROUNDS = 5;
/** A delivery is received, verified and remembered before it wakes the loop, which a signal does at once. */
const TIMES_A_SIGNAL = 20;

/** A daemon that polls once an hour and receives webhooks, once everything is loaded. */
async function receiving() {
  const made = await countyFeed();
  const { feed, datasetIds } = made;
  const installed = await program({ feed, environment: SELDOM });
  const secretFile = join(installed.home, 'webhook-secrets');
  const run = installed.startWith({ FEED_SYNC_WEBHOOK_SECRET_FILE: secretFile }, 'run');
  const listening = await logged(run, 'The status server listens.');
  const { url } = JSON.parse(listening) as { readonly url: string };
  const { webhookId, secrets } = feed.webhooks.add(`${url}/webhook`, null);
  writeFileSync(secretFile, `${secrets.join('\n')}\n`);
  await eventually(async () => expect((await ask(`${url}/readyz`)).status).toBe(200));
  await logged(run, 'Loaded a snapshot.', datasetIds.length);
  return { ...made, installed, run, url, webhookId, secret: secrets[0] ?? '' };
}

/** Whether the installation answers there: somebody else may have been given a port that is free again. */
async function answersAt(url: string, { dataDirectory }: Program): Promise<boolean> {
  const answer = await ask(`${url}/status`).catch(() => null);
  return answer?.text.includes(dataDirectory) ?? false;
}

/** Our own metrics by name and labels. */
async function metricsOf(url: string): Promise<Readonly<Record<string, number>>> {
  const { text } = await ask(`${url}/metrics`);
  const lines = [...text.matchAll(/^feed_sync_(\S+?(?:\{.*\})?) (\S+)$/gm)];
  return Object.fromEntries(lines.map(([, series, value]) => [series, Number(value)]));
}

it('the status server answers every question exactly, shows no secret, and ends in order', async () => {
  const { feed, datasetIds, datasetOf, contentOf, publishNext, installed, run, url, secret } =
    await receiving();
  const rowsLoaded = datasetIds.reduce((sum, id) => sum + contentOf(id).rowCount, 0);
  const loaded = await metricsOf(url);
  expect(loaded).toMatchObject({
    'build_info{version="0.1.0"}': 1,
    datasets: datasetIds.length,
    'commits_total{kind="snapshot"}': datasetIds.length,
    'commits_total{kind="changes"}': 0,
    'rows_applied_total{op="loaded"}': rowsLoaded,
    'events_total{type="dataset.added"}': 0,
    'resyncs_total{reason="version"}': 0,
    'stalled{subscription="sub_1"}': 0,
    apply_duration_seconds_count: datasetIds.length,
    download_duration_seconds_count: datasetIds.length,
  });
  const version = publishNext(datasetOf('permits'));
  await logged(run, 'Applied changes.');
  await eventually(async () => {
    const { reasons } = JSON.parse((await ask(`${url}/healthz`)).text);
    expect(reasons).toEqual([]);
    const { datasets } = JSON.parse((await ask(`${url}/healthz`)).text);
    expect(datasets).toEqual({ total: datasetIds.length, behind: 0, working: 0, failed: 0 });
  });
  const { counts } = version;
  if (counts === null) throw new Error('a later version has counts');
  // Metrics are made once a second at most.
  const applied = await eventually(async () => {
    const metrics = await metricsOf(url);
    expect(metrics).toMatchObject({
      'commits_total{kind="changes"}': 1,
      apply_duration_seconds_count: datasetIds.length + 1,
    });
    return metrics;
  });
  expect(applied).toMatchObject({
    'commits_total{kind="changes"}': 1,
    'rows_applied_total{op="added"}': counts.added,
    'rows_applied_total{op="changed"}': counts.changed,
    'rows_applied_total{op="removed"}': counts.removed,
    'rows_applied_total{op="loaded"}': rowsLoaded,
    'events_total{type="dataset.updated"}': 1,
    'webhook_deliveries_total{outcome="woke"}': 1,
    apply_duration_seconds_count: datasetIds.length + 1,
  });
  for (const id of datasetIds) {
    expect(applied).toMatchObject({
      [`dataset_lag_seconds{dataset="${id}"}`]: 0,
      [`dataset_versions_behind{dataset="${id}"}`]: 0,
      [`dataset_failures{dataset="${id}"}`]: 0,
    });
  }
  const served = feed.requests.entries().filter(({ operation }) => operation !== 'file').length;
  const counted = Object.entries(applied).filter(([series]) => /^http_requests_total.*200/.test(series));
  const downloads = counted.filter(([series]) => series.includes('download'));
  const sum = (entries: typeof counted) => entries.reduce((total, [, value]) => total + value, 0);
  expect(sum(counted) - sum(downloads)).toBe(served);
  expect(applied['mirror_bytes']).toBeGreaterThan(1_000);
  expect(applied['checkpoint_bytes']).toBeGreaterThan(1_000);
  expect(applied['disk_free_bytes']).toBeGreaterThan(1_000);
  expect(applied['disk_reserve_bytes']).toBe(0);
  expect(applied['last_success_timestamp_seconds{subscription="sub_1"}']).toBeGreaterThan(1.7e9);

  const reported = await installed.run('status', '--json');
  const asked = await ask(`${url}/status`);
  const status = JSON.parse(reported.stdout);
  // Only a process that opens its file knows its free space and its undo logs.
  const mirror = { ...status.mirror, freeBytes: null, isWorthCompacting: null };
  expect(JSON.parse(asked.text)).toEqual({ ...status, mirror, history: null });
  for (const path of ['livez', 'readyz', 'healthz', 'status', 'metrics', 'webhook', 'nowhere']) {
    const { text } = await ask(`${url}/${path}`);
    expect(secretsInText(CANARY_KEY, text)).toEqual([]);
    expect(text).not.toContain(secret);
  }
  expect(run.stderr()).not.toContain(secret);
  run.kill('SIGTERM');
  expect(await run.ended).toMatchObject({ exitCode: 0, signal: null });
  expect(await answersAt(url, installed)).toBe(false);
  await expectMirrored(installed, feed);
});

it('the status server names the unions as each commit leaves them', async () => {
  const { feed, datasetIds, datasetOf } = await countyFeed();
  const installed = await program({ feed, environment: SELDOM });
  writeFileSync(join(installed.home, 'work', 'feed-sync.yaml'), 'unions: {everything: "*"}\n');
  const run = installed.start('run');
  const { url } = JSON.parse(await logged(run, 'The status server listens.'));
  const unionsOf = async () => JSON.parse((await ask(`${url}/status`)).text).unions;
  const { length } = datasetIds;
  await eventually(async () => expect(await unionsOf()).toMatchObject([{ tables: length }]));
  feed.publisher.remove(datasetOf('zoning'), 'source_retired');
  run.kill('SIGUSR2');
  await eventually(async () => expect(await unionsOf()).toMatchObject([{ tables: length - 1 }]));
  const reported = await installed.run('status', '--json');
  expect(await unionsOf()).toEqual(JSON.parse(reported.stdout).unions);
  run.kill('SIGTERM');
  expect(await run.ended).toMatchObject({ exitCode: 0 });
});

it('a webhook wakes run within a second, instead of after an hour', async () => {
  const { feed, datasetOf, publishNext, installed, run } = await receiving();
  /** Until the service is asked what is new. */
  const askedAfterMs = async (act: () => void): Promise<number> => {
    feed.requests.clear();
    const fromMs = performance.now();
    act();
    await until('a poll', () => feed.requests.entries('events').length > 0);
    return performance.now() - fromMs;
  };
  const [signalled, pushed]: [number[], number[]] = [[], []];
  for (let round = 1; round <= ROUNDS; round += 1) {
    signalled.push(await askedAfterMs(() => run.kill('SIGUSR2')));
    pushed.push(await askedAfterMs(() => void publishNext(datasetOf('permits'))));
    await logged(run, 'Applied changes.', round);
  }
  const atOnceMs = Math.max(WAKE_PAUSE_MS, TIMES_A_SIGNAL * Math.min(...signalled));
  expect(Math.min(...pushed)).toBeLessThan(WAKE_PAUSE_MS + atOnceMs);
  run.kill('SIGTERM');
  expect(await run.ended).toMatchObject({ exitCode: 0 });
  await expectMirrored(installed, feed);
});

it('the status server listens where the configuration says after SIGHUP, or where it did before if it cannot', async () => {
  const { feed } = await countyFeed();
  const installed = await program({ feed, environment: { ...SELDOM, FEED_SYNC_STATUS_LISTEN: '' } });
  const listenOn = (address: string) =>
    writeFileSync(join(installed.home, 'work', 'feed-sync.yaml'), `status:\n  listen: "${address}"\n`);
  const listening = async (times: number): Promise<string> =>
    JSON.parse(await logged(run, 'The status server listens.', times)).url;
  listenOn('127.0.0.1:0');
  const run = installed.start('run');
  const first = await listening(1);
  listenOn('[::1]:0');
  run.kill('SIGHUP');
  const second = await listening(2);
  expect(new URL(second).hostname).toBe('[::1]');
  expect(await answersAt(second, installed)).toBe(true);
  expect(await answersAt(first, installed)).toBe(false);
  listenOn(new URL(feed.baseUrl).host);
  run.kill('SIGHUP');
  await logged(run, 'The new configuration cannot be used');
  const third = await listening(3);
  expect(new URL(third).hostname).toBe('[::1]');
  expect(await answersAt(third, installed)).toBe(true);
  listenOn('off');
  run.kill('SIGHUP');
  await logged(run, 'Following the subscriptions.', 4);
  expect(await answersAt(third, installed)).toBe(false);
  run.kill('SIGTERM');
  expect(await run.ended).toMatchObject({ exitCode: 0 });
});

it('F66 run does not start where the address of its status server is taken', async () => {
  const { feed } = await countyFeed();
  const installed = await program({ feed, environment: SELDOM });
  const taken = new URL(feed.baseUrl).host;
  const ended = await installed.run('run', '--status-listen', taken);
  expect(ended.exitCode).toBe(78);
  expect(ended.stderr).toContain(
    `The status server cannot listen on 127.0.0.1 port ${taken.split(':')[1]}: address already in use (EADDRINUSE).`,
  );
  expect(ended.stderr).toContain('→ Give another address in status.listen, or off.');
  expect(feed.requests.entries()).toEqual([]);
});
