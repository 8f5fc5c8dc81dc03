/** PostgreSQL as the mirror: what a server, its readers and a second writer can do to it (F72 to F76), and the program as a process. */

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import process from 'node:process';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DEBIAN, EMBEDDED, PASSWORD, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { present } from '../../src/lib/assert.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import { commitAll } from '../support/commit-all.ts';
import { countyFeed } from '../support/county-feed.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { logged } from '../support/logged.ts';
import { destinationAtWork, errorOf, mirrorAtWork } from '../support/mirror-at-work.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { databaseAtWork, openDatabase } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { program } from '../support/program.ts';
import { column } from '../support/small-content.ts';
import { steered } from '../support/steered-process.ts';

describe.skipIf(EMBEDDED.folder === null)(EMBEDDED.name, () => {
  const server = postgresOfTests(EMBEDDED);
  const database = () => present(server, 'the server runs').database();

  async function threePeople() {
    const world = await databaseAtWork(await database());
    return { world, course: await world.loaded(firstContent(PEOPLE, THREE_PEOPLE)) };
  }

  describe('the program with PostgreSQL', () => {
    it('the program mirrors, follows, verifies and reads, and no output has the password', async () => {
      const { feed, datasetOf, publishNext } = await countyFeed({ counties: 1, rowsPerDataset: 30 });
      const address = await database();
      const environment = { FEED_SYNC_DESTINATION_URL: address };
      const installed = await program({ feed, environment, secrets: [PASSWORD] });
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      publishNext(datasetOf('permits'));
      publishNext(datasetOf('parcels'));
      const second = await installed.run('once');
      expect([second.exitCode, second.stdout]).toEqual([0, expect.stringContaining('2 updated by changes')]);
      expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
      const status = await installed.run('status', '--json');
      expect(JSON.parse(status.stdout).mirror.bytes).toBeGreaterThan(100_000);
      expect(JSON.parse(status.stdout).mirror.path).toMatch(
        /^postgres:\/\/feeds@\/county_\d+\?host=\/[^?&]+$/,
      );
      const counted = await installed.run(
        'query',
        '--format',
        'csv',
        'SELECT count(*) FROM feed_sync.datasets',
      );
      expect(counted.stdout).toBe('count\n5\n');
      expect((await installed.run('doctor')).stdout).toContain('PostgreSQL 18');
      for (const words of [
        ['query', '--load', 'spatial', 'SELECT 1'],
        ['compact'],
        ['compact', '--compress'],
      ]) {
        const refused = await installed.run(...words);
        expect([refused.exitCode, refused.stderr]).toEqual([
          64,
          expect.stringContaining('is not available with PostgreSQL: it is for a mirror in a file'),
        ]);
      }
      const published = { FEED_SYNC_DESTINATION_PUBLISH: `${installed.home}/copy.duckdb` };
      const refused = await installed.runWith(published, 'once');
      expect([refused.exitCode, refused.stderr]).toEqual([
        78,
        expect.stringContaining('destination.publish is not available with PostgreSQL'),
      ]);
      const nowhere = address.replace(/host=.*/, `host=${encodeURIComponent(installed.home)}`);
      expect(await installed.runWith({ FEED_SYNC_DESTINATION_URL: nowhere }, 'once')).toMatchObject({
        exitCode: 75,
      });
    });

    it('F70 verify --deep compares every value, and repairs alterations by hand, alone and beside a daemon', async () => {
      const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 30 });
      const address = await database();
      const environment = { FEED_SYNC_DESTINATION_URL: address, FEED_SYNC_POLL_EVERY: '1s' };
      const installed = await program({ feed, environment, secrets: [PASSWORD] });
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      publishNext(datasetOf('permits'));
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      const [[name = '', key = ''] = []] = await statement(
        address,
        "SELECT table_name, column_name FROM feed_sync.datasets JOIN feed_sync.columns USING (dataset_id) WHERE role = 'key'",
      );
      const damage = `DELETE FROM feeds.${name} WHERE ${key} IN (SELECT ${key} FROM feeds.${name} LIMIT 2)`;
      const deep = (...words: string[]) => installed.run('verify', '--deep', ...words);
      expect(await deep()).toMatchObject({ exitCode: 0 });
      await statement(address, damage);
      const found = await deep();
      expect([found.exitCode, found.stdout]).toEqual([65, expect.stringContaining('2 rows missing')]);
      const alone = await deep('--repair', '--yes');
      expect([alone.exitCode, alone.stdout]).toEqual([0, expect.stringContaining('2 added')]);
      const run = installed.start('run');
      await logged(run, 'Following the subscriptions.');
      await statement(address, damage);
      const beside = await deep('--repair', '--yes');
      expect([beside.exitCode, beside.stdout]).toEqual([0, expect.stringContaining('2 added')]);
      run.kill('SIGTERM');
      expect(await run.ended).toMatchObject({ exitCode: 0 });
      expect(await deep()).toMatchObject({ exitCode: 0 });
      expect(await statement(address, 'SELECT kind FROM feed_sync.commits ORDER BY commit_number')).toEqual([
        ['load'],
        ['changes'],
        ['repair'],
        ['repair'],
      ]);
    });

    it('F69 the program keeps the past of tables, compares and reads its states, and status counts the entries', async () => {
      const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 30 });
      const environment = {
        FEED_SYNC_DESTINATION_URL: await database(),
        FEED_SYNC_HISTORY_DATASETS: '*',
        FEED_SYNC_HISTORY_EVERY_VERSION: 'on',
      };
      const installed = await program({ feed, environment, secrets: [PASSWORD] });
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      const id = datasetOf('permits');
      publishNext(id);
      publishNext(id);
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      const query = async (...words: string[]) =>
        (await installed.run('query', '--format', 'csv', ...words)).stdout.trim().split('\n').slice(1);
      const [[name = ''] = [], times] = [
        await query('SELECT table_name FROM feed_sync.datasets'),
        await query('SELECT applied_at FROM feed_sync.commits ORDER BY commit_number'),
      ];
      expect(times).toHaveLength(3);
      const count = `SELECT count(*) FROM ${name}`;
      expect(await query(count, '--as-of', times[0] ?? '')).toEqual(['30']);
      const early = await installed.run('query', count, '--as-of', '2020-01-01');
      expect([early.exitCode, early.stderr]).toEqual([64, expect.stringContaining('begins with commit 1')]);
      const diff = await installed.run('diff', id, '--from-version', '1');
      expect([diff.exitCode, diff.stdout]).toEqual([
        0,
        expect.stringMatching(/\d+ rows? added, \d+ changed/),
      ]);
      const { history } = JSON.parse((await installed.run('status', '--json')).stdout);
      expect(history).toMatchObject([{ dataset: id, frozenCommit: null }]);
      const back = await installed.run('rollback', id, '--to-version', '1', '--yes');
      expect([back.exitCode, back.stdout]).toEqual([0, expect.stringContaining('version 1')]);
      publishNext(id);
      expect((await installed.run('once')).stdout).toContain('pinned');
      expect(await query('SELECT version FROM feed_sync.datasets')).toEqual(['1']);
      expect(await installed.run('resume', '--dataset', id, '--yes')).toMatchObject({ exitCode: 0 });
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      expect(await query('SELECT version FROM feed_sync.datasets')).toEqual(['4']);
      expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
    });

    it('suspends a commit that removes more rows than allowed, and commits it with the command that status prints', async () => {
      const { feed, datasetOf } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 30 });
      const environment = {
        FEED_SYNC_DESTINATION_URL: await database(),
        FEED_SYNC_GATES_REMOVED_ROWS: '2',
      };
      const installed = await program({ feed, environment, secrets: [PASSWORD] });
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      const id = datasetOf('permits');
      const { content } = present(feed.store.dataset(id).versions.at(-1), 'a version was published');
      const rows = [...content.rows()].slice(0, 3);
      const changes = difference(content.schema, content.rows(), rows);
      feed.publisher.publish(id, { ...content, rowCount: rows.length, rows: () => rows, changes });
      expect(await installed.run('once')).toMatchObject({ exitCode: 77 });
      const count = ['query', '--format', 'csv', `SELECT sum(row_count) FROM feed_sync.datasets`];
      expect((await installed.run(...count)).stdout).toContain('30');
      const { stdout } = await installed.run('status');
      const [, command = ''] = /feed-sync (approve .*)$/m.exec(stdout) ?? [];
      expect(await installed.run(...command.split(' '))).toMatchObject({ exitCode: 0 });
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      expect((await installed.run(...count)).stdout).toContain('3\n');
      expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
    });

    it.each(['before', 'after'])('once carries on after it was killed just %s a COMMIT', async (moment) => {
      const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 30 });
      const environment = {
        FEED_SYNC_DESTINATION_URL: await database(),
        FEED_SYNC_DESTINATION_LEASE: '5s',
      };
      const installed = await program({ feed, environment, secrets: [PASSWORD] });
      // Of the transactions the first is the catalog, the second the lease, the third the enrolment.
      const killAt = `${moment} destination.commit-postgres 4`;
      expect(await installed.runWith(steered({ killAt }), 'once')).toMatchObject({ signal: 'SIGKILL' });
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      publishNext(datasetOf('permits'));
      expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
      expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
    });
  });

  describe('two writers', () => {
    it('F72 a second writer waits for the lease, and takes over as soon as it is given back', async () => {
      const { world } = await threePeople();
      const early = openDatabase(world.address, world.folder, { lockWaitMs: 0 });
      await expect(early).rejects.toMatchObject({ code: 'instance_running' });
      await world.destination.close();
      const second = await openDatabase(world.address, world.folder, { lockWaitMs: 0 });
      expect((await second.has()).datasets.size).toBe(1);
      await second.close();
    });

    it('F73 a writer whose lease was taken over writes nothing any more', async () => {
      const reported: string[] = [];
      const world = await databaseAtWork(await database(), {
        onSuperseded: (error) => void reported.push(error.code),
      });
      const course = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
      await world.byHand("UPDATE feed_sync.lease SET expires_at = clock_timestamp() - interval '1 second'");
      const second = await openDatabase(world.address, world.folder, { lockWaitMs: 0 });
      course.publishRows([[1, 'late']]);
      expect(errorCodeOf(errorOf(await world.apply(course)))).toBe('instance_running');
      await expect(
        world.destination.storeProgress({ subscriptions: [], members: [], owed: [] }, 'wait'),
      ).rejects.toMatchObject({ code: 'instance_running' });
      expect(reported).toEqual(['instance_running']);
      expect(await world.byHand('SELECT count(*) FROM feeds.parcels')).toEqual([['3']]);
      await second.close();
    });
  });

  describe('the server', () => {
    it('F74 a COMMIT whose answer is lost is found in the catalog, and done once', async () => {
      const proxy = await cuttingProxy(await database());
      const world = await databaseAtWork(proxy.address);
      const course = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
      course.publishRows([[1, 'ONE']]);
      proxy.cutNext();
      expect(await world.apply(course)).toMatchObject({
        kind: 'committed',
        committed: { toVersion: 2, net: { added: 0, changed: 1, removed: 2 } },
      });
      expect(proxy.cuts()).toBe(1);
      expect(await world.byHand('SELECT to_version FROM feed_sync.commits ORDER BY 1')).toEqual([
        ['1'],
        ['2'],
      ]);
      const retired = world.retire(course, 'archive');
      proxy.cutNext();
      expect(await retired).toMatchObject({ kind: 'retired' });
    });

    it('F74 a lost answer to a COMMIT without tables is reported as a database that is not available', async () => {
      const proxy = await cuttingProxy(await database());
      const world = await databaseAtWork(proxy.address);
      await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
      const { destination } = world;
      proxy.cutNext();
      const unpinned = destination.unpin('parcels');
      await expect(unpinned).rejects.toMatchObject({ code: 'destination_unavailable' });
    });

    it('uses a server again after its restart', async () => {
      const { world, course } = await threePeople();
      course.publishRows([[1, 'ONE']]);
      await present(server, 'the server runs').restart();
      expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    });

    it('names the right that the role has lost at a commit', async () => {
      const address = await database();
      await statement(address, 'CREATE ROLE mirror LOGIN');
      await statement(address, `GRANT CREATE ON DATABASE ${address.match(/county_\d+/)?.[0]} TO mirror`);
      const world = await databaseAtWork(address.replace('postgres://feeds', 'postgres://mirror'));
      const course = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
      course.publishRows([[1, 'ONE']]);
      await statement(address, 'ALTER TABLE feeds.parcels OWNER TO feeds');
      const error = errorOf(await world.apply(course));
      expect([errorCodeOf(error), error.message]).toEqual([
        'destination_refused',
        expect.stringContaining('parcels'),
      ]);
    });
  });

  it('completes a catalog that an earlier version has made', async () => {
    const { world, course } = await threePeople();
    await world.destination.close();
    await world.byHand('ALTER TABLE feed_sync.datasets DROP COLUMN pinned_since');
    await world.byHand('DROP TABLE feed_sync.history_logs');
    const second = await openDatabase(world.address, world.folder);
    const before = (await second.has()).datasets.get('parcels') ?? null;
    const job = await second.validate(await course.snapshot(course.newest(), before));
    expect(await commitAll(second, [job])).toMatchObject([{ kind: 'committed' }]);
    await second.close();
  });

  it('grants the roles in destination.readers the right to read every table, new and archived ones, too', async () => {
    const address = await database();
    await statement(address, 'DROP ROLE IF EXISTS qgis');
    await statement(address, 'CREATE ROLE qgis LOGIN');
    const world = await databaseAtWork(address, { readers: ['qgis'] });
    const course = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
    const asReader = (sql: string) => statement(address.replace('postgres://feeds', 'postgres://qgis'), sql);
    expect(await asReader('SELECT count(*) FROM feeds.parcels')).toEqual([['3']]);
    expect(await asReader('SELECT version FROM feed_sync.datasets')).toEqual([['1']]);
    await expect(asReader('SELECT token FROM feed_sync.lease')).rejects.toThrow('permission denied');
    await expect(asReader('DELETE FROM feeds.parcels')).rejects.toThrow('permission denied');
    await world.retire(course, 'archive');
    const [[archived] = []] = await asReader('SELECT table_name FROM feed_sync.archived');
    expect(await asReader(`SELECT count(*) FROM archived.${archived}`)).toEqual([['3']]);
    await world.destination.close();
    const unknown = openDatabase(address, world.folder, { readers: ['nobody_of_this_name'], lockWaitMs: 0 });
    await expect(unknown).rejects.toMatchObject({ code: 'configuration_invalid' });
    // The lease was given back.
    await (await openDatabase(address, world.folder, { lockWaitMs: 0 })).close();
  });

  it('with destination.indexes: none a table has no index, and changes and reloads are right', async () => {
    const world = await databaseAtWork(await database(), { indexes: 'none' });
    const course = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
    course.publishRows([
      [1, 'ONE'],
      [4, 'four'],
    ]);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    course.publishRows([
      [4, 'FOUR'],
      [5, 'five'],
    ]);
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await world.byHand('SELECT id, name FROM feeds.parcels ORDER BY id')).toEqual([
      ['4', 'FOUR'],
      ['5', 'five'],
    ]);
    expect(await world.byHand("SELECT indexname FROM pg_indexes WHERE schemaname = 'feeds'")).toEqual([]);
  });

  it.each([
    ['apply', 'without history'],
    ['load', 'without history'],
    ['apply', 'with history'],
    ['load', 'with history'],
  ] as const)(
    'a table goes without a key index that cannot hold a new key: %s %s, and later commits',
    async (way, past) => {
      const history = { keeps: () => past === 'with history', keepMs: Number.POSITIVE_INFINITY };
      const world = await databaseAtWork(await database(), { history });
      const columns = [column('code', 'string', false), column('name', 'string')];
      const codes = sourceSchema(columns, { keyColumns: ['code'] });
      const course = await world.loaded(firstContent(codes, [['short', 'one']]));
      const indexes = () => world.byHand("SELECT indexname FROM pg_indexes WHERE schemaname = 'feeds'");
      expect(await indexes()).toHaveLength(1);
      // Compressed it is no shorter.
      const long = Array.from({ length: 500 }, (_, at) =>
        createHash('sha256').update(String(at)).digest('hex'),
      ).join('');
      const publish = async (rows: readonly Row[], commit: 'apply' | 'load') => {
        course.publishRows(rows);
        expect(await world[commit](course)).toMatchObject({ kind: 'committed' });
        const found = await world.byHand('SELECT code, name FROM feeds.parcels ORDER BY name');
        expect(found).toEqual(rows);
      };
      await publish([[long, 'two']], way);
      expect(await indexes()).toEqual([]);
      await publish(
        [
          [long, '2'],
          ['short', '3'],
        ],
        'apply',
      );
      await publish([['short', '3']], 'load');
    },
  );

  it('F69 forgets the past beyond history.keep', async () => {
    const address = await database();
    const first = await databaseAtWork(address, {
      history: { keeps: () => true, keepMs: Number.POSITIVE_INFINITY },
    });
    const course = await first.loaded(firstContent(PEOPLE, THREE_PEOPLE));
    for (const rows of [[[1, 'ONE']], [[1, 'one']]] as const) {
      course.publishRows(rows);
      await first.apply(course);
    }
    const schema = { ...sourceSchema([column('id', 'integer', false)]), schemaVersion: '2' };
    course.publish({ schema, rowCount: 1, rows: () => [[9]], changes: null });
    await first.load(course);
    course.publish({ schema, rowCount: 1, rows: () => [[7]], changes: null });
    await first.load(course);
    const logs = () =>
      statement(address, 'SELECT log_name, first_commit, row_count FROM feed_sync.history_logs ORDER BY 1');
    expect(await logs()).toEqual([
      ['parcels', '4', '2'],
      ['parcels__4_log', '1', '4'],
    ]);
    await first.destination.close();
    const history = { keeps: () => true, keepMs: 1 };
    const destination = await openDatabase(address, first.folder, { history });
    onTestFinished(() => destination.close());
    const second = await destinationAtWork(first.folder, destination);
    course.publish({ schema, rowCount: 1, rows: () => [[8]], changes: null });
    await second.load(course);
    const [[, begins] = []] = await logs();
    expect(await logs()).toHaveLength(1);
    expect(['5', '6']).toContain(begins);
    const [[left] = []] = await statement(
      address,
      `SELECT count(*) FROM pg_tables WHERE schemaname = 'history'`,
    );
    expect(left).toBe('1');
    expect(await statement(address, 'SELECT * FROM history.parcels_as_of_commit(6)')).toEqual([['8']]);
  });

  describe('objects of readers', () => {
    it('F75 a view, a grant and an index outlive changes, reloads and new columns', async () => {
      const { world, course } = await threePeople();
      await world.byHand('CREATE VIEW public.names AS SELECT name FROM feeds.parcels');
      await world.byHand('CREATE INDEX by_name ON feeds.parcels (name)');
      course.publishRows([...THREE_PEOPLE, [4, 'four']]);
      await world.apply(course);
      const schema = { ...sourceSchema([...PEOPLE.columns, column('age', 'integer')]), schemaVersion: '2' };
      const rows: readonly Row[] = [[9, 'nine', 99]];
      course.publish({ schema, rowCount: 1, rows: () => rows, changes: null });
      expect(await world.load(course)).toMatchObject({
        kind: 'committed',
        committed: { net: { removed: 4 } },
      });
      expect(await world.byHand('SELECT name FROM public.names')).toEqual([['nine']]);
      expect(await world.byHand("SELECT indexname FROM pg_indexes WHERE indexname = 'by_name'")).toEqual([
        ['by_name'],
      ]);
    });

    it('F75 a view on a column that goes fails the dataset and is not dropped', async () => {
      const { world, course } = await threePeople();
      await world.byHand('CREATE VIEW public.names AS SELECT name FROM feeds.parcels');
      const schema = { ...sourceSchema([column('id', 'integer', false)]), schemaVersion: '2' };
      const rows: readonly Row[] = [[9]];
      course.publish({ schema, rowCount: 1, rows: () => rows, changes: null });
      const error = errorOf(await world.load(course));
      expect([errorCodeOf(error), error.message]).toEqual([
        'reader_dependency',
        expect.stringContaining('view public.names'),
      ]);
      expect(await world.byHand('SELECT count(*) FROM public.names')).toEqual([['3']]);
      await world.byHand('DROP VIEW public.names');
      expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    });

    it('F75 a foreign key keeps its rows where ours change, and fails the dataset where one of ours goes', async () => {
      const { world, course } = await threePeople();
      await world.byHand(
        'CREATE TABLE public.notes (id bigint PRIMARY KEY REFERENCES feeds.parcels (id) ON DELETE CASCADE)',
      );
      await world.byHand('CREATE TABLE public.firm (id bigint PRIMARY KEY REFERENCES feeds.parcels (id))');
      await world.byHand('INSERT INTO public.notes VALUES (1), (2); INSERT INTO public.firm VALUES (3)');
      await world.byHand('CREATE PUBLICATION everything FOR ALL TABLES');
      course.publishRows([
        [1, 'ONE'],
        [2, 'TWO'],
        [3, 'THREE'],
      ]);
      await world.apply(course);
      await world.load(course);
      expect(await world.byHand('SELECT count(*) FROM public.notes')).toEqual([['2']]);
      course.publishRows([[1, 'ONE']]);
      expect(errorCodeOf(errorOf(await world.apply(course)))).toBe('reader_dependency');
      expect(await world.byHand('SELECT count(*) FROM feeds.parcels')).toEqual([['3']]);
    });
  });
});

const run = promisify(execFile);

describe.skipIf(DEBIAN.folder === null)(DEBIAN.name, () => {
  const server = postgresOfTests(DEBIAN);

  it('F70 compares and repairs tables with geometries of PostGIS', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ counties: 1, rowsPerDataset: 30 });
    const address = await present(server, 'the server runs').database();
    const installed = await program({ feed, environment: { FEED_SYNC_DESTINATION_URL: address } });
    expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
    publishNext(datasetOf('parcels'));
    expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
    const equal = await installed.run('verify', '--deep');
    expect(equal, equal.stdout).toMatchObject({ exitCode: 0 });
    const table = `feeds.${datasetOf('parcels').replaceAll('-', '_')}`;
    await statement(
      address,
      `UPDATE ${table} SET geometry = ST_Translate(geometry, 1e-9, 0) WHERE ctid = (SELECT min(ctid) FROM ${table})`,
    );
    const found = await installed.run('verify', '--deep');
    expect([found.exitCode, found.stdout]).toEqual([65, expect.stringContaining('(geometry)')]);
    const repaired = await installed.run('verify', '--deep', '--repair', '--yes');
    expect([repaired.exitCode, repaired.stdout]).toEqual([0, expect.stringContaining('1 changed')]);
    expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
  });

  it('has the geometries of DuckDB, as psql and PostGIS read them', async () => {
    const address = await present(server, 'the server runs').database();
    const [duckDb, postgres] = [await mirrorAtWork(), await databaseAtWork(address)];
    for (const source of generateDatasets({ seed: 3, counties: 1, rowsPerDataset: 40 })) {
      const content = source.initial();
      const geometry = content.schema.columns.find(({ type }) => type === 'geometry')?.name;
      if (geometry === undefined) continue;
      await duckDb.loaded(content, source.datasetId);
      await postgres.loaded(content, source.datasetId);
      const { tableName } = await postgres.observed(source.datasetId);
      const name = `"${geometry.replaceAll('"', '""')}"`;
      // PostGIS leaves empty members out of what it writes as WKB, and writes them as text.
      const isShown = `ST_AsText(${name}) NOT LIKE '%COLLECTION%EMPTY%'`;
      const hex = `SELECT upper(encode(ST_AsBinary(${name}), 'hex')) FROM feeds."${tableName}"
        WHERE ST_SRID(${name}) = 4326 AND ${isShown} ORDER BY 1`;
      const { stdout } = await run('psql', [address, '--csv', '--tuples-only', '--command', hex]);
      const expected = await inMirror(
        duckDb.folder,
        `SELECT hex(ST_AsWKB(${name})) AS h FROM "${tableName}" WHERE ${isShown} ORDER BY 1`,
      );
      expect(stdout.trim().split('\n'), source.datasetId).toEqual(expected.map(([digits]) => digits));
      const index = `SELECT count(*) FROM pg_indexes WHERE tablename = '${tableName}' AND indexdef LIKE '%USING gist%'`;
      expect(await statement(address, index)).toEqual([['1']]);
    }
  });
});

if (DEBIAN.folder === null) process.stderr.write(`SKIPPED: ${DEBIAN.name} is not installed.\n`);
