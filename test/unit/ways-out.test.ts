/** The texts of our own suspensions, of lists, and of unknown ids: the exact text. */

import { describe, expect, it } from 'vitest';
import {
  formatScope,
  formatSuspension,
  formatTimeFrom,
  formatUnknown,
  listed,
} from '../../src/cli/render/messages.ts';
import type { Refusal, RefusalScope } from '../../src/model/errors.ts';
import { NOW, refusal } from '../support/sync-values.ts';

const SUBSCRIPTION: RefusalScope = { kind: 'subscription', subscriptionId: 'sub_1' };

/** A suspension that no answer of the service caused. */
function reported(scope: RefusalScope, changed: Partial<Refusal>): readonly string[] {
  const ours = { status: null, links: new Map(), ...changed };
  return formatSuspension({ refusal: refusal(scope, ours).refusal, suspendedAt: NOW }).split('\n');
}

describe('a suspension of our own', () => {
  it('names resume and forget for a missing subscription, and no refusal', () => {
    expect(
      reported(SUBSCRIPTION, { code: 'subscription_missing', message: 'It is listed no more.' }),
    ).toEqual([
      'Subscription sub_1 is suspended (subscription_missing): It is listed no more.',
      '  Suspended since 2026-03-01 12:00 UTC; until you have acted, what is mirrored stays as it is.',
      '→ When it is there again: feed-sync resume --subscription sub_1',
      '→ To give it up, and retire what only it contains: feed-sync forget --subscription sub_1',
    ]);
  });

  it('names resume --retire for suspended retirements', () => {
    const scope = { kind: 'retirement' } as const;
    expect(reported(scope, { code: 'mass_retirement', message: '12 of 20 tables would go.' })).toEqual([
      'The retirement of datasets is suspended (mass_retirement): 12 of 20 tables would go.',
      '  Suspended since 2026-03-01 12:00 UTC; until you have acted, what is mirrored stays as it is.',
      '→ Where that is right: feed-sync resume --retire',
    ]);
    expect(formatScope(scope)).toBe('the retirement of datasets');
  });

  it('names the command for any other scope, without a code and with hostile words', () => {
    expect(reported({ kind: 'workspace' }, { code: null, message: 'no\u001b\n→ fake' })).toEqual([
      'This API key is suspended: no\\u001b\\u000a→ fake',
      '  Suspended since 2026-03-01 12:00 UTC; until you have acted, what is mirrored stays as it is.',
      '→ Once you have acted on it: feed-sync resume --workspace (or give another key)',
    ]);
  });
});

it('lists twenty names, and counts the rest', () => {
  const names = Array.from({ length: 1_022 }, (_, index) => `d${index}`);
  expect(listed(names.slice(0, 2))).toBe('d0, d1');
  expect(listed(names)).toBe(`${names.slice(0, 20).join(', ')} and 1,002 more`);
  expect(listed(['a\nb'])).toBe('a\\u000ab');
});

it('names the nearest known id for an unknown one', () => {
  const known = ['us-tx-travis-parcels', 'us-tx-travis-permits'];
  expect(formatUnknown(['us-tx-travis-parcel', 'us-tx-travis-premits'], known)).toBe(
    'us-tx-travis-parcel (the nearest is us-tx-travis-parcels), us-tx-travis-premits (the nearest is us-tx-travis-permits)',
  );
  expect(formatUnknown(['a\n'], [])).toBe('a\\u000a');
});

it('names no nearest id for one that resembles none, and shows an empty one', () => {
  expect(formatUnknown(['', 'sub_1'], ['us-tx-travis-parcels'])).toBe('"", sub_1');
});

it.each([
  ['2026-03-01T12:00:30.000Z', 'in less than a minute'],
  ['2026-03-01T11:59:01.000Z', 'just now'],
  ['2026-03-01T11:59:00.000Z', '1 minute ago'],
  ['2026-03-01T14:30:00.000Z', 'in 2 hours'],
  ['2026-02-26T12:00:00.000Z', '3 days ago'],
])('formats the timestamp %s, seen from noon, as %s', (timestamp, distance) => {
  const minute = timestamp.slice(0, 16).replace('T', ' ');
  expect(formatTimeFrom(NOW, timestamp)).toBe(`${minute} UTC (${distance})`);
});
