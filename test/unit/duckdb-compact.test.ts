/** The mirror in a new file: the content that it keeps, and the refusals. The slow tests show readers and failures meanwhile. */

import { chmodSync, chownSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { CompactOptions } from '../../src/destination/duckdb/copies/compact.ts';
import { ConfigurationError, StorageError } from '../../src/model/errors.ts';
import { compactAt } from '../support/compacting.ts';
import { namesBeside, refusedAt, workedOnMirror } from '../support/compacting-world.ts';
import { duckdb, mirrorIn, temporaryFolder } from '../support/duckdb-mirror.ts';
import { writeMirror } from '../support/mirror-file.ts';

const MODE = 0o777;
const ANOTHER_USER = 1_234;
/** Objects of every kind that an operator may have added; views in an order in which none could be made by its words alone. */
const ADDED = [
  'CREATE SCHEMA own',
  'CREATE SEQUENCE numbers START 7',
  "CREATE TYPE mood AS ENUM ('good', 'bad')",
  "CREATE TABLE own.notes (id BIGINT PRIMARY KEY DEFAULT nextval('numbers'), said VARCHAR NOT NULL DEFAULT 'nothing', felt mood CHECK (felt <> 'bad'))",
  "INSERT INTO own.notes VALUES (1, 'one', 'good'), (3, 'two', NULL)",
  'CREATE INDEX by_words ON own.notes (said)',
  "COMMENT ON TABLE own.notes IS 'mine'; COMMENT ON COLUMN own.notes.said IS 'the text of the note'",
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

async function objectsOf(path: string): Promise<unknown> {
  const all = [];
  for (const select of OBJECTS) {
    all.push(
      await duckdb(`ATTACH '${path}' AS m (READ_ONLY)`, `${select} WHERE database_name = 'm' ORDER BY ALL`),
    );
  }
  return all;
}

describe('a compacted mirror', () => {
  it('keeps every object and row in order, also objects of the operator, and mode and owner of the file', async () => {
    const made = await workedOnMirror();
    await made.byHand(...ADDED);
    chmodSync(made.path, 0o640);
    // Only the administrator may give a file to another user.
    if (process.getuid?.() === 0) chownSync(made.path, ANOTHER_USER, ANOTHER_USER);
    const { uid, gid } = statSync(made.path);
    const before = [
      await objectsOf(made.path),
      await made.dump(),
      await made.mirror.commits(null, { limit: 99, upTo: null }),
    ];
    const reported: string[] = [];
    const onProgress: CompactOptions['onProgress'] = ({ phase, done, share }) => {
      expect(share()).toBeGreaterThanOrEqual(0);
      expect(share()).toBeLessThanOrEqual(1);
      reported.push(`${phase} ${done}`);
    };
    const compaction = await compactAt(made.path, { onProgress });
    const tables = Array.from({ length: 14 }, (_, done) => done);
    expect(reported).toEqual([
      ...tables.map((done) => `copying ${done}`),
      ...tables.flatMap((done) => [`proving ${done}`, `proving ${done}`]),
    ]);
    expect(compaction).toMatchObject({ kind: 'compacted', tables: 14, bytesAfter: statSync(made.path).size });
    expect([
      await objectsOf(made.path),
      await made.dump(),
      await made.mirror.commits(null, { limit: 99, upTo: null }),
    ]).toEqual(before);
    expect(statSync(made.path)).toMatchObject({ uid, gid });
    expect(statSync(made.path).mode & MODE).toBe(0o640);
    expect(namesBeside(made)).toEqual(['mirror.duckdb']);
    const used = await duckdb(
      `ATTACH '${made.path}' AS m (READ_ONLY)`,
      'USE m',
      `SELECT twice(4), (SELECT list(name ORDER BY name) FROM a_names), (SELECT list(id ORDER BY said) FROM own.notes)`,
    );
    expect(used).toEqual([[8, ['name 1', 'name 3', 'name 9'], ['1', '3']]]);
  });

  it('compacts nothing where there is no mirror yet', async () => {
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    const path = join(folder.path, 'mirror.duckdb');
    expect(await compactAt(path)).toEqual({ kind: 'absent' });
    writeFileSync(path, '');
    expect(await compactAt(path)).toEqual({ kind: 'absent' });
  });
});

describe('a refused compaction', () => {
  it('refuses to compact where an object of the operator would be lost', async () => {
    const made = await workedOnMirror();
    const lost = [
      'CREATE TABLE mine (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1)); INSERT INTO mine VALUES (1)',
      "CREATE SEQUENCE s; CREATE TABLE mine (a INTEGER DEFAULT nextval('mirror.main.s'))",
    ];
    for (const statement of lost) {
      await made.byHand(statement);
      const error = await refusedAt(made);
      expect(error).toBeInstanceOf(StorageError);
      expect(error.message).toContain('The table main.mine cannot be carried over: ');
      await made.byHand('DROP TABLE mine');
    }
  });

  it('refuses to compact a file that is no mirror, is damaged, or has a newer format', async () => {
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
      `CREATE TABLE feed_sync.meta AS SELECT 'format_version' AS "key", '99' AS value`,
    );
    await expect(compactAt(foreign)).rejects.toThrow(/has the format 99/);
    expect(readdirSync(folder.path).toSorted()).toEqual(['foreign.duckdb', 'mirror.duckdb']);
  });
});

it('removes the files of a killed compaction when the mirror is opened next', async () => {
  const made = await workedOnMirror();
  const leave = () => {
    for (const suffix of ['', '.wal']) writeFileSync(`${made.path}.compacting${suffix}`, 'half');
  };
  leave();
  await (await mirrorIn(made.folder)).close();
  expect(namesBeside(made)).toEqual(['mirror.duckdb']);
  leave();
  await compactAt(made.path);
  expect(namesBeside(made)).toEqual(['mirror.duckdb']);
});
