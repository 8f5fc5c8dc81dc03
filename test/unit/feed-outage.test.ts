/** A lasting outage: the number of attempts that later requests still make. */

import nock from 'nock';
import { describe, expect, it } from 'vitest';
import type { Feed } from '../../src/feed/feed.ts';
import { REQUESTS_GIVEN_UP } from '../../src/feed/http/retry.ts';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import { errorOf } from '../support/feed-client.ts';
import { BASE, interceptedFeed } from '../support/intercepted-feed.ts';

const ATTEMPTS = 3;
const signal = new AbortController().signal;

const { start } = interceptedFeed();

/** Answers every list of schemas with `status`, and counts how often it was asked. */
function answering(status: number, headers: Record<string, string> = {}): { asked: number } {
  const counter = { asked: 0 };
  nock(BASE)
    .persist()
    .get(/\/schemas/)
    .reply(() => {
      counter.asked += 1;
      return [status, status === 200 ? { schemas: [], nextCursor: null } : 'nothing here', headers];
    });
  return counter;
}

async function attemptsOf(feed: Feed, counter: { asked: number }): Promise<number> {
  const before = counter.asked;
  expect(await errorOf(feed.schemas('parcels', signal))).toBeInstanceOf(ServiceUnavailableError);
  return counter.asked - before;
}

describe('a lasting outage', () => {
  it('gives each further request one attempt in a lasting outage, until one is answered', async () => {
    const feed = start();
    const down = answering(502);
    for (let request = 0; request < REQUESTS_GIVEN_UP; request++) {
      expect(await attemptsOf(feed, down)).toBe(ATTEMPTS);
    }
    expect(await attemptsOf(feed, down)).toBe(1);
    expect(await attemptsOf(feed, down)).toBe(1);

    nock.cleanAll();
    answering(200);
    expect(await feed.schemas('parcels', signal)).toEqual([]);
    nock.cleanAll();
    expect(await attemptsOf(feed, answering(502))).toBe(ATTEMPTS);
  });

  it('ends an outage at a refusal too, because a refusal is an answer', async () => {
    const feed = start();
    const down = answering(502);
    for (let request = 0; request <= REQUESTS_GIVEN_UP; request++) await attemptsOf(feed, down);
    nock.cleanAll();
    nock(BASE)
      .get(/\/schemas/)
      .reply(403, { error: { code: 'outside_coverage', message: 'Not yours.' } });
    await errorOf(feed.schemas('permits', signal));
    expect(await attemptsOf(feed, answering(502))).toBe(ATTEMPTS);
  });

  it('counts a service that asks to wait as no outage, and waits for it every time', async () => {
    const feed = start();
    const busy = answering(429, { 'retry-after': '1' });
    for (let request = 0; request < REQUESTS_GIVEN_UP + 2; request++) {
      expect(await attemptsOf(feed, busy)).toBe(ATTEMPTS);
    }
  });
});
