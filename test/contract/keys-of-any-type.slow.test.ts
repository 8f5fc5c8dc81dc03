/**
 * V13 over the wire: a row is not found by a key that can be written in several ways, so such a table takes no changes. Here they
 * would leave rows that are gone and add rows that are there, and nothing that the service states would show it.
 */

import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Cell, ColumnType, Row, SourceSchema } from '../../fixtures/source/content.ts';
import { respondWithChanges } from '../support/bad-content.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { everythingPublished } from '../support/published.ts';
import { withRealMirror } from '../support/served-world.ts';
import { column, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

interface Keyed {
  readonly type: ColumnType;
  readonly keyColumns?: readonly string[];
  /** Of two rows, and how changes write the first of them. */
  readonly keys: readonly [Cell, Cell];
  readonly written: string;
  readonly way: 'applied' | 'loaded';
}

const DATASETS: Readonly<Record<string, Keyed>> = {
  json: {
    type: 'json',
    keys: [{ json: { a: 1, b: 2 } }, { json: 3 }],
    written: '{"b":2,"a":1}',
    way: 'loaded',
  },
  'part of a key': {
    type: 'json',
    keyColumns: ['part', 'id'],
    keys: [{ json: [1] }, { json: [2] }],
    written: '[1.0]',
    way: 'loaded',
  },
  number: { type: 'number', keys: [0.1, 2], written: '0.10000000000000000001', way: 'loaded' },
  geometry: {
    type: 'geometry',
    keys: [
      {
        type: 'MultiPoint',
        coordinates: [
          [1, 2],
          [3, 4],
        ],
      },
      { type: 'Point', coordinates: [1, 2] },
    ],
    written: '"MULTIPOINT (3 4, 1 2)"',
    way: 'loaded',
  },
  string: { type: 'string', keys: ['a', 'b'], written: '"a"', way: 'applied' },
};

const schemaOf = ({ type, keyColumns = ['id'] }: Keyed): SourceSchema => ({
  ...SMALL_SCHEMA,
  columns: [column('id', type, false), column('part', 'string', false), column('amount', 'integer')],
  keyColumns,
});

it('V13 F78 loads a table with a key column of type json, number or geometry at every version, without repeated rows', async () => {
  const world = await withRealMirror();
  const { feed, folder } = world;
  feed.publisher.subscribe({ subscriptionId: 'sub_keys', datasetIds: Object.keys(DATASETS) });
  const rowsOf = ({ keys }: Keyed, amount: number): readonly Row[] =>
    keys.map((key, index) => [key, 'p', index === 0 ? amount : 0]);
  for (const [datasetId, keyed] of Object.entries(DATASETS)) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, smallContent(rowsOf(keyed, 1), [], schemaOf(keyed)));
    const rewrite = (body: unknown): unknown => withoutCounts(body as Record<string, unknown>);
    feed.faults.add({
      match: { operation: 'versions', datasetId, times: 'always' },
      act: { kind: 'rewrite', rewrite },
    });
  }
  await world.catchUp();
  for (const [datasetId, keyed] of Object.entries(DATASETS)) {
    const rows = rowsOf(keyed, 2);
    const changes = [{ op: 'changed' as const, row: rows[0] ?? [] }];
    feed.publisher.publish(datasetId, smallContent(rows, changes, schemaOf(keyed)));
    const change = `{"op":"changed","row":{"id":${keyed.written},"part":"p","amount":2}}`;
    respondWithChanges(feed, datasetId, 2, [[change]]);
  }
  const ways = Object.entries(DATASETS).map(([datasetId, { way }]) => [datasetId, way]);
  expect(kinds(await world.catchUp())).toMatchObject(Object.fromEntries(ways));
  for (const datasetId of Object.keys(DATASETS)) {
    const table = datasetId.replaceAll(' ', '_');
    expect(await inMirror(folder, `SELECT amount::INTEGER FROM "${table}" ORDER BY 1`), datasetId).toEqual([
      [0],
      [2],
    ]);
  }
  expect(await mirrorDifferences(join(folder, 'mirror.duckdb'), everythingPublished(feed))).toEqual([]);
});

/** The list of versions, which states no numbers of rows and of changes. */
function withoutCounts(body: Record<string, unknown>): unknown {
  const versions = body['versions'] as readonly Record<string, unknown>[];
  return { ...body, versions: versions.map((one) => ({ ...one, rowCount: null, counts: null })) };
}
