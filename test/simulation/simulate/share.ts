/** Plays some of the histories of a run, one after another, and counts what happened in them. */

import { Counters, type Counts } from '../counters.ts';
import { namesOf } from '../names.ts';
import { playHistory } from '../play.ts';
import { SIMULATED } from './simulated.ts';

export type Announcement =
  | { readonly kind: 'played'; readonly histories: number; readonly counts: Counts }
  | { readonly kind: 'failed'; readonly seed: number; readonly text: string };

/** So many histories are counted together. */
const TOLD_AT_ONCE = 25;

/** A history that fails is reported, and the others go on. */
export async function playSeeds(
  seeds: readonly number[],
  report: (reported: Announcement) => void,
): Promise<void> {
  for (let start = 0; start < seeds.length; start += TOLD_AT_ONCE) {
    const counters = new Counters();
    for (const name of namesOf('model')) counters.add(name, 0);
    const together = seeds.slice(start, start + TOLD_AT_ONCE);
    for (const seed of together) {
      try {
        await playHistory(seed, counters, SIMULATED);
      } catch (error) {
        report({ kind: 'failed', seed, text: error instanceof Error ? error.message : String(error) });
      }
    }
    report({ kind: 'played', histories: together.length, counts: counters.counts() });
  }
}
