/** The client of a service whose answers the tests of a file write with nock: no request leaves the process. */

import nock from 'nock';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { Feed } from '../../src/feed/feed.ts';
import { present } from '../../src/lib/assert.ts';
import { type TestFeed, testFeed } from './feed-client.ts';

export const BASE = 'https://feed.example';

export interface InterceptedFeed {
  /** Starts a client of `BASE`, which is closed after the test. */
  start(options?: Parameters<typeof testFeed>[1]): Feed;
  /** The client of the test, with its clock and log. */
  started(): TestFeed;
}

export function interceptedFeed(): InterceptedFeed {
  let tested: TestFeed | null = null;
  beforeAll(() => nock.disableNetConnect());
  afterEach(async () => {
    nock.cleanAll();
    await tested?.feed.close();
    tested = null;
  });
  afterAll(() => nock.restore());
  return {
    start(options) {
      tested = testFeed(BASE, options);
      return tested.feed;
    },
    started: () => present(tested, 'the test has started a client'),
  };
}

/** Answers every request of `path`, whatever its query, with the status and the body that `answer` makes of its address. */
export function answerAt(path: string, answer: (asked: URL) => readonly [number, nock.Body]): void {
  nock(BASE)
    .persist()
    .get(path)
    .query(true)
    .reply((request: Request) => [...answer(new URL(request.url))]);
}
