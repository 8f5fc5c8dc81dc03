/** F40, F41 and V17 over the wire: values that a column cannot take, and keys that are none, fail their dataset alone. */

import { expect, it } from 'vitest';
import type { Row, SourceSchema } from '../../fixtures/source/content.ts';
import type { ColumnType } from '../../src/model/records.ts';
import {
  type BadDataset,
  badChanges,
  badSnapshot,
  expectEachFailsAlone,
  publishChanges,
  respondWithChanges,
} from '../support/bad-content.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { withRealMirror } from '../support/served-world.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

const added = (row: string): string => `{"op":"added","row":${row}}`;
const removed = (key: string): string => `{"op":"removed","key":${key}}`;
const listed = (value: string): string => added(`{"id":"b","v":${value}}`);

const tableOf = (type: ColumnType) => {
  const schema: SourceSchema = {
    ...SMALL_SCHEMA,
    columns: [column('id', 'string', false), column('v', type)],
  };
  return { schema, rows: [['a', null]], first: [['a', null]] };
};

it('F40 C13 fails only the dataset whose changes have a value of another type, on a second page', async () => {
  const bad: readonly (readonly [ColumnType, ...(readonly string[])])[] = [
    ['string', '5', '{"a":1}'],
    ['integer', '1.5', '"yes"', '9223372036854775808', '9007199254740993.0', 'true'],
    ['number', '"1.5"', '1e400'],
    ['boolean', '"yes"', '1'],
    ['date', '"2023-02-29"', '"2024-01-01T00:00:00Z"'],
    ['timestamp', '"2024-01-01T00:00:00"', '"2024-01-01T00:00:00.0000001Z"', '"2016-12-31T23:59:60Z"'],
  ];
  const datasets = bad.flatMap(([type, ...values]) =>
    values.map((value, index) => {
      const datasetId = `${type}-${index}`;
      const says = `Version 2 of ${datasetId}, page 2, row 2: the column "v" holds ${value}, which is no ${type}`;
      return badChanges(
        datasetId,
        tableOf(type),
        [[listed('null')], [removed('{"id":"x"}'), listed(value)]],
        says,
      );
    }),
  );
  const half = ['string-half', 'json-half'].map((datasetId): BadDataset => {
    const says = `Version 2 of ${datasetId}, page 1, row 1: the column "v" holds "a\\ud800", which is no text`;
    const type = datasetId === 'json-half' ? 'json' : 'string';
    return badChanges(
      datasetId,
      tableOf(type),
      [[listed(type === 'json' ? '["a\\ud800"]' : '"a\\ud800"')]],
      says,
    );
  });
  await expectEachFailsAlone([...datasets, ...half]);
});

it('F40 V17 fails only the dataset whose file has a value that its column type would change', async () => {
  const bad: readonly (readonly [ColumnType, value: string, shown: string])[] = [
    ['string', '5::INTEGER', '"5" of type INTEGER, which is another family of types than string'],
    ['integer', '1.5::DOUBLE', '"1.5"'],
    ['integer', '18446744073709551615::UBIGINT', '"18446744073709551615"'],
    ['integer', "'7'", '"7" of type VARCHAR'],
    ['number', '9007199254740993::BIGINT', '"9007199254740993"'],
    ['number', "'1.5'", '"1.5" of type VARCHAR'],
    ['boolean', '1::INTEGER', '"1" of type INTEGER'],
    ['date', "TIMESTAMP '2024-01-01 12:00:00'", '"2024-01-01 12:00:00"'],
    ['timestamp', "TIMESTAMP_NS '2024-01-01 00:00:00.000000001'", '"2024-01-01 00:00:00.000000001"'],
    ['timestamp', "'2024-01-01T00:00:00Z'", '"2024-01-01T00:00:00Z" of type VARCHAR'],
    ['geometry', "'POINT (1 2)'", '"POINT (1 2)" of type VARCHAR'],
    ['geometry', "from_hex('0101')", JSON.stringify('\\x01\\x01')],
    ['json', `'{"a":'`, JSON.stringify('{"a":')],
    ['json', '5::BIGINT', '"5" of type BIGINT'],
  ];
  const datasets = bad.map(([type, value, shown], index) =>
    badSnapshot(
      `${type}-${index}`,
      tableOf(type),
      { select: `SELECT 'a' AS id, ${value} AS v UNION ALL SELECT 'b', NULL`, rowCount: 2 },
      'The file part-0.parquet',
      `holds in the column "v" the value ${shown}`,
    ),
  );
  await expectEachFailsAlone(datasets);
});

it('F41 V7 V8 fails only the dataset with a null or repeated key or a malformed change, in changes and in files', async () => {
  const twice = [[added('{"id":"b"}')], [added('{"id":"c"}'), '{"op":"changed","row":{"id":"b"}}']];
  const ofTwo: SourceSchema = { ...SMALL_SCHEMA, keyColumns: ['id', 'amount'] };
  await expectEachFailsAlone([
    badChanges('null-in-a-row', {}, [[added('{"id":null}')]], 'page 1, row 1: the key column "id" is null'),
    badChanges(
      'no-key-in-a-row',
      {},
      [[added('{"amount":1}')]],
      'page 1, row 1: the key column "id" is null',
    ),
    badChanges('null-in-a-key', {}, [[removed('{"id":null}')]], 'page 1, row 1: the key column "id" is null'),
    badChanges(
      'half-a-key',
      { schema: ofTwo },
      [[removed('{"id":"r00000"}')]],
      'page 1, row 1: the key column "amount" is null',
    ),
    badChanges(
      'twice-in-changes',
      {},
      twice,
      'page 2, row 2: the key id = "b" has a row in this version already',
    ),
    badChanges(
      'no-operation',
      {},
      [['{"op":"upsert","row":{"id":"b"}}']],
      'page 1, row 1: the operation is "upsert"',
    ),
    badChanges(
      'no-row',
      {},
      [['{"op":"added"}']],
      'page 1, row 1: the change has the operation "added", but no row',
    ),
    badChanges('no-change', {}, [['5']], 'Version 2 of no-change, page 1, row 1'),
    badSnapshot(
      'null-in-a-file',
      {},
      { select: "SELECT NULL::VARCHAR AS id, 1::BIGINT AS amount UNION ALL SELECT 'b', 2", rowCount: 2 },
      'The key column "id" of null-in-a-file is null in 1 of 2 rows, as in the file part-0.parquet.',
    ),
    badSnapshot(
      'twice-in-a-file',
      {},
      { select: "SELECT 'b' AS id, unnest([1, 2])::BIGINT AS amount", rowCount: 2 },
      'The key id = "b" of twice-in-a-file is there 2 times, as in the file part-0.parquet; 2 rows have 1 key.',
    ),
  ]);
});

it('F41 C16 a key that is removed and added in one version has its new row', async () => {
  const world = await withRealMirror();
  world.feed.publisher.publish('permits', smallContent(numberedRows(3)));
  await world.catchUp();
  const changes = [added('{"id":"r00000","amount":70}'), removed('{"id":"r00000"}')];
  publishChanges(world.feed, 'permits', [
    ...changes,
    removed('{"id":"r00001"}'),
    added('{"id":"r00001","amount":71}'),
  ]);
  // By the counts that the service states, two rows are added and two removed.
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'applied' });
  expect(await inMirror(world.folder, 'SELECT amount::INTEGER FROM permits ORDER BY id')).toEqual([
    [70],
    [71],
    [2],
  ]);
});

it('F40 keeps NUL in text and the value of JSON, and falls back to the snapshot for digits that would be lost', async () => {
  const world = await withRealMirror();
  const { feed, folder } = world;
  const mirrored = ['string', 'json', 'digits'] as const;
  feed.publisher.subscribe({ subscriptionId: 'sub_kept', datasetIds: mirrored });
  for (const datasetId of mirrored) {
    feed.publisher.addDataset({ datasetId });
    const { schema, rows } = tableOf(datasetId === 'string' ? 'string' : 'json');
    feed.publisher.publish(datasetId, smallContent(rows, [], schema));
  }
  await world.catchUp();
  publishChanges(feed, 'string', [listed('"x\\u0000y"')]);
  publishChanges(feed, 'json', [listed('{"a\\u0000": [2.50, 1e2, 9007199254740993]}')]);
  const { schema } = tableOf('json');
  const rows: readonly Row[] = [
    ['a', null],
    ['b', { json: [0.5] }],
  ];
  feed.publisher.publish('digits', smallContent(rows, [{ op: 'added', row: rows[1] ?? [] }], schema));
  respondWithChanges(feed, 'digits', 2, [[listed('[0.50000000000000000001]')]]);
  expect(kinds(await world.catchUp())).toMatchObject({
    string: 'applied',
    json: 'applied',
    digits: 'loaded',
  });
  const valueIn = async (table: string) =>
    (await inMirror(folder, `SELECT hex(encode(v::VARCHAR)) FROM "${table}" WHERE id = 'b'`)).flat();
  const hexOf = (text: string) => [Buffer.from(text).toString('hex').toUpperCase()];
  expect(await valueIn('string')).toEqual(hexOf('x\0y'));
  expect(await valueIn('json')).toEqual(hexOf('{"a\\u0000":[2.5,100.0,9007199254740993]}'));
  expect(await valueIn('digits')).toEqual(hexOf('[0.5]'));
});
