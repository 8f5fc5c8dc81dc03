/** A table stores a JSON value alike whichever way it came: in a file, as text or as JSON, or in a change. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isRounded } from '../../src/staging/changes/numbers.ts';
import { castFor, isNotUsual, strict, strictIfUsual } from '../../src/staging/snapshot/casts.ts';
import { changeFolderOfTests } from '../support/change-folder.ts';
import { added } from '../support/change-pages.ts';
import { column } from '../support/duckdb-mirror.ts';
import { anyNumber, jsonText, keptNumber } from './json-texts.ts';
import { property } from './property.ts';

const TEXTS_AT_ONCE = 60;
const NUMBERS_AT_ONCE = 300;

const folder = changeFolderOfTests();

const columns = [column('id', 'integer'), column('v', 'json')];

/** The values that a load stores for the texts in a column of this physical type. */
async function inFile(texts: readonly string[], type: string): Promise<readonly (string | null)[]> {
  const cast = castFor({ type, leaves: [type], geometry: null }, 'json');
  if (cast === null) throw new Error(`${type} can be JSON`);
  const rows = texts.map((text, id) => `(${id}, '${text.replaceAll("'", "''")}'::${type})`);
  const cells = await folder.engine.rows(
    `SELECT hex(encode((${strict(cast, 'v')})::VARCHAR)) FROM (VALUES ${rows.join()}) AS file(id, v) ORDER BY id`,
  );
  return cells.map(([cell]) => (cell === null ? null : Buffer.from(String(cell), 'hex').toString('utf8')));
}

/** For each text, whether its value is usual; those that are usual have the value that a load stores for them in any case. */
async function areUsual(texts: readonly string[], type: string): Promise<readonly boolean[]> {
  const cast = castFor({ type, leaves: [type], geometry: null }, 'json');
  const short = cast === null ? null : strictIfUsual(cast, 'v');
  if (cast === null || short === null) throw new Error(`${type} can be JSON, and has usual values`);
  const rows = texts.map((text, id) => `(${id}, '${text.replaceAll("'", "''")}'::${type})`);
  const cells = await folder.engine.rows(
    `SELECT NOT ${isNotUsual('short')}, (short IS NOT DISTINCT FROM ${strict(cast, 'v')})
      FROM (SELECT *, ${short} AS short FROM (VALUES ${rows.join()}) AS file(id, v)) ORDER BY id`,
  );
  for (const [isUsual, isSame] of cells) expect(isSame || !isUsual).toBe(true);
  return cells.map(([isUsual]) => isUsual === true);
}

async function inChanges(texts: readonly string[]): Promise<readonly (string | null)[]> {
  const changes = texts.map((text, id) => added(`{"id":${id},"v":${text}}`));
  const { rows } = await folder.coalesce({ columns }, { changes: [changes] });
  const byId = new Map(rows.map(([, id, cell]) => [Number(id), cell as string | null]));
  return texts.map((_, id) => byId.get(id) ?? null);
}

/** Two numbers of 17 digits that lie as far from the double: most programs write the first, and some the second. */
const HALFWAY = ['1125899906842624.2', '1125899906842624.3'];

const meaningOf = (text: string): string => JSON.stringify(JSON.parse(text));

describe('F78 JSON values', () => {
  const deep = ['['.repeat(2_000) + ']'.repeat(2_000), `${'{"a": '.repeat(500)}null${'}'.repeat(500)}`];
  property(
    'stores a JSON value as the same text whether it came in a file or in a change',
    12,
    fc.asyncProperty(
      fc.array(jsonText, { minLength: TEXTS_AT_ONCE, maxLength: TEXTS_AT_ONCE, size: 'max' }),
      async (texts) => {
        const observed = await inFile(texts, 'VARCHAR');
        expect(await inFile(texts, 'JSON')).toEqual(observed);
        expect(await areUsual(texts, 'JSON')).toEqual(await areUsual(texts, 'VARCHAR'));
        expect(await inChanges(texts)).toEqual(observed);
        expect(observed.map((text) => meaningOf(text ?? 'null'))).toEqual(texts.map(meaningOf));
        expect(observed).not.toContain('null');
        // What is canonical stays as it is.
        const canonical = observed.filter((text) => text !== null);
        expect(await inFile(canonical, 'VARCHAR')).toEqual(canonical);
      },
    ),
    [[[...deep, ...deep.map((text) => ` ${text}`), 'null', ' null\n', '"null"']]],
  );

  property(
    'stores a JSON number alike both ways, or keeps from the file the digits that a change would lose',
    10,
    fc.asyncProperty(
      fc.array(fc.oneof(anyNumber, keptNumber), {
        minLength: NUMBERS_AT_ONCE,
        maxLength: NUMBERS_AT_ONCE,
        size: 'max',
      }),
      async (numbers) => {
        const observed = await inFile(
          numbers.map((number) => `[${number}]`),
          'VARCHAR',
        );
        const kept = numbers.filter((number) => !isRounded(number));
        const changed = new Map(
          (await inChanges(kept.map((number) => `[${number}]`))).map((text, index) => [kept[index], text]),
        );
        const expected = numbers.map((number) => changed.get(number) ?? `[${number}]`);
        expect(observed).toEqual(expected);
      },
    ),
    [
      [
        [
          '0.1000000000000000055511151231257827',
          '4.9e-324',
          '1e-400',
          '9007199254740993.0',
          '1.7976931348623157e308',
        ],
      ],
    ],
  );

  it('applies a number halfway between two in a change only if most programs write it so', () => {
    expect(HALFWAY.map(isRounded)).toEqual([false, true]);
  });
});
