import { describe, expect, it } from 'vitest';
import type { Change, Content } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import { DATASET_KINDS, generateDatasets } from '../../fixtures/source/generate.ts';
import { columnsOf, keyToJsonText, rowToJsonText } from '../../fixtures/source/wire.ts';
import { COLUMN_TYPES } from '../../src/model/records.ts';

const SEED = 41;
const request = { seed: SEED, counties: 4, rowsPerDataset: 200 };

const textsOf = (content: Content) => [...content.rows()].map((row) => rowToJsonText(content.schema, row));

function changeTexts({ schema }: Content, changes: readonly Change[] | null): string[] {
  return (changes ?? []).map((change) =>
    change.op === 'removed'
      ? `removed ${keyToJsonText(schema, change.key)}`
      : `${change.op} ${rowToJsonText(schema, change.row)}`,
  );
}

describe('generateDatasets', () => {
  it('generates the same rows for the same seed each time, and other rows for another seed', () => {
    const first = generateDatasets(request).map((dataset) => textsOf(dataset.initial()));
    const second = generateDatasets(request).map((dataset) => {
      const content = dataset.initial();
      textsOf(content);
      return textsOf(content);
    });
    expect(second).toEqual(first);
    const other = generateDatasets({ ...request, seed: SEED + 1 }).map((dataset) =>
      textsOf(dataset.initial()),
    );
    expect(other[0]).not.toEqual(first[0]);
  });

  it('gives each county its kinds under ids of their own, and specimens to the first', () => {
    const datasets = generateDatasets({ seed: SEED, counties: 1000, rowsPerDataset: 1 });
    expect(new Set(datasets.map((dataset) => dataset.datasetId)).size).toBe(datasets.length);
    expect(datasets).toHaveLength(4 * 1000 + 1);
    expect(datasets.slice(0, 5).map((dataset) => dataset.topic)).toEqual(DATASET_KINDS);
    for (const { datasetId, placeId, topic } of datasets) {
      expect(datasetId).toMatch(/^us-[a-z]{2}-[a-z0-9-]+$/);
      expect(datasetId).toBe(`${placeId}-${topic}`);
    }
  });

  it('covers every column type, single and composite keys, and tables with and without envelope columns', () => {
    const schemas = generateDatasets(request).map((dataset) => dataset.initial().schema);
    expect(new Set(schemas.flatMap((schema) => columnsOf(schema).map((column) => column.type)))).toEqual(
      new Set(COLUMN_TYPES),
    );
    const parcelSchemas = generateDatasets({ ...request, kinds: ['parcels'] }).map(
      ({ initial }) => initial().schema,
    );
    expect(parcelSchemas.map((schema) => [schema.keyColumns.length, schema.envelopeColumns.length])).toEqual([
      [1, 2],
      [3, 2],
      [1, 0],
      [3, 0],
    ]);
  });

  it('counts its rows, and gives each key once', () => {
    for (const dataset of generateDatasets(request)) {
      const content = dataset.next(dataset.initial(), 1);
      expect(textsOf(content)).toHaveLength(content.rowCount);
      expect(difference(content.schema, [], content.rows())).toHaveLength(content.rowCount);
    }
  });

  it('generates every extreme specimen, and a row that is null in every nullable column', () => {
    const [specimens] = generateDatasets({ ...request, kinds: ['specimens'] });
    const rows = [...(specimens?.initial().rows() ?? [])];
    const cells = new Set(rows.flat());
    for (const cell of [-(2n ** 63n), 2n ** 63n - 1n, Number.MIN_VALUE, '0001-01-01', ''])
      expect(cells).toContain(cell);
    expect(rows.some((row) => row.filter((cell) => cell === null).length === 8)).toBe(true);
  });
});

describe('next', () => {
  it('lists exactly the differences from the version before as changes', () => {
    for (const dataset of generateDatasets(request)) {
      let previous = dataset.initial();
      const operations = new Set<string>();
      for (let version = 2; version <= 7; version++) {
        const content = dataset.next(previous, version);
        const expected = difference(content.schema, previous.rows(), content.rows());
        expect(
          changeTexts(content, content.changes),
          `${dataset.datasetId} version ${version}, seed ${SEED}`,
        ).toEqual(changeTexts(content, expected));
        for (const change of content.changes ?? []) operations.add(change.op);
        previous = content;
      }
      if (dataset.topic !== 'zoning') expect(operations).toEqual(new Set(['added', 'changed', 'removed']));
    }
  });

  it('gives the same version for the same seed and leaves the one before as it was', () => {
    const [dataset] = generateDatasets({ ...request, kinds: ['permits'] });
    if (dataset === undefined) throw new Error('The generator made no dataset.');
    const initial = dataset.initial();
    const before = textsOf(initial);
    expect(textsOf(dataset.next(initial, 5))).toEqual(textsOf(dataset.next(initial, 5)));
    expect(textsOf(dataset.next(initial, 5))).not.toEqual(textsOf(dataset.next(initial, 6)));
    expect(textsOf(initial)).toEqual(before);
  });

  it('refuses content of another dataset', () => {
    const [parcels, permits] = generateDatasets(request);
    const content = parcels?.initial();
    if (content === undefined) throw new Error('The generator made no dataset.');
    expect(() => permits?.next(content, 1)).toThrow(`is not of ${permits?.datasetId}`);
  });
});
