/** The small tools that know nothing of the domain. */

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { format, inspect } from 'node:util';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { AssertionError, assert, present, unreachable } from '../../src/lib/assert.ts';
import { backoffDelayMs, systemRandom } from '../../src/lib/backoff.ts';
import { deadlineIn, systemClock } from '../../src/lib/clock.ts';
import { durable, observeDurableEffects } from '../../src/lib/files.ts';
import { placeOfDatabase, Secret } from '../../src/lib/secret.ts';
import { shellWord } from '../../src/lib/text.ts';
import {
  formatBytes,
  formatCount,
  formatDuration,
  parseDurationMs,
  parseSizeBytes,
} from '../../src/lib/units.ts';
import { SEED } from '../support/seed.ts';

describe('durations', () => {
  it.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    [' 0s ', 0],
  ])('parses the duration %j as %i ms', (text, durationMs) => {
    expect(parseDurationMs(text)).toBe(durationMs);
  });

  it.each(['', '5', 'm', '-1s', '1.5h', '5 m', '5M', '1s1s', '9999999999999s', '5toString'])(
    'parses no duration from %j',
    (text) => {
      expect(parseDurationMs(text)).toBeNull();
    },
  );

  it.each([
    [0, '0 ms'],
    [340.4, '340 ms'],
    [2_449, '2.4 s'],
    [192_000, '3 m 12 s'],
    [3_599_999, '59 m 59 s'],
    [18_120_000, '5 h 2 m'],
  ])('formats %d ms as %j', (durationMs, text) => {
    expect(formatDuration(durationMs)).toBe(text);
  });
});

describe('sizes', () => {
  it.each([
    ['512MB', 512e6],
    ['4GB', 4e9],
    ['1.5gb', 1.5e9],
    ['1kb', 1e3],
    ['2TB', 2e12],
    ['8192.048TB', 8_192_048_000_000_000],
  ])('parses the size %j as %i bytes', (text, bytes) => {
    expect(parseSizeBytes(text)).toBe(bytes);
  });

  it.each(['', '5', '5B', '-1MB', 'MB', '1..5GB', '5 MB', '1MiB'])('parses no size from %j', (text) => {
    expect(parseSizeBytes(text)).toBeNull();
  });

  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1_000, '1.0 KB'],
    [18_231_232, '18.2 MB'],
    [5e12, '5.0 TB'],
  ])('formats %d bytes as %j', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  it('formats counts with separators, also beyond 2^53', () => {
    expect(formatCount(2_000_000)).toBe('2,000,000');
    expect(formatCount(9_007_199_254_740_993n)).toBe('9,007,199,254,740,993');
  });
});

describe('backoff', () => {
  it('draws a backoff between 0 and its doubled bound, within its limit', () => {
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(
        fc.nat(60_000),
        fc.nat(120_000),
        fc.integer({ min: 1, max: 5_000 }),
        chance,
        (base, max, retry, drawn) => {
          const delayMs = backoffDelayMs({ baseDelayMs: base, maxDelayMs: max }, retry, {
            next: () => drawn,
          });
          expect(Number.isInteger(delayMs)).toBe(true);
          expect(delayMs).toBeGreaterThanOrEqual(0);
          expect(delayMs).toBeLessThanOrEqual(max);
          if (retry < 10) expect(delayMs).toBeLessThanOrEqual(base * 2 ** (retry - 1));
        },
      ),
      { seed: SEED },
    );
  });

  it('draws no backoff where the base is 0, however often it was tried', () => {
    expect(backoffDelayMs({ baseDelayMs: 0, maxDelayMs: 1_000 }, 5_000, { next: () => 0.5 })).toBe(0);
  });

  it('reaches the whole bound of the backoff', () => {
    const almost = { next: () => 0.999_999 };
    const delays = [1, 2, 3, 4].map((retry) =>
      backoffDelayMs({ baseDelayMs: 500, maxDelayMs: 3_000 }, retry, almost),
    );
    expect(delays).toEqual([500, 1_000, 2_000, 3_000]);
  });

  it('draws numbers from 0 up to 1', () => {
    const drawn = Array.from({ length: 100 }, () => systemRandom.next());
    expect(drawn.every((value) => value >= 0 && value < 1)).toBe(true);
    expect(new Set(drawn).size).toBeGreaterThan(1);
  });
});

describe('a secret', () => {
  const secret = new Secret('canary-key');

  it.each<[string, () => string]>([
    ['a template', () => `${secret}`],
    ['a concatenation', () => String(secret)],
    ['JSON', () => JSON.stringify({ secret, list: [secret] })],
    [
      'inspect',
      () => inspect({ secret }, { showHidden: true, depth: null, getters: true, customInspect: true }),
    ],
    ['inspect without custom methods', () => inspect(secret, { customInspect: false, showHidden: true })],
    ['%s', () => format('%s', secret)],
    ['%j', () => format('%j', secret)],
    ['%o', () => format('%o', { secret })],
    ['%O', () => format('%O', [secret])],
    ['its keys', () => JSON.stringify([Object.entries(secret), Reflect.ownKeys(secret).map(String)])],
    ['a copy', () => JSON.stringify({ ...secret })],
    ['a structured clone', () => inspect(structuredClone(secret))],
    ['an error', () => inspect(new Error(`with ${secret}`, { cause: secret }))],
  ])('hides a secret from %s', (_, show) => {
    expect(show()).not.toContain('canary');
  });

  it('reveals a secret only by reveal()', () => {
    expect(secret.reveal()).toBe('canary-key');
    expect(`${secret}`).toBe('[secret]');
  });

  it.each([
    [
      'postgres://feeds:canary@db.example.com:5433/county?sslmode=verify-full',
      'feeds@db.example.com:5433/county',
    ],
    ['postgresql://feeds:canary@db.example.com/county', 'feeds@db.example.com/county'],
    ['postgres://feeds:canary@/county?host=/run/one', 'feeds@/county?host=/run/one'],
    ['postgres://feeds:canary@/county?host=%2Frun%2Ftwo&port=6432', 'feeds@/county?host=/run/two&port=6432'],
    ['postgres://db.example.com/county?password=canary&host=10.0.0.7', 'db.example.com/county?host=10.0.0.7'],
  ])('names the place of a database without the secret, and distinguishes servers: %s', (url, place) => {
    expect(placeOfDatabase(new Secret(url))).toBe(`postgres://${place}`);
  });
});

describe('durable effects', () => {
  afterEach(() => observeDurableEffects(() => {}));

  function observed(): string[] {
    const seen: string[] = [];
    observeDurableEffects((name, timestamp) => seen.push(`${timestamp} ${name}`));
    return seen;
  }

  it('reports a durable effect before and after it, and returns its result', () => {
    const seen = observed();
    const result = durable('test.effect', () => {
      seen.push('effect');
      return 7;
    });
    expect(result).toBe(7);
    expect(seen).toEqual(['before test.effect', 'effect', 'after test.effect']);
  });

  it('reports the end of an asynchronous effect when its promise resolves', async () => {
    const seen = observed();
    const effect = Promise.withResolvers<number>();
    const result = durable('test.effect', () => effect.promise);
    expect(seen).toEqual(['before test.effect']);
    effect.resolve(8);
    expect(await result).toBe(8);
    expect(seen).toEqual(['before test.effect', 'after test.effect']);
  });

  it('reports no end of a failing effect', async () => {
    const seen = observed();
    const failing = (): never => {
      throw new Error('no');
    };
    expect(() => durable('test.effect', failing)).toThrow('no');
    await expect(durable('test.other', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(seen).toEqual(['before test.effect', 'before test.other']);
  });

  it('runs no effect where the observer throws', () => {
    observeDurableEffects(() => {
      throw new Error('stopped here');
    });
    const effect = vi.fn();
    expect(() => durable('test.effect', effect)).toThrow('stopped here');
    expect(effect).not.toHaveBeenCalled();
  });
});

describe('assertions', () => {
  it('asserts a condition and the presence of a value', () => {
    expect(() => assert(true, 'it holds')).not.toThrow();
    expect(() => assert(false, 'it holds')).toThrow(
      new AssertionError('This should always hold, but does not: it holds'),
    );
    expect(present(0, 'it is there')).toBe(0);
    expect(() => present(null, 'it is there')).toThrow(AssertionError);
    expect(() => present(undefined, 'it is there')).toThrow(AssertionError);
  });

  it('names a forgotten case with its value', () => {
    expect(() => unreachable({ number: 7n } as never)).toThrow(
      new AssertionError('A case was forgotten: { number: 7n }'),
    );
  });
});

describe('the system clock', () => {
  afterEach(() => vi.useRealTimers());

  it('wakes a sleeper with the reason of the signal', async () => {
    const stop = new AbortController();
    const reason = new Error('stopped');
    const sleeping = systemClock.sleep(3_600_000, stop.signal);
    stop.abort(reason);
    await expect(sleeping).rejects.toBe(reason);
    await expect(systemClock.sleep(1, stop.signal)).rejects.toBe(reason);
  });

  it('sleeps longer than a timer can', async () => {
    const stop = new AbortController();
    const dayMs = 86_400_000;
    let woke = false;
    const sleeping = systemClock.sleep(60 * dayMs, stop.signal).finally(() => {
      woke = true;
    });
    // A timer that is too long is one of a millisecond, and would end before another one that is begun after it.
    await new Promise(setImmediate);
    await systemClock.sleep(1);
    await new Promise(setImmediate);
    expect(woke).toBe(false);
    stop.abort(new Error('enough'));
    await expect(sleeping).rejects.toThrow('enough');
  });

  it('aborts work at its deadline or with the surrounding work, and says which of them it was', async () => {
    const stop = new AbortController();
    const [passed, stopped] = [deadlineIn(0, stop.signal), deadlineIn(3_600_000, stop.signal)];
    if (!passed.signal.aborted) await once(passed.signal, 'abort');
    expect([passed.over.aborted, stopped.signal.aborted]).toEqual([true, false]);
    const reason = new Error('stopped');
    stop.abort(reason);
    expect([stopped.over.aborted, stopped.signal.reason]).toEqual([false, reason]);
    expect(deadlineIn(3_600_000).signal.aborted).toBe(false);
  });

  it('measures time forward', async () => {
    const before = systemClock.monotonicMs();
    await systemClock.sleep(5);
    expect(systemClock.monotonicMs()).toBeGreaterThan(before);
    expect(Math.abs(systemClock.now().getTime() - Date.now())).toBeLessThan(60_000);
  });
});

describe('shellWord (F38)', () => {
  it.each([
    ['us-tx-travis-parcels', 'us-tx-travis-parcels'],
    ['a/b:c,d=1@2%3+4.5', 'a/b:c,d=1@2%3+4.5'],
    ['', "''"],
    ['two words', "'two words'"],
    ['it\'s $(reboot); `x` \\ "y"', `'it'\\''s $(reboot); \`x\` \\ "y"'`],
    ['日本', "'日本'"],
    ["a\nb\u001b[31m'\\", "$'a\\u000ab\\u001b[31m\\'\\\\'"],
  ])('quotes %j for a shell as %s', (text, word) => {
    expect(shellWord(text)).toBe(word);
  });

  it('quotes texts so that a shell reads the same text', () => {
    const texts = [
      "it's",
      '$(echo x)',
      '`x`',
      'a\nb',
      "\u001b'\\",
      'a\u202eb\u2066\u200f',
      'a\u{e0001}b\u200b',
      '*',
      '!',
      '~',
      '-rf',
      '😀 é',
      '"',
      ';&|<>',
      '\u0085',
    ];
    const { stdout } = spawnSync('bash', ['-c', `printf '%s\\0' ${texts.map(shellWord).join(' ')}`], {
      encoding: 'utf8',
      env: { LC_ALL: 'C.UTF-8' },
    });
    expect(stdout.split('\0').slice(0, -1)).toEqual(texts);
  });
});
