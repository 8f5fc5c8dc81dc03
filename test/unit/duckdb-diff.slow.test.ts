/** `diff`: the rows that differ between two states of a table, from its undo log. */

import { describe, expect, it } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import { openReader } from '../../src/destination/duckdb/reader.ts';
import type { DiffRow } from '../../src/destination/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type { PastState } from '../../src/model/past-states.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { fullJitter, manualClock } from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { ALL_HISTORY, PEOPLE } from '../support/people.ts';
import { column } from '../support/small-content.ts';

const places = sourceSchema([column('id', 'integer', false), column('at', 'geometry')]);
const DAY_MS = 86_400_000;

/** The table after each commit: the first holds the state after commit 1. */
const STATES: readonly (readonly Row[])[] = [
  [
    [1, 'one'],
    [2, 'two'],
    [3, 'three'],
  ],
  [
    [1, 'ONE'],
    [2, 'two'],
    [4, 'four'],
  ],
  [
    [1, 'one'],
    [4, 'four'],
    [5, null],
  ],
  [[1, 'one']],
  [
    [1, null],
    [2, 'two'],
    [3, 'three'],
  ],
];

const commit = (commitNumber: number): PastState => ({ by: 'commit', commitNumber });
const version = (number: number): PastState => ({ by: 'version', version: number });

async function fiveStates() {
  const clock = manualClock();
  const world = await mirrorAtWork({ clock, history: ALL_HISTORY });
  const course = await world.loaded(firstContent(PEOPLE, STATES[0] ?? []));
  for (const [index, rows] of STATES.slice(1).entries()) {
    await clock.sleep(DAY_MS);
    course.publishRows(rows);
    if (index % 2 === 0) await world.apply(course);
    else await world.load(course);
  }
  return { clock, world, course };
}

async function diffOf(path: string, from: PastState, to: PastState | null = null) {
  const random = fullJitter;
  const options = { path, waitMs: 0, memoryLimitBytes: 5e8, threads: 1, clock: systemClock, random };
  const reader = present(await openReader(options), 'there is a mirror');
  try {
    const { rows, ...rest } = await reader.diff('parcels', { from, to });
    const all: DiffRow[] = [];
    for await (const row of rows) all.push(row);
    return { ...rest, rows: all };
  } finally {
    await reader.close();
  }
}

/** The difference between two states, computed from the states themselves. */
function expected(before: readonly Row[], after: readonly Row[]): readonly DiffRow[] {
  const [was, is] = [new Map(before.map((row) => [row[0], row])), new Map(after.map((row) => [row[0], row]))];
  const keys = [...new Set([...was.keys(), ...is.keys()])].sort(
    (left, right) => Number(left) - Number(right),
  );
  return keys.flatMap((key): DiffRow[] => {
    const [old, now] = [was.get(key), is.get(key)];
    if (JSON.stringify(old) === JSON.stringify(now)) return [];
    const change = old === undefined ? 'added' : now === undefined ? 'removed' : 'changed';
    const value = (row: Row | undefined) => (row === undefined ? null : [(row[1] ?? null) as string | null]);
    return [{ change, key: [String(key)], before: value(old), after: value(now) }];
  });
}

describe('the diff of two states', () => {
  it('reports the difference of every two states, in both directions', async () => {
    const { world } = await fiveStates();
    for (const [from, before] of STATES.entries()) {
      for (const [to, after] of STATES.entries()) {
        const { rows } = await diffOf(world.path, commit(from + 1), commit(to + 1));
        expect(rows, `from ${from + 1} to ${to + 1}`).toEqual(expected(before, after));
      }
    }
  });

  it('compares states named by version or time, up to the newest where only one is named', async () => {
    const { world, clock } = await fiveStates();
    const [first = [], last = []] = [STATES[1], STATES[4]];
    const found = await diffOf(world.path, version(2));
    expect(found).toMatchObject({
      from: { commitNumber: 2 },
      to: { commitNumber: 5 },
      rows: expected(first, last),
    });
    const time = new Date(clock.now().getTime() - 3 * DAY_MS);
    expect((await diffOf(world.path, { by: 'time', time })).from.commitNumber).toBe(2);
  });

  it('shows geometries of a diff as WKT', async () => {
    const world = await mirrorAtWork({ history: ALL_HISTORY });
    const course = await world.loaded(firstContent(places, [[1, { type: 'Point', coordinates: [1, 2] }]]));
    course.publishRows([[1, { type: 'Point', coordinates: [3, 4] }]]);
    await world.apply(course);
    expect((await diffOf(world.path, commit(1))).rows).toEqual([
      { change: 'changed', key: ['1'], before: ['POINT (1 2)'], after: ['POINT (3 4)'] },
    ]);
  });

  it('shows a column that was added between two states as null before', async () => {
    const { world, course } = await fiveStates();
    const { content } = course.newest();
    course.publish(withAddedColumn(content, column('note', 'string'), () => 'new'));
    await world.apply(course);
    const { values, rows } = await diffOf(world.path, commit(5));
    expect(values.map(([name]) => name)).toEqual(['name', 'note']);
    expect(rows[0]).toEqual({ change: 'changed', key: ['1'], before: [null, null], after: [null, 'new'] });
  });

  it('refuses a diff across replaced columns, and compares two states of the frozen log', async () => {
    const { world, course } = await fiveStates();
    const owners = sourceSchema([column('id', 'integer', false), column('owner', 'string')], {
      schemaVersion: '2',
    });
    course.publish(firstContent(owners, [[1, 'Ann']]));
    await world.load(course);
    await expect(diffOf(world.path, commit(5))).rejects.toThrow(
      'The columns of parcels changed between these states, with commit 6: their rows cannot be compared.',
    );
    expect((await diffOf(world.path, commit(1), commit(4))).rows).toEqual(
      expected(STATES[0] ?? [], STATES[3] ?? []),
    );
  });

  it('refuses a diff across a retirement', async () => {
    const { world, course } = await fiveStates();
    await world.retire(course, 'archive');
    course.publishRows([[1, 'back']]);
    await world.load(course);
    await expect(diffOf(world.path, commit(5))).rejects.toThrow(
      'parcels was retired between these states, with commit 6: their rows cannot be compared.',
    );
  });

  it.each(['DELETE FROM history.parcels', 'DROP TABLE history.parcels'])(
    'refuses a diff from a log that was altered by hand: %s (F70)',
    async (statement) => {
      const { world } = await fiveStates();
      await world.byHand(statement);
      await expect(diffOf(world.path, commit(1))).rejects.toMatchObject({
        code: 'dataset_storage_failed',
        message:
          'The undo log history.parcels of parcels was dropped or altered outside feed-sync: its earlier states are not known.',
      });
    },
  );

  it('names the commits before and after a version that was coalesced', async () => {
    const { world, course } = await fiveStates();
    course.publishRows([[1, 'six']]);
    course.publishRows([[1, 'seven']]);
    await world.apply(course);
    await expect(diffOf(world.path, version(6))).rejects.toMatchObject({
      message:
        'The table of parcels never had version 6 by itself: one commit brought it from version 5 to 7.',
      hint: 'On either side are commit 5 (version 5) and commit 6 (version 7).',
    });
  });

  it('refuses a diff of a state that is not known', async () => {
    const { world } = await fiveStates();
    for (const state of [version(9), commit(0), { by: 'time', time: new Date(0) } as const]) {
      await expect(diffOf(world.path, state)).rejects.toMatchObject({ code: 'usage_invalid' });
    }
  });
});
