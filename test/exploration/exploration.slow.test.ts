/** A small part of `npm run explore` for every run of CI. */

import { describe, expect, it } from 'vitest';
import { SEED } from '../support/seed.ts';
import { exploreAll, exploreRandom, nothingExplored } from './explore.ts';
import { seededRandom } from './random.ts';
import { ALL_SETTINGS, settingText } from './setting.ts';

/** Of the histories of two steps, one of so many. */
const TWO_STEPS_EVERY = 800;
const RANDOM_HISTORIES = 5;
/** Open (README.md): a log restarts, and the checkpoint is lost before that is noticed. */
const OPEN = /\bA\([AB]\)@.*\bC@/;

describe.each(ALL_SETTINGS.map((setting, index) => [settingText(setting), setting, index] as const))(
  'a service of kind %s',
  (_text, setting, index) => {
    it('ends up to date, and never with wrong rows, in every history of one step and some of two', async () => {
      const explored = nothingExplored();
      await exploreAll(setting, 2, explored, (number) => number % TWO_STEPS_EVERY === index);
      expect(explored.found).toEqual([]);
    });

    it('ends up to date, and never with wrong rows, in some histories of three steps and more', async () => {
      const explored = nothingExplored();
      const random = seededRandom(SEED + index);
      for (let history = 0; history < RANDOM_HISTORIES; history += 1) {
        await exploreRandom(setting, 3 + (history % 4), random, explored);
      }
      expect(explored.found.filter(({ history }) => !OPEN.test(history))).toEqual([]);
    });
  },
);
