/** F64: a service that refuses requests for their number gets one probe at a time, whatever waits. */

import { expect, it, onTestFinished } from 'vitest';

import { Throttles } from '../../src/feed/http/throttle.ts';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import { CANARY_KEY, errorOf, recordingLog, testFeed } from '../support/feed-client.ts';
import { ownServer } from '../support/own-server.ts';
import { SteppedClock } from '../support/stepped-clock.ts';

const DATASETS = 3_000;
const CONNECTIONS = 8;
const SECOND_MS = 1_000;
const SPREAD_MS = 10_000;
/** Turns of the event loop from a request that may be sent to its answer. */
const TURNS = 50;
const RETRY_AFTER_MS = 60_000;
const signal = new AbortController().signal;

/** A service that refuses everything while `isBusy`, or whatever exceeds a number each minute, and calls for all datasets. */
async function busyService(retryAfter: string | null) {
  const service = { isBusy: true, perMinute: Number.POSITIVE_INFINITY };
  const answered = new Map<number, number>();
  const exceedsLimit = (atMs: number): boolean => {
    const minute = Math.floor(atMs / RETRY_AFTER_MS);
    answered.set(minute, (answered.get(minute) ?? 0) + 1);
    return (answered.get(minute) ?? 0) > service.perMinute;
  };
  const clock = new SteppedClock();
  const askedAtMs: number[] = [];
  const server = await ownServer((_, response) => {
    askedAtMs.push(clock.monotonicMs());
    if (service.isBusy || exceedsLimit(clock.monotonicMs()))
      response.writeHead(429, retryAfter === null ? {} : { 'retry-after': retryAfter }).end();
    else
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"schemas":[],"nextCursor":null}');
  });
  const tested = testFeed(server.url, {
    clock: Object.assign(clock, { sleptMs: [] }),
    retry: { maxAttempts: 6, baseDelayMs: 500, maxDelayMs: 30_000 },
  });
  onTestFinished(() => tested.feed.close());
  let open = 0;
  const call = async (datasetId: string): Promise<unknown> => {
    open += 1;
    try {
      return await tested.feed.schemas(datasetId, signal);
    } finally {
      open -= 1;
    }
  };
  /** Waits until nothing is under way: both ends are in this process, so some turns of its loop without a request suffice. */
  const settle = async (): Promise<void> => {
    for (let seen = -1; seen !== askedAtMs.length; ) {
      seen = askedAtMs.length;
      for (let turn = 0; turn < TURNS; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const pass = async (durationMs: number, stepMs = SECOND_MS): Promise<void> => {
    for (let restMs = durationMs; restMs > 0; restMs -= stepMs) {
      clock.pass(Math.min(restMs, stepMs));
      await settle();
    }
  };
  const warnings = (): readonly string[] =>
    tested.logged.filter((line) => /for their number: all of them wait|before the next attempt/.test(line));
  return { service, askedAtMs, call, pass, settle, warnings, clock, openCalls: () => open };
}

it('F64 sends one probe for each Retry-After, whatever number of requests waits, and logs it once', async () => {
  const { service, askedAtMs, call, pass, settle, warnings, openCalls } = await busyService('60');
  const calls = Array.from({ length: DATASETS }, (_, index) => call(`dataset-${index}`));
  await settle();
  expect(askedAtMs.length).toBeLessThanOrEqual(CONNECTIONS);
  const before = askedAtMs.length;
  await pass(4 * RETRY_AFTER_MS);
  expect(askedAtMs.slice(before)).toEqual([1, 2, 3, 4].map((times) => times * RETRY_AFTER_MS));
  expect(warnings()).toHaveLength(1);

  service.isBusy = false;
  const asked = askedAtMs.length;
  await pass(RETRY_AFTER_MS);
  const probeMs = 5 * RETRY_AFTER_MS;
  expect(askedAtMs[asked]).toBe(probeMs);
  await pass(2 * SPREAD_MS);
  expect(await Promise.all(calls)).toHaveLength(DATASETS);
  expect(openCalls()).toBe(0);
  expect(warnings()).toHaveLength(1);
  expect(askedAtMs.length).toBe(asked + DATASETS);
});

it('F64 ends all requests once the service has refused them for two of the longest waits, and goes on probing', async () => {
  const { service, askedAtMs, call, pass, warnings, clock } = await busyService('600');
  const calls = Array.from({ length: 200 }, (_, index) => errorOf(call(`dataset-${index}`)));
  const ended = Promise.all(calls);
  let errors: readonly Error[] | null = null;
  void ended.then((all) => {
    errors = all;
  });
  while (errors === null && clock.monotonicMs() < 4 * 3_600_000) await pass(30 * SECOND_MS, 30 * SECOND_MS);
  for (const error of await ended) {
    expect(error).toBeInstanceOf(ServiceUnavailableError);
    expect(error).toMatchObject({ isThrottled: true });
    expect(error.message).not.toContain(CANARY_KEY);
  }
  expect(clock.monotonicMs()).toBeLessThanOrEqual(3_600_000);
  expect(askedAtMs.length).toBeLessThan(3 * CONNECTIONS);
  expect(warnings()).toHaveLength(1);

  const asked = askedAtMs.length;
  expect(await errorOf(call('parcels'))).toMatchObject({ isThrottled: true });
  expect(askedAtMs.length).toBe(asked);
  service.isBusy = false;
  await pass(900 * SECOND_MS, 900 * SECOND_MS);
  expect(await call('parcels')).toEqual([]);
});

it('F64 waits ever longer where the service states no wait', async () => {
  const { askedAtMs, call, pass, settle } = await busyService(null);
  const failed = errorOf(call('parcels'));
  await settle();
  await pass(120 * SECOND_MS);
  expect(await failed).toMatchObject({ isThrottled: true });
  const waits = askedAtMs.map((atMs, index) => atMs - (askedAtMs[index - 1] ?? 0)).slice(1);
  expect(waits).toEqual(waits.toSorted((left, right) => left - right));
  expect(askedAtMs).toHaveLength(6);
});

it('F64 delays the requests that follow a probe, too, as soon as one of them is refused', async () => {
  const { service, askedAtMs, call, pass, settle } = await busyService('60');
  const [waiting, perMinute] = [100, 20];
  const calls = Promise.all(Array.from({ length: waiting }, (_, index) => call(`dataset-${index}`)));
  await settle();
  Object.assign(service, { isBusy: false, perMinute });
  const before = askedAtMs.length;
  const minutes = waiting / perMinute + 1;
  await pass(minutes * RETRY_AFTER_MS, SECOND_MS / 10);
  expect(await calls).toHaveLength(waiting);
  // Each minute has one request too many, and the requests that were under way beside it.
  expect(askedAtMs.length - before).toBeLessThanOrEqual(waiting + minutes * CONNECTIONS);
});

it('F64 sends none of the requests that follow a probe once one of them is refused', async () => {
  const { service, askedAtMs, call, pass, settle } = await busyService('60');
  const perMinute = 2;
  const calls = Promise.all(Array.from({ length: CONNECTIONS }, (_, index) => call(`dataset-${index}`)));
  await settle();
  Object.assign(service, { isBusy: false, perMinute });
  const before = askedAtMs.length;
  await pass(2 * RETRY_AFTER_MS - SECOND_MS, SECOND_MS / 10);
  expect(askedAtMs.slice(before)).toHaveLength(perMinute + 1);
  await pass((CONNECTIONS / perMinute) * 2 * RETRY_AFTER_MS);
  expect(await calls).toHaveLength(CONNECTIONS);
});

it('F64 remembers the refusals of the service and of the latest file hosts, whatever number of hosts there is', async () => {
  const SERVICE = 'https://feed.example.com';
  const throttles = new Throttles(SERVICE, {
    clock: new SteppedClock(),
    log: recordingLog([]),
    retry: { baseDelayMs: 500, maxDelayMs: 30_000 },
    maxRetryAfterMs: 900_000,
  });
  const host = (number: number): string => `https://files-${number}.example.com`;
  const [service, used, unused] = [SERVICE, host(1), host(2)].map((origin) => throttles.of(origin));
  for (let number = 3; number <= 101; number += 1) {
    throttles.of(host(1));
    throttles.of(host(number));
  }
  expect(throttles.of(SERVICE)).toBe(service);
  expect(throttles.of(host(1))).toBe(used);
  expect(throttles.of(host(2))).not.toBe(unused);
});
