/** A service may refuse a position of a log that it has restarted with an error, instead of saying that it has expired. */

import { describe, expect, it } from 'vitest';
import { hostileFeed, MINUTE_MS } from '../support/hostile-feed.ts';

const KINDS = [
  ['a manifest that says how far it goes', {}],
  ['a manifest that does not', { contract: { manifestLastEventId: false } }],
  ['a manifest for each dataset', { contract: { manifest: 'dataset' } }],
  ['a record that names no newest event', { contract: { recordLastEventId: false } }],
] as const;

describe('F54 F81 a restarted log that refuses the old position', () => {
  it.each(KINDS)(
    'F54 F81 a restarted log that refuses the old position is read again once that is confirmed: %s',
    async (_, options) => {
      const one = await hostileFeed({
        subscriptions: { sub_1: ['x'] },
        answers: { unknownPosition: 'refused' },
        ...options,
      });
      await one.once();
      one.publish('x');
      await one.once();
      one.pass(MINUTE_MS);
      one.feed.publisher.restartLog('sub_1', { announce: true });
      one.pass(MINUTE_MS);
      const first = await one.once({ isMoving: true });
      expect(first.exitCode).toBe(75);
      expect(one.world.checkpoint.suspensions()).toEqual([]);
      one.pass(11 * MINUTE_MS);
      await one.once({ isMoving: true });
      one.pass(16 * MINUTE_MS);
      expect((await one.once({ isMoving: true })).exitCode).toBe(0);
      one.publish('x');
      await one.once({ isMoving: true });
      await one.expectRightInTheEnd();
    },
  );
});
