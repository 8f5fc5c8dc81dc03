/**
 * Texts of the service beside its lists: refusals, its own description, webhooks. They may contain anything, and
 * only the sound parts of them are used.
 */

import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { judge } from '../../src/daemon/server/webhook.ts';
import { recogniseContract } from '../../src/feed/discovery.ts';
import { readManifest, readManifestEntry } from '../../src/feed/operations.ts';
import { decodeErrorBody } from '../../src/feed/wire/records.ts';
import { Secret } from '../../src/lib/secret.ts';
import { relayed, shown } from '../../src/lib/text.ts';
import { anyJson, damaged, type Json, valueAt } from './json-damage.ts';
import { property } from './property.ts';

const KEY = 'sk_of_the_test';
const MAX_RELAYED_CHARACTERS = 2_001;
const UNSEEN = /\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}/u;

const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({
    unit: fc.constantFrom('a', '\n', '\u001b', '\u202e', '\u2028', '\ud83d', '\ude00', '\0', 'é'),
  }),
);
/** About as long as what is relayed at most. */
const longText = fc
  .tuple(fc.integer({ min: 1_990, max: 2_005 }), anyText)
  .map(([length, text]) => 'x'.repeat(length) + text);

describe('refusals', () => {
  const refusal: Json = {
    error: {
      code: 'outside_coverage',
      message: `The key ${KEY} does not cover it.`,
      links: { docs: 'https://docs.example/coverage', upgrade: 'http://example.com/?a=1' },
    },
  };
  const strike = (text: string): string => text.replaceAll(KEY, '(secret)');
  const address = fc.oneof(
    fc.webUrl(),
    anyText.map((text) => `https://x.example/${text}`),
    anyText,
  );
  const withLinks = fc
    .dictionary(anyText, fc.oneof(address, anyJson), { maxKeys: 30 })
    .map((links): Json => ({ error: { code: 'c', message: 'm', links: links as Json } }));

  property(
    'relays a refusal in single lines, with links of the web only, and without the key',
    300,
    fc.property(
      fc.oneof(
        damaged(refusal),
        withLinks,
        longText.map((message) => ({ error: { code: 'c', message } })),
        anyJson,
      ),
      (json) => {
        const body = decodeErrorBody(json, strike);
        const [code, message] = [valueAt(json, ['error', 'code']), valueAt(json, ['error', 'message'])];
        const hasShape = typeof code === 'string' && code.length <= 200 && typeof message === 'string';
        expect(body !== null).toBe(hasShape);
        if (body === null) return;
        expect(body.message).toBe(relayed(strike(String(message))));
        for (const text of [body.code, body.message, ...[...body.links].flat()]) {
          expect(text).not.toMatch(UNSEEN);
          expect(text).not.toContain(KEY);
          expect(text.isWellFormed()).toBe(true);
          expect(text.length).toBeLessThanOrEqual(MAX_RELAYED_CHARACTERS);
        }
        for (const link of body.links.values()) expect(['http:', 'https:']).toContain(new URL(link).protocol);
        expect(body.links.size).toBeLessThanOrEqual(20);
      },
    ),
  );

  property(
    'relays a short, plain text of the service unchanged',
    200,
    fc.property(fc.string({ maxLength: 100 }), (text) => {
      expect(relayed(text)).toBe(text.trim());
      expect(shown(text)).toBe(text);
    }),
  );
});

describe('the description of the service', () => {
  const versions = {
    get: { parameters: [{ $ref: '#/components/parameters/Newer' }, { name: 'limit', in: 'query' }] },
  };
  const description: Json = {
    openapi: '3.1.0',
    paths: {
      '/v1/subscriptions/{id}/manifest': { get: {} },
      '/v1/datasets/{id}/manifest': { get: {} },
      '/v1/datasets/{id}/versions': versions,
    },
    components: {
      parameters: { Newer: { name: 'since', in: 'query', schema: { $ref: '#/components/schemas/Number' } } },
      schemas: { Number: { type: 'integer', minimum: 0 } },
    },
  };
  const path = fc
    .tuple(fc.constantFrom('/v1/subscriptions/{', '/v1/datasets/{', '//x/{', '/\\{'), anyText, anyText)
    .map(([start, name, rest]) => `${start}${name}}${rest}/manifest`);
  const parameter = fc.record({
    name: anyText,
    in: fc.constant('query'),
    schema: fc.constant({ type: 'integer', minimum: 0 }),
  });
  const hostile = fc.record({ path, parameter }).map(
    ({ path: manifest, parameter: newer }): Json => ({
      paths: { [manifest]: { get: {} }, '/v1/datasets/{id}/versions': { get: { parameters: [newer] } } },
    }),
  );

  property(
    'takes from the description only names that fit a URL of the service, or none',
    400,
    fc.property(
      fc.oneof(damaged(description), hostile, anyJson),
      anyText.filter((id) => id.isWellFormed()),
      (json, id) => {
        const contract = recogniseContract(json);
        const isDescription =
          typeof valueAt(json, ['paths']) === 'object' && valueAt(json, ['paths']) !== null;
        expect(contract !== null).toBe(isDescription && !Array.isArray(valueAt(json, ['paths'])));
        const { manifestPath = null, newerThanParameter = null } = contract ?? {};
        if (newerThanParameter !== null)
          expect(new URLSearchParams(`${newerThanParameter}=5`).get(newerThanParameter)).toBe('5');
        if (manifestPath === null) return;
        const read = manifestPath.startsWith('/v1/subscriptions/') ? readManifest : readManifestEntry;
        const url = new URL(`https://feed.example${read(manifestPath, id).path}`);
        expect(url.origin).toBe('https://feed.example');
        expect([url.search, url.hash]).toEqual(['', '']);
      },
    ),
  );
});

describe('webhooks', () => {
  const now = new Date('2026-11-21T12:00:00Z');
  const key = Buffer.from('a secret of this test, long enough');
  const secret = new Secret(`whsec_${key.toString('base64')}`);
  const id = fc.string({ unit: fc.constantFrom(...'abc_09.-'), minLength: 1, maxLength: 256 });
  const offsetSeconds = fc.oneof(fc.integer({ min: -301, max: 301 }), fc.integer({ min: -1e9, max: 1e9 }));

  /** By the standard, and by no code of the program. */
  function signed(webhookId: string, seconds: number, body: Buffer): Record<string, string> {
    const mac = createHmac('sha256', key).update(`${webhookId}.${seconds}.`).update(body).digest('base64');
    return { 'webhook-id': webhookId, 'webhook-timestamp': `${seconds}`, 'webhook-signature': `v1,${mac}` };
  }

  property(
    'accepts a webhook with any body if it is signed and fresh',
    200,
    fc.property(
      id,
      offsetSeconds,
      anyText.map((text) => Buffer.from(text)),
      (webhookId, offset, body) => {
        const seconds = now.getTime() / 1_000 + offset;
        const judgement = judge({ headers: signed(webhookId, seconds, body), body }, [secret], now);
        const isFresh = Math.abs(offset) <= 300;
        expect(judgement).toEqual(isFresh ? { kind: 'valid', id: webhookId } : { kind: 'unauthorized' });
      },
    ),
  );

  property(
    'rejects a webhook if anything in it was changed after signing',
    300,
    fc.property(
      id,
      fc.uint8Array({ maxLength: 50 }),
      fc.constantFrom('webhook-id', 'webhook-timestamp', 'webhook-signature', 'body'),
      fc.nat(),
      fc.option(fc.oneof(anyText, fc.array(anyText)), { nil: undefined }),
      (webhookId, bytes, part, place, replacement) => {
        const body = Buffer.from(bytes);
        const headers: Record<string, string | readonly string[] | undefined> = signed(
          webhookId,
          now.getTime() / 1_000,
          body,
        );
        const changed = Buffer.from(body);
        if (part === 'body' && body.length > 0)
          changed[place % body.length] = (changed[place % body.length] ?? 0) ^ (1 + (place % 255));
        else if (headers[part === 'body' ? 'webhook-id' : part] === replacement) return;
        else headers[part === 'body' ? 'webhook-id' : part] = replacement;
        expect(['malformed', 'unauthorized']).toContain(
          judge({ headers, body: changed }, [secret], now).kind,
        );
      },
    ),
  );

  property(
    'rejects any bytes and headers without a signature, and decodes none of them',
    200,
    fc.property(
      fc.dictionary(
        fc.constantFrom('webhook-id', 'webhook-timestamp', 'webhook-signature'),
        fc.oneof(anyText, fc.array(anyText)),
      ),
      fc.uint8Array(),
      (headers, body) => {
        expect(['malformed', 'unauthorized']).toContain(
          judge({ headers, body: Buffer.from(body) }, [secret], now).kind,
        );
      },
    ),
  );
});
