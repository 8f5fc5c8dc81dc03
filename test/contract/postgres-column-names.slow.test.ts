/** F38 F39: names of columns that PostgreSQL cannot take, and more columns than it can hold. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { MAX_COLUMNS } from '../../src/destination/postgres/column-names.ts';
import { present } from '../../src/lib/assert.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { localInstallation } from '../support/local-installation.ts';
import { queryRows } from '../support/parquet-reader.ts';
import { databaseAtWork, openReaderOf, textsInPostgres } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { column, smallContent } from '../support/small-content.ts';

const BEGINNING = 'x'.repeat(63);
const GIVEN: readonly (readonly [name: string, columnName: string])[] = [
  ['id', 'id'],
  ['xmin', 'xmin_2'],
  ['ctid', 'ctid_2'],
  ['tableoid', 'tableoid_2'],
  ['cmax', 'cmax_3'],
  ['Cmax_2', 'Cmax_2'],
  ['XMAX', 'XMAX'],
  [`${BEGINNING}a`, `${'x'.repeat(54)}_2fc161cb`],
  [`${BEGINNING}b`, `${'x'.repeat(54)}_c4bf854f`],
  ['é'.repeat(40), `${'é'.repeat(27)}_84fe2e03`],
  ['present', 'present'],
  ['Id', 'Id_2'],
];
const ADDED = [...GIVEN, ['cmin', 'cmin_2']] as const;
const schemaOf = (given: typeof GIVEN, schemaVersion: string) =>
  sourceSchema(
    given.map(([name], index) => column(name, index === 0 ? 'integer' : 'string', index > 0)),
    { schemaVersion },
  );
const rowOf = (given: typeof GIVEN, id: number, value: string): Row => [
  id,
  ...given.slice(1).map(([, columnName]) => `${columnName} ${value}`),
];
const texts = (rows: readonly Row[]) => rows.map((row) => row.map(String));

async function installedWith(address: string) {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  feed.publisher.addDataset({ datasetId: 'parcels' });
  const first = [rowOf(GIVEN, 1, 'one'), rowOf(GIVEN, 2, 'two')];
  feed.publisher.publish('parcels', smallContent(first, null, schemaOf(GIVEN, '1')));
  const environment = {
    PATH: process.env['PATH'] ?? '',
    FEED_SYNC_DESTINATION_URL: address,
    FEED_SYNC_HISTORY_DATASETS: '*',
  };
  const { run, home, environment: variables } = localInstallation({ feed, environment });
  const folder = join(home, 'export');
  variables['FEED_SYNC_EXPORT_PATH'] = folder;
  return { feed, run, folder };
}

describe.skipIf(EMBEDDED.folder === null)('columns in PostgreSQL', () => {
  const server = postgresOfTests(EMBEDDED);

  it('F38 F39 columns with names that PostgreSQL cannot take get others in every commit and rollback', async () => {
    const address = await server.database();
    const history = { keeps: () => true, keepMs: Number.POSITIVE_INFINITY };
    const world = await databaseAtWork(address, { history });
    const rows = async () => await textsInPostgres(address, await world.observed());
    const first = [rowOf(GIVEN, 1, 'one'), rowOf(GIVEN, 2, 'two')];
    const course = await world.loaded(firstContent(schemaOf(GIVEN, '1'), first));
    expect(await rows()).toEqual(texts(first));
    const [{ columns }] = [await world.observed()];
    expect(columns.map(({ name, columnName }) => [name, columnName])).toEqual(GIVEN);

    const second = [rowOf(GIVEN, 1, 'ONE'), rowOf(GIVEN, 3, 'three')];
    course.publishRows(second);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    expect(await rows()).toEqual(texts(second));

    const third = [rowOf(ADDED, 1, '1'), rowOf(ADDED, 3, 'three')];
    course.publish({
      schema: schemaOf(ADDED, '2'),
      rowCount: 2,
      rows: () => third,
      changes: third.map((row) => ({ op: 'changed', row })),
    });
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    expect(await rows()).toEqual(texts(third));
    expect((await world.observed()).columns.at(-1)).toMatchObject({ name: 'cmin', columnName: 'cmin_2' });

    const fourth = [rowOf(ADDED, 1, 'last')];
    course.publishRows(fourth);
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await rows()).toEqual(texts(fourth));

    const reader = await openReaderOf(address);
    const [counted] = await reader.count(['parcels'], () => false);
    expect(counted?.table).toMatchObject({ rowCount: 1, hasRecordedChecksum: true });
    const plannedFrom = await world.observed();
    const fetched = { bytes: 0, elapsedMs: () => 0 };
    const rollback = {
      kind: 'rollback',
      datasetId: 'parcels',
      toCommit: 3,
      version: 3,
      fetched,
      plannedFrom,
    } as const;
    expect(await world.execute(rollback)).toMatchObject([{ kind: 'committed' }]);
    expect(await rows()).toEqual(texts(third));
    const asOf = await statement(address, 'SELECT "xmin_2" FROM history.parcels_as_of_commit(4)');
    expect(asOf).toEqual([['xmin_2 last']]);
  });

  it('F38 F39 every command shows and reads columns with names that PostgreSQL cannot take under the same names', async () => {
    const { feed, run, folder } = await installedWith(await server.database());
    expect(await run('once')).toMatchObject({ exitCode: 0 });
    const changed = rowOf(GIVEN, 2, 'TWO');
    feed.publisher.publish(
      'parcels',
      smallContent(
        [rowOf(GIVEN, 1, 'one'), changed],
        [{ op: 'changed', row: changed }],
        schemaOf(GIVEN, '1'),
      ),
    );
    expect(await run('once')).toMatchObject({ exitCode: 0 });

    expect(await run('verify', '--deep')).toMatchObject({ exitCode: 0 });
    const [, ...others] = GIVEN.map(([, columnName]) => columnName);
    const { stdout: difference } = await run('diff', 'parcels', '--from-version', '1', '--format', 'json');
    const shown = JSON.parse(difference);
    expect(shown).toMatchObject({ change: 'changed', key: { id: 2 } });
    expect(Object.keys(shown.before).toSorted()).toEqual(others.toSorted());
    const queried = await run('query', 'SELECT xmin_2 FROM parcels ORDER BY id', '--format', 'csv');
    expect(queried.stdout + queried.stderr).toBe('xmin_2\nxmin_2 one\nxmin_2 TWO\n');
    const { stdout: sources } = await run('dbt-sources');
    for (const name of others) expect(sources).toContain(`- name: ${name}\n            quote: true`);
    const { files } = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
    const exported = await queryRows(
      `DESCRIBE FROM read_parquet('${join(folder, files[0].file)}', hive_partitioning = false)`,
    );
    expect(exported.map(([name]) => name)).toEqual(['id', ...others]);
  });

  it('F38 F39 the next version repairs columns whose names an earlier version let the server cut', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const schema = schemaOf(
      [
        ['id', 'id'],
        [`${BEGINNING}a`, ''],
      ],
      '1',
    );
    const course = await world.loaded(firstContent(schema, [[1, 'one']]));
    const name = present((await world.observed()).columns[1], 'it is there').columnName;
    await world.byHand(`ALTER TABLE feeds.parcels RENAME COLUMN "${name}" TO "${BEGINNING}"`);
    await world.byHand(`UPDATE feed_sync.columns SET column_name = '${BEGINNING}a' WHERE name <> 'id'`);
    course.publishRows([[1, 'ONE']]);
    expect(await world.apply(course)).toMatchObject({
      kind: 'failed',
      error: { code: 'changes_inapplicable' },
    });
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await textsInPostgres(address, await world.observed())).toEqual([['1', 'ONE']]);
  });

  it('F38 more columns than PostgreSQL can hold fail their dataset alone, at the first load', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const wide = (count: number) =>
      sourceSchema(
        Array.from({ length: count }, (_, index) =>
          column(index === 0 ? 'id' : `c${index}`, 'boolean', index > 0),
        ),
      );
    const wideRow = (count: number): Row => Array.from({ length: count }, () => true);
    await expect(
      world.loaded(firstContent(wide(MAX_COLUMNS + 1), [wideRow(MAX_COLUMNS + 1)]), 'wider'),
    ).rejects.toMatchObject({
      code: 'data_invalid',
      message: expect.stringContaining(`has ${MAX_COLUMNS + 1} columns`),
    });
    const course = await world.loaded(firstContent(wide(MAX_COLUMNS), [wideRow(MAX_COLUMNS)]));
    course.publishRows([[true, false, ...wideRow(MAX_COLUMNS - 2)]]);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    course.publishRows([[true, false, false, ...wideRow(MAX_COLUMNS - 3)]]);
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
  });
});
