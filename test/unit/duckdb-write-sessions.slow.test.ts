/** The write session of a small or large table, and the folders that two instances of DuckDB must not share. */

import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { openReader } from '../../src/destination/duckdb/reader.ts';
import { sizeOf } from '../../src/destination/duckdb/sessions-by-size.ts';
import { MUCH_WORK_MS } from '../../src/destination/duckdb/write-session.ts';
import { systemRandom } from '../../src/lib/backoff.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { BEGUN_AFTER_MS, Engine, temporaryDirectories } from '../../src/staging/engine/engine.ts';
import { commitAll } from '../support/commit-all.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import {
  inMirror,
  manualClock,
  column as mirrorColumn,
  parquet,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { column } from '../support/small-content.ts';

const numbers = sourceSchema([column('id', 'integer', false)]);
const ROW_GROUP_ROWS = 122_880;
const FILES = 24;
const ROWS_OF_A_FILE = 140_000;

const rowsUpTo = (count: number): readonly Row[] => Array.from({ length: count }, (_, index): Row => [index]);

it('calls a table of one row group small, and one of a row more large', () => {
  expect([sizeOf(0), sizeOf(ROW_GROUP_ROWS), sizeOf(ROW_GROUP_ROWS + 1)]).toEqual([
    'small',
    'small',
    'large',
  ]);
});

it.each([
  ['with two threads', 2],
  ['with one thread', 1],
])(
  'writes small and large tables in write sessions of their own, and reports each: %s',
  async (_, threads) => {
    const world = await mirrorAtWork({ clock: manualClock(), threads });
    const courses = ['s1', 'large', 's2'].map((name) =>
      world.published(firstContent(numbers, rowsUpTo(name === 'large' ? ROW_GROUP_ROWS + 1 : 3)), name),
    );
    const prepared = [];
    for (const course of courses)
      prepared.push(await world.mirror.validate(await course.snapshot(course.newest(), null)));
    const happened: string[] = [];
    observeDurableEffects((name, timestamp) => {
      if (timestamp === 'before' && /attach|checkpoint/.test(name)) happened.push(name);
    });
    onTestFinished(() => observeDurableEffects(() => {}));
    const outcomes = await commitAll(world.mirror, prepared);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['committed', 'committed', 'committed']);
    expect(happened).toEqual([
      'destination.attach',
      'destination.checkpoint',
      'destination.attach',
      'destination.checkpoint',
    ]);
    expect(await world.differences(...courses)).toEqual([]);
  },
);

it('writes a large table once, though its files do not fill row groups', async () => {
  const world = await mirrorAtWork({ threads: 2 });
  const files = [];
  for (let from = 0; from < FILES * ROWS_OF_A_FILE; from += ROWS_OF_A_FILE) {
    const rows = `SELECT i AS id, (hash(i) >> 1)::BIGINT AS v FROM range(${from}, ${from + ROWS_OF_A_FILE}) AS r(i)`;
    files.push(await parquet(world.folder, `part-${from}.parquet`, rows));
  }
  const columns = ['id', 'v'].map((name) => mirrorColumn(name, 'integer'));
  const job = snapshot({ datasetId: 'large', columns, keyColumns: ['id'], files });
  const rowCount = FILES * ROWS_OF_A_FILE;
  expect(await world.execute(job)).toMatchObject([{ kind: 'committed', committed: { rowCount } }]);
  const [sizes = []] = await inMirror(
    world.folder,
    'SELECT total_blocks, free_blocks FROM pragma_database_size() LIMIT 1',
  );
  const [blocks = 0, free = 0] = sizes.map(Number);
  // Twice are written at most the last row groups of the two threads, joined with what is before them; else nearly half of all.
  expect(free / blocks).toBeLessThan(0.15);
});

it('gives each instance of DuckDB a folder of its own for data that exceeds its memory', async () => {
  const folder = await temporaryFolder();
  onTestFinished(() => folder[Symbol.asyncDispose]());
  const folders = temporaryDirectories(folder.path);
  expect(new Set(folders).size).toBe(folders.length);
  const engines = [];
  for (const temporaryDirectory of folders.slice(0, 2)) {
    const options = { memoryLimitBytes: 60_000_000, threads: 1, temporaryDirectory, directories: [] };
    engines.push(await Engine.open(options));
  }
  const tables = (offset: number): string =>
    `CREATE TABLE t AS SELECT i, md5((i + ${offset})::VARCHAR) AS m, hash(i + ${offset}) AS h FROM range(2000000) AS r(i)`;
  await Promise.all(engines.map((engine, index) => engine.run(tables(index))));
  const wrong = (offset: number): string =>
    `SELECT count(*) FROM t WHERE m <> md5((i + ${offset})::VARCHAR) OR h <> hash(i + ${offset})`;
  const found = await Promise.all(engines.map((engine, index) => engine.rows(wrong(index))));
  expect(found).toEqual([[[0n]], [[0n]]]);
  for (const engine of engines) engine.close();
});

it('creates the temporary folders of the engines of a mirror only where they are needed', async () => {
  const world = await mirrorAtWork({ threads: 2 });
  await world.loaded(firstContent(numbers, rowsUpTo(3)), 'few');
  await mkdir(join(world.folder, 'kept'), { recursive: true });
  for (const folder of temporaryDirectories(world.folder)) {
    await expect(mkdir(folder)).resolves.toBeUndefined();
  }
});

it('gives each of two readers of one mirror a temporary folder of its own', async () => {
  const world = await mirrorAtWork();
  await world.loaded(firstContent(numbers, rowsUpTo(3)), 'few');
  const spills = 'SELECT count(*) FROM (SELECT DISTINCT md5(i::VARCHAR) FROM range(2000000) AS r(i))';
  const read = async (): Promise<readonly (readonly unknown[])[]> => {
    const options = { path: world.path, waitMs: 0, memoryLimitBytes: 60_000_000, threads: 1 };
    const reader = await openReader({ ...options, clock: systemClock, random: systemRandom });
    if (reader === null) throw new Error('there is a mirror');
    const { rows } = await reader.query(spills);
    const found = [];
    for await (const row of rows) found.push(row);
    await reader.close();
    return found;
  };
  const [one, other] = await Promise.all([read(), read()]);
  expect(one).toEqual(other);
  expect((await readdir(world.folder)).filter((name) => name.includes('.reading'))).toEqual([]);
  expect(String(one[0]?.[0])).toContain('2000000');
});

describe('a statement that runs on all threads', () => {
  async function engineOf(threads: number, clock?: Clock): Promise<Engine> {
    const folder = await temporaryFolder();
    const temporaryDirectory = `${folder.path}/temporary`;
    const directories = [folder.path];
    const engine = await Engine.open({
      memoryLimitBytes: 100_000_000,
      threads,
      temporaryDirectory,
      directories,
      ...(clock === undefined ? {} : { clock }),
    });
    onTestFinished(async () => {
      engine.close();
      await folder[Symbol.asyncDispose]();
    });
    await engine.run(`ATTACH '${folder.path}/m.duckdb' AS m`);
    await engine.run('CREATE TABLE m.t AS SELECT i, md5(i::VARCHAR) AS v FROM range(300000) AS r(i)');
    return engine;
  }
  const threadsAtWork = "SELECT current_setting('external_threads'), current_setting('threads')";

  it.each([1, 2, 4])('runs a statement on all of %i threads, and returns them to DuckDB', async (threads) => {
    const engine = await engineOf(threads);
    await engine.finishWithAll('CHECKPOINT m');
    expect(await engine.rows(threadsAtWork)).toEqual([[1n, BigInt(threads)]]);
    expect(await engine.rows('SELECT count(*), count(DISTINCT v) FROM m.t')).toEqual([[300_000n, 300_000n]]);
    await engine.finish('DETACH m');
  });

  it.each([
    ['much', 1],
    ['little', 0],
  ] as const)(
    'runs the checkpoint after a write session with %s work on all threads: %i times',
    async (_, times) => {
      let elapsedMs = 0;
      const monotonicMs = (): number => {
        elapsedMs += times * MUCH_WORK_MS;
        return elapsedMs;
      };
      const all = vi.spyOn(Engine.prototype, 'finishWithAll');
      onTestFinished(() => all.mockRestore());
      const clock = manualClock();
      const world = await mirrorAtWork({ clock: { ...clock, monotonicMs }, threads: 2 });
      all.mockClear();
      const course = await world.loaded(firstContent(numbers, rowsUpTo(ROW_GROUP_ROWS + 1)), 'many');
      expect(all).toHaveBeenCalledTimes(times);
      expect(clock.slept.filter((durationMs) => durationMs === BEGUN_AFTER_MS)).toHaveLength(times);
      expect(await world.differences(course)).toEqual([]);
    },
  );

  it.each([
    ['once the statement had time to begin', Promise.resolve(), 'is under way'],
    ['once the statement has ended, if that is sooner', new Promise<void>(() => {}), 'has ended'],
  ] as const)('returns the threads of DuckDB %s', async (_, slept, expected) => {
    const sleep = vi.fn<Clock['sleep']>(() => slept);
    const engine = await engineOf(2, { ...systemClock, sleep });
    const statement = 'CHECKPOINT m';
    let state = 'is under way';
    const finish = engine.finish.bind(engine);
    vi.spyOn(engine, 'finish').mockImplementation(async (sql) => {
      await finish(sql);
      if (sql === statement) state = 'has ended';
    });
    const states: string[] = [];
    const { connect } = DuckDBInstance.prototype;
    const connecting = vi.spyOn(DuckDBInstance.prototype, 'connect').mockImplementation(function (
      this: DuckDBInstance,
    ) {
      states.push(state);
      return connect.call(this);
    });
    onTestFinished(() => connecting.mockRestore());
    await engine.finishWithAll(statement);
    expect(states).toEqual([expected]);
    expect(sleep.mock.calls).toEqual([[BEGUN_AFTER_MS]]);
    expect(await engine.rows(threadsAtWork)).toEqual([[1n, 2n]]);
  });

  it('fails with the error of the statement, and returns the threads to DuckDB', async () => {
    const engine = await engineOf(2);
    await expect(engine.finishWithAll('CHECKPOINT nothing')).rejects.toThrow('nothing');
    expect(await engine.rows(threadsAtWork)).toEqual([[1n, 2n]]);
    expect(await engine.rows('SELECT count(*) FROM m.t')).toEqual([[300_000n]]);
  });

  it.each([1, 2, 4])(
    'runs a statement by one of %i threads, and returns them, also after an error',
    async (threads) => {
      const engine = await engineOf(threads);
      const finish = vi.spyOn(engine, 'finish');
      await engine.runByOneThread('CREATE TABLE m.u AS SELECT * FROM m.t');
      const set = threads === 1 ? [] : [[`SET external_threads = ${threads}`], ['SET external_threads = 1']];
      expect(finish.mock.calls).toEqual(set);
      await expect(engine.runByOneThread('CREATE TABLE m.v AS SELECT * FROM nothing')).rejects.toThrow(
        'nothing',
      );
      expect(await engine.rows(threadsAtWork)).toEqual([[1n, BigInt(threads)]]);
      expect(await engine.rows('SELECT count(*) FROM m.u')).toEqual([[300_000n]]);
    },
  );
});
