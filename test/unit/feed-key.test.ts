/** The key goes to the origin of the base URL and to no other, however like it that is. */

import { MockAgent } from 'undici';
import { expect, it } from 'vitest';
import { createHttp } from '../../src/feed/http/http.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { PATIENCE_MS } from '../support/patience.ts';

const ORIGIN = 'https://feed.example';
const ALLOWED = 'https://files.example';

/** The header that a request to the origin carries. */
async function authorizationAt(origin: string): Promise<unknown> {
  const agent = new MockAgent();
  agent.disableNetConnect();
  let sent: unknown;
  agent
    .get(origin)
    .intercept({ path: '/' })
    .reply((request) => {
      sent = Object(request.headers).authorization ?? null;
      return { statusCode: 200 };
    });
  const http = createHttp(
    {
      baseUrl: ORIGIN,
      apiKey: new Secret('key-of-the-workspace'),
      http: { timeoutMs: PATIENCE_MS, connections: 1, maxJsonBytes: 1, maxRetryAfterMs: 1 },
      retry: { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 },
      clock: systemClock,
      log: silentLog,
    },
    new Set([ORIGIN, ALLOWED]),
    { trusted: agent, guarded: agent, close: () => agent.close() },
  );
  const request = { operation: 'download a file', origin, path: '/', deadlineMs: PATIENCE_MS };
  (await http.send(request, new AbortController().signal)).discard();
  await agent.close();
  return sent;
}

it('M7 sends the key to the origin of the base URL', async () => {
  expect(await authorizationAt(ORIGIN)).toBe('Bearer key-of-the-workspace');
});

it.each([
  ALLOWED,
  'http://feed.example',
  'https://feed.example:8443',
  'https://feed.example.org',
  'https://eu.feed.example',
  'https://feed',
])('M7 sends no key to %s', async (origin) => {
  expect(await authorizationAt(origin)).toBeNull();
});
