/** The names of a setting: its key in the file gives those of its variable and its flag. */

import { distance } from 'fastest-levenshtein';

export const VARIABLE_PREFIX = 'FEED_SYNC_';
/** Names the file itself, so it has no key. */
export const FILE_VARIABLE = `${VARIABLE_PREFIX}CONFIG`;
export const FILE_FLAG = '--config';

/** `service.contract.manifestPath` → `FEED_SYNC_MANIFEST_PATH`: upper snake case, without SERVICE_ and CONTRACT_. */
export function variableOf(key: string): string {
  const words = key.replace(/^service\.(contract\.)?/, '').replace(/[A-Z]/g, (letter) => `_${letter}`);
  return VARIABLE_PREFIX + words.replaceAll('.', '_').toUpperCase();
}

/** `http.timeout` → `--http-timeout`: the variable's words. */
export function flagOf(key: string): string {
  return `--${variableOf(key).slice(VARIABLE_PREFIX.length).toLowerCase().replaceAll('_', '-')}`;
}

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

/** `; the nearest is http.timeout`, to be put after what is said of an unknown name; empty where none is like it. */
export function tellNearest(name: string, known: readonly string[]): string {
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
