/** The file of the mirror: its readers and writers, and the handling of a file that cannot be used (F05, F06, F07, F10). */

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { KnownUnions } from '../../src/destination/catalog/unions.ts';
import type { JobResult, ValidatedJob } from '../../src/destination/destination.ts';
import { commitJobs } from '../../src/destination/duckdb/commit.ts';
import type { ValidatedWrite } from '../../src/destination/duckdb/validate.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { silentLog } from '../../src/lib/log.ts';
import { MAX_QUARANTINED } from '../../src/lib/quarantine.ts';
import {
  BusyError,
  ConfigurationError,
  DataError,
  InterruptedError,
  StorageError,
} from '../../src/model/errors.ts';
import { Engine } from '../../src/staging/engine/engine.ts';
import { diagnose } from '../../src/staging/engine/errors.ts';
import { unreadableFile } from '../../src/staging/snapshot/parquet.ts';
import { type Child, scriptPath, startChild } from '../support/child.ts';
import { commitAll } from '../support/commit-all.ts';
import {
  column,
  duckdb,
  inMirror,
  load,
  manualClock,
  mirrorIn,
  parquet,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { poisonedFile } from '../support/poisoned-files.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let path: string;
const children: Child[] = [];
beforeEach(async () => {
  folder = await temporaryFolder();
  path = join(folder.path, 'mirror.duckdb');
});
afterEach(async () => {
  for (const child of children.splice(0)) await child.kill();
  await folder[Symbol.asyncDispose]();
});

const columns = [column('id', 'integer')];
const enrolment = {
  origin: 'https://feed.example',
  subscriptionIds: ['sub_1'],
  forgottenSubscriptionIds: [],
  datasetIds: ['parcels'],
};

async function oneRow(name = 'one.parquet') {
  return snapshot({ columns, files: [await parquet(folder.path, name, 'SELECT 1::BIGINT AS id')] });
}

async function holdMirror(): Promise<Child> {
  const child = startChild('duckdb-holder-child.ts', path);
  children.push(child);
  expect(await child.nextLine()).toBe('held');
  return child;
}

describe('the time between write sessions', () => {
  it('leaves the file to other processes between write sessions, while the mirror stays open', async () => {
    const mirror = await mirrorIn(folder.path);
    await load(mirror, await oneRow());
    const child = await holdMirror();
    await child.kill();
    expect(existsSync(`${path}.wal`)).toBe(false);
    await mirror.close();
  });

  it('creates no file where only the state of the mirror is read', async () => {
    const mirror = await mirrorIn(folder.path);
    expect(await mirror.has()).toEqual({ service: null, datasets: new Map(), progress: null, retired: [] });
    expect(existsSync(path)).toBe(false);
    await mirror.close();
  });
});

describe('F10 a reader that has the mirror open', () => {
  it('reads the mirror beside a reader, and enrolls known datasets without writing', async () => {
    const mirror = await mirrorIn(folder.path);
    await mirror.enroll(enrolment);
    await load(mirror, await oneRow());
    await holdMirror();
    expect((await mirror.has()).datasets.size).toBe(1);
    await mirror.enroll(enrolment);
    await mirror.close();
  });

  it('waits for the mirror with growing delays, and then names the process that has it open', async () => {
    const clock = manualClock();
    const mirror = await mirrorIn(folder.path, { clock, lockWaitMs: 10_000 });
    await load(mirror, await oneRow());
    const child = await holdMirror();
    const error = await load(mirror, await oneRow()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BusyError);
    expect((error as BusyError).message).toBe(`The mirror ${path} is held by the process ${child.pid}.`);
    expect((error as BusyError).hint).toContain('reader');
    expect(clock.slept.reduce((sum, each) => sum + each, 0)).toBe(10_000);
    expect(clock.slept.slice(0, 6)).toEqual([20, 40, 80, 160, 320, 639]);
    await mirror.close();
  });

  it('logs once, after a second of waiting, for which process it waits, and for how long at most', async () => {
    const warned: unknown[] = [];
    const log = { ...silentLog, warn: (...line: unknown[]) => warned.push(line) };
    const mirror = await mirrorIn(folder.path, { clock: manualClock(), lockWaitMs: 10_000, log });
    await load(mirror, await oneRow());
    const child = await holdMirror();
    await expect(load(mirror, await oneRow())).rejects.toThrow(BusyError);
    expect(warned).toEqual([
      [
        {
          path,
          holderProcess: child.pid,
          remainingMs: 10_000 - (20 + 40 + 80 + 160 + 320 + 639),
          hint: 'End that process, or let it open the mirror for a shorter time.',
        },
        'Another process holds the mirror: waiting for it.',
      ],
    ]);
    await mirror.close();
  });

  it('writes once the reader has gone', async () => {
    const gone: Promise<void>[] = [];
    const clock = manualClock(async () => {
      for (const child of children) gone.push(child.kill());
      await Promise.all(gone);
    });
    const mirror = await mirrorIn(folder.path, { clock, lockWaitMs: 10_000 });
    await mirror.enroll(enrolment);
    await holdMirror();
    expect(await load(mirror, await oneRow())).toMatchObject([{ kind: 'committed' }]);
    expect(clock.slept.length).toBe(1);
    await mirror.close();
  });

  it('ends the wait for the mirror when it is interrupted', async () => {
    const stop = new AbortController();
    const clock = manualClock(() => stop.abort());
    const mirror = await mirrorIn(folder.path, { clock, lockWaitMs: 10_000, signal: stop.signal });
    await mirror.enroll(enrolment);
    await holdMirror();
    await expect(load(mirror, await oneRow())).rejects.toThrow(InterruptedError);
    await mirror.close();
  });
});

describe('a mirror that cannot be read (F05)', () => {
  const corruptFiles = async () => (await readdir(folder.path)).filter((name) => name.includes('.corrupt-'));

  async function damaged(damage: (content: Buffer) => Buffer): Promise<void> {
    const mirror = await mirrorIn(folder.path);
    await load(mirror, await oneRow());
    await mirror.close();
    await writeFile(path, damage(await readFile(path)));
  }

  it.each<[string, (content: Buffer) => Buffer]>([
    ['it was cut', (content) => content.subarray(0, content.length / 2)],
    ['it was cut in its header', (content) => content.subarray(0, 100)],
    ['a byte was flipped', (content) => content.fill(content.at(5_000) === 1 ? 2 : 1, 5_000, 5_001)],
    ['it was overwritten', (content) => content.fill(0xff, 12_288)],
  ])('quarantines a damaged mirror and builds it again: %s', async (_, damage) => {
    await damaged(damage);
    const before = await readFile(path);
    const mirror = await mirrorIn(folder.path);
    expect((await mirror.has()).datasets.size).toBe(0);
    await mirror.enroll(enrolment);
    expect(await load(mirror, await oneRow())).toMatchObject([{ kind: 'committed' }]);
    const [quarantined] = await corruptFiles();
    expect(quarantined).toMatch(/^mirror\.duckdb\.corrupt-\d{8}T\d{9}Z$/);
    expect(await readFile(join(folder.path, quarantined ?? ''))).toEqual(before);
    await mirror.close();
  });

  it('quarantines only the log of a mirror where only the log cannot be replayed', async () => {
    const mirror = await mirrorIn(folder.path);
    await load(mirror, await oneRow());
    await mirror.close();
    const other = join(folder.path, 'other');
    await mkdir(other);
    await duckdb(
      `ATTACH '${join(other, 'o.duckdb')}' AS o`,
      'CREATE TABLE o.t AS SELECT range AS a FROM range(100)',
      `COPY (SELECT 1) TO '${join(other, 'copied')}'`,
      // Copied while the log is there: closing the instance would empty it.
    );
    await writeLogOfAnother(other);
    const again = await mirrorIn(folder.path);
    expect((await again.has()).datasets.size).toBe(1);
    expect(await corruptFiles()).toEqual([expect.stringMatching(/\.wal$/)]);
    await again.close();
  });

  /** Puts a log beside the mirror that begins as one and goes on with nonsense. */
  async function writeLogOfAnother(other: string): Promise<void> {
    const child = spawnSync(
      process.execPath,
      ['--input-type=module', '-e', LOG_WRITER, join(other, 'log.duckdb')],
      { cwd: scriptPath('..'), encoding: 'utf8' },
    );
    expect(child.stderr).toBe('');
    const log = await readFile(join(other, 'log.duckdb.wal'));
    log[log.length - 40] = (log[log.length - 40] ?? 0) ^ 0xff;
    log[100] = (log[100] ?? 0) ^ 0xff;
    await writeFile(`${path}.wal`, log);
  }

  it(`quarantines a damaged mirror ${MAX_QUARANTINED} times at most`, async () => {
    for (let time = 0; time < MAX_QUARANTINED; time += 1) {
      await writeFile(`${path}.corrupt-2026010${time}T000000000Z`, 'x');
    }
    await damaged((content) => content.subarray(0, content.length / 2));
    const mirror = await mirrorIn(folder.path);
    const error = await mirror.has().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StorageError);
    expect((error as StorageError).message).toContain(path);
    expect((error as StorageError).hint).toContain('move');
    expect(existsSync(path)).toBe(true);
    await mirror.close();
  });

  it.each([
    ['a text', Buffer.from('this is my diary, not a database\n'.repeat(1_000))],
    ['a short text', Buffer.from('x')],
  ])('leaves a file alone that never was a mirror: %s', async (_, content) => {
    await writeFile(path, content);
    const mirror = await mirrorIn(folder.path);
    await expect(mirror.has()).rejects.toThrow(ConfigurationError);
    await expect(mirror.enroll(enrolment)).rejects.toThrow(
      `${path} is no DuckDB database, so it is left as it is.`,
    );
    expect(await readFile(path)).toEqual(content);
    await mirror.close();
  });

  it('leaves a folder in the place of the mirror alone', async () => {
    await mkdir(path);
    const mirror = await mirrorIn(folder.path);
    await expect(mirror.enroll(enrolment)).rejects.toThrow(ConfigurationError);
    await mirror.close();
  });

  it('replaces an empty file in the place of the mirror without quarantine', async () => {
    await writeFile(path, '');
    const mirror = await mirrorIn(folder.path);
    expect((await mirror.has()).datasets.size).toBe(0);
    await mirror.enroll(enrolment);
    expect(await corruptFiles()).toEqual([]);
    await mirror.close();
  });

  it.skipIf(process.getuid?.() === 0)('leaves a mirror alone that it may not open', async () => {
    await damaged((content) => content);
    await chmod(path, 0);
    const mirror = await mirrorIn(folder.path, { uid: 4_711 });
    await expect(mirror.has()).rejects.toThrow(StorageError);
    await mirror.close();
  });
});

it('refuses a mirror of a newer format, and names both formats', async () => {
  const mirror = await mirrorIn(folder.path);
  await mirror.enroll(enrolment);
  await duckdb(
    `ATTACH '${path}' AS m`,
    `UPDATE m.feed_sync.meta SET value = '99' WHERE "key" = 'format_version'`,
  );
  for (const attempt of [
    () => mirror.has(),
    () => mirror.enroll(enrolment),
    async () => load(mirror, await oneRow()),
  ]) {
    const error = await attempt().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect((error as ConfigurationError).message).toContain('format 99');
    expect((error as ConfigurationError).message).toContain('no format above 5');
  }
  await mirror.close();
});

describe('a statement that DuckDB gives up on (F06)', () => {
  const amounts = [...columns, column('amount', 'number')];

  /** DuckDB gives up on a decimal of a negative number of digits already as it reads the footer. */
  async function poisonedFooter(name: string): Promise<string> {
    const file = await parquet(folder.path, name, 'SELECT 1::BIGINT AS id, 1.5::DECIMAL(9,2) AS amount');
    const content = await readFile(file);
    const [nineDigits, minusTwentyFive] = [0x12, 0x31];
    for (let at = content.length - 9; at > 4; at -= 1) {
      if (content[at] !== nineDigits) continue;
      const changed = Buffer.from(content);
      changed[at] = minusTwentyFive;
      await writeFile(file, changed);
      const error = await duckdb(`FROM parquet_schema('${file}')`).catch((thrown: unknown) => thrown);
      if (String(error).includes('INTERNAL Error')) return file;
    }
    throw new Error('no byte of the footer makes DuckDB give up');
  }

  it('names the file whose validation makes DuckDB give up, and loads the next one', async () => {
    const mirror = await mirrorIn(folder.path);
    const bad = snapshot({ columns: amounts, files: [await poisonedFooter('poison.parquet')] });
    await expect(mirror.validate(bad)).rejects.toThrow('The file poison.parquet of parcels cannot be read');
    expect(await load(mirror, await oneRow())).toMatchObject([{ kind: 'committed' }]);
    await mirror.close();
  });

  it('fails the write job that makes DuckDB give up within a batch, and commits the others', async () => {
    const mirror = await mirrorIn(folder.path);
    const file = await parquet(
      folder.path,
      'later.parquet',
      'SELECT 1::BIGINT AS id, 1.5::DECIMAL(9,2) AS amount',
    );
    const good = await oneRow();
    const prepared = [
      await mirror.validate({ ...good, datasetId: 'first' }),
      await mirror.validate(snapshot({ datasetId: 'second', columns: amounts, files: [file] })),
      await mirror.validate({ ...good, datasetId: 'third' }),
    ];
    await copyFile(await poisonedFile(folder.path, 'poison.parquet'), file);
    const [first, second, third] = await commitAll(mirror, prepared);
    expect([first?.kind, second?.kind, third?.kind]).toEqual(['committed', 'failed', 'committed']);
    expect(second?.kind === 'failed' && second.error).toBeInstanceOf(DataError);
    expect(second?.kind === 'failed' && second.error.message).toContain('later.parquet');
    expect([...(await mirror.has()).datasets.keys()]).toEqual(['first', 'third']);
    await mirror.close();
  });
});

describe('a full disk (F07)', () => {
  function onDiskOf(bytes: number, ...files: readonly string[]): readonly unknown[] {
    const script = scriptPath('duckdb-full-disk-child.ts');
    const command = `ulimit -f ${bytes / 512}; exec "$0" "$@"`;
    const shell = ['-c', command, process.execPath, script, folder.path, ...files];
    const child = spawnSync('sh', shell, { encoding: 'utf8' });
    expect(child.stderr).toBe('');
    return child.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  }

  const table = (name: string, rows: number) =>
    parquet(
      folder.path,
      name,
      `SELECT range AS id, md5(range::VARCHAR) || md5((-range)::VARCHAR) AS name FROM range(${rows})`,
    );

  it('fails only the write job that does not fit on a full disk', async () => {
    const small = await table('small.parquet', 10);
    const large = await table('large.parquet', 400_000);
    const [outcomes, observed] = onDiskOf(8_388_608, small, large, small);
    expect(outcomes).toMatchObject(['committed', { name: 'StorageError' }, 'committed']);
    expect(JSON.stringify(outcomes)).toContain(`The disk of ${path} is full`);
    expect(observed).toEqual(['unit-0', 'unit-2']);
    expect(await inMirror(folder.path, 'SELECT count(*) FROM unit_0')).toEqual([['10']]);
  });

  it('keeps committed tables where the disk is full at the checkpoint', async () => {
    const small = await table('small.parquet', 10);
    const [report] = onDiskOf(1_228_800, small, await table('large.parquet', 400_000), small);
    expect(report).toMatchObject({ thrown: { name: 'StorageError' } });
    expect(JSON.stringify(report)).toContain(`The disk of ${path} is full`);
    const mirror = await mirrorIn(folder.path);
    expect([...(await mirror.has()).datasets.keys()]).toEqual(['unit-0', 'unit-2']);
    expect(await load(mirror, await oneRow())).toMatchObject([{ kind: 'committed' }]);
    await mirror.close();
  });
});

it('fails the rest of an interrupted commit as interrupted', async () => {
  const stop = new AbortController();
  const mirror = await mirrorIn(folder.path, { signal: stop.signal });
  const prepared = [await mirror.validate(await oneRow())];
  observeDurableEffects(() => stop.abort());
  try {
    const [outcome] = await commitAll(mirror, prepared);
    expect(outcome?.kind === 'failed' && outcome.error).toBeInstanceOf(InterruptedError);
  } finally {
    observeDurableEffects(() => {});
  }
  await mirror.close();
  expect(await inMirror(folder.path, 'SELECT count(*) FROM feed_sync.datasets')).toEqual([['0']]);
});

describe('F12 the request to stop', () => {
  it.each(['destination.commit', 'destination.checkpoint'])(
    'completes %s after the request to stop, and reports the commit',
    async (effect) => {
      const stop = new AbortController();
      const warnings: unknown[] = [];
      const log = { ...silentLog, warn: (...words: unknown[]) => void warnings.push(words) };
      const mirror = await mirrorIn(folder.path, { signal: stop.signal, log });
      const rows = await parquet(folder.path, 'rows.parquet', 'SELECT i AS id FROM range(300_000) AS t(i)');
      const prepared = [await mirror.validate(snapshot({ columns, files: [rows] }))];
      let commits = 0;
      observeDurableEffects((name, timestamp) => {
        if (timestamp !== 'before') return;
        if (name === 'destination.commit') commits += 1;
        // The first commit is that of the catalog. The statement is under way once this turn has ended.
        if (name === effect && commits === 2) setImmediate(() => stop.abort());
      });
      onTestFinished(() => observeDurableEffects(() => {}));
      expect(await commitAll(mirror, prepared)).toMatchObject([{ kind: 'committed' }]);
      expect(stop.signal.aborted).toBe(true);
      expect(warnings).toEqual([]);
      expect(existsSync(`${path}.wal`)).toBe(false);
      await mirror.close();
    },
  );

  it('ends a statement at any time after the request to stop, also at its very start, and every long one after it', async () => {
    const temporaryDirectory = join(folder.path, 'temporary');
    const options = { memoryLimitBytes: 100_000_000, threads: 1, temporaryDirectory, directories: [] };
    for (let time = 0; time < 10; time += 1) {
      const stop = new AbortController();
      const engine = await Engine.open({ ...options, signal: stop.signal, clock: systemClock });
      const forEver = 'SELECT count(*) FROM range(1000000000000) AS t(i) WHERE hash(i) = 0';
      const work = engine.run(forEver);
      if (time > 0) await systemClock.sleep(time);
      stop.abort();
      await expect(work).rejects.toMatchObject({ fault: 'interrupted' });
      await expect(engine.run(forEver)).rejects.toMatchObject({ fault: 'interrupted' });
      await engine.finish('SELECT 1');
      engine.close();
    }
  });

  it('blames neither file nor disk where the validation of a file is interrupted', async () => {
    const job = await oneRow();
    const [file] = job.files;
    const engine = await Engine.open({
      memoryLimitBytes: 100_000_000,
      threads: 1,
      temporaryDirectory: join(folder.path, 'temporary'),
      directories: [folder.path],
    });
    const interrupted = diagnose(
      new Error('{"exception_type":"INTERRUPT","exception_message":"Interrupted!"}'),
    );
    const of = { datasetId: job.datasetId, file: present(file, 'there is a file') };
    expect(await unreadableFile(engine, of, interrupted)).toBeInstanceOf(InterruptedError);
    engine.close();
  });

  it('undoes a batch that is interrupted, and does not retry its write jobs one by one', async () => {
    const mirror = await mirrorIn(folder.path);
    const job = await oneRow();
    const prepared = [await mirror.validate(job), await mirror.validate({ ...job, datasetId: 'permits' })];
    const stop = new AbortController();
    let transactions = 0;
    const session = {
      waitForNext: () => null,
      async transaction(): Promise<never> {
        transactions += 1;
        stop.abort();
        throw new InterruptedError('The statement was interrupted.');
      },
      startAfresh: async () => {},
    };
    const common = {
      appliedAt: new Date(0),
      keepsHistory: () => false,
      unions: new KnownUnions([], silentLog),
      log: silentLog,
    };
    const context = { session, ...common, signal: stop.signal };
    const results = [];
    for await (const { result } of commitJobs(context, prepared as ValidatedWrite[])) results.push(result);
    expect(results).toMatchObject(
      prepared.map(() => ({ kind: 'failed', error: { name: 'InterruptedError' } })),
    );
    expect(transactions).toBe(1);
    await mirror.close();
  });
});

it('refuses statements that reach files outside the folders of the engine, or change its limits', async () => {
  const outside = join(folder.path, 'outside');
  const inside = join(folder.path, 'inside');
  await mkdir(outside);
  await mkdir(inside);
  await writeFile(join(outside, 'secret.csv'), 'a\n1\n');
  const engine = await Engine.open({
    memoryLimitBytes: 100_000_000,
    threads: 1,
    temporaryDirectory: join(inside, 'temporary'),
    directories: [inside],
  });
  const attempts = [
    `FROM read_csv('${outside}/secret.csv')`,
    `FROM read_csv('${inside}/../outside/secret.csv')`,
    `ATTACH '${outside}/new.duckdb' AS o`,
    `COPY (SELECT 1) TO '${outside}/new.csv'`,
    "FROM read_csv('https://example.com/x.csv')",
    'INSTALL httpfs',
    "SET TimeZone = 'America/Chicago'",
    "SET memory_limit = '100GB'",
    'SET threads = 64',
    "SET allowed_configs = ['memory_limit']",
  ];
  for (const sql of attempts) await expect(engine.run(sql), sql).rejects.toThrow();
  expect(await engine.rows("SELECT current_setting('TimeZone')")).toEqual([['UTC']]);
  engine.close();
  expect(await readdir(outside)).toEqual(['secret.csv']);
});

it('names every effect on the disk, in the order of a commit', async () => {
  const names: string[] = [];
  const mirror = await mirrorIn(folder.path);
  observeDurableEffects((name, timestamp) => names.push(`${timestamp} ${name}`));
  try {
    await load(mirror, await oneRow());
  } finally {
    observeDurableEffects(() => {});
  }
  expect(names).toEqual([
    'before destination.attach',
    'after destination.attach',
    'before destination.commit',
    'after destination.commit',
    'before destination.sync-entries',
    'after destination.sync-entries',
    'before destination.commit',
    'after destination.commit',
    'before destination.checkpoint',
    'after destination.checkpoint',
  ]);
  await mirror.close();
});

/** Ends without closing, so that the log stays. */
const LOG_WRITER = `
  import { DuckDBInstance } from '@duckdb/node-api';
  const instance = await DuckDBInstance.create(process.argv[1]);
  const connection = await instance.connect();
  await connection.run('CREATE TABLE t AS SELECT range AS a FROM range(100)');
  await connection.run('INSERT INTO t SELECT range FROM range(100)');
  process.kill(process.pid, 'SIGKILL');
`;

it.each([
  ['at once, where opening the mirror took little time', 99, []],
  ['after twenty times the duration of opening the mirror', 100, Array.from({ length: 19 }, () => 20)],
  ['after ten seconds, however long opening the mirror took', 5_000, [1_000]],
])(
  'collects jobs that become ready during a write session, and ends the session %s',
  async (_, stepMs, waitsMs) => {
    const jobsCollected = waitsMs.length + 1;
    let nowMs = 0;
    const monotonicMs = () => {
      nowMs += stepMs;
      return nowMs;
    };
    const waited: number[] = [];
    const sleep = async (durationMs: number) => void waited.push(durationMs);
    const mirror = await mirrorIn(folder.path, { clock: { ...systemClock, monotonicMs, sleep } });
    const job = await oneRow();
    const ready: ValidatedJob[] = [];
    const datasetIds = Array.from({ length: jobsCollected + 1 }, (_, index) => `dataset-${index}`);
    for (const datasetId of datasetIds) ready.push(await mirror.validate({ ...job, datasetId }));
    const reported: JobResult[] = [];
    const attached: string[] = [];
    observeDurableEffects((name, timestamp) => {
      if (name === 'destination.attach' && timestamp === 'before') attached.push(name);
    });
    onTestFinished(() => observeDurableEffects(() => {}));
    const take = () => ready.splice(0, 1);
    await mirror.commit({
      take,
      arrival: () => new Promise(() => {}),
      report: (_, outcome) => void reported.push(outcome),
    });
    expect(attached).toHaveLength(1);
    expect(waited).toEqual(waitsMs);
    expect(reported).toMatchObject(
      datasetIds.slice(0, jobsCollected).map((datasetId) => ({ kind: 'committed', datasetId })),
    );
    expect(reported).toHaveLength(jobsCollected);
    expect([...(await mirror.has()).datasets.keys()]).toHaveLength(jobsCollected);
    await mirror.close();
  },
);

it('reports the result of a write job once its transaction is committed, before the write session ends', async () => {
  const mirror = await mirrorIn(folder.path);
  const job = await oneRow();
  const jobs: ValidatedJob[] = [];
  // Two of one dataset never share a transaction.
  for (const datasetId of ['a', 'b', 'a']) jobs.push(await mirror.validate({ ...job, datasetId }));
  const happened: string[] = [];
  observeDurableEffects((name, timestamp) => {
    if (timestamp === 'after') happened.push(name.replace('destination.', ''));
  });
  onTestFinished(() => observeDurableEffects(() => {}));
  await mirror.commit({
    take: () => jobs.splice(0),
    arrival: () => new Promise(() => {}),
    report: ({ job: { datasetId } }, { kind }) => void happened.push(`${datasetId} ${kind}`),
  });
  expect(happened).toEqual([
    ...['attach', 'commit', 'sync-entries', 'commit', 'a committed', 'b committed'],
    ...['commit', 'a stale-plan', 'checkpoint'],
  ]);
  await mirror.close();
});

it.each([
  ['of DuckDB 1.2 for a new mirror', null, 'v1.2.0+'],
  ['of an existing mirror that has a later one', 'v1.5.0', 'v1.5.0+'],
])('uses the storage format %s', async (_, made, format) => {
  if (made !== null) await duckdb(`ATTACH '${path}' AS made (STORAGE_VERSION '${made}')`, 'DETACH made');
  const mirror = await mirrorIn(folder.path);
  expect(await load(mirror, await oneRow())).toMatchObject([{ kind: 'committed' }]);
  await mirror.close();
  const tags = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'written'";
  expect(await duckdb(`ATTACH '${path}' AS written (READ_ONLY)`, tags)).toEqual([[format]]);
});
