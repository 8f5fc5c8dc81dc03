/** Retries end: waits are never negative, and attempts, time and requested waits stay within their budgets. */

import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { TransientError } from '../../src/feed/http/failures.ts';
import { retryAfterMs } from '../../src/feed/http/http.ts';
import { Outage, type RetryPolicy, withRetries } from '../../src/feed/http/retry.ts';
import { backoffDelayMs } from '../../src/lib/backoff.ts';
import { silentLog } from '../../src/lib/log.ts';
import { ContractViolationError, ServiceUnavailableError } from '../../src/model/errors.ts';
import { property } from './property.ts';

const chance = fc.oneof(
  fc.constantFrom(0, 1 - 2 ** -53),
  fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
);

describe('the delay before a retry', () => {
  const backoff = fc.record({ baseDelayMs: fc.nat(3_600_000), maxDelayMs: fc.nat(86_400_000) });
  const retry = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 2 ** 31 }));

  property(
    'keeps the delay before a retry whole, at least zero, and below the doubled base and its limit',
    500,
    fc.property(backoff, retry, chance, ({ baseDelayMs, maxDelayMs }, number, drawn) => {
      const delayMs = backoffDelayMs({ baseDelayMs, maxDelayMs }, number, { next: () => drawn });
      expect(Number.isSafeInteger(delayMs)).toBe(true);
      expect(delayMs).toBeGreaterThanOrEqual(0);
      const ceiling = BigInt(baseDelayMs) << BigInt(Math.min(number - 1, 64));
      expect(BigInt(delayMs)).toBeLessThanOrEqual(
        ceiling < BigInt(maxDelayMs) ? ceiling : BigInt(maxDelayMs),
      );
    }),
    [[{ baseDelayMs: 0, maxDelayMs: 1_000 }, 5_000, 0.5]],
  );

  property(
    'never shortens the delay with a later retry or a higher random number',
    300,
    fc.property(backoff, retry, chance, chance, (policy, number, one, other) => {
      const delayMs = (retryNumber: number, drawn: number) =>
        backoffDelayMs(policy, retryNumber, { next: () => drawn });
      expect(delayMs(number + 1, one)).toBeGreaterThanOrEqual(delayMs(number, one));
      expect(delayMs(number, Math.max(one, other))).toBeGreaterThanOrEqual(
        delayMs(number, Math.min(one, other)),
      );
    }),
  );
});

describe('Retry-After', () => {
  const now = new Date('2026-11-21T12:00:00Z');
  const date = fc.date({
    min: new Date('1970-01-01T00:00:00Z'),
    max: new Date('2099-12-31T23:59:59Z'),
    noInvalidDate: true,
  });

  property(
    'reads Retry-After in seconds or as a date as a wait from now, never below zero',
    300,
    fc.property(fc.nat(999_999_999), date, fc.constantFrom('', ' ', '\t'), (seconds, timestamp, blank) => {
      expect(retryAfterMs(`${blank}${seconds}${blank}`, now)).toBe(seconds * 1_000);
      const whole = Math.floor(timestamp.getTime() / 1_000) * 1_000;
      expect(retryAfterMs(`${blank}${timestamp.toUTCString()}${blank}`, now)).toBe(
        Math.max(0, whole - now.getTime()),
      );
    }),
  );

  property(
    'reads any other Retry-After as no wait, or as a finite one',
    400,
    fc.property(
      fc.option(
        fc.oneof(
          fc.string(),
          fc.string({ unit: fc.constantFrom(...'0159.-+e: GMTSat') }),
          fc.constantFrom('-1', '1e3', '0x10', '5 apples', 'Sat, 32 Nov 2026', 'NaN'),
        ),
      ),
      (header) => {
        const delayMs = retryAfterMs(header, now);
        if (delayMs === null) return;
        expect(Number.isFinite(delayMs) && delayMs >= 0).toBe(true);
        expect(header).toMatch(/^\s*(?:\d{1,9}|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[\s\S]*)\s*$/);
      },
    ),
  );
});

describe('retries of a request', () => {
  const common = {
    takesMs: fc.oneof(fc.nat(100), fc.nat(120_000)),
    hasProgressed: fc.constantFrom(false, false, false, true),
  };
  const askedMs = fc.oneof(fc.nat(2_000), fc.nat(10_000_000), fc.constant(Number.MAX_SAFE_INTEGER));
  const failure: fc.Arbitrary<Failure> = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        ...common,
        kind: fc.constant('transient'),
        retryAfterMs: fc.option(askedMs, { freq: 2 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ ...common, kind: fc.constant('violation'), retryAfterMs: fc.constant(null) }),
    },
  );
  const policy = fc.record({
    maxAttempts: fc.integer({ min: 1, max: 10 }),
    baseDelayMs: fc.nat(5_000),
    maxDelayMs: fc.nat(60_000),
    deadlineMs: fc.nat(600_000),
    maxRetryAfterMs: fc.nat(900_000),
  });

  property(
    'retries a failed request within its budgets, or reports the last error',
    400,
    fc.asyncProperty(
      policy,
      fc.array(failure, { maxLength: 40 }),
      fc.array(chance, { minLength: 1 }),
      async (limits, failures, draws) => {
        const tried = await play({ ...limits, outage: new Outage() }, failures, draws);
        expectWaits(tried.waits, limits);
        expectAttempts(tried, limits, failures);
        expectEnd(tried, failures);
      },
    ),
  );
});

function expectWaits(
  waits: readonly Wait[],
  { maxDelayMs, maxRetryAfterMs }: Omit<RetryPolicy, 'outage'>,
): void {
  expect(waits.every(({ ms }) => Number.isSafeInteger(ms) && ms >= 0)).toBe(true);
  // What is longer than any wait of our own was asked for.
  expect(sum(waits.map(({ ms }) => ms).filter((ms) => ms > maxDelayMs))).toBeLessThanOrEqual(maxRetryAfterMs);
  let spentMs = 0;
  for (const { ms, askedMs } of waits) {
    expect(ms).toBeLessThanOrEqual(Math.max(maxDelayMs, askedMs ?? 0));
    spentMs += ms;
    // Nobody is asked earlier than they said, but for where the budget of all such waits ends.
    if (askedMs !== null && spentMs < maxRetryAfterMs) expect(ms).toBeGreaterThanOrEqual(askedMs);
  }
}

function expectAttempts(
  { waits, attempts }: Tried,
  limits: Omit<RetryPolicy, 'outage'>,
  failures: readonly Failure[],
): void {
  expect(waits).toHaveLength(attempts - 1);
  const seen = failures.slice(0, attempts);
  if (!seen.some(({ hasProgressed }) => hasProgressed))
    expect(attempts).toBeLessThanOrEqual(limits.maxAttempts);
  expect(seen.filter(({ kind }) => kind === 'violation').length).toBeLessThanOrEqual(2);
  if (attempts === 1) return;
  // None begins after the deadline. Waiting that was asked for does not count.
  const own = waits.filter(({ askedMs }) => askedMs === null).map(({ ms }) => ms);
  const spentMs = sum(failures.slice(0, attempts - 1).map(({ takesMs }) => takesMs)) + sum(own);
  expect(spentMs).toBeLessThanOrEqual(limits.deadlineMs);
}

function expectEnd({ attempts, outcome }: Tried, failures: readonly Failure[]): void {
  const last = failures[attempts - 1];
  if (last === undefined) expect(outcome).toBe('answered');
  else if (last.kind === 'violation') expect(outcome).toBeInstanceOf(ContractViolationError);
  else {
    expect(outcome).toBeInstanceOf(ServiceUnavailableError);
    expect(outcome).toMatchObject({ retryAfterMs: last.retryAfterMs });
    expect((outcome as Error).message).toContain(`it broke after ${attempts} attempt`);
  }
}

interface Failure {
  readonly kind: string;
  readonly takesMs: number;
  readonly retryAfterMs: number | null;
  readonly hasProgressed: boolean;
}

interface Wait {
  readonly ms: number;
  readonly askedMs: number | null;
}

interface Tried {
  readonly waits: readonly Wait[];
  readonly attempts: number;
  readonly outcome: unknown;
}

/** Fails as listed, one after another, and then is answered. Time passes by attempts and waits alone. */
async function play(
  policy: RetryPolicy,
  failures: readonly Failure[],
  draws: readonly number[],
): Promise<Tried> {
  const waits: Wait[] = [];
  let attempts = 0;
  let drawn = 0;
  let elapsedMs = 0;
  const clock = {
    now: () => new Date(elapsedMs),
    monotonicMs: () => elapsedMs,
    async sleep(ms: number) {
      waits.push({ ms, askedMs: failures[attempts - 1]?.retryAfterMs ?? null });
      elapsedMs += ms;
    },
  };
  const task = {
    title: 'list it',
    async attempt() {
      const failure = failures[attempts];
      attempts += 1;
      if (failure === undefined) return 'answered';
      elapsedMs += failure.takesMs;
      if (failure.kind === 'violation') throw new ContractViolationError('It does not fit.', 'x');
      throw new TransientError('it broke', { retryAfterMs: failure.retryAfterMs });
    },
    hasProgressed: () => failures[attempts - 1]?.hasProgressed === true,
  };
  const random = { next: () => draws[drawn++ % draws.length] ?? 0 };
  const outcome = await withRetries(
    task,
    policy,
    { clock, random, log: silentLog },
    new AbortController().signal,
  ).catch((error: unknown) => error);
  return { waits, attempts, outcome };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
