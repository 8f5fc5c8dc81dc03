/** Some of the histories that `npm run simulate` plays. */

import { describe, expect, it } from 'vitest';
import { SEED } from '../support/seed.ts';
import { missing, sum } from './counters.ts';
import { namesOf } from './names.ts';
import { type Announcement, playSeeds } from './simulate/share.ts';

const HISTORIES = 200;
/** They take less than half a minute. */
const TIMEOUT_MS = 10 * 60_000;

describe('simulated histories', () => {
  it(
    `keeps every rule in ${HISTORIES} histories from seed ${SEED} on, and plays every kind of step`,
    async () => {
      const reported: Announcement[] = [];
      await playSeeds(
        Array.from({ length: HISTORIES }, (_, index) => SEED + index),
        (each) => void reported.push(each),
      );
      const failed = reported.flatMap((each) => (each.kind === 'failed' ? [each.text] : []));
      expect(failed.join('\n')).toBe('');
      const counts = sum(reported.flatMap((each) => (each.kind === 'played' ? [each.counts] : [])));
      expect(missing(namesOf('model'), counts)).toEqual([]);
    },
    TIMEOUT_MS,
  );
});
