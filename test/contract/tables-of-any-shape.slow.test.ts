/** F33 over the wire: tables without key columns, geometry or rows, with one column and with 500, by snapshots and by changes. */

import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Content, Row, SourceSchema } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { everythingPublished } from '../support/published.ts';
import { withRealMirror } from '../support/served-world.ts';
import { column, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

interface Shape {
  readonly schema: SourceSchema;
  /** Of one version after another. */
  readonly versions: readonly (readonly Row[])[];
  /** How the table comes to each of them. */
  readonly ways: readonly string[];
}

const WIDTH = 500;
const wide = (value: number): Row => ['a', ...Array.from({ length: WIDTH - 1 }, (_, index) => value + index)];
const ONE_COLUMN: SourceSchema = { ...SMALL_SCHEMA, columns: [column('id', 'string', false)] };
const KEYLESS: SourceSchema = { ...SMALL_SCHEMA, keyColumns: [] };
const ALL_KEYS: SourceSchema = { ...SMALL_SCHEMA, keyColumns: ['amount', 'id'] };
const WITH_GEOMETRY: SourceSchema = {
  ...SMALL_SCHEMA,
  columns: [...SMALL_SCHEMA.columns, column('v', 'geometry')],
};

const SHAPES: Readonly<Record<string, Shape>> = {
  'no key columns': {
    schema: KEYLESS,
    versions: [
      [
        ['a', 1],
        ['a', 1],
      ],
      [
        ['a', 1],
        ['b', 2],
        ['b', 2],
      ],
      [],
    ],
    ways: ['loaded', 'loaded', 'loaded'],
  },
  'no rows': {
    schema: SMALL_SCHEMA,
    versions: [[], [['a', 1]], [], [['b', 2]]],
    ways: ['loaded', 'applied', 'applied', 'applied'],
  },
  'no rows and no change of it': { schema: SMALL_SCHEMA, versions: [[], []], ways: ['loaded', 'applied'] },
  'no rows but a geometry': {
    schema: WITH_GEOMETRY,
    versions: [[['a', 1, null]], [['a', 1, { type: 'Point', coordinates: [1, 2] }]], []],
    ways: ['loaded', 'applied', 'applied'],
  },
  'one column': {
    schema: ONE_COLUMN,
    versions: [[['a']], [['a'], ['b']], [['b']]],
    ways: ['loaded', 'applied', 'applied'],
  },
  'one column and no key': {
    schema: { ...ONE_COLUMN, keyColumns: [] },
    versions: [[['a']], [['a'], ['a']]],
    ways: ['loaded', 'loaded'],
  },
  'nothing but key columns': {
    schema: ALL_KEYS,
    versions: [
      [
        ['a', 1],
        ['a', 2],
      ],
      [
        ['a', 2],
        ['b', 1],
      ],
    ],
    ways: ['loaded', 'applied'],
  },
  '500 columns': {
    schema: {
      ...SMALL_SCHEMA,
      columns: Array.from({ length: WIDTH }, (_, index) =>
        index === 0 ? column('id', 'string', false) : column(`column ${index}`, 'integer'),
      ),
    },
    versions: [[wide(1)], [wide(2), ['b', ...wide(3).slice(1)]]],
    ways: ['loaded', 'applied'],
  },
};

function contentOf({ schema, versions }: Shape, index: number): Content {
  const rows = versions[index] ?? [];
  const before = versions[index - 1];
  const hasChanges = before !== undefined && schema.keyColumns.length > 0;
  return smallContent(rows, hasChanges ? difference(schema, before, rows) : null, schema);
}

async function expectAlwaysMirrored(
  shapes: readonly (readonly [string, Shape])[],
  emptySnapshot: 'no-files' | 'one-file',
): Promise<void> {
  const world = await withRealMirror({ files: { emptySnapshot } });
  const { feed, folder } = world;
  feed.publisher.subscribe({ subscriptionId: 'sub_shapes', datasetIds: shapes.map(([id]) => id) });
  for (const [datasetId] of shapes) feed.publisher.addDataset({ datasetId });
  const steps = Math.max(...shapes.map(([, { versions }]) => versions.length));
  for (let index = 0; index < steps; index += 1) {
    for (const [datasetId, shape] of shapes) {
      if (index < shape.versions.length) feed.publisher.publish(datasetId, contentOf(shape, index));
    }
    const expected = shapes.map(([id, { ways }]) => [id, ways[index] ?? 'current']);
    expect(kinds(await world.catchUp())).toMatchObject(Object.fromEntries(expected));
    expect(await mirrorDifferences(join(folder, 'mirror.duckdb'), everythingPublished(feed))).toEqual([]);
  }
}

it('F33 V13 mirrors tables of all shapes', async () => {
  await expectAlwaysMirrored(Object.entries(SHAPES), 'no-files');
});

it('F33 mirrors tables without rows where a snapshot of no rows is a file', async () => {
  const withoutRows = Object.entries(SHAPES).filter(([, { versions }]) =>
    versions.some((rows) => rows.length === 0),
  );
  await expectAlwaysMirrored(withoutRows, 'one-file');
});
