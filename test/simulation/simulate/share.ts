/** Plays some of the histories of a run, one after another, and counts what happened in them. */

import { namesOf } from '../names.ts';
import { playHistory } from '../play.ts';
import { type Counts, Tally } from '../tally.ts';
import { SIMULATED } from './simulated.ts';

export type Told =
  | { readonly kind: 'played'; readonly histories: number; readonly counts: Counts }
  | { readonly kind: 'failed'; readonly seed: number; readonly text: string };

/** So many histories are counted together. */
const TOLD_AT_ONCE = 25;

/** One that fails is told, and the others go on. */
export async function playSeeds(seeds: readonly number[], tell: (told: Told) => void): Promise<void> {
  for (let start = 0; start < seeds.length; start += TOLD_AT_ONCE) {
    const tally = new Tally();
    for (const name of namesOf('model')) tally.add(name, 0);
    const together = seeds.slice(start, start + TOLD_AT_ONCE);
    for (const seed of together) {
      try {
        await playHistory(seed, tally, SIMULATED);
      } catch (error) {
        tell({ kind: 'failed', seed, text: error instanceof Error ? error.message : String(error) });
      }
    }
    tell({ kind: 'played', histories: together.length, counts: tally.counts() });
  }
}
