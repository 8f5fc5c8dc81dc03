/**
 * Any JSON of an answer decodes to the values that its type promises, or is refused with one error that names the
 * operation and the field that does not fit, and repeats nothing of the body.
 */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeEvent } from '../../src/feed/wire/records.ts';
import { ContractViolationError } from '../../src/model/errors.ts';
import { EVENT_TYPES, parseEventId } from '../../src/model/event.ts';
import { anyJson, CANARY, damaged, type Json, valueAt, withValueAt } from './json-damage.ts';
import { property } from './property.ts';
import { WIRE_DOCUMENTS, type WireDocument, written } from './wire-documents.ts';

/** Names of the interface and places in lists, and nothing of the body. */
const FIELD = /^(?:\(the whole body\)|[a-z][A-Za-z0-9]*(?:\[\d+\]|\.[a-z][A-Za-z0-9]*)*)$/;
const MAX_MESSAGE_CHARACTERS = 300;

/** What was decoded; or the field that does not fit, once everything else is checked of the error. */
function outcomeOf(
  { operation, decode }: WireDocument,
  json: Json,
): { decoded: unknown } | { field: string } {
  const prototypeBefore = Reflect.ownKeys(Object.prototype);
  try {
    return { decoded: decode(json) };
  } catch (error) {
    if (!(error instanceof ContractViolationError)) throw error;
    expect(error.path).toMatch(FIELD);
    expect(
      error.message.startsWith(`Could not ${operation}: the answer does not fit the interface at `),
    ).toBe(true);
    expect(error.message).toContain(` at ${error.path}: `);
    expect(error.message).toMatch(/\.$/);
    expect(error.message.length).toBeLessThanOrEqual(MAX_MESSAGE_CHARACTERS);
    expect(`${error.message} ${error.hint}`).not.toContain(CANARY);
    return { field: error.path };
  } finally {
    expect(Reflect.ownKeys(Object.prototype)).toEqual(prototypeBefore);
  }
}

function stepsTo(field: string): readonly (string | number)[] {
  if (field.startsWith('(')) return [];
  return [...field.matchAll(/[A-Za-z]\w*|\d+/g)].map(([step]) => (/^\d/.test(step) ? Number(step) : step));
}

/** What stands at the place in the whole document; of a list that grew, what stands first in it. */
function originalAt(document: Json, steps: readonly (string | number)[]): Json {
  return (
    valueAt(
      document,
      steps.map((step, index) => {
        const there = valueAt(document, steps.slice(0, index + 1));
        return typeof step === 'number' && there === undefined ? 0 : step;
      }),
    ) ?? null
  );
}

const ID = /^(?:id|datasetId|subscriptionId|schemaVersion|nextCursor|datasetIds|keyColumns)$/;
const COUNT = /ersion$|ount$|^(?:bytes|added|changed|removed)$/;

/** Every text, number and timestamp in a decoded value is as its type promises. */
function expectSound(value: unknown): void {
  if (value instanceof Date) expect(value.getTime()).not.toBeNaN();
  if (typeof value !== 'object' || value === null || value instanceof Date || value instanceof Map) return;
  for (const [name, member] of Object.entries(value)) {
    expectSoundMember(name, member);
    expectSound(member);
  }
}

function expectSoundMember(name: string, member: unknown): void {
  expect(member).not.toBeUndefined();
  const texts = [member].flat().filter((each) => typeof each === 'string');
  if (ID.test(name)) texts.forEach(expectUsable);
  if (name === 'sha256' && member !== null) expect(member).toMatch(/^[\da-f]{64}$/);
  if (COUNT.test(name) && typeof member === 'number')
    expect(Number.isSafeInteger(member) && member >= 0).toBe(true);
}

/** It can be written into a URL and a database. */
function expectUsable(text: string): void {
  expect(text).not.toBe('');
  expect(text.isWellFormed()).toBe(true);
  expect(text.length).toBeLessThanOrEqual(16_000);
  expect(() => encodeURIComponent(text)).not.toThrow();
}

/** Of an event that cannot be read not enough is kept to write it again. */
function withoutUnreadable(decoded: unknown): unknown {
  if (typeof decoded !== 'object' || decoded === null || !('events' in decoded)) return decoded;
  const events = decoded.events as readonly { readonly kind: string }[];
  return { ...decoded, events: events.filter(({ kind }) => kind === 'event') };
}

describe.each(WIRE_DOCUMENTS)('$operation', (wire) => {
  const { document, decode } = wire;

  it('decodes every field of a complete answer', () => {
    const { changes: _, datasetId, version, ...envelope } = document as { readonly [name: string]: Json };
    const expected = wire.operation === 'list changes' ? envelope : document;
    const { subscriptionId: __, ...known } = written(wire, decode(document)) as { subscriptionId?: unknown };
    const { subscriptionId: ___, ...all } = expected as { readonly [name: string]: Json };
    expect(known).toEqual(all);
  });

  property(
    'decodes a damaged answer to its types, or refuses it at the field that does not fit',
    120,
    fc.property(damaged(document), (json) => {
      let repaired = json;
      const named = new Set<string>();
      for (;;) {
        const outcome = outcomeOf(wire, repaired);
        if ('decoded' in outcome) {
          expectSound(outcome.decoded);
          return;
        }
        // What is repaired where the error pointed is not what is wrong any more.
        expect(named).not.toContain(outcome.field);
        named.add(outcome.field);
        const steps = stepsTo(outcome.field);
        repaired = withValueAt(repaired, steps, originalAt(document, steps));
      }
    }),
  );

  property(
    'decodes any JSON to the types of the answer, or refuses it',
    60,
    fc.property(anyJson, (json) => {
      const outcome = outcomeOf(wire, json);
      if ('decoded' in outcome) expectSound(outcome.decoded);
    }),
  );
});

describe.each(WIRE_DOCUMENTS.filter(({ operation }) => operation !== 'list changes'))(
  '$operation',
  (wire) => {
    property(
      'decodes an answer that was decoded and written again to the same',
      100,
      fc.property(damaged(wire.document), (json) => {
        const outcome = outcomeOf(wire, json);
        if (!('decoded' in outcome)) return;
        const decoded = withoutUnreadable(outcome.decoded);
        expect(wire.decode(written(wire, decoded))).toEqual(decoded);
      }),
    );
  },
);

const VALID_EVENT: Json = {
  id: 'evt_10',
  type: 'dataset.updated',
  createdAt: '2026-11-20T12:34:56Z',
  data: { datasetId: 'parcels', version: 2, previousVersion: 1, schemaVersion: '1', reason: null },
};
const MAX_PROBLEM_CHARACTERS = 250;

property(
  'reads an event, or reports it in one line, and never stops the log',
  500,
  fc.property(fc.oneof(damaged(VALID_EVENT), anyJson), (json) => {
    const event = decodeEvent(json);
    if (event.datasetId !== null) expectUsable(event.datasetId);
    if (event.id !== null) expect(parseEventId(event.id.text)).toEqual(event.id);
    if (event.kind === 'event') {
      expect(EVENT_TYPES).toContain(event.type);
      expect(event.id.text).toBe(valueAt(json, ['id']));
      expect(event.datasetId).toBe(valueAt(json, ['data', 'datasetId']));
      const version = valueAt(json, ['data', 'version']);
      const isCount = Number.isSafeInteger(version) && Number(version) >= 0;
      expect(event.version).toBe(isCount ? version : null);
      if (event.reason !== null)
        expect(event.reason.isWellFormed() && !event.reason.includes('\0')).toBe(true);
      expectSound(event);
    } else {
      expect(event.problem.length).toBeLessThanOrEqual(MAX_PROBLEM_CHARACTERS);
      expect(event.problem).not.toMatch(/\p{Cc}|\p{Zl}|\p{Zp}/u);
      expect(event.problem.isWellFormed()).toBe(true);
    }
  }),
);
