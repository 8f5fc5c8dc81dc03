/** Whatever text stands as a name, a literal, a path or a word of a shell means itself (F38). */

import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { insertRows } from '../../src/destination/catalog/writes.ts';
import { statementsOf } from '../../src/destination/duckdb/catalog/rows.ts';
import { createSchema } from '../../src/destination/duckdb/catalog/schema.ts';
import { shellWord } from '../../src/lib/text.ts';
import { DataError } from '../../src/model/errors.ts';
import { filePath, identifier, integer, text, textList, timestamp } from '../../src/staging/engine/sql.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { property } from './property.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let instance: DuckDBInstance;
let run: (sql: string) => Promise<readonly (readonly unknown[])[]>;
beforeAll(async () => {
  folder = await temporaryFolder();
  instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  run = async (sql) => (await connection.runAndReadAll(sql)).getRows();
  for (const statement of ["ATTACH ':memory:' AS mirror", ...createSchema()]) await run(statement);
});
afterAll(async () => {
  instance.closeSync();
  await folder[Symbol.asyncDispose]();
});

describe('quoting in SQL', () => {
  const value = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({
      unit: fc.constantFrom(
        "'",
        '"',
        '\\',
        ';',
        '-',
        '$',
        '\n',
        '%',
        '*',
        '[',
        ']',
        '?',
        '{',
        '\u0000',
        'é',
        '😀',
      ),
    }),
    fc.constantFrom("'; DROP TABLE t; --", '$$', "E'\\'", "''''", '\ufeff'),
  );
  const texts = fc.array(value, { minLength: 1, maxLength: 20 });

  property(
    'quotes a text as a literal and as a name, and refuses one that contains a NUL',
    40,
    fc.asyncProperty(texts, async (list) => {
      const [sound, unsound] = [
        list.filter((each) => !each.includes('\0')),
        list.filter((each) => each.includes('\0')),
      ];
      for (const each of unsound) {
        for (const quote of [text, identifier]) expect(() => quote(each)).toThrow(DataError);
      }
      const literals = sound.map((each) => `hex(encode(${text(each)}))`);
      const [row = []] = await run(`SELECT ${['NULL', ...literals].join(', ')}`);
      expect(row.slice(1).map((digits) => Buffer.from(String(digits), 'hex').toString())).toEqual(sound);
      const [joined = []] = await run(`SELECT hex(encode(to_json(${textList(sound)})::VARCHAR))`);
      expect(JSON.parse(Buffer.from(String(joined[0]), 'hex').toString())).toEqual(sound);
      for (const each of sound.filter((one) => one !== '').slice(0, 3)) {
        const described = await run(
          `SELECT hex(encode(k)) FROM (SELECT unnest(map_keys(MAP([${text(each)}], [1]))) AS k), (SELECT 1 AS ${identifier(each)}) AS x WHERE x.${identifier(each)} = 1`,
        );
        expect(described.map(([digits]) => Buffer.from(String(digits), 'hex').toString())).toEqual([each]);
      }
    }),
  );

  property(
    'writes numbers and timestamps that SQL reads back unchanged',
    60,
    fc.asyncProperty(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc.maxSafeInteger(),
      fc.date({
        noInvalidDate: true,
        min: new Date('0001-01-01T00:00:00Z'),
        max: new Date('9999-12-31T00:00:00Z'),
      }),
      async (large, safe, date) => {
        const [row = []] = await run(
          `SELECT (${integer(large)})::VARCHAR, (${integer(safe)})::VARCHAR, epoch_ms(${timestamp(date)})::VARCHAR, ${integer(null)}, ${timestamp(null)}, ${text(null)}`,
        );
        expect(row).toEqual([
          `${large}`,
          `${Object.is(safe, -0) ? 0 : safe}`,
          `${date.getTime()}`,
          null,
          null,
          null,
        ]);
      },
    ),
  );

  property(
    'writes rows of the catalog unchanged and in order, and refuses those that contain a NUL',
    40,
    fc.asyncProperty(
      fc.array(
        fc.tuple(
          value,
          fc.option(value),
          fc.array(value, { maxLength: 4 }),
          fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
          fc.option(
            fc.date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-12-31T00:00:00Z') }),
          ),
          fc.boolean(),
        ),
        { minLength: 1, maxLength: 10 },
      ),
      async (rows) => {
        const datasets = () =>
          insertRows(
            'datasets',
            rows.map(([id, maybe, list, number, date]) => [
              id,
              'main',
              maybe,
              number,
              null,
              1,
              list,
              7,
              -1,
              'x',
              null,
              null,
              null,
              date,
              null,
              number,
              maybe,
              date,
            ]),
          );
        const hasNul = ([id, maybe, list]: (typeof rows)[number]) =>
          [id, maybe ?? '', ...list].some((each) => each.includes('\0'));
        if (rows.some(hasNul)) {
          expect(() => statementsOf([datasets()])).toThrow(DataError);
          return;
        }
        const columns = insertRows(
          'columns',
          rows.map(([, , , , , truth], index) => [
            'x',
            index,
            'n',
            'n',
            't',
            truth,
            null,
            null,
            'data',
            null,
          ]),
        );
        await run('BEGIN');
        for (const statement of statementsOf([datasets(), columns])) await run(statement);
        const written = await run(
          `SELECT hex(encode(dataset_id)), hex(encode(table_name)), hex(encode(to_json(key_columns)::VARCHAR)), version::VARCHAR,
            epoch_ms(published_at)::VARCHAR, applied_at, schema_version FROM mirror.feed_sync.datasets ORDER BY rowid`,
        );
        const truths = await run('SELECT nullable FROM mirror.feed_sync.columns ORDER BY "position"');
        await run('ROLLBACK');
        const shown = (digits: unknown) =>
          digits === null ? null : Buffer.from(String(digits), 'hex').toString();
        expect(
          written.map(([id, maybe, list, ...rest]) => [
            shown(id),
            shown(maybe),
            JSON.parse(shown(list) ?? ''),
            ...rest,
          ]),
        ).toEqual(
          rows.map(([id, maybe, list, number, date]) => [
            id,
            maybe,
            list,
            number === null ? null : `${number}`,
            date === null ? null : `${date.getTime()}`,
            null,
            null,
          ]),
        );
        expect(truths.map(([truth]) => truth)).toEqual(rows.map(([, , , , , truth]) => truth));
      },
    ),
  );

  property(
    'quotes a path as exactly one file, whatever its name',
    12,
    fc.asyncProperty(
      // A backslash parts folders for DuckDB where there is a pattern too. The program puts none into a name.
      fc.uniqueArray(fc.string({ unit: fc.constantFrom(...`*?[]a'" {},!-é%`), minLength: 1, maxLength: 8 }), {
        minLength: 1,
        maxLength: 5,
      }),
      async (files) => {
        const directory = join(folder.path, `files ${directories++}`);
        await mkdir(directory);
        for (const file of [...files, 'a', 'aa', 'ab']) await writeFile(join(directory, file), file);
        for (const file of files) {
          expect(await run(`SELECT content FROM read_text(${filePath(join(directory, file))})`)).toEqual([
            [file],
          ]);
        }
      },
    ),
  );
});

let directories = 0;

describe('quoting on a command line', () => {
  const word = fc.string({ unit: 'binary', maxLength: 12 }).filter((each) => !each.includes('\0'));
  const plain = fc
    .string({ unit: fc.constantFrom(...'ab\'"\\$`!*?[]{}~#&;|<>() =%éß😀-'.split('')), maxLength: 12 })
    .filter((each) => each.isWellFormed());

  function printedBy(shell: string, words: readonly string[]): readonly string[] {
    const { stdout } = spawnSync(shell, ['-c', `printf '%s\\0' ${words.map(shellWord).join(' ')}`], {
      encoding: 'utf8',
      env: { LC_ALL: 'C.UTF-8' },
    });
    return stdout.split('\0').slice(0, -1);
  }

  property(
    'quotes a text as one word of any shell',
    4,
    fc.property(fc.array(plain, { minLength: 20, maxLength: 60, size: 'max' }), (words) => {
      expect(printedBy('sh', words)).toEqual(words);
    }),
  );

  property(
    'quotes a text with any character as one word of bash, in one line',
    4,
    fc.property(fc.array(word, { minLength: 20, maxLength: 60, size: 'max' }), (words) => {
      expect(printedBy('bash', words)).toEqual(words);
      expect(words.map(shellWord).join(' ')).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
    }),
  );
});
