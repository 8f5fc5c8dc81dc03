/** Plain HTTP calls to the fixture feed, for tests of the feed itself. */

import type { FixtureFeed } from '../../fixtures/feed/feed.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; undefined where it is not JSON. Typed loosely, because tests compare it as a whole. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reaches into the body and compares what it finds.
  readonly body: any;
}

/** Calls the API with the feed's key, unless `headers` say otherwise. */
export function call(feed: FixtureFeed, path: string, init: RequestInit = {}): Promise<Answer> {
  const headers = { authorization: `Bearer ${feed.apiKey}`, ...init.headers };
  return send(`${feed.baseUrl}${path}`, { ...init, headers });
}

export async function send(url: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url, init);
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: parsed(text) };
}

/** The address of the first file of the first dataset in a subscription's manifest. */
export async function firstFileUrl(feed: FixtureFeed, subscriptionId = 'sub_1'): Promise<string> {
  const manifest = await call(feed, `/v1/subscriptions/${subscriptionId}/manifest`);
  return manifest.body.datasets[0].files[0].url;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
