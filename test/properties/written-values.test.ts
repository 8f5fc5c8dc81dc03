/** Values that an operator writes: each means what it says, and anything else is reported as one problem with its place. */

import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { stringify } from 'yaml';
import { loadConfiguration } from '../../src/configuration/configuration.ts';
import { readSettingsFile } from '../../src/configuration/file.ts';
import { allKeys } from '../../src/configuration/schema.ts';
import { listenAddress } from '../../src/configuration/value-types.ts';
import { timestamp } from '../../src/feed/wire/fields.ts';
import { formatBytes, formatDuration, parseDurationMs, parseSizeBytes } from '../../src/lib/units.ts';
import { ConfigurationError } from '../../src/model/errors.ts';
import { isChosenDataset } from '../../src/sync/follow/subscriptions.ts';
import { inputOf } from '../support/configuration.ts';
import { anyJson, type Json } from './json-damage.ts';
import { property } from './property.ts';

const FILE = '/etc/feed-sync/feed-sync.yaml';
const VALUE = 'canary0value';

describe('settings files', () => {
  const word = fc.constantFrom(...allKeys.flatMap((key) => key.split('.')), 'dataDirr', '__proto__', '<<');
  const value = fc.oneof(
    fc.constantFrom(
      '30s',
      '64MB',
      '"',
      "'",
      '[',
      '{',
      '*a',
      '&a b',
      '!x',
      '|',
      '>',
      '%',
      '@',
      '`',
      '- a',
      '#',
      '\t',
      '...',
      '---',
    ),
    fc.constantFrom(
      '"\\ud800"',
      '0x1f',
      '1e999',
      '.nan',
      'true',
      '~',
      '2024-01-01',
      VALUE,
      `https://ann:${VALUE}@x.example`,
    ),
    fc.string({ unit: 'binary', maxLength: 8 }),
  );
  const line = fc
    .record({ indent: fc.nat(3), word, colon: fc.constantFrom(': ', ':', ' ', '?'), value })
    .map((part) => `${'  '.repeat(part.indent)}${part.word}${part.colon}${part.value}`);
  const lines = fc.array(line, { maxLength: 8 }).map((all) => all.join('\n'));
  const document = fc
    .dictionary(word, fc.oneof(anyJson, fc.dictionary(word, anyJson)))
    .map((json) => stringify(JSON.parse(JSON.stringify(json)) as Json));
  const text = fc.oneof(lines, document, fc.string({ unit: 'binary' }));

  property(
    'reads any settings file as known keys and problems, each with its line',
    80,
    fc.property(text, (yaml) => {
      const { entries, problems, isReadable } = readSettingsFile(yaml, FILE);
      const lineCount = yaml.split('\n').length;
      for (const [key, entry] of entries) {
        expect(allKeys).toContain(key);
        expect(entry.value).not.toBeNull();
        expect(entry.line).toBeLessThanOrEqual(lineCount);
      }
      for (const { subject, fault, source } of problems) {
        expect(source).toMatch(new RegExp(`^file ${FILE}:[1-9]\\d*$`));
        expect(`${subject} ${fault}`).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}]/u);
        expect(fault).not.toContain(VALUE);
      }
      if (!isReadable) expect([entries.size, problems.length]).toEqual([0, 1]);
    }),
  );

  property(
    'makes of any settings file a whole configuration, or one error that lists its problems',
    30,
    fc.property(text, (yaml) => {
      try {
        const { configuration } = loadConfiguration(inputOf({ files: { [FILE]: yaml } }));
        expect(Object.isFrozen(configuration)).toBe(true);
        expect(configuration.http.timeoutMs).toBeGreaterThan(0);
      } catch (error) {
        if (!(error instanceof ConfigurationError)) throw error;
        const [head, ...reported] = error.message.split('\n');
        expect(head).toBe(
          `The configuration has ${reported.length === 1 ? '1 problem' : `${reported.length} problems`}:`,
        );
        expect(error.message).not.toMatch(new RegExp(`:${VALUE}@`));
      }
    }),
  );
});

describe('durations and sizes', () => {
  const DURATIONS = { ms: 1n, s: 1_000n, m: 60_000n, h: 3_600_000n, d: 86_400_000n };
  const SIZES = { KB: 1_000n, MB: 1_000_000n, GB: 1_000_000_000n, TB: 1_000_000_000_000n };
  const blank = fc.constantFrom('', ' ', '\n');
  const known = <Unit extends string>(values: Readonly<Record<Unit, bigint>>) =>
    fc.constantFrom(...(Object.keys(values) as Unit[]));

  property(
    'reads a duration exactly, in each of its units',
    300,
    fc.property(fc.nat(999_999_999), known(DURATIONS), blank, (count, unit, around) => {
      expect(BigInt(parseDurationMs(`${around}${count}${unit}${around}`) ?? -1)).toBe(
        BigInt(count) * DURATIONS[unit],
      );
    }),
  );

  property(
    'reads a size with up to three decimals exactly',
    300,
    fc.property(fc.nat(9_000), fc.nat(999), known(SIZES), (whole, part, unit) => {
      const decimals = String(part).padStart(3, '0');
      const expected = (BigInt(whole) * 1_000n + BigInt(part)) * (SIZES[unit] / 1_000n);
      expect(BigInt(parseSizeBytes(`${whole}.${decimals}${unit}`) ?? -1)).toBe(expected);
      expect(BigInt(parseSizeBytes(`${whole}.${decimals}${unit.toLowerCase()}`) ?? -1)).toBe(expected);
    }),
  );

  property(
    'reads only texts of the documented form as durations and sizes',
    400,
    fc.property(
      fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'0159. -+msdhkKMGTBe') })),
      (text) => {
        const isDuration = /^[0-9]{1,12}(?:ms|s|m|h|d)$/.test(text.trim());
        const isSize = /^[0-9]{1,9}(?:[.][0-9]{1,3})?[kmgt]b$/i.test(text.trim());
        expect(parseDurationMs(text) !== null).toBe(isDuration);
        expect(parseSizeBytes(text) !== null).toBe(isSize);
      },
    ),
  );

  property(
    'prints durations and sizes with less than a tenth of their unit lost',
    400,
    fc.property(fc.double({ min: 0, max: 1e13, noNaN: true }), (amount) => {
      const [, number = '', unit = ''] =
        /^(\d+(?:\.\d)?) (B|KB|MB|GB|TB)$/.exec(formatBytes(Math.round(amount))) ?? [];
      const size = Number({ B: 1n, ...SIZES }[unit as keyof typeof SIZES]);
      expect(Math.abs(Number(number) * size - Math.round(amount))).toBeLessThanOrEqual(size / 20 + 0.001);
      const parts = [...formatDuration(amount).matchAll(/([\d.]+) (ms|s|m|h)\b/g)];
      const reported = parts.reduce(
        (sum, [, count, name]) => sum + Number(count) * Number(DURATIONS[name as 'ms']),
        0,
      );
      const last = Number(DURATIONS[(parts.at(-1)?.[2] ?? 'ms') as 'ms']);
      expect(Math.abs(reported - amount)).toBeLessThanOrEqual(last);
    }),
  );
});

describe('timestamps of the wire', () => {
  const two = (number: number): string => String(number).padStart(2, '0');

  property(
    'reads a timestamp of RFC 3339 with an offset exactly',
    400,
    fc.property(
      fc.date({
        min: new Date('0001-01-02T00:00:00Z'),
        max: new Date('9999-12-30T00:00:00Z'),
        noInvalidDate: true,
      }),
      fc.integer({ min: -1_439, max: 1_439 }),
      (date, offset) => {
        const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -1);
        const minutes = Math.abs(offset);
        const written = `${local}${offset < 0 ? '-' : '+'}${two(Math.trunc(minutes / 60))}:${two(minutes % 60)}`;
        expect(timestamp.safeParse(written).data).toEqual(date);
        expect(timestamp.safeParse(date.toISOString()).data).toEqual(date);
      },
    ),
  );

  property(
    'reads no other text as a timestamp, and never gives an invalid date',
    500,
    fc.property(
      fc.oneof(
        fc.string(),
        fc.stringMatching(
          /^[0-9]{4}-[0-3][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,12})?)?([Zz]|[+-][0-2][0-9]:?[0-6][0-9])?$/,
        ),
      ),
      (text) => {
        const { data } = timestamp.safeParse(text);
        if (data !== undefined) expect(data.getTime()).not.toBeNaN();
        if (!/^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d.*(?:[Zz]|[+-]\d\d:\d\d)$/.test(text))
          expect(data).toBeUndefined();
      },
    ),
  );
});

describe('status.listen', () => {
  const host = fc.oneof(fc.domain(), fc.ipV4(), fc.constantFrom('localhost', 'a'));
  const read = (text: unknown) => listenAddress.safeParse(text);

  property(
    'reads a host and a port, also of IPv6',
    200,
    fc.property(host, fc.ipV6(), fc.integer({ min: 0, max: 65_535 }), (name, address, port) => {
      expect(read(`${name}:${port}`).data?.from('/')).toEqual({ host: name, port });
      expect(read(`[${address}]:${port}`).data?.from('/')).toEqual({ host: address, port });
      expect(read(`${name}:${port + 65_536}`).success).toBe(false);
      expect(read(`${address}:${port}`).success).toBe(false);
    }),
  );

  property(
    'reports anything else in status.listen as a problem, in plain text',
    300,
    fc.property(anyJson, (value) => {
      const { success, error } = read(value);
      if (success) expect(String(value).trim()).toMatch(/^(?:off|unix:.+|.+:\d{1,5})$/);
      for (const { message } of error?.issues ?? []) expect(message).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}]/u);
    }),
  );
});

describe('patterns of dataset ids', () => {
  const unit = fc.constantFrom('a', 'b', 'A', '-', '.', '+', '(', '\n', '😀', '\u2028');
  const glob = fc
    .array(fc.oneof(fc.constant('*'), fc.string({ unit, maxLength: 3 })), { maxLength: 6 })
    .map((parts) => parts.join(''));

  /** By the definition alone: a star stands for the first characters, as many as it takes. */
  function matches(id: string, pattern: string): boolean {
    if (pattern === '') return id === '';
    if (!pattern.startsWith('*'))
      return id !== '' && id[0] === pattern[0] && matches(id.slice(1), pattern.slice(1));
    return matches(id, pattern.slice(1)) || (id !== '' && matches(id.slice(1), pattern));
  }

  property(
    'matches a star with any text, and every other character with itself',
    500,
    fc.property(
      fc.string({ unit, maxLength: 8 }),
      fc.array(glob, { maxLength: 3 }),
      fc.array(glob, { maxLength: 2 }),
      (id, include, exclude) => {
        const isIncluded = include.length === 0 || include.some((pattern) => matches(id, pattern));
        const isExcluded = exclude.some((pattern) => matches(id, pattern));
        expect(isChosenDataset(id, include, exclude)).toBe(isIncluded && !isExcluded);
      },
    ),
  );
});
