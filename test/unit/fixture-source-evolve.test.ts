import { describe, expect, it } from 'vitest';
import type { Content } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import {
  withAddedColumn,
  withKeyColumns,
  withNullableColumn,
  withRemovedColumn,
  withRetypedColumn,
} from '../../fixtures/source/evolve.ts';
import { type GeneratedDataset, generateDatasets } from '../../fixtures/source/generate.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';

function parcels(): GeneratedDataset {
  const [dataset] = generateDatasets({ seed: 3, counties: 1, rowsPerDataset: 500, kinds: ['parcels'] });
  if (dataset === undefined) throw new Error('The generator made no dataset.');
  return dataset;
}

function cellsOf(content: Content, name: string) {
  const at = columnsOf(content.schema).findIndex((column) => column.name === name);
  return [...content.rows()].map((row) => row[at]);
}

const columnNames = (content: Content) => columnsOf(content.schema).map((column) => column.name);

describe('withAddedColumn', () => {
  it('puts an added column before the envelope, and lists the rows that got a value', () => {
    const initial = parcels().initial();
    const column = { name: 'flood_zone', type: 'string', nullable: true } as const;
    const evolved = withAddedColumn(initial, column, (row) => (String(row[0]).endsWith('7') ? 'AE' : null));
    expect(evolved.schema.schemaVersion).toBe('2');
    expect(columnNames(evolved).slice(-3)).toEqual(['flood_zone', '_feed_row_id', '_feed_updated_at']);
    expect(cellsOf(evolved, 'flood_zone').filter((cell) => cell === 'AE')).toHaveLength(50);
    expect(evolved.changes?.map((change) => change.op)).toEqual(Array(50).fill('changed'));
    expect(cellsOf(evolved, '_feed_row_id')).toEqual(cellsOf(initial, '_feed_row_id'));
  });
});

describe('withNullableColumn', () => {
  it('makes a column nullable without changing a row', () => {
    const initial = parcels().initial();
    const evolved = withNullableColumn(initial, 'updated_at');
    expect(evolved.schema.columns.find(({ name }) => name === 'updated_at')?.nullable).toBe(true);
    expect(evolved.changes).toEqual([]);
    expect([...evolved.rows()]).toEqual([...initial.rows()]);
    expect(() => withNullableColumn(initial, 'parcel_id')).toThrow('is a key column');
  });
});

describe('withRemovedColumn', () => {
  it('removes the column from every row, and refuses to remove a key column', () => {
    const initial = parcels().initial();
    const evolved = withRemovedColumn(initial, 'land_use');
    expect(columnNames(evolved)).toEqual(columnNames(initial).filter((name) => name !== 'land_use'));
    expect(cellsOf(evolved, 'acreage')).toEqual(cellsOf(initial, 'acreage'));
    expect(evolved.changes).toBeNull();
    expect(() => withRemovedColumn(initial, 'parcel_id')).toThrow('is a key column');
    expect(() => withRemovedColumn(initial, 'absent')).toThrow('There is no column "absent"');
  });
});

describe('withRetypedColumn', () => {
  it('gives every row the converted value', () => {
    const initial = parcels().initial();
    const toText = (cell: unknown) => (cell === null ? null : String(cell));
    const evolved = withRetypedColumn(initial, 'year_built', 'string', toText);
    expect(evolved.schema.columns.find((column) => column.name === 'year_built')?.type).toBe('string');
    expect(cellsOf(evolved, 'year_built')).toEqual(
      cellsOf(initial, 'year_built').map((cell) => toText(cell)),
    );
  });
});

describe('withKeyColumns', () => {
  it('makes other columns the key', () => {
    const evolved = withKeyColumns(parcels().initial(), ['parcel_id', 'updated_at']);
    expect(evolved.schema.keyColumns).toEqual(['parcel_id', 'updated_at']);
    expect(difference(evolved.schema, [], evolved.rows())).toHaveLength(evolved.rowCount);
  });
});

describe('next, after evolutions', () => {
  it('keeps all evolutions, with the changes of the new version', () => {
    const dataset = parcels();
    const column = { name: 'note', type: 'string', nullable: true } as const;
    const evolved = withRemovedColumn(
      withAddedColumn(dataset.initial(), column, (row) => `of ${String(row[0])}`),
      'owner_name',
    );
    const later = dataset.next(evolved, 9);
    expect(later.schema).toEqual({ ...evolved.schema, schemaVersion: '3' });
    expect(cellsOf(later, 'note')).toEqual(cellsOf(later, 'parcel_id').map((cell) => `of ${String(cell)}`));
    expect(later.changes).toEqual(difference(later.schema, evolved.rows(), later.rows()));
    expect(later.changes?.length).toBeGreaterThan(0);
  });
});
