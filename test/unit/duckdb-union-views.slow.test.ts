/** The next commit of a table restores the view of its union that was dropped or replaced, whatever the commit changes. */

import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import {
  column,
  inMirror,
  load,
  mirrorIn,
  parquet,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { ENROLMENT, mirrorAtWork } from '../support/mirror-at-work.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { smallContent } from '../support/small-content.ts';

const UNION = { name: 'all_of_it', globs: ['*'], includes: () => true };
const MANY = 70;

it.each([
  [1, 'DROP VIEW all_of_it'],
  [1, 'CREATE OR REPLACE VIEW all_of_it AS SELECT 42 AS mine'],
  [MANY, 'DROP VIEW union_parts.all_of_it_1'],
  [MANY, 'CREATE OR REPLACE VIEW union_parts.all_of_it_1 AS SELECT 42 AS mine'],
])('restores the view of a union of %i tables by the next commit after %s', async (tables, statement) => {
  await using folder = await temporaryFolder();
  const { path } = folder;
  const mirror = await mirrorIn(path, { unions: [UNION] });
  const file = await parquet(path, 'rows.parquet', 'SELECT 1::BIGINT AS id');
  const jobOf = (number: number, plannedFrom: ObservedTable | null) =>
    snapshot({
      datasetId: `d${number}`,
      columns: [column('id', 'integer')],
      files: [file],
      plannedFrom,
      version: (plannedFrom?.version ?? 0) + 1,
    });
  try {
    await load(mirror, ...Array.from({ length: tables }, (_, number) => jobOf(number, null)));
    await writeMirror(join(path, 'mirror.duckdb'), statement);
    const observed = (await mirror.has()).datasets.get('d0') ?? null;
    const [committed] = await load(mirror, jobOf(0, observed));
    expect(committed?.kind).toBe('committed');
  } finally {
    await mirror.close();
  }
  const counted = 'SELECT count(*)::INTEGER, count(DISTINCT dataset_id)::INTEGER FROM main.all_of_it';
  expect(await inMirror(path, counted)).toEqual([[tables, tables]]);
});

it.each(['the next commit', 'the next start'])(
  'creates the view of a union again by %s, once another object has left its name',
  async (how) => {
    const world = await mirrorAtWork({ unions: [UNION] });
    const course = await world.loaded(smallContent([['a', 1]], null));
    await world.byHand('DROP VIEW all_of_it', 'CREATE TABLE all_of_it (mine INTEGER)');
    course.publishRows([['a', 2]]);
    await world.apply(course);
    await world.byHand('DROP TABLE all_of_it');
    course.publishRows([['a', 3]]);
    if (how === 'the next commit') await world.apply(course);
    else await world.destination.enroll(ENROLMENT);
    const rows = await inMirror(world.folder, 'SELECT count(*)::INTEGER FROM main.all_of_it');
    expect(rows).toEqual([[1]]);
  },
);
