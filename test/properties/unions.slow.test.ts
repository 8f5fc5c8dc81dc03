/**
 * Whatever is committed to the tables of a union, one by one or together: its view has the rows that `UNION ALL BY NAME` over all of
 * its tables has, with the dataset first, and without the columns whose types differ. It is a view over views where there are many.
 */

import fc from 'fast-check';
import { expect } from 'vitest';
import type { ColumnType } from '../../src/model/records.ts';
import { commitAll } from '../support/commit-all.ts';
import { column, inMirror, mirrorIn, parquet, snapshot, temporaryFolder } from '../support/duckdb-mirror.ts';
import { retirement } from '../support/mirror-at-work.ts';
import { property } from './property.ts';

/** The columns that a table may have. */
type Shape = readonly (readonly [name: string, type: ColumnType])[];

const shape: fc.Arbitrary<Shape> = fc
  .tuple(
    fc.constantFrom<Shape>([], [['name', 'string']], [['Name', 'string']]),
    fc.constantFrom<Shape>([], [['size', 'integer']], [['size', 'integer']], [['size', 'string']]),
    fc.constantFrom<Shape>([], [['dataset_id', 'string']], [['added', 'date']]),
  )
  .map((parts) => [['id', 'integer'], ...parts.flat()]);

type Step =
  | { readonly kind: 'load'; readonly place: number; readonly shape: Shape }
  | { readonly kind: 'retire'; readonly place: number; readonly how: 'archive' | 'drop' | 'keep' };

const place = fc.nat({ max: 200 });
const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('load' as const), place, shape }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('retire' as const),
        place,
        how: fc.constantFrom('archive' as const, 'drop' as const, 'keep' as const),
      }),
    },
  ),
  { minLength: 1, maxLength: 8 },
);

const VALUES = { integer: '42', string: "'text'", date: "DATE '2026-01-01'" } as const;
const USUAL: Shape = [
  ['id', 'integer'],
  ['name', 'string'],
  ['size', 'integer'],
];
const UNION = { name: 'all_of_it', globs: ['*'], includes: (datasetId: string) => !datasetId.endsWith('7') };

async function fileOf(folder: string, columns: Shape): Promise<string> {
  const cells = columns.map(([name, type]) => `${VALUES[type as keyof typeof VALUES]} AS "${name}"`);
  return await parquet(
    folder,
    `${columns.flat().join('-')}.parquet`,
    `SELECT ${cells.join(', ')} FROM range(2)`,
  );
}

/** The expected columns and rows of the union, found in another way. */
async function expected(folder: string): Promise<readonly [columns: unknown, rows: unknown]> {
  const live = (
    await inMirror(folder, 'SELECT dataset_id, table_name FROM feed_sync.datasets ORDER BY ALL')
  ).filter(([id]) => UNION.includes(String(id)));
  const types = await inMirror(
    folder,
    `SELECT lower(column_name) FROM duckdb_columns() WHERE schema_name = 'main' AND database_name = 'm'
       AND table_name IN (${live.map(([, table]) => `'${table}'`).join(', ') || "''"})
     GROUP BY ALL HAVING count(DISTINCT data_type) > 1 OR lower(column_name) = 'dataset_id'`,
  );
  const leftOut = new Set(types.map(([name]) => name));
  const selects = [];
  for (const [id, table] of live) {
    const names = (await inMirror(folder, `DESCRIBE main."${table}"`)).map(([name]) => String(name));
    const kept = names.filter((name) => !leftOut.has(name.toLowerCase())).map((name) => `"${name}"`);
    selects.push(`SELECT ${[`'${id}' AS dataset_id`, ...kept].join(', ')} FROM main."${table}"`);
  }
  return await columnsAndRows(folder, `(${selects.join(' UNION ALL BY NAME ')})`);
}

async function columnsAndRows(folder: string, from: string): Promise<readonly [unknown, unknown]> {
  const columns = (await inMirror(folder, `DESCRIBE FROM ${from}`)).map(([name, type]) => [name, type]);
  return [columns, await inMirror(folder, `FROM ${from} ORDER BY ALL`)];
}

async function play(before: number, all: readonly Step[]): Promise<void> {
  await using folder = await temporaryFolder();
  const mirror = await mirrorIn(folder.path, { unions: [UNION] });
  const idOf = (number: number) => `d${number % (before + 4)}`;
  try {
    const usual = await fileOf(folder.path, USUAL);
    const first = [];
    for (let number = 0; number < before; number += 1) {
      first.push(await mirror.validate(job(idOf(number), USUAL, usual, null)));
    }
    await commitAll(mirror, first);
    for (const step of all) {
      const datasetId = idOf(step.place);
      const observed = (await mirror.has()).datasets.get(datasetId) ?? null;
      if (step.kind === 'load') {
        const file = await fileOf(folder.path, step.shape);
        await commitAll(mirror, [await mirror.validate(job(datasetId, step.shape, file, observed))]);
      } else if (observed !== null) {
        await commitAll(mirror, [await mirror.validate(retirement(observed, step.how))]);
      }
    }
  } finally {
    await mirror.close();
  }
  const isThere = (await inMirror(folder.path, 'SELECT dataset_id FROM feed_sync.datasets')).some(([id]) =>
    UNION.includes(String(id)),
  );
  if (!isThere) return;
  expect(await columnsAndRows(folder.path, 'all_of_it')).toEqual(await expected(folder.path));
}

function job(
  datasetId: string,
  columns: Shape,
  file: string,
  plannedFrom: Parameters<typeof retirement>[0] | null,
) {
  return snapshot({
    datasetId,
    columns: columns.map(([name, type]) => column(name, type)),
    files: [file],
    plannedFrom,
    version: (plannedFrom?.version ?? 0) + 1,
  });
}

property(
  'keeps a union equal to UNION ALL BY NAME over its tables after any commits, however many there are',
  6,
  fc.asyncProperty(fc.constantFrom(1, 5, 74, 150), steps, play),
);
