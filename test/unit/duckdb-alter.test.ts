/** Columns that a schema change adds, in the transaction of the version's changes. */

import { describe, expect, it } from 'vitest';
import type { Row, SourceSchema } from '../../fixtures/source/content.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { InapplicableChangesError } from '../../src/model/errors.ts';
import { firstContent, type PublishedCourse, sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { errorOf, mirrorAtWork } from '../support/mirror-at-work.ts';
import { column } from '../support/small-content.ts';

const ID = column('id', 'integer', false);
const NAME = { ...column('name', 'string'), description: "the person's" };
const ENVELOPE = { ...column('_row', 'integer', false), description: 'ours' };

/** Three people, with the service's own column behind theirs or without. */
function people(envelopeColumns: SourceSchema['envelopeColumns']) {
  const rows = [1, 2, 3].map((id): Row => [id, `name ${id}`, ...envelopeColumns.map(() => id * 10)]);
  return firstContent(sourceSchema([ID, NAME], { envelopeColumns }), rows);
}

/** Publishes one more column, which has the value for the row with this id only. */
function addColumn(course: PublishedCourse, name: string, idWithValue: number | null): void {
  const added = { ...column(name, 'string'), description: `about ${name}` };
  const { content } = course.newest();
  course.publish(withAddedColumn(content, added, ([id]) => (id === idWithValue ? `${name} of ${id}` : null)));
}

describe.each([
  ['last in the table', []],
  ['in the middle, before the envelope columns', [ENVELOPE]],
])('an added column that comes %s', (_, envelopeColumns) => {
  it('W25 fills an added column with the values that the changes list, and with null elsewhere', async () => {
    const world = await mirrorAtWork();
    const course = await world.loaded(people(envelopeColumns));
    addColumn(course, 'zone', 2);
    expect(await world.apply(course)).toMatchObject({
      kind: 'committed',
      committed: { toVersion: 2, rowCount: 3, net: { added: 0, changed: 1, removed: 0 } },
    });
    expect(await world.differences(course)).toEqual([]);
  });

  it('adds a column for which no row has a value', async () => {
    const world = await mirrorAtWork();
    const course = await world.loaded(people(envelopeColumns));
    addColumn(course, 'zone', null);
    expect(await world.apply(course)).toMatchObject({
      committed: { net: { added: 0, changed: 0, removed: 0 } },
    });
    expect(await world.differences(course)).toEqual([]);
  });

  it('adds columns of several versions in one step, and applies changes and a load afterwards', async () => {
    const world = await mirrorAtWork();
    const course = await world.loaded(people(envelopeColumns));
    const rows = () => [...course.newest().content.rows()];
    course.publishRows(rows().map((row) => row.with(1, 'all of them')));
    addColumn(course, 'zone', 1);
    addColumn(course, 'rowid', 3);
    addColumn(course, 'Name 2', null);
    course.publishRows(rows().slice(1));
    expect(await world.apply(course)).toMatchObject({
      committed: { fromVersion: 1, toVersion: 6, net: { added: 0, changed: 2, removed: 1 } },
    });
    expect(await world.differences(course)).toEqual([]);
    course.publishRows(rows().map((row) => row.with(2, 'another zone')));
    expect(await world.apply(course)).toMatchObject({ committed: { net: { changed: 2 } } });
    expect(await world.differences(course)).toEqual([]);
    await world.load(course);
    expect(await world.differences(course)).toEqual([]);
  });

  it('W25 adds no column where the proof of the changes fails', async () => {
    const world = await mirrorAtWork();
    const course = await world.loaded(people(envelopeColumns));
    addColumn(course, 'zone', 2);
    await world.byHand('DELETE FROM parcels WHERE id = 3');
    const before = await world.dump();
    expect(errorOf(await world.apply(course))).toBeInstanceOf(InapplicableChangesError);
    expect(await world.dump()).toEqual(before);
  });
});

it('keeps each value of generated tables with every type when a column is added', async () => {
  const world = await mirrorAtWork();
  const courses: PublishedCourse[] = [];
  const request = { seed: 11, counties: 1, rowsPerDataset: 15, kinds: ['parcels', 'specimens'] as const };
  for (const { datasetId, initial, next } of generateDatasets(request)) {
    const course = await world.loaded(initial(), datasetId);
    courses.push(course);
    const square = { type: 'Point', coordinates: [-97.7, 30.25] } as const;
    const cellFor = ([key]: Row) => (Number(key) % 2 === 0 ? square : null);
    const evolved = withAddedColumn(initial(), column('centre', 'geometry'), cellFor);
    course.publish(evolved);
    course.publish(next(evolved, 12));
    expect(await world.apply(course), datasetId).toMatchObject({ committed: { toVersion: 3 } });
  }
  expect(await world.differences(...courses)).toEqual([]);
});

it('renames an added column whose name differs from another only in case, and keeps the names of the table', async () => {
  const world = await mirrorAtWork();
  const envelopeColumns = [column('_row', 'integer')];
  const schema = sourceSchema([ID, column('ID', 'string'), column('Id', 'string')], { envelopeColumns });
  const course = await world.loaded(firstContent(schema, [[1, 'a', 'b', 10]]));
  addColumn(course, 'id_2', 1);
  addColumn(course, 'iD', null);
  expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
  const names = await inMirror(
    world.folder,
    'SELECT name, column_name, role FROM feed_sync.columns ORDER BY "position"',
  );
  expect(names).toEqual([
    ['id', 'id', 'key'],
    ['ID', 'ID_2', 'data'],
    ['Id', 'Id_3', 'data'],
    ['id_2', 'id_2_2', 'data'],
    ['iD', 'iD_4', 'data'],
    ['_row', '_row', 'envelope'],
  ]);
  expect(await inMirror(world.folder, 'SELECT id, ID_2, Id_3, id_2_2, iD_4, _row FROM parcels')).toEqual([
    ['1', 'a', 'b', 'id_2 of 1', null, '10'],
  ]);
});
