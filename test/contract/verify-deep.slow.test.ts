/** `feed-sync verify --deep`: every value of a table is compared with the service's content for its version. */

import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { once } from '../support/expect-mirrored.ts';
import { logged } from '../support/logged.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { until } from '../support/patience.ts';
import { program } from '../support/program.ts';
import { tableNameOf } from '../support/published.ts';
import { column, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

async function mirrored() {
  const county = await countyFeed({ kinds: ['parcels'] });
  const installed = await program({ feed: county.feed });
  await once(installed);
  const parcels = county.datasetOf('parcels');
  return { ...county, installed, parcels, table: tableNameOf(parcels) };
}

describe('verify --deep', () => {
  it('verify --deep finds a table equal that was loaded and that took changes', async () => {
    const { installed, parcels, publishNext } = await mirrored();
    const loaded = await installed.run('verify', '--deep', '--json');
    expect(loaded, loaded.stderr).toMatchObject({ exitCode: 0 });
    expect(JSON.parse(loaded.stdout).datasets[0].content).toMatchObject({ result: 'equal' });
    publishNext(parcels);
    publishNext(parcels);
    await once(installed);
    const changed = await installed.run('verify', '--deep', '--json');
    expect(changed, changed.stdout + changed.stderr).toMatchObject({ exitCode: 0 });
  });

  it('verify --deep names the rows that were altered, deleted and inserted by hand (F70)', async () => {
    const { installed, parcels, table } = await mirrored();
    const key = (
      await installed.run(
        'query',
        '--format',
        'csv',
        `SELECT column_name FROM feed_sync.columns WHERE role = 'key'`,
      )
    ).stdout;
    expect(key).toBe('column_name\nparcel_id\n');
    await writeMirror(
      installed.mirrorPath,
      `UPDATE ${table} SET owner_name = 'nobody' WHERE rowid = 2`,
      `DELETE FROM ${table} WHERE rowid = 3`,
      `INSERT INTO ${table} SELECT * REPLACE ('by hand' AS parcel_id) FROM ${table} WHERE rowid = 4`,
    );
    const found = await installed.run('verify', '--deep');
    expect(found.exitCode).toBe(65);
    const differences = found.stdout.slice(found.stdout.indexOf('Differences:'));
    expect(differences).toBe(
      [
        'Differences:',
        `  ${parcels}: The rows of the table ${table} are not those of the service: 1 row missing, 1 changed, 1 too many.`,
        `    → feed-sync verify --deep --repair ${parcels}`,
        '',
        'Content:',
        `  ${parcels}: missing: parcel_id = 000-000-003`,
        `  ${parcels}: changed: parcel_id = 000-000-002 (owner_name)`,
        `  ${parcels}: too many: parcel_id = by hand`,
        '',
        '1 dataset: 1 different.',
        '',
      ].join('\n'),
    );
    const before = await installed.run('query', '--format', 'csv', `FROM ${table} ORDER BY ALL`);
    const unasked = await installed.run('verify', '--deep', '--repair');
    expect(unasked).toMatchObject({ exitCode: 64, stdout: '' });
    expect((await installed.run('query', '--format', 'csv', `FROM ${table} ORDER BY ALL`)).stdout).toBe(
      before.stdout,
    );
    const repaired = await installed.run('verify', '--deep', '--repair', '--yes');
    expect(repaired, repaired.stdout + repaired.stderr).toMatchObject({ exitCode: 0 });
    expect(repaired.stdout).toContain(
      `Repaired the table ${table} of ${parcels}: 1 added, 1 changed, 1 removed.`,
    );
    const commits = await installed.run(
      'query',
      '--format',
      'csv',
      'SELECT kind, added, changed, removed FROM feed_sync.commits',
    );
    expect(commits.stdout).toBe('kind,added,changed,removed\nload,,,\nrepair,1,1,1\n');
    expect((await installed.run('verify', '--deep')).exitCode).toBe(0);
  });

  it('verify --deep finds another text that DuckDB gives the same hash, and repairs it (F70)', async () => {
    const [text, other] = ['123 Main StreetA, Flat 9', '123 Maie Street6, Flat 9'];
    const { feed } = await countyFeed({ kinds: ['parcels'] });
    const schema = { ...SMALL_SCHEMA, columns: [column('id', 'string', false), column('site', 'string')] };
    feed.publisher.addDataset({ datasetId: 'deeds', placeId: 'us-az-cedarville', topic: 'parcels' });
    feed.publisher.publish('deeds', smallContent([['a', text]], [], schema));
    const installed = await program({ feed });
    await once(installed);
    const sites = await installed.run(
      'query',
      '--format',
      'csv',
      `SELECT hash(site) = hash('${other}') FROM deeds`,
    );
    expect(sites.stdout.split('\n')[1]).toBe('true');
    await writeMirror(installed.mirrorPath, `UPDATE deeds SET site = '${other}'`);
    const found = await installed.run('verify', '--deep', 'deeds');
    expect(found, found.stdout).toMatchObject({
      exitCode: 65,
      stdout: expect.stringContaining('changed: id = a (site)'),
    });
    const repaired = await installed.run('verify', '--deep', '--repair', '--yes', 'deeds');
    expect(repaired, repaired.stdout + repaired.stderr).toMatchObject({ exitCode: 0 });
    expect((await installed.run('query', '--format', 'csv', 'SELECT site FROM deeds')).stdout).toContain(
      text,
    );
  });

  it('verify --deep finds other numbers that DuckDB gives the same hash (F70)', async () => {
    const [number, last] = [6n, 4_023_442_317_090_211_647n];
    const { feed } = await countyFeed({ kinds: ['parcels'] });
    const columns = [column('id', 'integer', false), column('floor', 'integer'), column('area', 'integer')];
    feed.publisher.addDataset({ datasetId: 'deeds', placeId: 'us-az-cedarville', topic: 'parcels' });
    feed.publisher.publish('deeds', smallContent([[1, 5, 7]], [], { ...SMALL_SCHEMA, columns }));
    const installed = await program({ feed });
    await once(installed);
    const same = `SELECT hash(id, floor, area) = hash(1::BIGINT, ${number}::BIGINT, ${last}::BIGINT) FROM deeds`;
    expect((await installed.run('query', '--format', 'csv', same)).stdout.split('\n')[1]).toBe('true');
    await writeMirror(installed.mirrorPath, `UPDATE deeds SET floor = ${number}, area = ${last}`);
    const found = await installed.run('verify', '--deep', 'deeds');
    expect(found, found.stdout).toMatchObject({
      exitCode: 65,
      stdout: expect.stringContaining('changed: id = 1 (floor, area)'),
    });
  });
});

describe('an interrupted verify --deep', () => {
  it('verify --deep that is interrupted says so, and goes on with the table that it was at', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['parcels', 'zoning'], rowsPerDataset: 20 });
    const [parcels, zoning] = [datasetOf('parcels'), datasetOf('zoning')];
    const installed = await program({ feed });
    await once(installed);
    const released = Promise.withResolvers<void>();
    feed.faults.add({
      match: { operation: 'file', datasetId: zoning, times: 'always' },
      act: { kind: 'wait', until: () => released.promise },
    });
    feed.requests.clear();
    const running = installed.start('verify', '--deep');
    const downloaded = () => feed.requests.entries('file').map(({ datasetId }) => datasetId);
    await until('the download of the second table', () => downloaded().includes(zoning));
    running.kill('SIGINT');
    expect(await running.ended).toMatchObject({
      exitCode: 75,
      stderr: expect.stringMatching(
        /The comparison was interrupted before every table was compared\..*\n→ Run it again within 24 hours: what was found equal is not compared again\.\n/,
      ),
    });
    released.resolve();
    feed.faults.clear();
    feed.requests.clear();
    const again = await installed.run('verify', '--deep', '--json');
    expect(again, again.stderr).toMatchObject({ exitCode: 0 });
    const found = JSON.parse(again.stdout).datasets.map(
      (one: { id: string; content: { result: string } }) => [one.id, one.content.result],
    );
    expect(found).toEqual([
      [parcels, 'equal'],
      [zoning, 'equal'],
    ]);
    expect(downloaded()).toEqual([zoning]);
  });
});

describe('verify --deep beside a running instance', () => {
  it('verify --deep has a running instance repair, and compares a table once it has the version of the manifest', async () => {
    const { installed, parcels, table, publishNext } = await mirrored();
    await writeMirror(installed.mirrorPath, `UPDATE ${table} SET owner_name = 'nobody' WHERE rowid = 2`);
    publishNext(parcels);
    // The manifest lists version 2 alone; the table has version 1, and nobody brings it there.
    const alone = await installed.run('verify', '--deep', '--json');
    expect(alone.exitCode, alone.stdout + alone.stderr).toBe(75);
    expect(JSON.parse(alone.stdout).datasets[0].content).toMatchObject({
      result: 'not-comparable',
      why: 'the table has version 1, and the oldest snapshot of the service is version 2',
    });
    const daemon = installed.start('run');
    await logged(daemon, 'Following the subscriptions.');
    const ended = await installed.run('verify', '--deep', '--repair', '--yes', '--json', '--wait', '2m');
    // The table may have been counted before the instance has updated it.
    expect([0, 65]).toContain(ended.exitCode);
    expect(JSON.parse(ended.stdout).datasets[0].mending).toMatchObject({ result: 'repaired' });
    daemon.kill('SIGTERM');
    expect(await daemon.ended).toMatchObject({ exitCode: 0 });
    expect((await installed.run('verify', '--deep')).exitCode).toBe(0);
    const kinds = await installed.run('query', '--format', 'csv', 'SELECT kind FROM feed_sync.commits');
    expect(kinds.stdout).toMatch(/^kind\nload\n(?:changes\n)?repair\n$/);
  });
});
