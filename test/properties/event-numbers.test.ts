/** Event ids are compared as numbers, and the cursor is the highest of a page whatever its order (W11, W12). */

import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { decodeEventPage } from '../../src/feed/wire/records.ts';
import { EVENT_TYPES, type EventId, earlierEvent, laterEvent, parseEventId } from '../../src/model/event.ts';
import { type CoalesceContext, coalesceEvents, cursorAfter } from '../../src/sync/follow/coalesce-events.ts';
import { desired, NOW } from '../support/sync-values.ts';
import { property } from './property.ts';

const LARGEST = 2n ** 63n - 1n;
const MAX_DIGITS = 24;

/** Small ones, those about a power of ten and of two, and any. */
const number = fc
  .oneof(
    fc.bigInt({ min: 0n, max: 20n }),
    fc.tuple(fc.nat(18), fc.bigInt({ min: -2n, max: 2n })).map(([power, by]) => 10n ** BigInt(power) + by),
    fc.tuple(fc.nat(62), fc.bigInt({ min: -2n, max: 2n })).map(([power, by]) => 2n ** BigInt(power) + by),
    fc.bigInt({ min: LARGEST - 5n, max: LARGEST }),
    fc.bigInt({ min: 0n, max: LARGEST }),
  )
  .filter((each) => each >= 0n && each <= LARGEST);

/** The number as an id, often with zeros before it. */
const id = fc
  .tuple(number, fc.nat(3))
  .map(
    ([each, zeros]) => `evt_${String(each).padStart(Math.min(MAX_DIGITS, String(each).length + zeros), '0')}`,
  );

function parsed(text: string): EventId {
  const event = parseEventId(text);
  if (event === null) throw new Error(`${text} is an event id`);
  return event;
}

describe('event ids', () => {
  property(
    'parses an event id to its number and keeps its text',
    300,
    fc.property(id, (text) => {
      expect(parseEventId(text)).toEqual({ text, number: BigInt(text.slice('evt_'.length)) });
    }),
  );

  property(
    'parses only evt_ and a number of 64 bits as an event id',
    400,
    fc.property(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc
          .tuple(
            fc.constantFrom('evt_', 'evt', 'EVT_', 'evt_-', 'evt_+', 'evt_0x', ' evt_', 'evt__', ''),
            fc.string({ unit: fc.constantFrom(...'0159e.\n١x_ ') }),
          )
          .map((parts) => parts.join('')),
        fc.bigInt({ min: LARGEST + 1n, max: 10n ** 30n }).map((each) => `evt_${each}`),
        fc.constantFrom(`evt_${'0'.repeat(25)}`, 'evt_', 'evt_9\n', 'evt_1n', 'evt_1_000'),
      ),
      (text) => {
        const digits =
          text.startsWith('evt_') && /^[0-9]+$/.test(text.slice(4)) && !text.endsWith('\n')
            ? text.slice(4)
            : null;
        const isOne = digits !== null && digits.length <= MAX_DIGITS && BigInt(digits) <= LARGEST;
        expect(parseEventId(text) !== null).toBe(isOne);
      },
    ),
  );

  property(
    'orders event ids totally, by their numbers',
    300,
    fc.property(fc.array(id, { minLength: 1, maxLength: 12 }), (texts) => {
      const events = texts.map(parsed);
      const highest = events.reduce<EventId | null>(laterEvent, null);
      const lowest = events.reduce(earlierEvent);
      const numbers = events.map((event) => event.number).sort((left, right) => (left < right ? -1 : 1));
      expect([lowest.number, highest?.number]).toEqual([numbers[0], numbers.at(-1)]);
      for (const left of events) {
        for (const right of events) {
          expect(laterEvent(left, right)?.number).toBe(
            left.number > right.number ? left.number : right.number,
          );
          expect(laterEvent(left, right)?.number).toBe(laterEvent(right, left)?.number);
        }
      }
      expect(laterEvent(highest, null)).toBe(highest);
    }),
  );
});

/** Of a subscription that contains every dataset, and a mirror that has a table of each. */
const CONTAINING: CoalesceContext = {
  subscriptionId: 'sub_1',
  logNumber: 1,
  readAt: NOW,
  coveredUntil: null,
  desiredStateOf: (datasetId) => desired({ datasetId }),
  tableOf: () => ({ version: 1 }),
};

describe('pages of events', () => {
  const event = fc.record({
    id,
    type: fc.constantFrom(...EVENT_TYPES, 'dataset.novel'),
    data: fc.record({ datasetId: fc.constantFrom('a', 'b', 'c'), version: fc.option(fc.nat(9)) }),
  });
  const numberOf = (each: { readonly id: string }): bigint => BigInt(each.id.slice('evt_'.length));
  const distinctEvents = fc.uniqueArray(event, { minLength: 1, maxLength: 8, selector: numberOf });

  property(
    'advances the cursor to the highest number of a page, and coalesces its events alike in any order',
    250,
    fc.property(
      distinctEvents.chain((list) =>
        fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
      ),
      fc.option(id),
      ([list, shuffled], before) => {
        const read = (events: typeof list) =>
          decodeEventPage({ events, hasMore: false }, 'read events').events;
        const cursor = before === null ? null : parsed(before);
        const highest = [...list.map(numberOf), cursor?.number ?? 0n].reduce((left, right) =>
          left > right ? left : right,
        );
        expect(cursorAfter(read(list), cursor)?.number).toBe(highest);
        expect(cursorAfter(read(shuffled), cursor)?.number).toBe(highest);
        const asked = coalesceEvents(read(list), CONTAINING);
        expect(coalesceEvents(read(shuffled), CONTAINING)).toEqual(asked);
        expect(new Set(asked.map(({ datasetId }) => datasetId))).toEqual(
          new Set(list.map(({ data }) => data.datasetId)),
        );
      },
    ),
  );
});
