/**
 * F76 tables that somebody dropped by hand, in both destinations, whatever else is true of them: the next `once` names them and loads
 * them again, or says what keeps it from that.
 */

import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import { difference } from '../../fixtures/source/diff.ts';
import { present } from '../../src/lib/assert.ts';
import { commandLine, type Said } from '../support/command-line.ts';
import { openExactly } from '../support/exact-mirror.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const PARCELS = 'parcels';
const PERMITS = 'permits';
const HISTORY = { FEED_SYNC_HISTORY_DATASETS: '*' };
const NAMED = 'A table was dropped: its reload is requested.';
const KEPT = 'A table was dropped, and nothing loads it again.';

const server = postgresOfTests(EMBEDDED);

interface Kind {
  readonly name: string;
  /** The schema of the tables. */
  readonly schema: string;
  readonly cascade: string;
  place(): Promise<Readonly<Record<string, string>>>;
}

const DUCKDB: Kind = { name: 'DuckDB', schema: 'main', cascade: '', place: async () => ({}) };
const POSTGRES: Kind = {
  name: 'PostgreSQL',
  schema: 'feeds',
  cascade: ' CASCADE',
  place: async () => ({ FEED_SYNC_DESTINATION_URL: await server.database() }),
};

const KINDS = EMBEDDED.folder === null ? [DUCKDB] : [DUCKDB, POSTGRES];

describe.each(KINDS)('F76 tables dropped from $name', ({ name, schema, cascade, place }) => {
  const table = `${schema}.${PARCELS}`;

  async function installation(environment: Readonly<Record<string, string>> = {}) {
    const feed = await startedFeed();
    publishSmall(feed, [PARCELS, PERMITS], 5);
    const placed = await place();
    const path = process.env['PATH'] ?? '';
    const line = commandLine({
      feed,
      now: () => feed.clock.now(),
      environment: { PATH: path, ...placed, ...environment },
    });
    onTestFinished(() => line.remove());
    const address = placed['FEED_SYNC_DESTINATION_URL'];
    const mirrorPath = join(line.dataDirectory, 'mirror.duckdb');
    const here = {
      feed,
      line,
      byHand: async (...statements: readonly string[]): Promise<void> => {
        if (address === undefined) await writeMirror(mirrorPath, ...statements);
        else for (const sql of statements) await statement(address, sql);
      },
      rows: async (sql: string): Promise<readonly (readonly (string | null)[])[]> => {
        if (address !== undefined) return statement(address, sql);
        const mirror = await openExactly(mirrorPath);
        return mirror.rows(sql).finally(() => mirror.close());
      },
      configure: (text: string): void =>
        writeFileSync(join(line.dataDirectory, '..', 'feed-sync.yaml'), text),
      drop: async (...names: readonly string[]): Promise<void> =>
        here.byHand(...names.map((one) => `DROP TABLE ${schema}.${one}${cascade}`)),
      async once(exitCode = 0): Promise<Said> {
        feed.clock.advance(60_000);
        const said = await line.run('once');
        expect(said.exitCode, said.stderr + said.stdout).toBe(exitCode);
        return said;
      },
      /** Publishes the next version, of so many rows, with its changes. */
      publish(count: number): void {
        const before = present(feed.store.dataset(PARCELS).versions.at(-1), 'there is a version').content;
        const rows = numberedRows(count);
        const changes = difference(SMALL_SCHEMA, [...before.rows()], rows);
        feed.publisher.publish(PARCELS, smallContent(rows, changes));
      },
      async expectEqual(count: number): Promise<void> {
        expect(await here.rows(`SELECT count(*)::varchar FROM ${table}`)).toEqual([[String(count)]]);
        const verified = await line.run('verify');
        expect(verified.exitCode, verified.stdout + verified.stderr).toBe(0);
        expect((await here.once()).stdout).toMatch(/ 0 loaded, .*already up to date|up to date/);
      },
    };
    await here.once();
    return here;
  }

  const lines = ({ stderr }: Said, text: string): number =>
    stderr.split('\n').filter((one) => one.includes(text)).length;

  it('F76 loads every table again where all were dropped', async () => {
    const { drop, once, expectEqual } = await installation();
    await drop(PARCELS, PERMITS);
    const said = await once();
    expect(lines(said, NAMED)).toBe(2);
    expect(said.stdout).toMatch(/2 loaded|2 datasets/);
    await expectEqual(5);
  });

  it('F76 loads a renamed table again, and leaves the renamed one alone', async () => {
    const { byHand, once, rows, expectEqual } = await installation();
    await byHand(`ALTER TABLE ${table} RENAME TO aside`);
    expect(lines(await once(), NAMED)).toBe(1);
    await expectEqual(5);
    expect(await rows(`SELECT count(*)::varchar FROM ${schema}.aside`)).toEqual([['5']]);
  });

  it('F76 names a view that took the place of a table, and loads the table once the view is gone', async () => {
    const { drop, byHand, once, line, expectEqual } = await installation();
    await drop(PARCELS);
    await byHand(`CREATE VIEW ${table} AS SELECT 1 AS a`);
    const said = await once(74);
    expect([lines(said, NAMED), said.stderr]).toEqual([1, expect.stringContaining(`view ${table}`)]);
    expect((await line.run('verify')).exitCode).not.toBe(0);
    await byHand(`DROP VIEW ${table}`);
    await once();
    await expectEqual(5);
  });

  it('F76 loads a table again that somebody made anew with other columns, once a version comes', async () => {
    const { drop, byHand, once, line, publish, expectEqual } = await installation();
    await drop(PARCELS);
    await byHand(`CREATE TABLE ${table} (other integer)`);
    await once();
    expect((await line.run('verify')).exitCode).toBe(65);
    publish(7);
    await once();
    await expectEqual(7);
  });

  it('F76 loads a dropped table again whose newest version is new, too', async () => {
    const { drop, once, publish, expectEqual } = await installation();
    publish(7);
    await drop(PARCELS);
    await once();
    await expectEqual(7);
  });

  it('F76 keeps history of a table from its reload on, and says why not before', async () => {
    const { drop, once, publish, line, expectEqual } = await installation(HISTORY);
    publish(6);
    await once();
    await drop(PARCELS);
    await once();
    await expectEqual(6);
    publish(8);
    await once();
    await expectEqual(8);
    const early = await line.run('rollback', PARCELS, '--to-version', '1', '--yes');
    expect([early.exitCode, early.stderr]).toEqual([64, expect.stringContaining('missing')]);
    expect(await line.run('rollback', PARCELS, '--to-version', '2', '--yes')).toMatchObject({ exitCode: 0 });
  });

  it('F76 loads a dropped table again whose undo log was dropped, too', async () => {
    const { drop, byHand, once, publish, expectEqual } = await installation(HISTORY);
    publish(6);
    await once();
    await drop(PARCELS);
    await byHand(`DROP TABLE history.${PARCELS}${cascade}`);
    await once();
    await expectEqual(6);
  });

  it('F76 refuses to roll a dropped table back, and loads it again', async () => {
    const { drop, once, publish, line, expectEqual } = await installation(HISTORY);
    publish(6);
    await once();
    await drop(PARCELS);
    const said = await line.run('rollback', PARCELS, '--to-version', '1', '--yes');
    expect(said.exitCode, said.stderr).not.toBe(0);
    expect(said.exitCode, said.stderr).not.toBe(70);
    await once();
    await expectEqual(6);
  });

  it('F76 loads a dropped table again once its pin has ended', async () => {
    const { drop, once, publish, line, expectEqual } = await installation(HISTORY);
    publish(6);
    await once();
    expect(await line.run('rollback', PARCELS, '--to-version', '1', '--yes')).toMatchObject({ exitCode: 0 });
    await drop(PARCELS);
    expect(lines(await once(), KEPT)).toBe(1);
    expect(await line.run('resume', '--dataset', PARCELS, '--yes')).toMatchObject({ exitCode: 0 });
    await once();
    await expectEqual(6);
  });

  it('F76 loads a dropped table again while a commit of it waits for approval', async () => {
    const { drop, once, publish, line, expectEqual } = await installation({
      FEED_SYNC_GATES_REMOVED_ROWS: '1',
    });
    publish(2);
    await once(77);
    await drop(PARCELS);
    const said = await once(77);
    expect(lines(said, NAMED)).toBe(1);
    const { datasets } = JSON.parse((await line.run('status', '--json')).stdout);
    const waiting = datasets.find((one: { id: string }) => one.id === PARCELS)?.awaitingApproval;
    const words = String(waiting?.command).split(' ').slice(1);
    const approved = await line.run(...words);
    expect(approved.exitCode, approved.stderr + approved.stdout).toBe(0);
    await once();
    await expectEqual(2);
  });

  it('F76 loads a dropped table again once its dataset is no longer suspended', async () => {
    const { feed, drop, once, publish, line, expectEqual } = await installation();
    feed.access.refuse({ kind: 'dataset', datasetId: PARCELS }, { code: 'outside_coverage' });
    publish(7);
    await once(77);
    await drop(PARCELS);
    expect(lines(await once(77), NAMED)).toBe(1);
    feed.access.lift({ kind: 'dataset', datasetId: PARCELS });
    expect(await line.run('resume', '--dataset', PARCELS)).toMatchObject({ exitCode: 0 });
    await once();
    await expectEqual(7);
  });

  it.each(['archive', 'drop', 'keep'])(
    'F76 retires a dataset whose table was dropped, where retired tables are set to %s',
    async (how) => {
      const { feed, drop, once, line, rows } = await installation({
        ...HISTORY,
        FEED_SYNC_REMOVED_DATASETS: how,
      });
      feed.publisher.remove(PARCELS, 'source_retired');
      await drop(PARCELS);
      await once();
      expect(await rows('SELECT dataset_id FROM feed_sync.datasets')).toEqual([[PERMITS]]);
      expect(await line.run('verify')).toMatchObject({ exitCode: 0 });
      feed.publisher.restore(PARCELS);
      await once();
      expect(await rows(`SELECT count(*)::varchar FROM ${table}`)).toEqual([['5']]);
    },
  );

  it('F76 a lost checkpoint beside a mirror without progress keeps no dropped table from being loaded', async () => {
    const { drop, byHand, once, line, expectEqual } = await installation();
    await byHand(
      'DELETE FROM feed_sync.subscriptions',
      'DELETE FROM feed_sync.members',
      'DELETE FROM feed_sync.owed',
    );
    await drop(PARCELS);
    for (const end of ['', '-wal', '-shm'])
      rmSync(join(line.dataDirectory, `checkpoint.sqlite${end}`), { force: true });
    const said = await once();
    expect([lines(said, NAMED), lines(said, KEPT)]).toEqual([1, 0]);
    await expectEqual(5);
  });

  it('F76 loads a table again that is dropped while its changes are fetched', async () => {
    const { feed, drop, once, publish, expectEqual } = await installation(HISTORY);
    publish(7);
    const until = () => drop(PARCELS);
    feed.faults.add({ match: { operation: 'changes' }, act: { kind: 'wait', until } });
    await once();
    await expectEqual(7);
  });

  it('F76 loads a table again that is dropped while its snapshot is fetched', async () => {
    const { feed, drop, once, expectEqual } = await installation(HISTORY);
    feed.publisher.publish(PARCELS, smallContent(numberedRows(8), null));
    await feed.prepareSnapshots();
    const until = () => drop(PARCELS);
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'wait', until } });
    await once();
    await expectEqual(8);
  });

  it('F76 a changed schema comes into a dropped table', async () => {
    const { feed, drop, once, expectEqual } = await installation({ FEED_SYNC_SCHEMA_CHANGES: 'alter' });
    const wider = {
      ...SMALL_SCHEMA,
      schemaVersion: '2',
      columns: [...SMALL_SCHEMA.columns, column('note', 'string')],
    };
    const rows = numberedRows(5).map((row) => [...row, 'new']);
    feed.publisher.publish(PARCELS, smallContent(rows, null, wider));
    await drop(PARCELS);
    await once();
    await expectEqual(5);
  });

  it('F76 an excluded dataset whose table was dropped is loaded once it is included', async () => {
    const { drop, once, line, expectEqual } = await installation();
    line.environment['FEED_SYNC_DATASETS_EXCLUDE'] = PARCELS;
    await drop(PARCELS);
    await once();
    line.environment['FEED_SYNC_DATASETS_EXCLUDE'] = undefined;
    await once();
    await expectEqual(5);
  });

  it.runIf(name === 'DuckDB')('F76 exports a table that was loaded again', async () => {
    const { drop, once, line, expectEqual } = await installation();
    line.environment['FEED_SYNC_EXPORT_PATH'] = join(line.dataDirectory, '..', 'exported');
    await once();
    await drop(PARCELS);
    const said = await once();
    expect(said.stderr).not.toContain('could not be exported');
    await expectEqual(5);
    expect(existsSync(join(line.dataDirectory, '..', 'exported'))).toBe(true);
  });

  it('F76 a dropped table is in its union again once it was loaded', async () => {
    const { drop, once, rows, configure, expectEqual } = await installation();
    configure(`unions: {everything: "p*"}`);
    await once();
    await drop(PARCELS);
    await once();
    expect(await rows(`SELECT count(*)::varchar FROM ${schema}.everything`)).toEqual([['10']]);
    await expectEqual(5);
  });

  it.runIf(name === 'PostgreSQL')(
    'F76 a table that another schema has under the name of a dropped one is not taken for it',
    async () => {
      const { byHand, once, rows, line, configure } = await installation();
      configure(`destination: {schemas: [{datasets: "${PERMITS}", schema: "others"}]}`);
      expect(await line.run('resync', PERMITS, '--move', '--yes')).toMatchObject({ exitCode: 0 });
      await once();
      await byHand(`CREATE TABLE others.${PARCELS} (a integer)`, `DROP TABLE ${table}`);
      expect(lines(await once(), NAMED)).toBe(1);
      expect(await rows(`SELECT count(*)::varchar FROM ${table}`)).toEqual([['5']]);
    },
  );

  it.runIf(name === 'PostgreSQL')(
    'F76 a dropped table moves into the schema that it is to have',
    async () => {
      const { drop, once, rows, line, configure } = await installation(HISTORY);
      configure(`destination: {schemas: [{datasets: "${PARCELS}", schema: "others"}]}`);
      await drop(PARCELS);
      expect(await line.run('resync', PARCELS, '--move', '--yes')).toMatchObject({ exitCode: 0 });
      await once();
      expect(await rows(`SELECT count(*)::varchar FROM others.${PARCELS}`)).toEqual([['5']]);
      expect(await line.run('verify')).toMatchObject({ exitCode: 0 });
      expect((await once()).stdout).toContain('up to date');
    },
  );

  it.runIf(name === 'PostgreSQL')('F76 loads every table again whose schema was dropped', async () => {
    const { byHand, once, expectEqual } = await installation(HISTORY);
    await byHand('DROP SCHEMA feeds CASCADE');
    await once();
    await expectEqual(5);
  });
});
