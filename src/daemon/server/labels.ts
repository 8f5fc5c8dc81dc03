/** Label values of metrics: bounded in number and length, and as many different ones as there are different ids. Pure. */

import { createHash } from 'node:crypto';
import type { Hold } from '../../checkpoint/checkpoint.ts';
import type { DatasetState } from '../state.ts';
import { MAX_LABEL_CHARACTERS, MAX_LABELLED_CODES } from './limits.ts';

const DIGEST_CHARACTERS = 16;

/** The id, or its beginning and a digest where it is long. */
export function labelOf(id: string): string {
  if (id.length <= MAX_LABEL_CHARACTERS) return id;
  const digest = createHash('sha256').update(id).digest('hex').slice(0, DIGEST_CHARACTERS);
  return `${id.slice(0, MAX_LABEL_CHARACTERS - DIGEST_CHARACTERS - 1).toWellFormed()}…${digest}`;
}

/** At most `most` of them: those that failed or are behind before those that are not, the longest first. */
export function mostPressing(datasets: readonly DatasetState[], most: number): readonly DatasetState[] {
  if (datasets.length <= most) return datasets;
  return datasets.toSorted((left, right) => pressure(left) - pressure(right)).slice(0, most);
}

/** Smaller is more pressing. */
function pressure({ failure, behindSince }: DatasetState): number {
  if (behindSince !== null) return behindSince.getTime();
  return failure === null ? Number.MAX_VALUE : Number.MAX_SAFE_INTEGER;
}

export interface HoldCount {
  readonly scope: string;
  readonly code: string;
  readonly count: number;
}

/** How many holds of each scope and code; the codes are the service's, so beyond a limit they are one. */
export function countHolds(holds: readonly Hold[]): readonly HoldCount[] {
  const counts = new Map<string, HoldCount>();
  const codes = new Set<string>();
  for (const { refusal } of holds) {
    const own = labelOf(refusal.code ?? 'none');
    if (codes.size < MAX_LABELLED_CODES) codes.add(own);
    const code = codes.has(own) ? own : 'other';
    const scope = refusal.scope.kind;
    const key = `${scope} ${code}`;
    counts.set(key, { scope, code, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()];
}
