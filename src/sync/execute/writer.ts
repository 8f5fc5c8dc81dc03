/**
 * The one writer of the destination. Units that become ready while a window is open go into it or into the next one, so many
 * small datasets share a window.
 */

import type { Destination, Outcome, Prepared, UnitQueue } from '../../destination/destination.ts';
import { AssertionError, present } from '../../lib/assert.ts';

/** Units that are handed to the destination at once. */
const UNITS_AT_ONCE = 100;

export interface Writer {
  /** Resolves once the unit is committed, has failed, or was overtaken. */
  commit(unit: Prepared): Promise<Outcome>;
  /** Resolves once what is being committed by now is on the disk, and the destination is let go of. */
  letGo(): Promise<void>;
  /** Resolves once no window is open and nothing waits for one: of how units end is told before. */
  ended(): Promise<void>;
}

interface WriterParts {
  readonly destination: Pick<Destination, 'commit'>;
  /** Told what a window ended with where no unit is left that could be: all were told of their own end before. */
  readonly onTrouble: (error: unknown) => void;
}

interface Waiting {
  readonly unit: Prepared;
  readonly settle: PromiseWithResolvers<Outcome>;
}

export function startWriter({ destination, onTrouble }: WriterParts): Writer {
  const queue: Waiting[] = [];
  let working: Promise<void> | null = null;
  let committing = Promise.resolve();
  let arrival = Promise.withResolvers<void>();

  /** Never rejects: what the destination throws is thrown to each that was taken and of which nothing was told. */
  const commitTogether = async (): Promise<void> => {
    const taken = new Map<Prepared, Waiting['settle']>();
    const take = (): readonly Prepared[] => {
      const next = queue.splice(0, UNITS_AT_ONCE);
      for (const { unit, settle } of next) taken.set(unit, settle);
      return next.map(({ unit }) => unit);
    };
    let wasAsked = false;
    const units: UnitQueue = {
      take() {
        wasAsked = true;
        return take();
      },
      async arrival() {
        if (queue.length === 0) await arrival.promise;
      },
      tell(unit, outcome) {
        present(taken.get(unit), 'only units that were taken have an outcome').resolve(outcome);
        taken.delete(unit);
      },
    };
    let trouble: unknown = null;
    try {
      await destination.commit(units);
    } catch (error) {
      trouble = error;
    }
    // One that is never asked for would let the writer go round for ever.
    if (!wasAsked) take();
    if (taken.size === 0 && trouble !== null) onTrouble(trouble);
    const untold = trouble ?? new AssertionError('A unit was taken, and nobody was told what became of it.');
    for (const settle of taken.values()) settle.reject(untold);
  };

  const work = async (): Promise<void> => {
    while (queue.length > 0) {
      committing = commitTogether();
      await committing;
    }
    working = null;
  };

  return {
    commit(unit) {
      const settle = Promise.withResolvers<Outcome>();
      queue.push({ unit, settle });
      arrival.resolve();
      arrival = Promise.withResolvers();
      working ??= work();
      return settle.promise;
    },
    letGo: () => committing,
    async ended() {
      await working;
    },
  };
}
