/** Schemas of tables in PostgreSQL, by the rules of destination.schemas. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CITUS, type CitusCluster, startCitus } from '../../fixtures/citus-cluster.ts';
import { EMBEDDED, type PostgresServer, statement } from '../../fixtures/postgres-server.ts';
import { present } from '../../src/lib/assert.ts';
import { localInstallation } from '../support/local-installation.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const TRAVIS = 'us-tx-travis-parcels';
const LAKEWAY = 'us-tx-lakeway-parcels';
const PERMITS = 'us-az-pima-permits';
const COUNT = 'SELECT count(*) AS rows FROM us_tx_travis_parcels';
const RULES = '{datasets: "us-tx-*-parcels", schema: "texas"}, {datasets: "us-*-*-*", schema: "us_{1}_{2}"}';

/** An installation whose mirror is a new database of the server. */
async function installedAt(server: Pick<PostgresServer, 'database'>, ...datasetIds: readonly string[]) {
  const feed = await startedFeed();
  publishSmall(feed, datasetIds);
  const address = await server.database();
  const { home, run } = localInstallation({
    feed,
    environment: {
      FEED_SYNC_LOG_LEVEL: 'warn',
      FEED_SYNC_LOG_FORMAT: 'json',
      FEED_SYNC_DESTINATION_URL: address,
      PATH: process.env['PATH'] ?? '',
    },
  });
  return {
    feed,
    address,
    run,
    /** Writes the rules into the file of settings. */
    configure(rules: string, more = ''): void {
      const text = (rules === '' ? '' : `destination: {schemas: [${rules}]}\n`) + more;
      writeFileSync(join(home, 'feed-sync.yaml'), text);
    },
    async once(): Promise<void> {
      await feed.prepareSnapshots();
      const { exitCode, stderr } = await run('once');
      expect(exitCode, stderr).toBe(0);
    },
    /** The tables of the mirror as the catalog has them, each of which is there. */
    async places(): Promise<readonly string[]> {
      const rows = await statement(
        address,
        `SELECT schema_name || '.' || table_name, to_regclass(schema_name || '.' || table_name) IS NOT NULL
          FROM feed_sync.datasets ORDER BY 1`,
      );
      expect(rows.filter(([, isThere]) => isThere !== 't')).toEqual([]);
      return rows.map(([place]) => String(place));
    },
  };
}

if (CITUS.folder === null) process.stderr.write('SKIPPED: Citus is not installed.\n');

describe.skipIf(EMBEDDED.folder === null)(`destination.schemas with ${EMBEDDED.name}`, () => {
  const server = postgresOfTests(EMBEDDED);
  const installed = (...datasetIds: readonly string[]) => installedAt(server, ...datasetIds);

  it('tables are in the schemas that destination.schemas says at their first load, and doctor names the others', async () => {
    const { configure, once, places, run, feed } = await installed(TRAVIS, PERMITS);
    configure('');
    await once();
    expect(await places()).toEqual(['feeds.us_az_pima_permits', 'feeds.us_tx_travis_parcels']);
    configure(RULES);
    publishSmall(feed, [LAKEWAY]);
    await once();
    expect(await places()).toEqual([
      'feeds.us_az_pima_permits',
      'feeds.us_tx_travis_parcels',
      'texas.us_tx_lakeway_parcels',
    ]);
    const { stdout } = await run('doctor');
    expect(stdout).toMatch(
      new RegExp(
        `ok +schemas +the tables of 2 datasets are in other schemas than destination.schemas says: ${PERMITS} \\(in feeds, not us_az_pima\\), ${TRAVIS} \\(in feeds, not texas\\)`,
      ),
    );
    expect(await run('verify')).toMatchObject({ exitCode: 0 });
  });

  it('F75 resync --move moves a table with what readers made on it, and its past goes on', async () => {
    const { configure, once, places, run, feed, address } = await installed(TRAVIS, PERMITS);
    const HISTORY = 'history: {datasets: ["*"]}\nunions: {parcels: "us-*-parcels"}\n';
    configure('', HISTORY);
    await once();
    const [[newest] = []] = await statement(address, 'SELECT max(commit_number) FROM feed_sync.commits');
    const before = String(newest);
    await statement(address, 'CREATE ROLE analyst');
    await statement(address, 'CREATE VIEW public.mine AS SELECT id, amount FROM feeds.us_tx_travis_parcels');
    await statement(address, 'CREATE INDEX by_amount ON feeds.us_tx_travis_parcels (amount)');
    await statement(address, 'GRANT SELECT ON feeds.us_tx_travis_parcels TO analyst');
    await statement(
      address,
      'CREATE TABLE public.notes (id text REFERENCES feeds.us_tx_travis_parcels, note text)',
    );
    feed.publisher.publish(TRAVIS, smallContent(numberedRows(3)));
    configure(RULES, HISTORY);
    const asked = await run('resync', '--move', TRAVIS);
    expect(asked, asked.stderr).toMatchObject({
      exitCode: 0,
      stdout: `Will be loaded again from the snapshot at the next catch-up, and moved into the schema that destination.schemas says: ${TRAVIS}.\n`,
    });
    await once();
    expect(await places()).toEqual(['feeds.us_az_pima_permits', 'texas.us_tx_travis_parcels']);
    const count = async (from: string) => (await statement(address, `SELECT count(*) FROM ${from}`))[0]?.[0];
    expect(await count('public.mine')).toBe('3');
    expect(await count(`pg_indexes WHERE schemaname = 'texas' AND indexname = 'by_amount'`)).toBe('1');
    expect(await count(`pg_constraint WHERE confrelid = 'texas.us_tx_travis_parcels'::regclass`)).toBe('1');
    const [privilege] = await statement(
      address,
      `SELECT has_table_privilege('analyst', 'texas.us_tx_travis_parcels', 'SELECT')`,
    );
    expect(privilege).toEqual(['t']);
    expect(await count(`history.us_tx_travis_parcels_as_of_commit(${before})`)).toBe('2');
    expect(await count('feeds.parcels')).toBe('3');
    expect(await run('verify')).toMatchObject({ exitCode: 0 });
    feed.publisher.publish(TRAVIS, smallContent(numberedRows(4)));
    await once();
    expect(await count('public.mine')).toBe('4');
    expect(await count(`history.us_tx_travis_parcels_as_of_commit(${before})`)).toBe('2');
    expect(await count('feeds.parcels')).toBe('4');
    expect(await run('verify')).toMatchObject({ exitCode: 0 });
    expect((await run('doctor')).stdout).toContain(`the table of 1 dataset is in another schema`);
    const asOf = await run('query', '--format', 'csv', '--as-of', '2100-01-01', COUNT);
    expect(asOf.stdout, asOf.stderr).toBe('rows\n4\n');
    const [from, to] = [before, String(Number(before) + 1)];
    const diff = await run('diff', TRAVIS, '--from-commit', from, '--to-commit', to);
    expect(diff, diff.stderr).toMatchObject({ exitCode: 0 });
    expect(diff.stdout).toContain('r00002');
    const rolledBack = await run('rollback', TRAVIS, '--to-commit', before, '--yes');
    expect(rolledBack, rolledBack.stderr).toMatchObject({ exitCode: 0 });
    expect(await count('public.mine')).toBe('2');
    expect(await places()).toEqual(['feeds.us_az_pima_permits', 'texas.us_tx_travis_parcels']);
    expect(await run('verify')).toMatchObject({ exitCode: 0 });
  });

  it('a dataset that returns gets its table in the schema that destination.schemas says then', async () => {
    const { configure, once, places, feed, address } = await installed(TRAVIS, PERMITS);
    configure(RULES);
    await once();
    feed.publisher.remove(TRAVIS, 'source_retired');
    await once();
    expect(await places()).toEqual(['us_az_pima.us_az_pima_permits']);
    expect(await statement(address, 'SELECT count(*) FROM feed_sync.archived')).toEqual([['1']]);
    configure('{datasets: "us-*-*-parcels", schema: "parcels_{1}"}');
    feed.publisher.restore(TRAVIS);
    await once();
    expect(await places()).toEqual(['parcels_tx.us_tx_travis_parcels', 'us_az_pima.us_az_pima_permits']);
  });

  it('resync --all --move moves the tables that are elsewhere, and loads no other one', async () => {
    const { configure, once, places, run, address } = await installed(TRAVIS, PERMITS);
    configure('{datasets: "us-tx-*-parcels", schema: "texas"}');
    await once();
    configure(RULES);
    const asked = await run('resync', '--all', '--move', '--yes');
    expect(asked.stdout).toContain(`that destination.schemas says: ${PERMITS}.`);
    await once();
    expect(await places()).toEqual(['texas.us_tx_travis_parcels', 'us_az_pima.us_az_pima_permits']);
    const commits = 'SELECT dataset_id, kind FROM feed_sync.commits ORDER BY commit_number OFFSET 2';
    expect(await statement(address, commits)).toEqual([[PERMITS, 'reload']]);
    expect((await run('resync', '--all', '--move', '--yes')).stdout).toBe(
      'Every table is in the schema that destination.schemas says: there is nothing to move.\n',
    );
  });

  it('a reload that nobody asked to move leaves the table where it is, and a later resync takes the move back', async () => {
    const { configure, once, places, run } = await installed(TRAVIS);
    configure('');
    await once();
    configure(RULES);
    expect(await run('resync', TRAVIS)).toMatchObject({ exitCode: 0 });
    await once();
    expect(await places()).toEqual(['feeds.us_tx_travis_parcels']);
    expect(await run('resync', '--move', TRAVIS)).toMatchObject({ exitCode: 0 });
    expect(await run('resync', TRAVIS)).toMatchObject({ exitCode: 0 });
    await once();
    expect(await places()).toEqual(['feeds.us_tx_travis_parcels']);
  });

  it('a table does not move to where an object of somebody else has its name', async () => {
    const { configure, once, places, run, address } = await installed(TRAVIS);
    configure('');
    await once();
    await statement(address, 'CREATE SCHEMA texas');
    await statement(address, 'CREATE VIEW texas.us_tx_travis_parcels AS SELECT 1 AS mine');
    configure(RULES);
    expect(await run('resync', '--move', TRAVIS)).toMatchObject({ exitCode: 0 });
    const refused = await run('once');
    expect(refused.exitCode).not.toBe(0);
    expect(refused.stderr + refused.stdout).toContain('has a view texas.us_tx_travis_parcels');
    expect(await places()).toEqual(['feeds.us_tx_travis_parcels']);
    await statement(address, 'DROP VIEW texas.us_tx_travis_parcels');
    await once();
    expect(await places()).toEqual(['texas.us_tx_travis_parcels']);
  });
});

describe.skipIf(CITUS.folder === null)('destination.schemas with Citus', () => {
  let cluster: CitusCluster | null = null;
  beforeAll(async () => {
    cluster = await startCitus();
  });
  afterAll(async () => {
    await cluster?.stop();
  });

  it('resync --move copies a table with its past to another node, and stays where a view of a reader hangs on it', async () => {
    const server = present(cluster, 'the cluster runs');
    const { configure, once, places, run, feed, address } = await installedAt(server, TRAVIS, PERMITS);
    const HISTORY = 'history: {datasets: ["*"]}\n';
    configure('{datasets: "us-*-*-*", schema: "us_{1}"}', HISTORY);
    await once();
    expect(await places()).toEqual(['us_az.us_az_pima_permits', 'us_tx.us_tx_travis_parcels']);
    const [[newest] = []] = await statement(address, 'SELECT max(commit_number) FROM feed_sync.commits');
    feed.publisher.publish(TRAVIS, smallContent(numberedRows(3)));
    configure(RULES, HISTORY);
    await statement(address, 'CREATE VIEW us_tx.mine AS SELECT id FROM us_tx.us_tx_travis_parcels');
    expect(await run('resync', '--move', TRAVIS)).toMatchObject({ exitCode: 0 });
    const refused = await run('once');
    expect([refused.exitCode, refused.stderr]).toEqual([77, expect.stringContaining('us_tx.mine')]);
    expect(await places()).toEqual(['us_az.us_az_pima_permits', 'us_tx.us_tx_travis_parcels']);
    await statement(address, 'DROP VIEW us_tx.mine');
    await once();
    expect(await places()).toEqual(['texas.us_tx_travis_parcels', 'us_az.us_az_pima_permits']);
    const count = async (from: string) => (await statement(address, `SELECT count(*) FROM ${from}`))[0]?.[0];
    expect(await count('texas.us_tx_travis_parcels')).toBe('3');
    const [[log = ''] = []] = await statement(
      address,
      `SELECT log_name FROM feed_sync.history_logs WHERE dataset_id = '${TRAVIS}'`,
    );
    expect(log).toMatch(/^texas\./);
    expect(await count(`${log}_as_of_commit(${newest})`)).toBe('2');
    const left = `pg_class WHERE relnamespace = 'us_tx'::regnamespace AND relkind = 'r' AND relname LIKE 'us_%'`;
    expect(await count(left)).toBe('0');
    feed.publisher.publish(TRAVIS, smallContent(numberedRows(4)));
    await once();
    expect(await count('texas.us_tx_travis_parcels')).toBe('4');
    expect(await count(`${log}_as_of_commit(${newest})`)).toBe('2');
  });
});
