/** The checksum of a table in each destination: one value that was changed by hand is found in a column of any type, without a download. */

import { describe, expect, it } from 'vitest';
import type { Geometry, Row } from '../../fixtures/source/content.ts';
import type { ColumnType } from '../../src/model/records.ts';
import { type DestinationWorld, destinationKindsWithPostgis } from '../support/destination-kinds.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { column } from '../support/small-content.ts';

const POINT: Geometry = { type: 'Point', coordinates: [0.1, 2] };

/** A point in well-known bytes of the lower byte order. */
function wkb(x: number, y: number): string {
  const bytes = Buffer.alloc(21);
  bytes.writeUInt8(1, 0);
  bytes.writeUInt32LE(1, 1);
  bytes.writeDoubleLE(x, 5);
  bytes.writeDoubleLE(y, 13);
  return bytes.toString('hex');
}

function geometry(x: number, { table }: DestinationWorld, hasPostgis: boolean): string {
  const bytes = wkb(x, 2);
  if (table.startsWith('main.')) return `ST_GeomFromWKB(unhex('${bytes}'))`;
  return hasPostgis ? `ST_SetSRID('${bytes}'::geometry, 4326)` : `'\\x${bytes}'::bytea`;
}

const NEXT_AFTER_A_TENTH = 0.1 + 2 ** -56;

/** A value as it is published, the same as SQL, and the nearest other one. */
const VALUES: Readonly<
  Record<Exclude<ColumnType, 'geometry'>, readonly [value: Row[number], same: string, other: string]>
> = {
  string: ['a', "'a'", "'a '"],
  integer: [9_007_199_254_740_993n, '9007199254740993', '9007199254740992'],
  number: [0.1, '0.1::double precision', `'${NEXT_AFTER_A_TENTH}'::double precision`],
  boolean: [false, 'false', 'true'],
  date: ['2026-01-02', "date '2026-01-02'", "date '2026-01-03'"],
  timestamp: [
    '2026-01-02T03:04:05.678901Z',
    "timestamptz '2026-01-02 03:04:05.678901+00'",
    "timestamptz '2026-01-02 03:04:05.678902+00'",
  ],
  json: [{ json: { a: [1, null] } }, `'{"a":[1,null]}'`, `'{"a":[1]}'`],
};

const TYPES = [...(Object.keys(VALUES) as (keyof typeof VALUES)[]), 'geometry'] as const;

/** The table of a dataset has its id as its name. */
const idOf = (type: ColumnType): string => `of_${type}`;

describe.each(destinationKindsWithPostgis())('the destination $name', (kind) => {
  it('F70 finds one value that was changed by hand, to null and from null, in a column of every type', async () => {
    const world = await kind.open();
    for (const type of TYPES) {
      const schema = sourceSchema([column('id', 'integer', false), column('value', type)]);
      const value = type === 'geometry' ? POINT : VALUES[type][0];
      const rows: readonly Row[] = [
        [1, value],
        [2, null],
      ];
      await world.loaded(firstContent(schema, rows), idOf(type));
    }
    /** Of each type: whether the table of that type has the recorded checksum. */
    const found = async () => {
      const reader = await world.reader();
      try {
        const counted = await reader.count(TYPES.map(idOf), () => false);
        return new Map(
          counted.map(({ observed, table }) => [observed.datasetId, table?.hasRecordedChecksum]),
        );
      } finally {
        await reader.close();
      }
    };
    const all = (hasChecksum: boolean) => new Map(TYPES.map((type) => [idOf(type), hasChecksum]));
    const [same, other] = [0.1, NEXT_AFTER_A_TENTH].map((x) => geometry(x, world, kind.hasPostgis));
    const write = async (id: number, which: 'same' | 'other' | 'null') => {
      for (const type of TYPES) {
        const [, itself, another] = type === 'geometry' ? ['', same, other] : VALUES[type];
        const value = { same: itself, other: another, null: 'NULL' }[which];
        const table = world.table.replace('parcels', idOf(type));
        await world.byHand(`UPDATE ${table} SET value = ${value} WHERE id = ${id}`);
      }
    };
    expect(await found(), 'as committed').toEqual(all(true));
    await write(1, 'other');
    expect(await found(), 'the nearest other value').toEqual(all(false));
    await write(1, 'null');
    expect(await found(), 'null in the place of a value').toEqual(all(false));
    await write(1, 'same');
    expect(await found(), 'the value again').toEqual(all(true));
    await write(2, 'same');
    expect(await found(), 'a value in the place of null').toEqual(all(false));
    await write(2, 'null');
    expect(await found(), 'null again').toEqual(all(true));
  });
});
