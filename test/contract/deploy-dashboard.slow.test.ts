/** The dashboard: Prometheus scrapes the program's own metrics and answers each query of each panel, where it is installed. */

import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createMetrics } from '../../src/daemon/server/metrics.ts';
import {
  counters,
  daemonState,
  datasetState,
  incident,
  SteeredObserved,
  secondsAgo,
} from '../support/daemon-state.ts';
import { at, listAt, projectText } from '../support/deployment-files.ts';
import { eventually } from '../support/patience.ts';
import { failure, suspension } from '../support/sync-values.ts';

const SIZES = { mirror: 5_300_000, checkpoint: 40_960, diskFree: 9e9, diskReserve: 1e9 };

const dashboard: unknown = JSON.parse(projectText('config/grafana-dashboard.json'));
const panels = listAt(dashboard, 'panels').filter((panel) => at(panel, 'type') !== 'row');
const queries = panels.flatMap((panel) =>
  listAt(panel, 'targets').map((target) => ({
    title: `${at(panel, 'title')} (${at(target, 'refId')})`,
    expression: asGrafanaFills(String(at(target, 'expr'))),
  })),
);

/** What the variables choose from, and what marks the start of another version. */
const otherQueries = [
  ...listAt(dashboard, 'templating.list')
    .filter((variable) => at(variable, 'type') === 'query')
    .map((variable) => String(at(variable, 'definition')).replace(/^label_values\((.*), \w+\)$/, '$1')),
  ...listAt(dashboard, 'annotations.list').map((one) => String(at(one, 'expr'))),
].map(asGrafanaFills);

const hasPrometheus = spawnSync('prometheus', ['--version']).status === 0;
if (!hasPrometheus) {
  process.stderr.write(
    'The queries of the dashboard are not run: there is no prometheus. On Debian: apt-get install prometheus\n',
  );
}

describe('the dashboard', () => {
  it('the dashboard explains each panel in a sentence, and no two panels have one place', () => {
    const places = new Set<string>();
    for (const panel of panels) {
      expect(at(panel, 'description')).toMatch(/\.$/);
      places.add(`${at(panel, 'gridPos.x')} ${at(panel, 'gridPos.y')}`);
    }
    expect(places.size).toBe(panels.length);
    expect(queries.length).toBeGreaterThan(panels.length);
  });
});

describe.skipIf(!hasPrometheus)('Prometheus', () => {
  let folder = '';
  let exporter: Server | null = null;
  let prometheus: ReturnType<typeof spawn> | null = null;
  let address = '';

  beforeAll(async () => {
    const metrics = createMetrics('1.2.3', new SteeredObserved());
    exporter = createServer((_, response) => {
      void metrics.render(stateWithIncidents(), SIZES).then((text) => {
        response.setHeader('content-type', metrics.contentType).end(text);
      });
    });
    const served = await listening(exporter);
    folder = await mkdtemp(join(tmpdir(), 'feed-sync-prometheus-'));
    await writeFile(
      join(folder, 'prometheus.yml'),
      `global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs: [{ job_name: feed-sync, static_configs: [{ targets: ["127.0.0.1:${served}"] }] }]
`,
    );
    address = `127.0.0.1:${await freePort()}`;
    prometheus = spawn(
      'prometheus',
      [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=${address}`,
      ],
      { stdio: 'ignore' },
    );
    await eventually(async () => {
      expect(await answerOf('count_over_time(up[5m]) >= 3')).not.toEqual([]);
    });
  });

  afterAll(async () => {
    const ended = new Promise((resolve) => prometheus?.once('exit', resolve) ?? resolve(null));
    prometheus?.kill('SIGKILL');
    await ended;
    exporter?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it.each(queries)('Prometheus answers the query of "$title"', async ({ expression }) => {
    // A metric that is not there would be zero, too.
    expect(await answerOf(expression.replaceAll(' or vector(0)', ''))).not.toEqual([]);
  });

  it('Prometheus answers the queries of the variables and the annotation', async () => {
    expect(otherQueries).toHaveLength(3);
    for (const expression of otherQueries) expect(await answerOf(expression)).not.toEqual([]);
  });

  /** @throws Error with Prometheus's message when it refuses the query. */
  async function answerOf(expression: string): Promise<readonly unknown[]> {
    const response = await fetch(`http://${address}/api/v1/query?query=${encodeURIComponent(expression)}`);
    const answer: unknown = await response.json();
    if (at(answer, 'status') !== 'success') throw new Error(String(at(answer, 'error')));
    return listAt(answer, 'data.result');
  }
});

/** A daemon in which every panel has something to show. */
function stateWithIncidents() {
  return daemonState({
    datasets: new Map([
      ['behind', datasetState('behind', { behindSince: secondsAgo(7_200), targetVersion: 5 })],
      ['failing', datasetState('failing', { failure: failure({ attempts: 3 }) })],
      ['waiting', datasetState('waiting', { awaitingSince: secondsAgo(600) })],
    ]),
    suspensions: [suspension()],
    incidents: [incident('service')],
    counters: counters({ polls: 3, requests: new Map([['events', new Map([['200', 3]])]]) }),
  });
}

/** As Grafana fills a query where all jobs and all instances are chosen. */
function asGrafanaFills(expression: string): string {
  return expression.replaceAll('$job', '.*').replaceAll('$instance', '.*');
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}
