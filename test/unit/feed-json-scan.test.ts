/** The scanner of JSON agrees with JSON.parse about every text, wherever the stream is cut into chunks. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonScan, withoutList } from '../../src/feed/http/json-scan.ts';

const SEED = 20_260_101;
const DEEP = 1_000;

/** Null: too deep, or no JSON. */
function scanned(maxDepth: number, bytes: Uint8Array, chunkBytes: number): JsonScan | null {
  const scan = new JsonScan(maxDepth);
  for (let start = 0; start < bytes.length; start += chunkBytes) {
    if (scan.read(bytes.subarray(start, start + chunkBytes)) !== 'fine') return null;
  }
  return scan;
}

function isWithin(maxDepth: number, text: string, chunkBytes: number): boolean {
  return scanned(maxDepth, Buffer.from(text), chunkBytes) !== null;
}

function isJson(text: string, chunkBytes = 3): boolean {
  return scanned(DEEP, Buffer.from(text), chunkBytes)?.isWhole ?? false;
}

function isParsed(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

const CHUNK = fc.integer({ min: 1, max: 9 });
/** Fragments of JSON in any order, so that nearly valid texts are common. */
const FRAGMENT = fc.constantFrom(
  ...[
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '"a"',
    '"a":',
    '\\',
    '\\u00',
    '0',
    '-',
    '1',
    '.5',
    'e',
    'E+',
    '-0',
    '12.5e-3',
  ],
  ...[
    'true',
    'false',
    'null',
    'nul',
    'NaN',
    'Infinity',
    ' ',
    '\t',
    '\n',
    '\r',
    '\v',
    '\u00a0',
    '\0',
    'é',
    '\ud83d\ude00',
  ],
);
const NEARLY = fc.array(FRAGMENT, { maxLength: 8 }).map((parts) => parts.join(''));

describe('JsonScan', () => {
  it(`agrees with the document about its depth, in chunks of any size (seed ${SEED})`, () => {
    fc.assert(
      fc.property(fc.jsonValue(), CHUNK, (value, chunkBytes) => {
        const depth = depthOf(value);
        const text = JSON.stringify(value);
        expect(isWithin(depth, text, chunkBytes)).toBe(true);
        if (depth > 0) expect(isWithin(depth - 1, text, chunkBytes)).toBe(false);
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  it(`accepts what JSON.parse accepts, and nothing else (seed ${SEED})`, () => {
    const wounded = fc
      .tuple(fc.jsonValue(), fc.constantFrom(0, 1, 2), fc.nat(), fc.nat(), FRAGMENT)
      .map(([value, indent, from, length, fragment]) => {
        const text = JSON.stringify(value, null, indent);
        const at = from % (text.length + 1);
        return text.slice(0, at) + fragment + text.slice(at + (length % 3));
      });
    fc.assert(
      fc.property(fc.oneof(fc.json(), NEARLY, wounded), CHUNK, (text, chunkBytes) => {
        const usable = text.toWellFormed();
        expect(isJson(usable, chunkBytes), usable).toBe(isParsed(usable));
      }),
      { seed: SEED, numRuns: 3_000 },
    );
  });

  it.each([
    ...[
      '',
      ' ',
      '{',
      '[1,]',
      '[,1]',
      '{"a":1,}',
      '{"a"}',
      '{"a",1}',
      '{1:2}',
      '[1 2]',
      '[1}',
      '{"a":1]',
      ']',
      '1,',
      '1 2',
    ],
    ...[
      '01',
      '-',
      '-a',
      '+1',
      '.5',
      '1.',
      '1.e5',
      '1e',
      '1e+',
      '0x1',
      'NaN',
      '-Infinity',
      'tru',
      'truee',
      'undefined',
      "'a'",
    ],
    ...['"', '"\\"', '"\\x"', '"\\u12"', '"\\u12g4"', '"\n"', '"\t"', '// c\n1', '[1]]', '{}}', '<html>'],
  ])('refuses %j as JSON.parse does', (text) => {
    expect(isParsed(text)).toBe(false);
    for (const chunkBytes of [1, 2, 100]) expect(isJson(text, chunkBytes)).toBe(false);
  });

  it('accepts a byte order mark as TextDecoder does', () => {
    expect(isJson('\ufeff{"a":1}')).toBe(true);
    expect(isJson('{"a":1}\ufeff')).toBe(false);
  });

  it.each(['"[[["', '"\\"[[["', '"\\\\"', '["\\\\","[["]', '"{\\u005b"', '"é[☃["'])(
    'opens nothing for a bracket inside a text: %s',
    (text) => {
      for (const chunkBytes of [1, 2, 100]) expect(isWithin(1, text, chunkBytes)).toBe(true);
    },
  );

  it('counts lists, objects and members, and none in texts', () => {
    const scan = new JsonScan(10);
    for (const chunk of ['{"a":[{},', '{}],"[:{', '":[1,2]}']) scan.read(Buffer.from(chunk));
    expect(scan.parts).toBe(7);
  });
});

describe('withoutList', () => {
  const without = (text: string, chunkBytes = 4): unknown => {
    const bytes = Buffer.from(text);
    const scan = scanned(DEEP, bytes, chunkBytes);
    return scan === null ? null : JSON.parse(withoutList(bytes, scan, 'changes').toString());
  };

  it(`keeps everything but the rows of a page (seed ${SEED})`, () => {
    const page = fc.tuple(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.jsonValue()), fc.boolean());
    fc.assert(
      fc.property(page, CHUNK, ([around, changes, first], chunkBytes) => {
        const { changes: _, ...others } = around;
        const whole = first ? { changes, ...others } : { ...others, changes };
        expect(without(JSON.stringify(whole), chunkBytes)).toEqual(
          JSON.parse(JSON.stringify({ ...whole, changes: [] })),
        );
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  it.each([
    ['a list inside another member', '{"a":{"changes":[1]},"b":[{"changes":[2]}]}'],
    ['a list at the top', '[{"changes":[1]}]'],
    ['another value', '{"changes":{"changes":[1]}}'],
    ['no value', '{"changes":null}'],
    ['another name', '{"changes ":[1],"Changes":[2],"\\"changes":[3]}'],
  ])('keeps %s', (_, text) => {
    expect(without(text)).toEqual(JSON.parse(text));
  });

  it('empties a list whose name occurs twice, and one behind many others', () => {
    expect(without('{"changes":[1],"a":2,"changes":[3]}')).toEqual({ changes: [], a: 2 });
    const many = Array.from({ length: 100 }, (_, index) => `"l${index}":[${index}]`).join(',');
    expect(without(`{"changes":[[1],[2]],${many}}`)).toEqual(JSON.parse(`{"changes":[],${many}}`));
  });
});
