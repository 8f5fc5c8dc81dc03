/** `feed-sync status` and `feed-sync subscriptions`: what they report, and its exact shape for programs. */

import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { once } from '../support/expect-mirrored.ts';
import { until } from '../support/patience.ts';
import { type Program, program } from '../support/program.ts';
import { tableNameOf } from '../support/published.ts';

const TIMESTAMP = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

/** Of a dataset without a reload, a metadata refresh or a retirement, which no setting leaves out. */
const NOTHING_ASKED = {
  isChosen: true,
  isReloadPending: false,
  isResyncPending: false,
  pinnedSince: null,
  awaitingApproval: null,
  isRefreshPending: false,
  retirement: null,
};

/** Of a dataset whose table was loaded from the first version of its subscription. */
const AT_VERSION_ONE = {
  subscriptions: ['sub_1'],
  version: 1,
  publishedAt: TIMESTAMP,
  appliedAt: TIMESTAMP,
  ...NOTHING_ASKED,
};

/** Of an installation that mirrors, and does nothing else. */
const NOTHING_BESIDE = {
  publishedCopy: null,
  export: null,
  afterCommit: null,
  scrub: null,
  runningInstance: null,
  leaseHolder: null,
};

/** Of a mirror. */
const NO_SIZE = { bytes: 0, freeBytes: null, isWorthCompacting: null };
const SMALL_SIZE = { bytes: expect.any(Number), freeBytes: expect.any(Number), isWorthCompacting: false };

describe('status', () => {
  it('status --check ends with 75 until an outage is over, and with 64 for an invalid age', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    const check = (...words: string[]) => installed.run('status', '--check', ...words);
    expect(await check()).toMatchObject({
      exitCode: 75,
      stdout: expect.stringContaining('No catch-up has reached the service.'),
    });
    await once(installed);
    expect(await check('--max-age', '1h')).toMatchObject({ exitCode: 0, stdout: 'OK\n' });
    feed.faults.add({
      match: { operation: 'subscriptions', times: 'always' },
      act: { kind: 'respond', status: 503 },
    });
    await once(installed, 75);
    const outage = await check('--max-age', '1h');
    expect(outage).toMatchObject({ exitCode: 75 });
    expect(outage.stdout).toContain('503');
    expect((await installed.run('status')).stdout).toMatch(
      /last reached at .* by feed-sync once \(process \d+/,
    );
    feed.faults.clear();
    await once(installed);
    expect(await check('--max-age', '1h')).toMatchObject({ exitCode: 0 });
    expect(await check('--max-age', 'soon')).toMatchObject({ exitCode: 64 });
    expect(await installed.run('status', '--watch')).toMatchObject({
      exitCode: 64,
      stderr: expect.stringContaining('--watch needs a terminal.'),
    });
  });

  it('status before the first catch-up says how to begin', async () => {
    const installed = await program();
    expect(await statusOf(installed)).toEqual({
      dataDirectory: installed.dataDirectory,
      mirror: {
        path: installed.mirrorPath,
        state: 'absent',
        problem: null,
        hint: null,
        lockHolders: [],
        ...NO_SIZE,
      },
      ...NOTHING_BESIDE,
      history: null,
      unions: null,
      service: { reachedAt: null, reachedBy: null, dataAsOf: null, outages: [] },
      subscriptions: [],
      forgottenSubscriptions: [],
      datasets: [],
      suspensions: [],
      absences: [],
    });
    const { stdout } = await installed.run('status');
    expect(stdout).toContain('No instance is running.');
    expect(stdout).toContain('Make it with: feed-sync once');
  });

  it('status with a mirror that is no database says so, shows the rest, and ends with 78', async () => {
    const { feed, datasetIds } = await countyFeed({ kinds: ['zoning'], rowsPerDataset: 100 });
    const installed = await program({ feed });
    await once(installed);
    writeFileSync(installed.mirrorPath, 'a letter to my aunt');
    const { exitCode, stdout } = await installed.run('status');
    expect(exitCode).toBe(78);
    expect(stdout).toContain(`${installed.mirrorPath} is no DuckDB database, so it is left as it is.`);
    expect(stdout).toContain('What it has is not shown.');
    for (const datasetId of datasetIds) expect(stdout).toContain(datasetId);
    const { stdout: json } = await installed.run('status', '--json');
    expect(JSON.parse(json).mirror).toMatchObject({ state: 'unusable', problem: expect.any(String) });
  });

  it('status while a first once runs names it, and the desired datasets', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 100 });
    const permits = datasetOf('permits');
    const observed = Promise.withResolvers<void>();
    feed.faults.add({
      match: { operation: 'file', times: 'always' },
      act: { kind: 'wait', until: () => observed.promise },
    });
    const installed = await program({ feed });
    const running = installed.start('once');
    await until('a download', () => feed.requests.entries('file').length > 0);
    const status = await statusOf(installed);
    expect(status).toMatchObject({
      runningInstance: { pid: running.pid, host: expect.any(String), command: 'once', standsBy: false },
      subscriptions: [{ id: 'sub_1', name: 'All counties', cursor: 'evt_1', cursorAt: TIMESTAMP }],
      datasets: [
        // The manifest lists it, which announces no version.
        { id: permits, state: 'absent', need: 'table', targetVersion: null, version: null, table: null },
      ],
    });
    expect((await installed.run('status')).stdout).toContain(`Instance ${running.pid} on `);
    observed.resolve();
    expect(await running.ended).toMatchObject({ exitCode: 0 });
  });

  it('status --json with a suspended and a failed dataset has this exact shape', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({
      kinds: ['permits', 'parcels', 'zoning'],
      answers: { leftOut: { entry: ['rowCount'] } },
    });
    const [permits, parcels, zoning] = [datasetOf('permits'), datasetOf('parcels'), datasetOf('zoning')];
    const installed = await program({ feed });
    await once(installed);
    publishNext(parcels, undefined, { claims: { rowCount: 1 } });
    publishNext(permits);
    feed.access.refuse(
      { kind: 'dataset', datasetId: permits },
      { code: 'not_distributable', message: 'Ask.' },
    );
    await once(installed, 77);

    const status = await statusOf(installed);
    expect(status).toEqual({
      dataDirectory: installed.dataDirectory,
      mirror: {
        path: installed.mirrorPath,
        state: 'present',
        problem: null,
        hint: null,
        lockHolders: [],
        ...SMALL_SIZE,
      },
      ...NOTHING_BESIDE,
      history: [],
      unions: [],
      service: {
        reachedAt: TIMESTAMP,
        reachedBy: { command: 'once', pid: expect.any(Number), host: expect.any(String) },
        dataAsOf: TIMESTAMP,
        outages: [],
      },
      subscriptions: [
        {
          id: 'sub_1',
          name: 'All counties',
          cursor: 'evt_5',
          cursorAt: TIMESTAMP,
          replayedAt: null,
          readAt: TIMESTAMP,
          state: 'followed',
          isSuspended: false,
        },
      ],
      forgottenSubscriptions: [],
      datasets: [
        {
          id: parcels,
          state: 'failed',
          need: 'version',
          table: tableNameOf(parcels),
          targetVersion: 2,
          rows: 20,
          ...AT_VERSION_ONE,
          suspension: null,
          failure: {
            error: 'data_invalid',
            message: expect.stringContaining('but the version record states 1.'),
            hint: null,
            attempts: 1,
            failedAt: TIMESTAMP,
            retryAt: TIMESTAMP,
            isOfContent: true,
          },
        },
        {
          id: permits,
          state: 'suspended',
          need: 'version',
          table: tableNameOf(permits),
          targetVersion: 2,
          rows: 20,
          ...AT_VERSION_ONE,
          suspension: {
            scope: 'dataset',
            id: permits,
            operation: `list versions of dataset ${permits}`,
            status: 403,
            code: 'not_distributable',
            message: 'Ask.',
            links: { help: 'https://app.feed.example/help/not_distributable' },
            since: TIMESTAMP,
          },
          failure: null,
        },
        {
          id: zoning,
          state: 'live',
          need: 'nothing',
          table: tableNameOf(zoning),
          targetVersion: null,
          rows: 1,
          ...AT_VERSION_ONE,
          suspension: null,
          failure: null,
        },
      ],
      suspensions: [],
      absences: [],
    });

    const { stdout } = await installed.run('status');
    expect(stdout).toMatch(new RegExp(`${zoning} .* up to date`));
    expect(stdout).toContain(`Dataset ${parcels} failed at `);
    expect(stdout).toContain('help: https://app.feed.example/help/not_distributable');
    expect(stdout).toContain(`feed-sync resume --dataset ${permits}`);
  });

  it('status and subscriptions show text of the service without its control characters', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    feed.publisher.subscribe({ subscriptionId: 'sub_2', name: 'evil\u001b[2J\r\n' });
    const installed = await program({ feed });
    await once(installed);
    for (const command of ['status', 'subscriptions']) {
      const { stdout } = await installed.run(command);
      expect(stdout).toContain('evil');
      for (const character of ['\u001b', '\r']) expect(stdout).not.toContain(character);
    }
  });
});

describe('subscriptions', () => {
  it('subscriptions lists what the key sees, as a table and as JSON, and writes nothing', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits'], counties: 5 });
    feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: [datasetOf('permits')] });
    const installed = await program({ feed });
    const { stdout } = await installed.run('subscriptions');
    expect(stdout).toMatch(/sub_1 {9}All counties +5 {2}evt_5 +us-\S+, us-\S+, us-\S+ and 2 more/);
    const { subscriptions } = JSON.parse((await installed.run('subscriptions', '--json')).stdout);
    expect(subscriptions).toHaveLength(2);
    expect(subscriptions[1]).toEqual({
      id: 'sub_2',
      name: 'sub_2',
      places: [],
      topics: [],
      datasetIds: [datasetOf('permits')],
      datasetCount: 1,
      lastEventId: 'evt_1',
    });
    expect(await statusOf(installed)).toMatchObject({
      mirror: { state: 'absent', problem: null },
      subscriptions: [],
    });
  });

  it('R7 subscriptions relays a refusal with its links, and suspends nothing: 77', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    await once(installed);
    feed.keys.get(feed.apiKey).revoked = true;
    const ended = await installed.run('subscriptions');
    expect(ended).toMatchObject({ exitCode: 77 });
    expect(ended.stderr).toContain('It says: This API key was revoked.');
    expect(ended.stderr).toContain('https://app.feed.example/settings/api-keys');
    expect(await statusOf(installed)).toMatchObject({ suspensions: [] });
  });
});

async function statusOf(installed: Program): Promise<Record<string, unknown>> {
  const ended = await installed.run('status', '--json');
  expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
  return JSON.parse(ended.stdout);
}
