/**
 * The one writer of the destination. Units that become ready while a window is open go into it together, or into the next
 * one, so many small datasets share a window and a large one has its own.
 */

import type { Destination, Outcome, Prepared, UnitQueue } from '../../destination/destination.ts';
import { AssertionError, present } from '../../lib/assert.ts';

/** Units that are handed to the destination at once. */
const UNITS_AT_ONCE = 100;

export interface Writer {
  /** Resolves once the unit is committed, has failed, or was overtaken. */
  commit(unit: Prepared): Promise<Outcome>;
}

interface Waiting {
  readonly unit: Prepared;
  readonly settle: PromiseWithResolvers<Outcome>;
}

export function startWriter(destination: Destination): Writer {
  const queue: Waiting[] = [];
  let working = false;

  const work = async (): Promise<void> => {
    working = true;
    while (queue.length > 0) await commitTogether(destination, queue);
    working = false;
  };

  return {
    commit(unit) {
      const settle = Promise.withResolvers<Outcome>();
      queue.push({ unit, settle });
      if (!working) void work();
      return settle.promise;
    },
  };
}

/** Never rejects: what the destination throws is thrown to each that was taken and of which nothing was told. */
async function commitTogether(destination: Destination, queue: Waiting[]): Promise<void> {
  const taken = new Map<Prepared, Waiting['settle']>();
  let wasAsked = false;
  const units: UnitQueue = {
    take() {
      wasAsked = true;
      const next = queue.splice(0, UNITS_AT_ONCE);
      for (const { unit, settle } of next) taken.set(unit, settle);
      return next.map(({ unit }) => unit);
    },
    tell(unit, outcome) {
      present(taken.get(unit), 'only units that were taken have an outcome').resolve(outcome);
      taken.delete(unit);
    },
  };
  let untold: unknown = new AssertionError(
    'A unit that was ready was not committed, and nothing was thrown.',
  );
  try {
    await destination.commit(units);
  } catch (error) {
    untold = error;
  }
  // One that was never asked for would let the writer go round for ever.
  if (!wasAsked) units.take();
  for (const settle of taken.values()) settle.reject(untold);
}
