/**
 * A property: a rule for whatever is generated. A run is always the same; `PROPERTY_SEED` makes it
 * another one and `PROPERTY_RUNS` a longer one. A failure names the smallest example found and the command that repeats it.
 */

import { relative } from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PATIENCE_MS } from '../support/patience.ts';
import { SEED } from '../support/seed.ts';

/** Time for the report of a run whose time is over. */
const SPARE_MS = 60_000;

const { PROPERTY_SEED = `${SEED}`, PROPERTY_RUNS = '1' } = process.env;
const seed = Number(PROPERTY_SEED);
const times = Number(PROPERTY_RUNS);

/** A test that tries the property `numRuns` times, or as many times that as `PROPERTY_RUNS` says. */
export function property<Values>(
  name: string,
  numRuns: number,
  tried: fc.IRawProperty<Values>,
  examples: Values[] = [],
): void {
  it(
    name,
    async () => {
      const details = await fc.check(tried, {
        seed,
        numRuns: Math.ceil(numRuns * times),
        examples,
        // A slow failure is reported with the smallest example that was found by then.
        interruptAfterTimeLimit: PATIENCE_MS * Math.max(1, times),
        markInterruptAsFailure: true,
      });
      if (!details.failed) return;
      throw new Error(`${fc.defaultReportMessage(details)}\n\nTo repeat it:\n  ${repetition(name)}`, {
        cause: details.errorInstance,
      });
    },
    PATIENCE_MS * Math.max(1, times) + SPARE_MS,
  );
}

function repetition(name: string): string {
  const path = relative('', expect.getState().testPath ?? 'test/properties');
  const variables = `PROPERTY_SEED=${seed} PROPERTY_RUNS=${times}`;
  return `${variables} npx vitest run --project "fast*" ${path} -t ${JSON.stringify(name)}`;
}
