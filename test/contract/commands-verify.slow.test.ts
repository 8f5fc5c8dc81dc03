/** `feed-sync verify`: finds what differs, says what to do about it, changes nothing, and works beside others. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startChild } from '../support/child.ts';
import { countyFeed } from '../support/county-feed.ts';
import { once, operationsOf } from '../support/expect-mirrored.ts';
import { filesOf } from '../support/file-digests.ts';
import { logged } from '../support/logged.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { program } from '../support/program.ts';
import { tableNameOf } from '../support/published.ts';

async function mirroredFeed(...kinds: ('permits' | 'parcels' | 'zoning')[]) {
  const county = await countyFeed({ kinds });
  const installed = await program({ feed: county.feed });
  await once(installed);
  county.feed.requests.clear();
  return { ...county, installed };
}

describe('verify', () => {
  it('verify of an equal mirror reads one list a dataset and changes nothing, beside an instance and a reader: 0', async () => {
    const { feed, installed, datasetOf } = await mirroredFeed('permits', 'zoning');
    const permits = datasetOf('permits');
    const before = filesOf(installed.dataDirectory);
    const reader = startChild('duckdb-holder-child.ts', installed.mirrorPath);
    const instance = startChild(
      'instance-lock-holder-child.ts',
      join(installed.dataDirectory, 'lock.sqlite'),
    );
    await Promise.all([reader.nextLine(), instance.nextLine()]);
    const ended = await installed.run('verify');
    await Promise.all([reader.kill(), instance.kill()]);
    expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
    expect(ended.stdout).toMatch(new RegExp(`${permits} +1 +1 +20 {2}equal\n`));
    expect(ended.stdout).toMatch(/\n2 datasets: 2 equal\.\n$/);
    expect(operationsOf(feed)).toEqual(['subscriptions', 'openapi', 'versions']);
    expect(feed.requests.entries('versions')).toHaveLength(2);
    const { 'lock.sqlite': _byTheInstance, ...rest } = filesOf(installed.dataDirectory);
    expect(before).toMatchObject(rest);

    const unknown = await installed.run('verify', `${permits}s`);
    expect(unknown).toMatchObject({ exitCode: 64, stdout: '' });
    expect(unknown.stderr).toContain(
      `Neither in the mirror nor in a subscription: ${permits}s (the nearest is ${permits}).`,
    );
  });

  it('verify reports a row deleted by hand and a newer version, as text and JSON: 65; without the service too: 75', async () => {
    const { feed, installed, datasetOf, publishNext } = await mirroredFeed('permits', 'parcels', 'zoning');
    const [permits, parcels, zoning] = [datasetOf('permits'), datasetOf('parcels'), datasetOf('zoning')];
    const table = tableNameOf(permits);
    await writeMirror(installed.mirrorPath, `DELETE FROM ${table} WHERE rowid = 3`);
    publishNext(parcels);
    publishNext(parcels);
    const { stdout, exitCode } = await installed.run('verify');
    expect(exitCode).toBe(65);
    expect(stdout).toContain(
      [
        'Differences:',
        `  ${parcels}: Version 3 is out, 2 versions after the mirrored 1.`,
        '    → feed-sync once',
        `  ${permits}: The table ${table} has 19 rows, and feed_sync.datasets says 20.`,
        `    → feed-sync verify --deep ${permits}`,
        '',
        '3 datasets: 1 equal, 1 behind, 1 different.',
      ].join('\n'),
    );
    const json = await installed.run('verify', '--json', zoning, permits);
    expect(json.exitCode).toBe(65);
    const equal = {
      content: null,
      mending: null,
      suspension: null,
      problem: null,
      version: 1,
      newestVersion: 1,
    };
    expect(JSON.parse(json.stdout)).toEqual({
      mirror: installed.mirrorPath,
      copy: null,
      past: [],
      renewal: null,
      suspension: null,
      problem: null,
      datasets: [
        {
          ...equal,
          id: permits,
          table,
          rows: 19,
          result: 'different',
          differences: [
            {
              kind: 'row-count',
              message: `The table ${table} has 19 rows, and feed_sync.datasets says 20.`,
              remedy: `feed-sync verify --deep ${permits}`,
            },
          ],
        },
        { ...equal, id: zoning, table: tableNameOf(zoning), rows: 1, result: 'equal', differences: [] },
      ],
    });

    await feed.close();
    const down = await installed.runWith({ FEED_SYNC_RETRY_MAX_ATTEMPTS: '1' }, 'verify', permits);
    expect(down.exitCode).toBe(75);
    expect(down.stdout).toMatch(/permits +1 +19 {2}different\n/);
    expect(down.stdout).toContain('has 19 rows, and feed_sync.datasets says 20.');
    expect(down.stdout).toContain(
      'Not compared with the service:\n  Could not list subscriptions: connection refused',
    );
  });

  it('verify stores the checksums that a mirror of an earlier version lacks, once, also beside a daemon: 0', async () => {
    const { installed } = await mirroredFeed('permits', 'zoning');
    const lose = () => writeMirror(installed.mirrorPath, 'UPDATE feed_sync.datasets SET checksum = NULL');
    const renewal = async () => {
      const { stdout, exitCode } = await installed.run('verify', '--json');
      expect(exitCode, stdout).toBe(0);
      return JSON.parse(stdout).renewal;
    };
    const stored = {
      result: 'renewed',
      message: expect.stringMatching(/^Stored checksums that were missing/),
    };
    await lose();
    expect(await renewal()).toEqual(stored);
    expect(await renewal()).toBeNull();
    await lose();
    const daemon = installed.start('run');
    await logged(daemon, 'Following the subscriptions.');
    expect(await renewal()).toEqual(stored);
    daemon.kill('SIGTERM');
    expect(await daemon.ended).toMatchObject({ exitCode: 0 });
    expect(await renewal()).toBeNull();
  });

  it('verify asks nothing about suspended datasets, and stores no refusal of its own: 77', async () => {
    const { feed, installed, datasetOf, publishNext } = await mirroredFeed('permits', 'zoning');
    const [permits, zoning] = [datasetOf('permits'), datasetOf('zoning')];
    feed.access.refuse(
      { kind: 'dataset', datasetId: permits },
      { code: 'not_distributable', message: 'Ask.' },
    );
    const before = filesOf(installed.dataDirectory);
    const met = await installed.run('verify');
    expect(met.exitCode).toBe(77);
    expect(met.stdout).toContain(`${permits}: The service refused to list versions of dataset ${permits}`);
    expect(met.stdout).toContain('help: https://app.feed.example/help/not_distributable');
    expect(filesOf(installed.dataDirectory)).toEqual(before);

    publishNext(permits);
    await once(installed, 77);
    feed.requests.clear();
    const { stdout, exitCode } = await installed.run('verify');
    expect(exitCode).toBe(77);
    expect(stdout).toMatch(new RegExp(`${permits} +1 +20 +not compared with the service\n`));
    expect(stdout).toContain(`feed-sync resume --dataset ${permits}`);
    expect(feed.requests.entries('versions').map(({ datasetId }) => datasetId)).toEqual([zoning]);
  });

  it('verify without a mirror says how to make one, and makes nothing: 75', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    const ended = await installed.run('verify');
    expect(ended).toMatchObject({ exitCode: 75 });
    expect(ended.stderr).toContain('Make it with: feed-sync once');
    expect(existsSync(installed.dataDirectory)).toBe(false);
  });
});
