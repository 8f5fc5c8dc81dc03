/** Unions: a view over the tables of several datasets, right after each commit. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, it } from 'vitest';
import type { Row, SourceColumn } from '../../fixtures/source/content.ts';
import { localInstallation } from '../support/local-installation.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { column, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const TRAVIS = 'us-tx-travis-parcels';
const LAKEWAY = 'us-tx-lakeway-parcels';
const PERMITS = 'us-tx-travis-permits';

/** The small schema with further columns. */
function schemaWith(version: string, ...added: readonly SourceColumn[]) {
  return { ...SMALL_SCHEMA, schemaVersion: version, columns: [...SMALL_SCHEMA.columns, ...added] };
}

async function mirroring(settings = 'unions: {parcels: "us-*-parcels"}') {
  const feed = await startedFeed();
  publishSmall(feed, [TRAVIS, LAKEWAY, PERMITS]);
  const here = localInstallation({
    feed,
    environment: { FEED_SYNC_LOG_LEVEL: 'warn', FEED_SYNC_LOG_FORMAT: 'json' },
  });
  const configure = (text: string) => writeFileSync(join(here.home, 'feed-sync.yaml'), text);
  configure(settings);
  return {
    ...here,
    feed,
    configure,
    /** Returns what was logged. */
    async once(...words: readonly string[]) {
      const { exitCode, stderr } = await here.run('once', ...words);
      expect(exitCode, stderr).toBe(0);
      return stderr;
    },
    /** The rows of the query, sorted, as text. */
    async rows(sql: string): Promise<readonly string[]> {
      const { exitCode, stdout, stderr } = await here.run(
        'query',
        '--format',
        'csv',
        `FROM (${sql}) ORDER BY ALL`,
      );
      expect(exitCode, stderr).toBe(0);
      return stdout.trimEnd().split('\n');
    },
    async publish(datasetId: string, rows: readonly Row[], schema = SMALL_SCHEMA) {
      feed.publisher.publish(datasetId, smallContent(rows, null, schema));
      await feed.prepareSnapshots();
    },
  };
}

async function queryAttached(path: string, sql: string) {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    await connection.run(`ATTACH '${path}' AS copied (READ_ONLY)`);
    return (await connection.runAndReadAll(sql)).getRows();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** The second version of the schema, in which the amount is a text. */
const AMOUNT_AS_TEXT = {
  ...SMALL_SCHEMA,
  schemaVersion: '2',
  columns: [column('id', 'string', false), column('amount', 'string')],
};

describe('a union', () => {
  it('a union has the rows of its members, with the dataset first', async () => {
    const { once, rows } = await mirroring();
    await once();
    expect(await rows('FROM parcels')).toEqual([
      'dataset_id,id,amount',
      `${LAKEWAY},r00000,0`,
      `${LAKEWAY},r00001,1`,
      `${TRAVIS},r00000,0`,
      `${TRAVIS},r00001,1`,
    ]);
  });

  it.each(['reload', 'alter'])(
    'a union has a new column of a member by name, null in the others, where schemaChanges is %s',
    async (how) => {
      const { once, rows, publish } = await mirroring(
        `unions: {parcels: "us-*-parcels"}\nschemaChanges: ${how}`,
      );
      await once();
      await publish(TRAVIS, [['a', 5, 'north']], schemaWith('2', column('side', 'string')));
      await once();
      expect(await rows('FROM parcels')).toEqual([
        'dataset_id,id,amount,side',
        `${LAKEWAY},r00000,0,`,
        `${LAKEWAY},r00001,1,`,
        `${TRAVIS},a,5,north`,
      ]);
    },
  );

  it('a union leaves out a column whose types conflict, says so once, and has it again when they agree', async () => {
    const { once, rows, publish } = await mirroring();
    await once();
    await publish(TRAVIS, [['a', 'five']], AMOUNT_AS_TEXT);
    const logged = await once();
    expect(logged.match(/Columns are left out of a union/g)).toHaveLength(1);
    expect(logged).toContain(`integer in 1 (${LAKEWAY}), string in 1 (${TRAVIS})`);
    expect(await rows('FROM parcels')).toEqual([
      'dataset_id,id',
      `${LAKEWAY},r00000`,
      `${LAKEWAY},r00001`,
      `${TRAVIS},a`,
    ]);
    await publish(LAKEWAY, [['b', 'six']], AMOUNT_AS_TEXT);
    expect(await once()).toBe('');
    expect(await rows('FROM parcels')).toEqual([
      'dataset_id,id,amount',
      `${LAKEWAY},b,six`,
      `${TRAVIS},a,five`,
    ]);
  });

  it('status, doctor and dbt-sources name a union, with what is left out and why', async () => {
    const { once, publish, run, mirrorPath } = await mirroring();
    await publish(TRAVIS, [['a', 'five']], AMOUNT_AS_TEXT);
    await once();
    const why = `"amount": integer in 1 (${LAKEWAY}), string in 1 (${TRAVIS})`;
    const shown = async (...words: readonly string[]) => (await run(...words)).stdout.replaceAll(/\s+/g, ' ');
    expect(await shown('status')).toContain(`union tables left out`);
    expect(await shown('status')).toContain(`parcels 2 ${why}`);
    expect(JSON.parse((await run('status', '--json')).stdout).unions).toEqual([
      {
        name: 'parcels',
        tables: 2,
        leftOutColumns: [
          {
            column: 'amount',
            kinds: [
              { kind: 'integer', tables: 1, example: LAKEWAY },
              { kind: 'string', tables: 1, example: TRAVIS },
            ],
          },
        ],
        leftOutDatasets: [],
      },
    ]);
    expect(await shown('doctor')).toContain(`union parcels 2 tables; left out, because they differ: ${why}`);
    expect(await shown('dbt-sources')).toContain('- name: parcels description: ');
    await writeMirror(mirrorPath, 'ALTER TABLE us_tx_travis_parcels DROP COLUMN id');
    await publish(LAKEWAY, [['a', 5, 'x']], schemaWith('2', column('side', 'string')));
    await once();
    expect(await shown('doctor')).toContain(`altered outside feed-sync: ${TRAVIS}`);
    expect(await shown('status')).toContain(`parcels 1 ${TRAVIS}: altered outside feed-sync`);
  });

  it('doctor says of a union without tables that its view is not made yet', async () => {
    const { once, run } = await mirroring('unions: {ponds: "us-*-ponds"}');
    await once();
    const { stdout } = await run('doctor');
    expect(stdout).toMatch(/union ponds +0 tables: the view is made once a dataset matches/);
  });

  it('a union leaves out a column of the members that has the name of its own', async () => {
    const { once, rows, publish } = await mirroring();
    await publish(TRAVIS, [['a', 1, 'x']], schemaWith('2', column('Dataset_Id', 'string')));
    expect(await once()).toContain('Columns are left out of a union');
    expect(await rows('FROM parcels')).toContain(`${TRAVIS},a,1`);
  });

  it.each(['archive', 'drop', 'keep'])(
    'a union loses a retired member and has it again when it is back, where removedDatasets is %s',
    async (how) => {
      const { once, rows, feed } = await mirroring(
        `unions: {parcels: "us-*-parcels", permits: "*-permits"}\nremovedDatasets: ${how}`,
      );
      await once();
      feed.publisher.remove(TRAVIS, 'source_retired');
      feed.publisher.remove(PERMITS, 'source_retired');
      await once();
      expect(await rows('SELECT DISTINCT dataset_id FROM parcels')).toEqual(['dataset_id', LAKEWAY]);
      // A union without a member has no columns, so there is no view.
      expect((await rows('SELECT view_name FROM duckdb_views() WHERE NOT internal')).slice(1)).toEqual([
        'parcels',
      ]);
      for (const datasetId of [TRAVIS, PERMITS]) feed.publisher.restore(datasetId);
      await once();
      expect(await rows('FROM parcels')).toContain(`${TRAVIS},r00000,0`);
      expect(await rows('SELECT DISTINCT dataset_id FROM permits')).toEqual(['dataset_id', PERMITS]);
    },
  );

  it('unions follow a changed setting: other patterns, another name, none', async () => {
    const { once, rows, configure } = await mirroring();
    await once();
    configure('unions: {parcels: ["*-lakeway-*", "*-permits"], all_of_it: "*"}');
    await once();
    expect(await rows('SELECT DISTINCT dataset_id FROM parcels')).toEqual(['dataset_id', LAKEWAY, PERMITS]);
    expect(await rows('SELECT count(*) AS n FROM all_of_it')).toEqual(['n', '6']);
    configure('');
    await once();
    expect(await rows('SELECT count(*) AS n FROM duckdb_views() WHERE NOT internal')).toEqual(['n', '0']);
  });

  it('a union keeps its name from datasets that come later, and from tables that were there before', async () => {
    const { once, rows, run, feed, configure } = await mirroring();
    await once();
    publishSmall(feed, ['parcels']);
    await once();
    expect(await rows('SELECT count(*) AS n FROM parcels')).toEqual(['n', '4']);
    expect((await rows(`SELECT table_name FROM feed_sync.names WHERE dataset_id = 'parcels'`))[1]).toMatch(
      /^parcels_[0-9a-f]{8}$/,
    );
    configure('unions: {us_tx_travis_permits: "us-*-parcels"}');
    const refused = await run('once');
    expect(refused.exitCode).toBe(78);
    expect(refused.stdout + refused.stderr).toContain(`the table of ${PERMITS} has this name`);
    expect(await rows('SELECT count(*) AS n FROM us_tx_travis_permits')).toEqual(['n', '2']);
  });

  it("a union replaces nothing of an operator's", async () => {
    const { once, run, rows, mirrorPath, configure } = await mirroring('');
    await once();
    await writeMirror(mirrorPath, 'CREATE VIEW parcels AS SELECT 42 AS mine');
    configure('unions: {parcels: "us-*-parcels"}');
    const refused = await run('once');
    expect(refused.exitCode).toBe(78);
    expect(refused.stdout + refused.stderr).toContain('the mirror has a view main.parcels already');
    expect(await rows('FROM parcels')).toEqual(['mine', '42']);
  });

  it('a union leaves out a table that was altered by hand, and no commit fails for it', async () => {
    const { once, rows, publish, run, mirrorPath } = await mirroring();
    await once();
    await writeMirror(mirrorPath, 'ALTER TABLE us_tx_travis_parcels DROP COLUMN amount');
    await publish(LAKEWAY, [['a', 5, 'north']], schemaWith('2', column('side', 'string')));
    expect(await once()).toContain('Tables are left out of a union');
    expect(await rows('FROM parcels')).toEqual(['dataset_id,id,amount,side', `${LAKEWAY},a,5,north`]);
    await run('resync', TRAVIS);
    await once();
    expect(await rows(`SELECT id FROM parcels WHERE dataset_id = '${TRAVIS}'`)).toEqual([
      'id',
      'r00000',
      'r00001',
    ]);
  });

  it('a union has a table that somebody dropped once the next start has loaded it again', async () => {
    const { once, rows, mirrorPath } = await mirroring();
    await once();
    await writeMirror(mirrorPath, 'DROP TABLE us_tx_travis_parcels');
    await once();
    expect(await rows(`SELECT count(*) AS n FROM parcels WHERE dataset_id = '${TRAVIS}'`)).toEqual([
      'n',
      '2',
    ]);
  });

  it.each(['DROP VIEW parcels', 'CREATE OR REPLACE VIEW parcels AS SELECT 42 AS mine'])(
    'the next start makes a union again after: %s',
    async (statement) => {
      const { once, rows, mirrorPath } = await mirroring();
      await once();
      await writeMirror(mirrorPath, statement);
      await once();
      expect(await rows('SELECT count(*) AS n, count(dataset_id) AS ids FROM parcels')).toEqual([
        'n,ids',
        '4,4',
      ]);
    },
  );

  it('a union of many tables is a view over views, in the copy and a compacted mirror, too, and is made again', async () => {
    const { once, rows, run, home, feed, mirrorPath, configure } = await mirroring(
      'unions: {parcels: "us-*-parcels"}\ndestination: {publish: ./copy.duckdb}',
    );
    const ids = Array.from({ length: 70 }, (_, number) => `us-${number}-parcels`);
    publishSmall(feed, ids);
    await once();
    const count = 'SELECT count(*) AS n, count(DISTINCT dataset_id) AS d FROM parcels';
    expect(await rows(count)).toEqual(['n,d', '144,72']);
    const parts = `SELECT view_name FROM duckdb_views() WHERE schema_name = 'union_parts'`;
    expect(await rows(parts)).toEqual(['view_name', 'parcels_0', 'parcels_1']);
    expect(await queryAttached(join(home, 'copy.duckdb'), 'SELECT count(*) FROM copied.parcels')).toEqual([
      [144n],
    ]);
    feed.publisher.remove(ids[0] ?? '', 'source_retired');
    await once();
    const compacted = await run('compact');
    expect(compacted.exitCode, compacted.stderr).toBe(0);
    expect(await rows(count)).toEqual(['n,d', '142,71']);
    const verified = await run('verify');
    expect(verified.exitCode, verified.stdout + verified.stderr).toBe(0);
    await writeMirror(mirrorPath, 'DROP VIEW union_parts.parcels_1');
    await once();
    expect(await rows(count)).toEqual(['n,d', '142,71']);
    // A table of the other part that somebody altered delays nothing.
    await writeMirror(
      mirrorPath,
      'ALTER TABLE us_1_parcels DROP COLUMN amount',
      'ALTER TABLE us_2_parcels DROP COLUMN amount',
      'ALTER TABLE us_3_parcels DROP COLUMN amount',
    );
    for (const id of ids.slice(4, 8)) {
      feed.publisher.publish(
        id,
        smallContent([['a', 5, 'north']], null, schemaWith('2', column('side', 'string'))),
      );
    }
    await feed.prepareSnapshots();
    await once();
    expect(await rows(`SELECT count(DISTINCT dataset_id) AS d FROM parcels`)).toEqual(['d', '68']);
    configure('');
    await once();
    expect(await rows(parts)).toEqual(['view_name']);
  });

  it('a union of many tables is as it was at an earlier time, where all of them have history', async () => {
    const { once, rows, run, publish, feed } = await mirroring(
      'unions: {parcels: "*"}\nhistory: {datasets: ["*"]}',
    );
    publishSmall(
      feed,
      Array.from({ length: 70 }, (_, number) => `us-${number}-parcels`),
    );
    await once();
    const before = new Date().toISOString();
    await publish(TRAVIS, [['a', 5]]);
    await once();
    expect(await rows('SELECT count(*) AS n FROM parcels')).toEqual(['n', '145']);
    const asOf = await run(
      'query',
      '--format',
      'csv',
      '--as-of',
      before,
      'SELECT count(*) AS n FROM parcels',
    );
    expect(asOf.stdout, asOf.stderr).toBe('n\n146\n');
  });

  it('a union is in the published copy and in a compacted mirror, and verify finds nothing', async () => {
    const { once, rows, run, home } = await mirroring(
      'unions: {parcels: "us-*-parcels"}\ndestination: {publish: ./copy.duckdb}',
    );
    await once();
    const compacted = await run('compact');
    expect(compacted.exitCode, compacted.stderr).toBe(0);
    expect(await rows('SELECT count(*) AS n FROM parcels')).toEqual(['n', '4']);
    const verified = await run('verify');
    expect(verified.exitCode, verified.stdout + verified.stderr).toBe(0);
    // A reader attaches the copy under a name of its own.
    expect(await queryAttached(join(home, 'copy.duckdb'), 'SELECT count(*) FROM copied.parcels')).toEqual([
      [4n],
    ]);
  });
});
