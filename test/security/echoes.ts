/** A service that repeats the API key it was sent, in every place of an answer that is stored, printed or acted upon. */

import type { Act } from '../../fixtures/feed/faults.ts';

/** Answers that pass by themselves: the call is made again. */
export function passingEchoes(key: string): readonly Act[] {
  const words = `Authorization: Bearer ${key}`;
  const error = { error: { code: words, message: words, links: { [key]: linkWith(key) } } };
  return [
    { kind: 'respond', status: 500, body: words },
    { kind: 'respond', status: 502, json: error },
    { kind: 'respond', status: 429, json: error, headers: { 'retry-after': '0', 'x-echo': key } },
    { kind: 'respond', status: 418, body: words },
    { kind: 'respond', status: 302, body: words, headers: { location: linkWith(key) } },
    { kind: 'respond', status: 200, body: `<html>${words}</html>`, headers: { 'content-type': 'text/html' } },
    { kind: 'respond', status: 200, body: `{"subscriptions":[{"id":"${key}"` },
    { kind: 'respond', status: 200, body: words, headers: { 'content-encoding': 'gzip', etag: `"${key}"` } },
    { kind: 'reset', afterBytes: 20 },
    { kind: 'truncate', afterBytes: 20 },
  ];
}

/** Answers after which a call is over. */
export function lastingEchoes(key: string): readonly Act[] {
  const error = (code: string) => ({
    error: {
      code,
      message: `Bearer ${key} as ${Buffer.from(`user:${key}`).toString('base64')} may not`,
      links: { help: linkWith(key), [`for ${key}`]: `https://app.feed.example/${encodeURIComponent(key)}` },
    },
  });
  return [
    { kind: 'respond', status: 401, json: error('x') },
    { kind: 'respond', status: 403, json: error('insufficient_scope') },
    { kind: 'respond', status: 404, json: error('not_found') },
    { kind: 'respond', status: 410, json: error('cursor_expired') },
    { kind: 'respond', status: 422, json: error(key) },
    { kind: 'respond', status: 200, json: { [key]: key, error: key } },
    { kind: 'rewrite', rewrite: (body) => inEveryText(body, key) },
    { kind: 'rewrite', rewrite: (body) => inEveryText(body, encodeURIComponent(key)) },
    { kind: 'merge', fields: { nextCursor: key, cursor: key, lastEventId: key, hasMore: true } },
  ];
}

function linkWith(key: string): string {
  return `http://127.0.0.1:1/${encodeURIComponent(key)}?key=${key}`;
}

/** The key behind every text of a document, and as a text of its own under a name of its own. */
function inEveryText(value: unknown, key: string): unknown {
  if (typeof value === 'string') return `${value}${key}`;
  if (Array.isArray(value)) return value.map((item) => inEveryText(item, key));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name, inEveryText(member, key)]);
  return { ...Object.fromEntries(members), [key]: key };
}
