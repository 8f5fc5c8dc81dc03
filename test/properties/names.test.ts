/** Names that the program gives are valid in DuckDB, unique, and stay as they are (F38, F39). */

import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { isMatch } from 'matcher';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import {
  columnNames,
  MAX_SCHEMA_NAME_BYTES,
  MAX_TABLE_NAME_BYTES,
  schemaNameFor,
  tableNameFor,
} from '../../src/model/naming.ts';
import { identifier } from '../../src/staging/engine/sql.ts';
import { property } from './property.ts';

let instance: DuckDBInstance;
let run: (sql: string) => Promise<readonly (readonly unknown[])[]>;
beforeAll(async () => {
  instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  run = async (sql) => (await connection.runAndReadAll(sql)).getRows();
});
afterAll(() => instance.closeSync());

/** Letters that are one but for their case in some alphabet or language, and those of which the lower case is longer. */
const FOLDING = [
  'a',
  'A',
  'é',
  'É',
  'ß',
  'ẞ',
  'SS',
  'ſ',
  's',
  'K',
  'k',
  'K',
  'i',
  'I',
  'İ',
  'ı',
  'i̇',
  'Σ',
  'σ',
  'ς',
  'ǅ',
  'ǆ',
  'Ǆ',
  'Å',
  'å',
  '😀',
  '_2',
  '_',
  '2',
  '"',
  ' ',
];
const name = fc
  .oneof(
    fc.array(fc.constantFrom(...FOLDING), { maxLength: 3 }).map((parts) => parts.join('')),
    fc.string({ unit: 'binary', maxLength: 4 }),
    fc.constantFrom('x'.repeat(5_000), 'X'.repeat(5_000), 'rowid', 'select', '__proto__', 'main.t', "it's"),
  )
  .filter((each) => !each.includes('\0'));

const names = fc.uniqueArray(name, { minLength: 1, maxLength: 12 });

describe('names of tables', () => {
  const id = fc.oneof(
    name,
    fc.string({ unit: 'binary', minLength: 60, maxLength: 70 }),
    fc.constantFrom('a.b', 'a-b', 'a_b', 'A/B', '1', '_1'),
  );

  property(
    'gives each dataset a short, plain, unique table name that later datasets do not change',
    150,
    fc.property(fc.uniqueArray(id, { minLength: 1, maxLength: 15 }), fc.nat(14), (ids, count) => {
      const given = tableNames(ids);
      expect(new Set(given).size).toBe(ids.length);
      for (const each of given) {
        expect(each).toMatch(/^[a-z_][a-z0-9_]*$/);
        expect(Buffer.byteLength(each)).toBeLessThanOrEqual(MAX_TABLE_NAME_BYTES);
      }
      expect(tableNames(ids.slice(0, count))).toEqual(given.slice(0, count));
      // Whose plain name nobody shares has that name, in whatever order they come.
      const alone = tableNames(ids.toReversed()).toReversed();
      for (const [index, each] of ids.entries()) {
        const plain = tableNameFor(each, new Set());
        const isShared = ids.some((other) => other !== each && tableNameFor(other, new Set()) === plain);
        const isTaken = ids.some((other) => other !== each && given[ids.indexOf(other)] === plain);
        if (!isShared && !isTaken) expect([given[index], alone[index]]).toEqual([plain, plain]);
      }
    }),
  );

  property(
    'gives table names that DuckDB keeps as they are',
    3,
    fc.asyncProperty(fc.uniqueArray(id, { minLength: 5, maxLength: 30, size: 'max' }), async (ids) => {
      const given = tableNames(ids);
      await run('DROP SCHEMA IF EXISTS s CASCADE');
      await run('CREATE SCHEMA s');
      for (const each of given) await run(`CREATE TABLE s.${identifier(each)} (i INTEGER)`);
      const found = await run(`SELECT table_name FROM duckdb_tables() WHERE schema_name = 's'`);
      expect(found.map(([each]) => each).sort()).toEqual([...given].sort());
    }),
  );
});

function tableNames(ids: readonly string[]): readonly string[] {
  const taken = new Set<string>();
  return ids.map((each) => {
    const given = tableNameFor(each, taken);
    taken.add(given);
    return given;
  });
}

describe('names of schemas', () => {
  const piece = fc.oneof(
    fc.constantFrom('*', 'a', '-', 'pg_', 'public', '\\', '\\*', '1', '😀'),
    fc.string({ unit: 'binary', maxLength: 3 }),
  );
  const id = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
  const glob = id.filter((text) => !text.startsWith('!'));
  const schema = fc
    .array(fc.constantFrom('{1}', '{2}', 'a', '_', 'pg_', 'history', 'x'.repeat(60)), {
      minLength: 1,
      maxLength: 4,
    })
    .map((parts) => parts.join(''));
  const reserved = ['archived', 'feed_sync', 'history', 'information_schema', 'public'];

  property(
    'gives possible schema names, to exactly the datasets that a pattern matches',
    2_000,
    fc.property(glob, schema, id, (datasets, name, datasetId) => {
      const given = schemaNameFor(datasetId, [{ datasets, schema: name }], 'of none');
      expect(given !== 'of none').toBe(isMatch(datasetId, datasets, { caseSensitive: true }));
      if (given === 'of none') return;
      expect(given).toMatch(/^(?!pg_)[a-z_][a-z0-9_]*$/);
      expect(Buffer.byteLength(given)).toBeLessThanOrEqual(MAX_SCHEMA_NAME_BYTES);
      expect(reserved).not.toContain(given);
    }),
  );

  property(
    'puts into a schema name the texts that, with the rest of the pattern, are the dataset id',
    500,
    fc.property(
      fc.array(fc.stringMatching(/^[a-c]{0,3}$/), { minLength: 2, maxLength: 3 }),
      id,
      (literals, text) => {
        const datasetId = text.replaceAll(/[^a-c]/g, 'c').slice(0, 8);
        const { length } = literals;
        const name = literals
          .map((literal, index) => `${literal}${index < length - 1 ? `{${index + 1}}` : ''}`)
          .join('');
        const given = schemaNameFor(datasetId, [{ datasets: literals.join('*'), schema: name }], '?');
        if (given !== '?') expect(given).toBe(datasetId === '' ? '_' : datasetId);
      },
    ),
  );
});

describe('names of columns', () => {
  property(
    'gives column names that DuckDB keeps, and numbers only those that would collide',
    40,
    fc.asyncProperty(names, async (sourceNames) => {
      const given = columnNames(sourceNames);
      await run(
        `CREATE OR REPLACE TABLE t (${given.map((each) => `${identifier(each)} INTEGER`).join(', ')})`,
      );
      const found = await run(
        `SELECT hex(encode(column_name)) FROM duckdb_columns() WHERE table_name = 't' ORDER BY column_index`,
      );
      expect(found.map(([digits]) => Buffer.from(String(digits), 'hex').toString())).toEqual(given);
      // A name is numbered only after one that it may not stand beside.
      for (const [index, each] of given.entries()) {
        const plain = sourceNames[index] === '' ? '_' : sourceNames[index];
        if (each !== plain) expect(each).toMatch(/_[1-9]\d*$/);
        const isFirst = !sourceNames
          .slice(0, index)
          .some((other) => (other === '' ? '_' : other).toLowerCase() === plain?.toLowerCase());
        if (isFirst) expect(each).toBe(plain);
      }
    }),
  );

  property(
    'keeps the column names that a table has already, and gives new columns other names',
    150,
    fc.property(names, fc.nat(11), fc.nat(11), (sourceNames, count, at) => {
      const first = sourceNames.slice(0, count);
      const kept = new Map(columnNames(first).map((each, index) => [first[index] ?? '', each]));
      // The new columns come before, between or behind the others.
      const after = [...sourceNames.slice(count, count + at), ...first, ...sourceNames.slice(count + at)];
      const given = columnNames(after, kept);
      expect(after.flatMap((each, index) => (kept.has(each) ? [[each, given[index]]] : []))).toEqual([
        ...kept,
      ]);
      expect(new Set(given.map((each) => each.toLowerCase())).size).toBe(after.length);
      expect(columnNames(after, new Map(after.map((each, index) => [each, given[index] ?? ''])))).toEqual(
        given,
      );
    }),
  );
});
