/** The known name that was probably meant by an unknown one. */

import { distance } from 'fastest-levenshtein';

/**
 * The known name that is most like `name`; null where none is even half like it. Two mistakes are common and count as
 * small whatever their length: the right last word in the wrong group (`timeout` means `http.timeout` rather than a
 * key of seven other letters), and a word too many at the end (`FEED_SYNC_CONFIG_FILE`).
 */
export function nearest(name: string, known: readonly string[]): string | null {
  const scores = known.map((candidate) => ({ candidate, ...unlikeness(name, candidate) }));
  const [best] = scores.toSorted((left, right) => left.least - right.least || left.whole - right.whole);
  if (best === undefined) return null;
  return best.least * 2 <= Math.max(name.length, best.candidate.length) ? best.candidate : null;
}

/** `; the nearest is http.timeout`, to follow the words about an unknown name; empty where no known name is like it. */
export function formatNearest(name: string, known: readonly string[]): string {
  const candidate = nearest(name, known);
  return candidate === null ? '' : `; the nearest is ${candidate}`;
}

const COMMON_MISTAKE_COST = 1;

function unlikeness(name: string, candidate: string): { readonly least: number; readonly whole: number } {
  const [left, right] = [name.toLowerCase(), candidate.toLowerCase()];
  const whole = distance(left, right);
  const last = distance(lastWord(left), lastWord(right));
  const costs = [whole];
  if (last * 2 < lastWord(left).length) costs.push(last + COMMON_MISTAKE_COST);
  if (left.startsWith(right)) costs.push(COMMON_MISTAKE_COST);
  return { whole, least: Math.min(...costs) };
}

function lastWord(name: string): string {
  return name.split(/[._]/).at(-1) ?? name;
}
