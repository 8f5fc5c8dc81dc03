/**
 * A snapshot of whatever kind leaves one table, however it is written: by the rows that differ, where the past is kept, or by a swap.
 * What the table was before is known where its past is kept.
 */

import fc from 'fast-check';
import { expect } from 'vitest';
import type { Cell, Row } from '../../fixtures/source/content.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { errorOf, type MirrorAtWork, mirrorAtWork } from '../support/mirror-at-work.ts';
import { ALL_HISTORY } from '../support/people.ts';
import { column, smallContent } from '../support/small-content.ts';
import { property } from './property.ts';

const COLUMNS = [
  column('id', 'integer', false),
  column('number', 'number'),
  column('text', 'string'),
  column('flag', 'boolean'),
  column('json', 'json'),
  column('place', 'geometry'),
];

const nullable = (cells: fc.Arbitrary<Cell>): fc.Arbitrary<Cell> => fc.option(cells, { nil: null, freq: 3 });
const cells: fc.Arbitrary<Row> = fc.tuple(
  nullable(fc.constantFrom<Cell>(Number.NaN, 0, -0, 0.1, -1e300, Number.MIN_VALUE)),
  nullable(fc.constantFrom<Cell>('', 'a', 'ä\u{1f600}', ' ')),
  nullable(fc.boolean()),
  nullable(fc.constantFrom<Cell>({ json: { a: [1, null] } }, { json: [] }, { json: 'text' }, { json: 0 })),
  nullable(
    fc.constantFrom<Cell>(
      { type: 'Point', coordinates: [1, 2] },
      { type: 'Point', coordinates: [1, 2, 3] },
      { type: 'LineString', coordinates: [] },
    ),
  ),
);
const rows: fc.Arbitrary<readonly Row[]> = fc
  .uniqueArray(fc.tuple(fc.integer({ min: 0, max: 9 }), cells), { selector: ([id]) => id, maxLength: 8 })
  .map((list) => list.map(([id, row]): Row => [id, ...row]));

/** Every value as text; of geometries the bytes. Zeros are equal whatever their sign, so a reload does not write one over the other. */
const NUMBER = `(CASE WHEN "number" = 0 THEN 0 ELSE "number" END)::VARCHAR`;
const EXACT = `id, ${NUMBER} AS "number", text, flag, "json"::VARCHAR AS "json", hex(ST_AsWKB(place)) AS place`;
const stateIn = ({ folder }: MirrorAtWork, from: string) =>
  inMirror(folder, `SELECT ${EXACT} FROM ${from} ORDER BY ALL`);

function committed(result: JobResult): void {
  if (result.kind !== 'committed') throw errorOf(result);
}

property(
  'F70 loads snapshots to the same table with and without history, and shows its earlier states by key',
  8,
  fc.asyncProperty(
    fc.array(rows, { minLength: 2, maxLength: 4 }),
    fc.boolean(),
    async (snapshots, hasKeys) => {
      const kept = await mirrorAtWork({
        history: ALL_HISTORY,
        threads: 1,
      });
      const swapped = await mirrorAtWork({ threads: 1 });
      const schema = sourceSchema(COLUMNS, { keyColumns: hasKeys ? ['id'] : [] });
      const [first = smallContent([], null, schema), ...others] = snapshots.map((list) =>
        smallContent(list, null, schema),
      );
      const states: unknown[] = [];
      const courses = [kept, swapped].map((world) => ({ world, course: world.published(first) }));
      for (const content of [null, ...others]) {
        for (const { world, course } of courses) {
          if (content !== null) course.publish(content);
          committed(await world.load(course));
          expect(await world.differences(course)).toEqual([]);
        }
        states.push(await stateIn(kept, 'parcels'));
        expect(states.at(-1)).toEqual(await stateIn(swapped, 'parcels'));
        const sums = [kept, swapped].map(({ folder }) =>
          inMirror(folder, 'SELECT checksum FROM feed_sync.datasets'),
        );
        const [sum, sumOfSwapped] = await Promise.all(sums);
        expect(sum).toEqual(sumOfSwapped);
      }
      if (!hasKeys) return;
      for (const [index, state] of states.entries()) {
        expect(
          await stateIn(kept, `history.parcels_as_of_commit(${index + 1})`),
          `commit ${index + 1}`,
        ).toEqual(state);
      }
    },
  ),
);
