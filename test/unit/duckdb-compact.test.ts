/** The mirror in a new file: what it has to keep, what it refuses, and what is there when something goes wrong. */

import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { CompactOptions } from '../../src/destination/duckdb/compact/compact.ts';
import { observeDurableEffects } from '../../src/lib/durable.ts';
import { BusyError, ConfigurationError, InterruptedError, StorageError } from '../../src/model/errors.ts';
import { startChild } from '../support/child.ts';
import { compactAt } from '../support/compacting.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { duckdb, mirrorIn, temporaryFolder } from '../support/duckdb-mirror.ts';
import { type MirrorAtWork, mirrorAtWork } from '../support/mirror-at-work.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { column } from '../support/small-content.ts';

const SHAPES = sourceSchema([
  { ...column('id', 'integer', false), description: 'The number of the "parcel".' },
  column('name', 'string'),
  column('area', 'number'),
  column('shape', 'geometry'),
  column('extra', 'json'),
  column('seen', 'timestamp'),
]);
const SQUARE = {
  type: 'Polygon',
  coordinates: [
    [
      [0, 0],
      [1, 0],
      [1, 1],
      [0, 0],
    ],
  ],
} as const;
const MODE = 0o777;
/** What a person may have added, of every kind; views in an order in which none could be made by its words alone. */
const ADDED = [
  'CREATE SCHEMA own',
  'CREATE SEQUENCE numbers START 7',
  "CREATE TYPE mood AS ENUM ('good', 'bad')",
  "CREATE TABLE own.notes (id BIGINT PRIMARY KEY DEFAULT nextval('numbers'), said VARCHAR NOT NULL DEFAULT 'nothing', felt mood CHECK (felt <> 'bad'))",
  "INSERT INTO own.notes VALUES (1, 'one', 'good'), (3, 'two', NULL)",
  'CREATE INDEX by_words ON own.notes (said)',
  "COMMENT ON TABLE own.notes IS 'mine'; COMMENT ON COLUMN own.notes.said IS 'what was said'",
  'CREATE VIEW z_rows AS SELECT id, name FROM parcels',
  'CREATE VIEW a_names AS SELECT name FROM z_rows',
  "COMMENT ON VIEW a_names IS 'names'",
  'CREATE MACRO twice(n, times := 2) AS n * times',
  'CREATE MACRO rows_of(n) AS TABLE SELECT * FROM parcels WHERE id = n',
];
const OBJECTS = [
  'SELECT schema_name FROM duckdb_schemas()',
  'SELECT schema_name, table_name, comment, sql, has_primary_key, index_count FROM duckdb_tables()',
  'SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, comment FROM duckdb_columns()',
  'SELECT schema_name, view_name, sql, comment FROM duckdb_views()',
  'SELECT schema_name, sequence_name, sql FROM duckdb_sequences()',
  'SELECT schema_name, type_name, labels FROM duckdb_types()',
  'SELECT schema_name, index_name, sql, is_unique FROM duckdb_indexes()',
  'SELECT schema_name, function_name, function_type, parameters, macro_definition FROM duckdb_functions()',
];

/** A mirror with a table, changed since it was loaded, and one that is archived. */
async function world(): Promise<MirrorAtWork> {
  const made = await mirrorAtWork();
  const row = (id: number) => [
    id,
    `name ${id}`,
    id / 3,
    SQUARE,
    { json: { n: id } },
    '2026-01-01T00:00:00.123456Z',
  ];
  const course = await made.loaded(firstContent(SHAPES, [row(1), row(2), row(3)]));
  course.publishRows([row(1), row(3), row(9)]);
  await made.apply(course);
  await made.retire(await made.loaded(firstContent(SHAPES, [row(5)]), 'old'), 'archive');
  return made;
}

async function objectsOf(path: string): Promise<unknown> {
  const all = [];
  for (const select of OBJECTS) {
    all.push(
      await duckdb(`ATTACH '${path}' AS m (READ_ONLY)`, `${select} WHERE database_name = 'm' ORDER BY ALL`),
    );
  }
  return all;
}

function names({ folder }: MirrorAtWork): readonly string[] {
  return readdirSync(folder).filter((name) => name.startsWith('mirror'));
}

/** Does so once, just before or after the effect. */
function at(moment: string, act: () => void): void {
  observeDurableEffects((name, when) => {
    if (`${when} ${name}` !== moment) return;
    observeDurableEffects(() => {});
    act();
  });
  onTestFinished(() => observeDurableEffects(() => {}));
}

/** In another process, which ends before this returns: what the statement said, or the kind of its error. */
function elsewhere(path: string, mode: 'READ_ONLY' | 'READ_WRITE', sql: string): string {
  const script = `import { DuckDBInstance } from '@duckdb/node-api';
    try {
      const instance = await DuckDBInstance.create(process.argv[1], { access_mode: '${mode}' });
      const connection = await instance.connect();
      console.log(JSON.stringify((await connection.runAndReadAll(${JSON.stringify(sql)})).getRowsJson()));
      connection.closeSync();
      instance.closeSync();
    } catch (error) { console.log(error.message.split(':')[0]); }`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script, path], {
    encoding: 'utf8',
  });
  return stdout.trim();
}

/** What compacting throws in a process that may write files of a limited size only, which to DuckDB is a full disk. */
function onDiskOf(bytes: number, path: string): string {
  const script = `import { compactAt } from '${new URL('../support/compacting.ts', import.meta.url).href}';
    await compactAt(process.argv[1]).catch((error) => console.log(String(error)));`;
  const command = `ulimit -f ${Math.floor(bytes / 512)}; exec "$0" "$@"`;
  const words = ['-c', command, process.execPath, '--input-type=module', '-e', script, path];
  return spawnSync('sh', words, { encoding: 'utf8' }).stdout;
}

describe('a mirror that is compacted', () => {
  it('has every object and every row as before, in order, also what a person added; and its mode', async () => {
    const made = await world();
    await made.byHand(...ADDED);
    chmodSync(made.path, 0o640);
    const before = [
      await objectsOf(made.path),
      await made.dump(),
      await made.mirror.history(null, { limit: 99, upTo: null }),
    ];
    const told: string[] = [];
    const onProgress: CompactOptions['onProgress'] = ({ phase, done, share }) => {
      expect(share()).toBeGreaterThanOrEqual(0);
      expect(share()).toBeLessThanOrEqual(1);
      told.push(`${phase} ${done}`);
    };
    const compaction = await compactAt(made.path, { onProgress });
    expect(told).toEqual(
      ['copying', 'proving'].flatMap((phase) => Array.from({ length: 10 }, (_, done) => `${phase} ${done}`)),
    );
    expect(compaction).toMatchObject({ kind: 'compacted', tables: 10, bytesAfter: statSync(made.path).size });
    expect([
      await objectsOf(made.path),
      await made.dump(),
      await made.mirror.history(null, { limit: 99, upTo: null }),
    ]).toEqual(before);
    expect(statSync(made.path).mode & MODE).toBe(0o640);
    expect(names(made)).toEqual(['mirror.duckdb']);
    const used = await duckdb(
      `ATTACH '${made.path}' AS m (READ_ONLY)`,
      'USE m',
      `SELECT twice(4), (SELECT list(name ORDER BY name) FROM a_names), (SELECT list(id ORDER BY said) FROM own.notes)`,
    );
    expect(used).toEqual([[8, ['name 1', 'name 3', 'name 9'], ['1', '3']]]);
  });

  it('is smaller where much of it held nothing, and goes on as any other', async () => {
    const made = await world();
    await made.byHand(
      'CREATE TABLE much AS SELECT hash(i) AS h FROM range(1_000_000) r(i)',
      'CHECKPOINT',
      'CREATE TABLE behind AS SELECT hash(i) AS h FROM range(100_000) r(i)',
      'CHECKPOINT',
      'DROP TABLE much',
    );
    const before = statSync(made.path).size;
    expect(await compactAt(made.path)).toMatchObject({ bytesBefore: before });
    expect(statSync(made.path).size).toBeLessThan(before / 2);
    const course = await made.loaded(
      firstContent(SHAPES, [[1, 'anew', 1, SQUARE, { json: {} }, null]]),
      'later',
    );
    course.publishRows([[1, 'again', 1, SQUARE, { json: {} }, null]]);
    expect(await made.apply(course)).toMatchObject({ kind: 'committed' });
  });

  it('stays behind its link, and what was left in its log is in it', async () => {
    const made = await world();
    const real = join(made.folder, 'real.duckdb');
    renameSync(made.path, real);
    symlinkSync(real, made.path);
    // Ended without a checkpoint: what it wrote is in the log.
    elsewhere(
      real,
      'READ_WRITE',
      'PRAGMA disable_checkpoint_on_shutdown; CREATE TABLE late AS SELECT 1 AS one',
    );
    expect(readdirSync(made.folder)).toContain('real.duckdb.wal');
    await compactAt(made.path);
    expect(await duckdb(`ATTACH '${made.path}' AS m (READ_ONLY)`, 'FROM m.late')).toEqual([[1]]);
    expect(names(made)).toEqual(['mirror.duckdb']);
    expect(readdirSync(made.folder).filter((name) => name.startsWith('real'))).toEqual(['real.duckdb']);
  });

  it('is none where there is no mirror yet', async () => {
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    const path = join(folder.path, 'mirror.duckdb');
    expect(await compactAt(path)).toEqual({ kind: 'absent' });
    writeFileSync(path, '');
    expect(await compactAt(path)).toEqual({ kind: 'absent' });
  });
});

it('everybody may read the old file meanwhile, and nobody may write it; a reader from before is waited for', async () => {
  const made = await world();
  let seen: readonly string[] = [];
  at('before destination.compact', () => {
    seen = [
      elsewhere(made.path, 'READ_ONLY', 'SELECT count(*) FROM parcels'),
      elsewhere(made.path, 'READ_WRITE', 'SELECT 1'),
    ];
  });
  await compactAt(made.path);
  expect(seen).toEqual(['[["3"]]', 'IO Error']);
  const reader = startChild('duckdb-holder-child.ts', made.path);
  onTestFinished(() => reader.kill());
  expect(await reader.nextLine()).toBe('held');
  expect(await refused(made)).toBeInstanceOf(BusyError);
});

/** What was thrown, where the mirror is the same file with the same content, and nothing lies beside it. */
async function refused(made: MirrorAtWork, options: Partial<CompactOptions> = {}): Promise<Error> {
  const before = statSync(made.path, { bigint: true });
  const error: unknown = await compactAt(made.path, options).catch((thrown: unknown) => thrown);
  expect(names(made)).toEqual(['mirror.duckdb']);
  expect(statSync(made.path, { bigint: true }).ino).toBe(before.ino);
  if (error instanceof Error) return error;
  throw new Error('it was compacted');
}

describe('nothing is compacted, and nothing left beside it,', () => {
  it('where it is interrupted between any two steps', async () => {
    const made = await world();
    const before = await made.dump();
    for (const name of ['attach', 'create', 'no-log', 'give', 'commit', 'write', 'settle']) {
      const stopped = new AbortController();
      at(`before destination.compact-${name}`, () => stopped.abort(new InterruptedError('Asked to stop.')));
      expect(await refused(made, { signal: stopped.signal }), name).toBeInstanceOf(InterruptedError);
    }
    expect(await made.dump()).toEqual(before);
  });

  it('where there is no room, where the copy is not the same, and where somebody has written meanwhile', async () => {
    const made = await world();
    const noRoom = await refused(made, { reserveBytes: 1e18 });
    expect(noRoom).toBeInstanceOf(StorageError);
    expect(noRoom.message).toMatch(
      /^Not enough space in .*: a new mirror needs .* \(disk.reserve\), and .* are free\.$/,
    );
    at('before destination.compact-settle', () => {
      elsewhere(`${made.path}.compacting`, 'READ_WRITE', "UPDATE parcels SET name = 'bent' WHERE id = 3");
    });
    const bent = await refused(made);
    expect(bent).toBeInstanceOf(StorageError);
    expect(bent.message).toContain('The copy of the table main.parcels of');
    at('after destination.compact-settle', () => writeFileSync(`${made.path}.wal`, ''));
    await expect(compactAt(made.path)).rejects.toThrow(BusyError);
    expect(names(made)).toEqual(['mirror.duckdb', 'mirror.duckdb.wal']);
  });

  it('F07 where the disk is full in the middle of it', async () => {
    const made = await world();
    await made.byHand('CREATE TABLE much AS SELECT hash(i) AS h FROM range(1_000_000) r(i)');
    const before = statSync(made.path, { bigint: true });
    expect(onDiskOf(4_000_000, made.path)).toMatch(/^StorageError: The disk of .*mirror\.duckdb is full/);
    expect(names(made)).toEqual(['mirror.duckdb']);
    expect(statSync(made.path, { bigint: true }).ino).toBe(before.ino);
    await compactAt(made.path);
  });

  it('where something of a person’s would be lost', async () => {
    const made = await world();
    const lost = [
      'CREATE TABLE mine (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1)); INSERT INTO mine VALUES (1)',
      "CREATE SEQUENCE s; CREATE TABLE mine (a INTEGER DEFAULT nextval('mirror.main.s'))",
    ];
    for (const statement of lost) {
      await made.byHand(statement);
      const error = await refused(made);
      expect(error).toBeInstanceOf(StorageError);
      expect(error.message).toContain('The table main.mine cannot be carried over: ');
      await made.byHand('DROP TABLE mine');
    }
  });

  it('where it is no mirror, damaged, or of a newer program', async () => {
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    const path = join(folder.path, 'mirror.duckdb');
    writeFileSync(path, 'id,name\n');
    await expect(compactAt(path)).rejects.toThrow(ConfigurationError);
    writeFileSync(path, Buffer.concat([Buffer.alloc(8), Buffer.from('DUCK'), Buffer.alloc(20_000)]));
    await expect(compactAt(path)).rejects.toThrow(StorageError);
    const foreign = join(folder.path, 'foreign.duckdb');
    await writeMirror(foreign, 'CREATE TABLE t (a INTEGER)');
    await expect(compactAt(foreign)).rejects.toThrow(/has written nothing into/);
    await writeMirror(
      foreign,
      'CREATE SCHEMA feed_sync',
      `CREATE TABLE feed_sync.meta AS SELECT 'format_version' AS "key", '2' AS value`,
    );
    await expect(compactAt(foreign)).rejects.toThrow(/has the format 2/);
    expect(readdirSync(folder.path).toSorted()).toEqual(['foreign.duckdb', 'mirror.duckdb']);
  });
});

it('what a process that was killed has left is removed by the next one that opens the mirror', async () => {
  const made = await world();
  const leave = () => {
    for (const suffix of ['', '.wal']) writeFileSync(`${made.path}.compacting${suffix}`, 'half');
  };
  leave();
  await (await mirrorIn(made.folder)).close();
  expect(names(made)).toEqual(['mirror.duckdb']);
  leave();
  await compactAt(made.path);
  expect(names(made)).toEqual(['mirror.duckdb']);
});
