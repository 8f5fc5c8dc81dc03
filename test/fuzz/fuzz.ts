/** One case: an example of the corpus, damaged by a seed, is read by its target. */

import process from 'node:process';
import { FeedSyncError } from '../../src/model/errors.ts';
import { seededRandom } from '../exploration/random.ts';
import { mutated, mutatedJson } from './mutate.ts';
import { type Example, isClassified, type Target } from './targets.ts';

/** A case that takes longer counts as a hang. */
export const LONGEST_CASE_MS = 20_000;

export interface Outcome {
  readonly target: string;
  readonly kind: 'read' | 'refused';
  /** The class or the code of the refusal. */
  readonly why: string | null;
}

export class CaseFailed extends Error {
  override readonly name = 'CaseFailed';
}

/** Case number `number` of a seed is always the same. @throws CaseFailed */
export async function play(
  seed: number,
  number: number,
  targets: readonly Target[],
  examples: readonly Example[],
): Promise<Outcome> {
  const random = seededRandom(Math.imul(seed, 0x9e3779b1) ^ number);
  for (let draw = 0; draw < 4; draw += 1) random();
  const drawn = targets.flatMap((target) => Array<Target>(target.weight).fill(target));
  const target = drawn[Math.floor(random() * drawn.length)];
  const own = examples.filter(({ target: name }) => name === target?.name).map(({ bytes }) => bytes);
  const example = own[Math.floor(random() * own.length)];
  if (target === undefined || example === undefined) throw new CaseFailed(`no example for ${target?.name}`);
  const isJsonKept = ['json', 'geo', 'changes'].includes(target.name) && random() < 0.7;
  const bytes = isJsonKept ? mutatedJson(example, random) : mutated(example, own, random);
  const startedMs = performance.now();
  try {
    await target.read(bytes, random);
    return { target: target.name, kind: 'read', why: null };
  } catch (error) {
    if (!isClassified(error)) {
      throw new CaseFailed(`case ${number} of seed ${seed} (${target.name}): ${String(error)}`, {
        cause: error,
      });
    }
    return {
      target: target.name,
      kind: 'refused',
      why: error instanceof FeedSyncError ? error.code : 'transient',
    };
  } finally {
    const tookMs = performance.now() - startedMs;
    if (tookMs > LONGEST_CASE_MS)
      process.stderr.write(`case ${number} of seed ${seed} took ${Math.round(tookMs)} ms\n`);
  }
}
