/** The history of a table: undo logs and the functions that return the rows of an earlier commit or time (F70, F71). */

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { commitAll } from '../support/commit-all.ts';
import { compactAt } from '../support/compacting.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { duckdb, inMirror, manualClock, mirrorIn, temporaryFolder } from '../support/duckdb-mirror.ts';
import { ENROLMENT, errorOf, mirrorAtWork, retirement } from '../support/mirror-at-work.ts';
import { ALL_HISTORY, PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { column } from '../support/small-content.ts';

async function threePeople(keepsHistory: (datasetId: string) => boolean = () => true) {
  const world = await mirrorAtWork({ history: { keeps: keepsHistory, keepMs: Number.POSITIVE_INFINITY } });
  const course = world.published(firstContent(PEOPLE, THREE_PEOPLE));
  committed(await world.load(course));
  return { world, course };
}

function committed(result: JobResult): void {
  if (result.kind === 'failed') throw result.error;
  expect(result.kind).toBe('committed');
}

const asOf = (commit: number, name = 'parcels') =>
  `SELECT * FROM history.${name}_as_of_commit(${commit}) ORDER BY ALL`;

describe('an undo log', () => {
  it('restores the state of the table after each commit of changes and reloads', async () => {
    const { world, course } = await threePeople();
    const states = [await inMirror(world.folder, 'FROM parcels ORDER BY ALL')];
    const steps: (readonly Row[])[] = [
      [
        [1, 'one'],
        [2, 'TWO'],
        [4, 'four'],
      ],
      [
        [2, null],
        [4, 'four'],
        [5, 'five'],
      ],
      [],
      [
        [1, 'again'],
        [2, 'TWO'],
      ],
    ];
    for (const [index, rows] of steps.entries()) {
      course.publishRows(rows);
      committed(index % 2 === 0 ? await world.apply(course) : await world.load(course));
      states.push(await inMirror(world.folder, 'FROM parcels ORDER BY ALL'));
    }
    for (const [index, state] of states.entries()) {
      expect(await inMirror(world.folder, asOf(index + 1)), `commit ${index + 1}`).toEqual(state);
    }
    expect(await world.differences(course)).toEqual([]);
  });

  it('logs only the rows that differ, with the commit, its version and its time', async () => {
    const { world, course } = await threePeople();
    const { publishedAt } = course.publishRows([
      [1, 'one'],
      [2, 'TWO'],
      [4, 'four'],
    ]);
    committed(await world.load(course));
    const [[appliedAt] = []] = await inMirror(world.folder, 'SELECT applied_at FROM feed_sync.datasets');
    const own = [publishedAt, appliedAt];
    const rows = await inMirror(
      world.folder,
      `SELECT _commit, _operation, _version, id, name, strftime(_published_at, '%Y-%m-%dT%H:%M:%S.%gZ'), _applied_at
        FROM history.parcels ORDER BY id`,
    );
    expect(rows).toEqual([
      ['2', 'changed', '2', '2', 'two', ...own],
      ['2', 'removed', '2', '3', 'three', ...own],
      ['2', 'added', '2', '4', null, ...own],
    ]);
    expect(await inMirror(world.folder, COUNTS)).toEqual([
      ['load', null, null, null],
      ['reload', '1', '1', '1'],
    ]);
  });

  it('logs columns of any name, also names that the functions of the log use', async () => {
    const names = [
      'as_of',
      'AS_OF_2',
      'is_known',
      'log',
      'newest',
      'later',
      '_commit',
      '_COMMIT_2',
      '_operation',
    ];
    const further = [
      'operation',
      'v0',
      'entries',
      'log_name',
      'first_commit',
      'dataset_id',
      'staged',
      'live',
      'is_live',
    ];
    const all = [...names, ...further, 'is_staged', 'row_id', 'present', 'c0', 'rowid'];
    const hostile = sourceSchema([
      column('id', 'integer', false),
      ...all.map((name) => column(name, 'string')),
    ]);
    const row = (id: number, value: string): Row => [id, ...all.map((name) => `${name} ${value}`)];
    const world = await mirrorAtWork({ history: ALL_HISTORY });
    const course = world.published(firstContent(hostile, [row(1, 'a'), row(2, 'a')]));
    committed(await world.load(course));
    const states = [await inMirror(world.folder, 'SELECT * FROM parcels ORDER BY ALL')];
    for (const how of ['changes', 'reload', 'changes']) {
      course.publishRows([row(1, how), row(states.length + 2, 'a')]);
      committed(how === 'changes' ? await world.apply(course) : await world.load(course));
      states.push(await inMirror(world.folder, 'SELECT * FROM parcels ORDER BY ALL'));
    }
    for (const [index, state] of states.entries()) {
      expect(await inMirror(world.folder, asOf(index + 1)), `commit ${index + 1}`).toEqual(state);
    }
    expect(await world.differences(course)).toEqual([]);
  });

  it('returns as of a time the rows of the newest commit up to that time', async () => {
    const { world, course } = await threePeople();
    course.publishRows([[1, 'one']]);
    committed(await world.apply(course));
    const [before, after] = await inMirror(
      world.folder,
      'SELECT applied_at FROM feed_sync.commits ORDER BY commit_number',
    );
    const at = (time: unknown) => `SELECT id FROM history.parcels_as_of('${time}'::TIMESTAMPTZ) ORDER BY id`;
    expect(await inMirror(world.folder, at(before?.[0]))).toEqual([['1'], ['2'], ['3']]);
    expect(await inMirror(world.folder, at(after?.[0]))).toEqual([['1']]);
    expect(await inMirror(world.folder, at('2100-01-01 00:00:00+00'))).toEqual([['1']]);
    await expect(inMirror(world.folder, at('2020-01-01 00:00:00+00'))).rejects.toThrow(
      'The history of parcels begins with commit 1 at',
    );
  });

  it('returns earlier states with the columns of now, in which columns added later are null', async () => {
    const { world, course } = await threePeople();
    const wider = sourceSchema(
      [
        column('id', 'integer', false),
        column('note', 'string'),
        column('name', 'string'),
        column('day', 'date'),
      ],
      { schemaVersion: '2' },
    );
    const rows: readonly Row[] = [
      [1, 'new', 'one', '2026-01-02'],
      [2, null, 'two', null],
    ];
    course.publish({ ...firstContent(wider, rows), rowCount: 2 });
    committed(await world.load(course));
    expect(await inMirror(world.folder, asOf(1))).toEqual([
      ['1', null, 'one', null],
      ['2', null, 'two', null],
      ['3', null, 'three', null],
    ]);
    expect(await inMirror(world.folder, asOf(2))).toEqual([
      ['1', 'new', 'one', '2026-01-02'],
      ['2', null, 'two', null],
    ]);
    expect(await inMirror(world.folder, COUNTS)).toContainEqual(['reload', '0', '1', '1']);
  });

  it('begins the history with the state of the table when history is switched on', async () => {
    let isOn = false;
    const { world, course } = await threePeople(() => isOn);
    isOn = true;
    course.publishRows([[1, 'one']]);
    committed(await world.apply(course));
    expect(await inMirror(world.folder, asOf(1))).toEqual(asText(THREE_PEOPLE));
    await expect(inMirror(world.folder, asOf(0))).rejects.toThrow('begins with commit 1');
  });

  it('keeps no undo log for a table without keys', async () => {
    const world = await mirrorAtWork({ history: ALL_HISTORY });
    const keyless = sourceSchema([column('name', 'string')], { keyColumns: [] });
    const course = world.published(firstContent(keyless, [['one']]));
    committed(await world.load(course));
    course.publish(firstContent(keyless, [['two']]));
    committed(await world.load(course));
    expect(await inMirror(world.folder, 'FROM feed_sync.history_logs')).toEqual([]);
    expect(await inMirror(world.folder, COUNTS)).toContainEqual(['reload', null, null, null]);
  });
});

const COUNTS = 'SELECT kind, added, changed, removed FROM feed_sync.commits ORDER BY commit_number';

function asText(rows: readonly Row[]): readonly (readonly (string | null)[])[] {
  return rows.map((row) => row.map((cell) => (cell === null ? null : String(cell))));
}

describe('a mirror with history', () => {
  it('compacts and publishes a mirror with its history', async () => {
    const copy = await temporaryFolder();
    const target = join(copy.path, 'copy.duckdb');
    const publish = { path: target, keptPaths: [], reserveBytes: 0 };
    const world = await mirrorAtWork({ history: ALL_HISTORY, publish });
    const course = world.published(firstContent(PEOPLE, THREE_PEOPLE));
    committed(await world.load(course));
    course.publishRows([[1, 'uno']]);
    committed(await world.apply(course));
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published' });
    expect(await duckdb(`ATTACH '${target}' AS copied (READ_ONLY)`, 'USE copied', asOf(1))).toEqual(
      asText(THREE_PEOPLE),
    );
    expect(await compactAt(world.path)).toMatchObject({ kind: 'compacted' });
    expect(await inMirror(world.folder, asOf(1))).toEqual(asText(THREE_PEOPLE));
    expect(await inMirror(world.folder, asOf(2))).toEqual([['1', 'uno']]);
    course.publishRows([[1, 'one']]);
    committed(await world.apply(course));
    expect(await inMirror(world.folder, asOf(2))).toEqual([['1', 'uno']]);
    await copy[Symbol.asyncDispose]();
  });
});

describe('the closing of an undo log (F70)', () => {
  it.each(['changes', 'a reload'])('closes the log by %s while history is switched off', async (how) => {
    let isOn = true;
    const { world, course } = await threePeople(() => isOn);
    const steps: readonly Row[] = [
      [1, 'one'],
      [2, 'TWO'],
      [3, 'THREE'],
    ];
    for (const [index] of steps.entries()) {
      isOn = index !== 1;
      course.publishRows(steps.slice(index));
      committed(how === 'changes' ? await world.apply(course) : await world.load(course));
    }
    await expect(inMirror(world.folder, asOf(2))).rejects.toThrow(
      /The history of parcels begins with commit 3 at .*: history was switched off\./,
    );
    expect(await inMirror(world.folder, asOf(3))).toEqual(asText(steps.slice(1)));
    expect(await inMirror(world.folder, asOf(4))).toEqual(asText(steps.slice(2)));
  });

  it('closes the log by changes that add a column, and returns later states with the columns of now', async () => {
    let isOn = true;
    const { world, course } = await threePeople(() => isOn);
    isOn = false;
    const { content } = course.newest();
    course.publish(withAddedColumn(content, column('note', 'string'), ([id]) => (id === 1 ? 'new' : null)));
    committed(await world.apply(course));
    isOn = true;
    course.publishRows([[1, 'one', 'newer']]);
    committed(await world.apply(course));
    await expect(inMirror(world.folder, asOf(1))).rejects.toThrow('history was switched off');
    expect(await inMirror(world.folder, asOf(2))).toEqual([
      ['1', 'one', 'new'],
      ['2', 'two', null],
      ['3', 'three', null],
    ]);
  });

  it('closes the log by a reload of a table that cannot be compared', async () => {
    const { world, course } = await threePeople();
    await world.byHand('ALTER TABLE parcels DROP COLUMN name');
    course.publishRows([[1, 'uno']]);
    committed(await world.load(course));
    await expect(inMirror(world.folder, asOf(1))).rejects.toThrow(/begins with commit 2 at .*name/s);
    expect(await inMirror(world.folder, asOf(2))).toEqual([['1', 'uno']]);
  });

  it.each([
    ['it was dropped', 'DROP TABLE history.parcels'],
    ['it was dropped with its schema', 'DROP SCHEMA history CASCADE'],
    ['it lost a column', 'ALTER TABLE history.parcels DROP COLUMN "name"'],
    ['a column got another type', 'ALTER TABLE history.parcels ALTER COLUMN "name" TYPE INTEGER USING 1'],
    ['it was emptied', 'DELETE FROM history.parcels'],
    ['an entry was repeated', 'INSERT INTO history.parcels FROM history.parcels LIMIT 1'],
  ])('closes a log that was altered by hand by the next commit: %s', async (_, statement) => {
    const { world, course } = await threePeople();
    course.publishRows([[1, 'uno']]);
    committed(await world.apply(course));
    await world.byHand(statement);
    course.publishRows([[1, 'one']]);
    committed(await world.apply(course));
    expect(await inMirror(world.folder, asOf(2))).toEqual([['1', 'uno']]);
    await expect(inMirror(world.folder, asOf(1))).rejects.toThrow('dropped or altered by hand');
    course.publishRows([]);
    committed(await world.apply(course));
    expect(await inMirror(world.folder, asOf(3))).toEqual([['1', 'one']]);
    expect(await inMirror(world.folder, asOf(2))).toEqual([['1', 'uno']]);
  });

  it('refuses as-of from a log whose entries are missing, until the next commit closes the log', async () => {
    const { world, course } = await threePeople();
    course.publishRows([[1, 'uno']]);
    committed(await world.apply(course));
    await world.byHand('DELETE FROM history.parcels WHERE id = 2');
    await expect(inMirror(world.folder, asOf(1))).rejects.toThrow(
      'The undo log history.parcels of parcels was dropped or altered outside feed-sync',
    );
  });

  it('begins a new log by a load where the catalog has lost the columns of the table', async () => {
    const { world, course } = await threePeople();
    await duckdb(`ATTACH '${join(world.folder, 'mirror.duckdb')}' AS m`, 'DELETE FROM m.feed_sync.columns');
    course.publishRows([[1, 'uno']]);
    await expect(world.apply(course)).rejects.toThrow('feed_sync.columns does not list the key columns');
    committed(await world.load(course));
    course.publishRows([[1, 'one']]);
    committed(await world.apply(course));
    expect(await inMirror(world.folder, asOf(2))).toEqual([['1', 'uno']]);
  });

  it('closes the log by a reload of a table that got a further column by hand, and removes that column', async () => {
    const { world, course } = await threePeople();
    await world.byHand('ALTER TABLE parcels ADD COLUMN mine VARCHAR');
    course.publishRows([[1, 'uno']]);
    committed(await world.load(course));
    await expect(inMirror(world.folder, asOf(1))).rejects.toThrow(/begins with commit 2 .* its columns/);
    expect(await inMirror(world.folder, 'FROM parcels')).toEqual([['1', 'uno']]);
    expect(await world.differences(course)).toEqual([]);
  });

  it('refuses as-of, rather than returning no rows, where the log was deleted from the list of logs', async () => {
    const { world } = await threePeople();
    await world.byHand('DELETE FROM feed_sync.history_logs');
    await expect(inMirror(world.folder, asOf(1))).rejects.toThrow(
      'does not list the undo log history.parcels',
    );
  });

  it('closes all logs where their list was dropped by hand, and makes an empty list in the next run', async () => {
    const { world, course } = await threePeople();
    await world.byHand('DROP TABLE feed_sync.history_logs');
    await world.mirror.enroll(ENROLMENT);
    course.publishRows([[1, 'uno']]);
    committed(await world.apply(course));
    expect(await inMirror(world.folder, 'SELECT log_name, row_count FROM feed_sync.history_logs')).toEqual([
      ['parcels_2', '3'],
    ]);
    expect(await inMirror(world.folder, asOf(1, 'parcels_2'))).toEqual(asText(THREE_PEOPLE));
  });

  it('closes the log by a reload of a table that was dropped by hand', async () => {
    const { world, course } = await threePeople();
    await world.byHand('DROP TABLE parcels');
    course.publishRows([[1, 'uno']]);
    committed(await world.load(course));
    await expect(inMirror(world.folder, asOf(1))).rejects.toThrow(
      /begins with commit 2 .* the table was missing/,
    );
    expect(await inMirror(world.folder, asOf(2))).toEqual([['1', 'uno']]);
  });
});

describe('an undo log that is frozen with its table (F71)', () => {
  const other = sourceSchema([column('id', 'integer', false), column('owner', 'string')], {
    schemaVersion: '2',
  });

  it('freezes table and log when a schema replaces columns, and begins a new log', async () => {
    const { world, course } = await threePeople();
    course.publishRows([[1, 'uno']]);
    committed(await world.apply(course));
    course.publish(firstContent(other, [[1, 'Ann']]));
    committed(await world.load(course));
    course.publishRows([[1, 'Bob']]);
    committed(await world.apply(course));
    expect(await inMirror(world.folder, asOf(1, 'parcels__3_log'))).toEqual(asText(THREE_PEOPLE));
    expect(await inMirror(world.folder, asOf(2, 'parcels__3_log'))).toEqual([['1', 'uno']]);
    expect(await inMirror(world.folder, asOf(3))).toEqual([['1', 'Ann']]);
    await expect(inMirror(world.folder, asOf(2))).rejects.toThrow('begins with commit 3');
    const logs = 'SELECT log_name, table_name, frozen_commit FROM feed_sync.history_logs ORDER BY log_name';
    expect(await inMirror(world.folder, logs)).toEqual([
      ['parcels', 'main.parcels', null],
      ['parcels__3_log', 'history.parcels__3', '3'],
    ]);
  });

  it.each(['archive', 'keep'] as const)(
    'freezes table and log by a retirement (%s), and begins a new log at the return',
    async (how) => {
      const { world, course } = await threePeople();
      course.publishRows([[1, 'uno']]);
      committed(await world.apply(course));
      expect(await world.retire(course, how)).toMatchObject({ kind: 'retired' });
      const past = async () => {
        expect(await inMirror(world.folder, asOf(1, 'parcels__3_log'))).toEqual(asText(THREE_PEOPLE));
        expect(await inMirror(world.folder, asOf(2, 'parcels__3_log'))).toEqual([['1', 'uno']]);
      };
      await past();
      course.publishRows([[7, 'seven']]);
      committed(await world.load(course));
      await past();
      expect(await inMirror(world.folder, asOf(4))).toEqual([['7', 'seven']]);
    },
  );

  it('ends the history instead of freezing it where a column was dropped by hand, and commits the load', async () => {
    const { world, course } = await threePeople();
    await world.byHand('ALTER TABLE parcels DROP COLUMN name');
    course.publish(firstContent(other, [[1, 'Ann']]));
    committed(await world.load(course));
    await expect(inMirror(world.folder, asOf(1))).rejects.toThrow(
      /begins with commit 2 .*: columns were missing.*name/,
    );
    expect(await inMirror(world.folder, asOf(2))).toEqual([['1', 'Ann']]);
  });

  it('freezes logs beside others whose names collide, and with the longest names', async () => {
    const world = await mirrorAtWork({ history: ALL_HISTORY });
    const long = 'p'.repeat(63);
    for (const datasetId of ['parcels', 'parcels__4', 'parcels__4_log', long]) {
      committed(await world.load(world.published(firstContent(PEOPLE, THREE_PEOPLE), datasetId)));
    }
    for (const datasetId of ['parcels', long]) {
      const course = world.published(firstContent(PEOPLE, THREE_PEOPLE), datasetId);
      course.publish(firstContent(other, [[1, 'Ann']]));
      committed(await world.load(course));
    }
    const names = 'SELECT dataset_id, log_name FROM feed_sync.history_logs WHERE frozen_commit IS NOT NULL';
    const frozen = await inMirror(world.folder, names);
    expect(frozen.map(([datasetId]) => datasetId).sort()).toEqual(['parcels', long]);
    for (const [, logName] of frozen) {
      expect(String(logName).length).toBeLessThanOrEqual(63);
      const functions = `SELECT function_name FROM duckdb_functions() WHERE schema_name = 'history'
        AND function_name LIKE '%_as_of_commit' AND macro_definition LIKE '%''${logName}''%'`;
      const [[name] = []] = await inMirror(world.folder, functions);
      expect(await inMirror(world.folder, `SELECT * FROM history."${name}"(4) ORDER BY ALL`)).toEqual(
        asText(THREE_PEOPLE),
      );
    }
  });

  it('removes the history with a table that is dropped at retirement', async () => {
    const { world, course } = await threePeople();
    expect(await world.retire(course, 'drop')).toMatchObject({ kind: 'retired' });
    const left = `SELECT table_name FROM duckdb_tables() WHERE schema_name = 'history'
      UNION ALL SELECT log_name FROM feed_sync.history_logs
      UNION ALL SELECT function_name FROM duckdb_functions() WHERE schema_name = 'history'`;
    expect(await inMirror(world.folder, left)).toEqual([]);
  });
});

describe('history older than history.keep', () => {
  const DAY_MS = 86_400_000;

  it('removes old entries, frozen tables and their logs with the next commit after history.keep', async () => {
    const clock = manualClock();
    const world = await mirrorAtWork({ clock, history: { keeps: () => true, keepMs: 3 * DAY_MS } });
    const other = sourceSchema([column('id', 'integer', false), column('owner', 'string')], {
      schemaVersion: '2',
    });
    const course = world.published(firstContent(PEOPLE, THREE_PEOPLE));
    committed(await world.load(course));
    course.publish(firstContent(other, [[1, 'Ann']]));
    await clock.sleep(DAY_MS);
    committed(await world.load(course));
    for (const owner of ['Bob', 'Cem', 'Dee']) {
      await clock.sleep(DAY_MS);
      course.publishRows([[1, owner]]);
      committed(await world.apply(course));
    }
    // Commits 1 to 5 are of the days 0 to 4; kept is what came after day 2, as seen from day 5.5.
    await clock.sleep(1.5 * DAY_MS);
    course.publishRows([[1, 'Eva']]);
    committed(await world.apply(course));
    expect(await inMirror(world.folder, 'SELECT log_name, first_commit FROM feed_sync.history_logs')).toEqual(
      [['parcels', '3']],
    );
    await expect(inMirror(world.folder, asOf(2))).rejects.toThrow('begins with commit 3');
    for (const [commit, owner] of [
      [3, 'Bob'],
      [4, 'Cem'],
      [5, 'Dee'],
      [6, 'Eva'],
    ] as const) {
      expect(await inMirror(world.folder, asOf(commit))).toEqual([['1', owner]]);
    }
    const left = `SELECT table_name FROM duckdb_tables() WHERE schema_name = 'history'`;
    expect(await inMirror(world.folder, left)).toEqual([['parcels']]);
  });
});

/** The first commit whose state the log knows, and the reason why it knows none before. */
const KNOWN =
  'SELECT greatest(first_commit, closed_commit)::VARCHAR, closed_reason FROM feed_sync.history_logs WHERE frozen_commit IS NULL';
const BY_HAND = "UPDATE parcels SET name = 'by hand' WHERE id = 2";
const REASON = 'rows of the table were altered outside feed-sync before';

describe('F70 rows that were altered by hand', () => {
  it('closes the log by a reload that replaces rows altered by hand, rather than log them as committed', async () => {
    const { world, course } = await threePeople();
    await world.byHand(BY_HAND);
    course.publishRows(THREE_PEOPLE.with(1, [2, 'TWO']));
    committed(await world.load(course));
    expect(await inMirror(world.folder, KNOWN)).toEqual([['2', REASON]]);
    expect(await world.differences(course)).toEqual([]);
  });

  it.each([
    ['a second one of a key, with its values', "INSERT INTO parcels VALUES (2, 'two')"],
    ['a second one of a key, with other values', "INSERT INTO parcels VALUES (2, 'by hand')"],
    ['one without a key', "INSERT INTO parcels VALUES (NULL, 'by hand')"],
    ['one of a new key', "INSERT INTO parcels VALUES (4, 'by hand')"],
  ])('removes a row that was added by hand by a reload: %s', async (_, statement) => {
    const { world, course } = await threePeople();
    await world.byHand(statement);
    course.publishRows(THREE_PEOPLE.with(0, [1, 'ONE']));
    committed(await world.load(course));
    expect(await world.differences(course)).toEqual([]);
  });

  it('finds rows altered by hand in a reload that adds a column', async () => {
    const { world, course } = await threePeople();
    await world.byHand(BY_HAND);
    course.publish(withAddedColumn(firstContent(PEOPLE, THREE_PEOPLE), column('floor', 'integer'), () => 1));
    committed(await world.load(course));
    expect(await inMirror(world.folder, KNOWN)).toEqual([['2', REASON]]);
  });

  it('finds rows altered by hand in changes that add a column, which fail, and in no other changes', async () => {
    const { world, course } = await threePeople();
    await world.byHand(BY_HAND);
    course.publishRows([...THREE_PEOPLE, [4, 'four']]);
    committed(await world.apply(course));
    course.publish(withAddedColumn(course.newest().content, column('floor', 'integer'), () => 1));
    expect(errorOf(await world.apply(course, { addsColumns: true })).message).toContain(
      'the rows of the table parcels are not those it was left with',
    );
    expect(await inMirror(world.folder, KNOWN)).toEqual([['1', null]]);
    committed(await world.load(course));
    expect(await inMirror(world.folder, KNOWN)).toEqual([['3', REASON]]);
    expect(await world.differences(course)).toEqual([]);
  });

  it('finds rows altered by hand in a rollback, which restores the rows of its commit', async () => {
    const { world, course } = await threePeople();
    course.publishRows(THREE_PEOPLE.with(1, [2, 'TWO']));
    committed(await world.apply(course));
    await world.byHand(BY_HAND);
    const plannedFrom = await world.observed();
    const fetched = { bytes: 0, elapsedMs: () => 0 };
    const job = {
      kind: 'rollback',
      datasetId: 'parcels',
      toCommit: 1,
      version: 1,
      fetched,
      plannedFrom,
    } as const;
    const [result] = await world.execute(job);
    expect(result?.kind).toBe('committed');
    expect(await inMirror(world.folder, 'FROM parcels ORDER BY ALL')).toEqual([
      ['1', 'one'],
      ['2', 'two'],
      ['3', 'three'],
    ]);
    expect(await inMirror(world.folder, KNOWN)).toEqual([['3', REASON]]);
  });

  it('closes the log when the checksum of a table that was altered by hand and is right by now is stored', async () => {
    const { world, course } = await threePeople();
    await world.byHand(BY_HAND);
    course.publishRows(THREE_PEOPLE.with(1, [2, 'TWO']));
    committed(await world.apply(course));
    expect(await inMirror(world.folder, KNOWN)).toEqual([['1', null]]);
    const [[sum = '', version = ''] = []] = await inMirror(
      world.folder,
      `SELECT sum(hash(hash(id, name)))::HUGEINT::VARCHAR, any_value(checksum_version) FROM parcels, feed_sync.datasets`,
    );
    const stored = {
      datasetId: 'parcels',
      commitNumber: 2,
      sum: BigInt(String(sum)),
      version: String(version),
    };
    expect(await world.mirror.storeChecksum(stored)).toBe('log-closed');
    expect(await inMirror(world.folder, KNOWN)).toEqual([['2', REASON]]);
    expect(await world.mirror.storeChecksum(stored)).toBe('stored');
    expect(await inMirror(world.folder, 'SELECT checksum::VARCHAR FROM feed_sync.commits')).toContainEqual([
      sum,
    ]);
  });
});

describe('history that would take the reserve of the disk', () => {
  it.each(['changes', 'retirement'] as const)(
    'fails a commit of %s whose history would take the reserve, and leaves table and log as they are',
    async (kind) => {
      const { world, course } = await threePeople();
      course.publishRows([[1, 'uno']]);
      const observed = await world.observed();
      const job = kind === 'changes' ? await course.changes(observed) : retirement(observed, 'archive');
      const before = await world.dump();
      for (const [reserveBytes, result] of [
        [1e18, { kind: 'failed', error: { code: 'disk_full' } }],
        [0, { kind: kind === 'changes' ? 'committed' : 'retired' }],
      ] as const) {
        const mirror = await mirrorIn(world.folder, { history: ALL_HISTORY, reserveBytes });
        expect(await commitAll(mirror, [await mirror.validate(job)])).toMatchObject([result]);
        await mirror.close();
        if (reserveBytes > 0) expect(await world.dump()).toEqual(before);
      }
    },
  );
});
