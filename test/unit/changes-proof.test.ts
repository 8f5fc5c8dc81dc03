/** What is proven of listed changes before they are applied: counts, keys, and the coordinate systems of geometries. */

import { expect, it } from 'vitest';
import type { VersionChanges } from '../../src/model/write-jobs.ts';
import {
  areKeysDifferent,
  haveDoubles,
  inapplicableNet,
  listedCounts,
  locate,
  proveCounts,
  statedRowCount,
} from '../../src/staging/changes/proof.ts';
import type { Row } from '../../src/staging/engine/engine.ts';
import type { PlannedColumn } from '../../src/staging/snapshot/table-plan.ts';
import { changesJob } from '../support/change-pages.ts';
import { column } from '../support/duckdb-mirror.ts';

const version = (number: number, stated: Partial<VersionChanges> = {}): VersionChanges => ({
  version: number,
  counts: null,
  rowCount: null,
  pages: [],
  ...stated,
});
const job = (versions: readonly VersionChanges[], rowCount = 100) =>
  changesJob({ columns: [column('id', 'integer')], rowCount }, versions);
const counts = (added: number, changed: number, removed: number) => ({ added, changed, removed });
/** A result of counting: step, operation, changes, different keys, whether numbers may be rounded, then flags of geometries. */
const counted = (step: number, op: string, changes: number, ...rest: readonly unknown[]): Row =>
  [step, op, changes, ...rest] as Row;

it('counts the listed rows for each version and operation, and none where nothing is listed', () => {
  const rows = [
    counted(1, 'removed', 3),
    counted(0, 'added', 2),
    counted(1, 'changed', 5),
    counted(0, 'removed', 1),
  ];
  expect(listedCounts(job([version(2), version(3), version(4)]), rows)).toEqual([
    counts(2, 0, 1),
    counts(0, 5, 3),
    counts(0, 0, 0),
  ]);
});

it.each([
  ['added', counts(3, 1, 1)],
  ['changed', counts(2, 2, 1)],
  ['removed', counts(2, 1, 0)],
])('refuses counts that differ in the rows %s alone, by version and with both', (_, stated) => {
  const given = job([version(2), version(3, { counts: stated })]);
  const listed = [counts(9, 0, 0), counts(2, 1, 1)];
  expect(() => proveCounts(given, listed)).toThrow(
    `The changes of parcels version 3 cannot be applied: they are 2 added, 1 changed and 1 removed, and the service counted ${stated.added} added, ${stated.changed} changed and ${stated.removed} removed.`,
  );
  expect(() => proveCounts(job([version(2), version(3, { counts: counts(2, 1, 1) })]), listed)).not.toThrow();
});

it('proves row counts from version to version, also past one that states none', () => {
  const listed = [counts(5, 0, 1), counts(0, 3, 4)];
  const stating = (last: number) => job([version(2), version(3, { rowCount: last })]);
  expect(() => proveCounts(stating(100), listed)).not.toThrow();
  expect(() => proveCounts(stating(101), listed)).toThrow('version 3');
  expect(() => proveCounts(job([version(2, { rowCount: 105 }), version(3)]), listed)).toThrow(
    '100 rows with 5 added',
  );
});

it.each<[string, readonly VersionChanges[], number | null]>([
  ['the last version, whatever was counted', [version(2, { counts: counts(5, 0, 1), rowCount: 7 })], 7],
  ['the table and later counts', [version(2, { counts: counts(5, 9, 1) })], 104],
  [
    'an earlier version and later counts',
    [version(2, { rowCount: 7 }), version(3, { counts: counts(1, 0, 3) })],
    5,
  ],
  ['nothing, where a version states neither', [version(2, { counts: counts(5, 0, 1) }), version(3)], null],
  [
    'nothing, where counts follow an unknown row count',
    [version(2), version(3, { counts: counts(5, 0, 1) })],
    null,
  ],
  ['a version after one that states neither', [version(2), version(3, { rowCount: 8 })], 8],
])('takes the row count afterwards from %s', (_, versions, expected) => {
  expect(statedRowCount(job(versions))).toBe(expected);
});

it('keys are different only where every group has as many hashes as there are changes in all', () => {
  expect(areKeysDifferent([counted(0, 'added', 2, 5), counted(1, 'added', 3, 5)])).toBe(true);
  expect(areKeysDifferent([counted(0, 'added', 2, 5), counted(1, 'added', 3, 4)])).toBe(false);
  expect(areKeysDifferent([])).toBe(true);
});

it('numbers may be rounded where any group has one that may be', () => {
  expect(haveDoubles([counted(0, 'added', 2, 2, false), counted(0, 'removed', 1, 2, true)])).toBe(true);
  expect(haveDoubles([counted(0, 'added', 2, 2, false), counted(0, 'removed', 1, 2, null)])).toBe(false);
});

it('the error of a net change names the first version', () => {
  expect(inapplicableNet(job([version(2), version(3)]), 'a row is not there')).toMatchObject({
    version: 2,
    message: 'The changes of parcels version 2 cannot be applied: a row is not there.',
  });
});

const planned = (name: string, crs: string | null): PlannedColumn => ({
  column: column(name, 'geometry'),
  type: 'geometry',
  columnName: name,
  role: 'data',
  crs,
});

/** Two geometries of which it is not known that they are in longitude and latitude; `old` is in the table. */
function located(rows: readonly Row[], { crs = null as string | null, rowCount = 100 } = {}) {
  const table = { columns: [column('id', 'integer'), column('old', 'geometry'), column('new', 'geometry')] };
  const given = changesJob({ ...table, lacks: ['new'], crs, rowCount }, [version(2), version(3)]);
  const columns = [planned('old', crs), planned('new', null)];
  const { columns: after, firstValues } = locate(
    given,
    { columns, keys: [], known: [], lacking: [], required: [], elsewhere: [0, 1] },
    rows,
  );
  return { crs: after.map((one) => one.crs), first: firstValues.map(({ columnName }) => columnName) };
}

/** In each version: whether `old` has GeoJSON, has another form, `new` has GeoJSON, has another form. */
const forms = (...steps: readonly (readonly boolean[])[]): readonly Row[] =>
  steps.map((flags, step) => counted(step, 'changed', 1, 1, false, ...flags));

it('columns without GeoJSON keep their coordinate systems', () => {
  expect(located(forms([false, true, false, true]), { crs: 'EPSG:2277' })).toEqual({
    crs: ['EPSG:2277', null],
    first: [],
  });
});

it('GeoJSON gives its system to a column that the table lacks, and asks the table about one that it has', () => {
  expect(located(forms([false, false, false, false], [false, false, true, false]))).toEqual({
    crs: [null, 'OGC:CRS84'],
    first: [],
  });
  expect(located(forms([false, false, false, false], [true, false, false, false]))).toEqual({
    crs: ['OGC:CRS84', null],
    first: ['old'],
  });
});

it('GeoJSON gives its system to any column of an empty table', () => {
  expect(located(forms([true, false, true, false]), { crs: 'EPSG:2277', rowCount: 0 })).toEqual({
    crs: ['OGC:CRS84', 'OGC:CRS84'],
    first: [],
  });
});

it('GeoJSON in a column of another system is refused, by the version that has it first', () => {
  const rows = forms([false, false, false, false], [true, false, false, false]);
  expect(() => located(rows, { crs: 'EPSG:2277' })).toThrow(
    'version 3 cannot be applied: they hold GeoJSON, which is in WGS 84, and the column "old" is in the coordinate system EPSG:2277',
  );
  const twice = forms([true, false, false, false], [true, false, false, false]);
  expect(() => located(twice, { crs: 'EPSG:2277' })).toThrow('version 2');
});

it('GeoJSON after another form is refused, beside it or before it is not', () => {
  const none = [false, false, false, false];
  expect(() => located(forms([false, false, false, true], [false, false, true, false]))).toThrow(
    'version 3 cannot be applied: they hold GeoJSON, which is in WGS 84, and the column "new" is in an unknown coordinate system',
  );
  expect(located(forms([false, false, true, true], none)).crs).toEqual([null, 'OGC:CRS84']);
  expect(located(forms([false, false, true, false], [false, false, false, true])).crs).toEqual([
    null,
    'OGC:CRS84',
  ]);
});
