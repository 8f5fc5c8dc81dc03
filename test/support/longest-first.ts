/** The order of test files: those that take longest begin first, so that no worker is left alone with one at the end. */

import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** A minute or more each, and so short that they would come last by their size, which the order follows otherwise. */
const LONGEST = [
  'test/crash/around.slow.test.ts',
  'test/faults/faults.slow.test.ts',
  'test/crash/catching-up.slow.test.ts',
  'test/crash/operators.slow.test.ts',
  'test/crash/past.slow.test.ts',
  'test/simulation/real/share-1.slow.test.ts',
  'test/simulation/real/share-2.slow.test.ts',
  'test/contract/destinations-citus.slow.test.ts',
  'test/unit/bench.slow.test.ts',
  'test/contract/once-large.slow.test.ts',
  'test/contract/hostile-feed-members.slow.test.ts',
  'test/contract/ending-damage.slow.test.ts',
  'test/crash/postgres.slow.test.ts',
  'test/contract/citus.slow.test.ts',
  'test/contract/file-size.slow.test.ts',
  'test/contract/postgres-takeovers.slow.test.ts',
  'test/simulation/simulation.slow.test.ts',
  'test/exploration/exploration.slow.test.ts',
  'test/simulation/real/postgres.slow.test.ts',
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const others = await super.sort(files);
    return others.toSorted((one, other) => placeOf(one) - placeOf(other));
  }
}

function placeOf({ moduleId }: TestSpecification): number {
  const place = LONGEST.indexOf(relative('', moduleId));
  return place < 0 ? LONGEST.length : place;
}
