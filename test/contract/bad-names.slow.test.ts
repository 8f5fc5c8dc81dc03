/** F38, F39 over the wire: whatever the service names its things, a name is quoted or replaced, never executed and never a path. */

import { readdir } from 'node:fs/promises';
import { expect, it } from 'vitest';
import type { Change, Row, SourceSchema } from '../../fixtures/source/content.ts';
import { type BadDataset, type BadWorld, expectEachFailsAlone } from '../support/bad-content.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { withRealMirror } from '../support/served-world.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

const LONG = 'x'.repeat(5_000);
const NAMES = [
  "'; DROP TABLE parcels; --",
  '"; DROP SCHEMA feed_sync CASCADE; --',
  '"quoted"',
  'a.b',
  'a-b',
  'A_B',
  '..',
  '.',
  '/',
  '../../../../etc/passwd',
  'a/../b',
  'a%2Fb',
  'C:\\names',
  'semi;colon',
  '?limit=1&cursor=x#y',
  '日本語 😀',
  'Ångström',
  ' ',
  '\n',
  '\u001b[31mred',
  '-rf',
  '$(reboot)',
  '__proto__',
  'constructor',
  'toString',
  'select',
  'rowid',
  '7',
  LONG,
];
const TWO = numberedRows(2);
const THREE = numberedRows(3);

/** The rows of every table of a hostile dataset, found by what the mirror says of itself. */
async function mirrored({ folder }: BadWorld): Promise<ReadonlyMap<unknown, unknown>> {
  const tables = await inMirror(folder, 'SELECT dataset_id, table_name FROM feed_sync.datasets');
  const rows = tables.map(
    async ([id, name]) =>
      [
        id,
        await inMirror(folder, `SELECT id, amount::INTEGER FROM main."${String(name)}" ORDER BY id`),
      ] as const,
  );
  return new Map(await Promise.all(rows));
}

it('F38 mirrors hostile ids of datasets and subscriptions, names, places, topics and schema versions', async () => {
  const world = await withRealMirror();
  const { feed, folder } = world;
  const hostile = { places: NAMES.slice(0, -1), topics: NAMES.slice(0, -1) };
  for (const [index, id] of NAMES.entries()) {
    feed.publisher.addDataset({ datasetId: id });
    feed.publisher.publish(
      id,
      smallContent(TWO, [], { ...SMALL_SCHEMA, schemaVersion: NAMES.at(-1 - index) ?? '' }),
    );
  }
  feed.publisher.subscribe({ subscriptionId: 'sub_hostile', datasetIds: NAMES });
  const subscribed = NAMES.filter((id, index) => index % 3 === 0 || id === LONG);
  for (const id of subscribed) {
    feed.publisher.subscribe({ subscriptionId: id, name: id, ...hostile, datasetIds: [id] });
  }
  const before = await readdir(folder);
  const result = await world.catchUp();
  expect(result.incidents).toEqual([]);
  expect(kinds(result)).toMatchObject(Object.fromEntries(NAMES.map((id) => [id, 'loaded'])));
  for (const [index, id] of NAMES.entries()) {
    const schema = { ...SMALL_SCHEMA, schemaVersion: NAMES.at(-1 - index) ?? '' };
    feed.publisher.publish(
      id,
      smallContent(
        THREE,
        THREE.slice(2).map((row) => ({ op: 'added', row })),
        schema,
      ),
    );
  }
  const moved = await world.catchUp();
  expect(kinds(moved)).toMatchObject(Object.fromEntries(NAMES.map((id) => [id, 'applied'])));
  const tables = await mirrored(world);
  expect([...tables.keys()].sort()).toEqual([...NAMES, 'parcels', 'permits', 'roads'].sort());
  for (const id of NAMES) expect(tables.get(id), id).toEqual(THREE);
  const names = await inMirror(folder, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'");
  for (const [name] of names) expect(String(name)).toMatch(/^[a-z_][a-z0-9_]{0,62}$/);
  expect((await readdir(folder)).filter((name) => !before.includes(name)).sort()).toEqual([
    'mirror.duckdb',
    'staging',
  ]);
  expect(kinds(await world.catchUp())).toMatchObject(Object.fromEntries(NAMES.map((id) => [id, 'current'])));
});

it('F38 F39 mirrors hostile column names: equal but for case, of the envelope, and of what every object has', async () => {
  const data = [
    ...NAMES,
    'Id',
    'ID',
    'feed_sync',
    'filename',
    'present',
    'c0',
    'page',
    'line',
    'step',
    'op',
    'row',
    'key',
  ];
  const envelope = ['iD', 'PARCEL', 'hasOwnProperty', '__PROTO__'];
  const schema: SourceSchema = {
    schemaVersion: '1',
    columns: [
      column('id', 'string', false),
      column('Parcel', 'integer', false),
      ...data.map((name) => ({ ...column(name, 'string'), description: name, sourceName: name })),
    ],
    keyColumns: ['id', 'Parcel'],
    envelopeColumns: envelope.map((name) => column(name, 'string')),
  };
  const rowOf = (id: string, value: string): Row => [
    id,
    7,
    ...[...data, ...envelope].map((name) => `${name} ${value}`),
  ];
  const rows = [rowOf('a', '1'), rowOf('b', '1')];
  const world = await withRealMirror();
  const { feed, folder } = world;
  feed.publisher.addDataset({ datasetId: 'hostile' });
  feed.publisher.subscribe({ subscriptionId: 'sub_hostile', datasetIds: ['hostile'] });
  feed.publisher.publish('hostile', smallContent(rows, [], schema));
  const expectTable = async (expected: readonly Row[]): Promise<void> => {
    expect(await inMirror(folder, 'FROM hostile ORDER BY 1')).toEqual(expected.map((row) => row.map(String)));
    expect(
      await inMirror(
        folder,
        'SELECT name, column_name FROM feed_sync.columns WHERE dataset_id = \'hostile\' ORDER BY "position"',
      ),
    ).toEqual(renamed);
  };
  const plain = ['id', 'Parcel', ...NAMES];
  const renamed = [
    ...plain.map((name) => [name, name]),
    ['Id', 'Id_2'],
    ['ID', 'ID_3'],
    ...data.slice(NAMES.length + 2).map((name) => [name, name]),
    ['iD', 'iD_4'],
    ['PARCEL', 'PARCEL_2'],
    ['hasOwnProperty', 'hasOwnProperty'],
    ['__PROTO__', '__PROTO___2'],
  ];
  expect(kinds(await world.catchUp())).toMatchObject({ hostile: 'loaded' });
  await expectTable(rows);

  const changed = [rowOf('a', '2'), rowOf('c', '2')];
  const changes: readonly Change[] = [
    { op: 'changed', row: rowOf('a', '2') },
    { op: 'removed', key: ['b', 7] },
    { op: 'added', row: rowOf('c', '2') },
  ];
  feed.publisher.publish('hostile', smallContent(changed, changes, schema));
  expect(kinds(await world.catchUp())).toMatchObject({ hostile: 'applied' });
  await expectTable(changed);

  world.checkpoint.requestResync(['hostile']);
  expect(kinds(await world.catchUp())).toMatchObject({ hostile: 'loaded' });
  await expectTable(changed);
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(Object('').constructor).toBe(String);
});

/** A version whose schema, as the service lists it, is `rewritten`. */
function badSchema(
  datasetId: string,
  rewritten: (schema: SchemaOnTheWire) => void,
  ...says: readonly string[]
): BadDataset {
  return {
    datasetId,
    spoil({ feed }) {
      const schema = { ...SMALL_SCHEMA, schemaVersion: '2' };
      feed.publisher.publish(datasetId, smallContent(THREE, null, schema), { notRecordedAs: 'flag' });
      const rewrite = (body: unknown): unknown => {
        const changed = structuredClone(body);
        rewritten(Object(changed).schemas[0]);
        return changed;
      };
      feed.faults.add({
        match: { operation: 'schemas', datasetId, times: 'always' },
        act: { kind: 'rewrite', rewrite },
      });
    },
    says,
    requests: ['file'],
  };
}

interface SchemaOnTheWire {
  readonly columns: { name: string; type: string; description?: string }[];
  readonly envelopeColumns: object[];
  readonly keyColumns: string[];
}

it('F38 F39 V18 fails only the dataset whose schema makes no table', async () => {
  const hostileType = 'integer); DROP TABLE parcels; --';
  await expectEachFailsAlone([
    badSchema(
      'twice',
      ({ columns }) => columns.push({ name: 'amount', type: 'string' }),
      'The schema of twice has the column "amount" twice',
    ),
    badSchema(
      'twice-in-the-envelope',
      ({ envelopeColumns }) => envelopeColumns.push({ name: 'amount', type: 'string' }),
      'The schema of twice-in-the-envelope has the column "amount" twice',
    ),
    badSchema('no-columns', ({ columns }) => columns.splice(0), 'The schema of no-columns has no columns'),
    badSchema(
      'no-such-key',
      ({ keyColumns }) => keyColumns.push('"; --'),
      `The key column ${JSON.stringify('"; --')} of no-such-key is missing in its schema or files`,
    ),
    badSchema(
      'hostile-type',
      ({ columns: [, amount] }) => Object.assign(Object(amount), { type: hostileType }),
      `The column "amount" of hostile-type has the type ${JSON.stringify(hostileType)}`,
    ),
    badSchema(
      'nul-in-a-description',
      ({ columns: [, amount] }) => Object.assign(Object(amount), { description: 'a\0b' }),
      'The text "a\\u0000b" holds a NUL character',
    ),
  ]);
});
