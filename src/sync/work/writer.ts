/**
 * The one writer of the destination. Units that become ready while a window is open wait for the next one and go
 * into it together, so many small datasets share a window and a large one has its own.
 */

import type { Destination, Outcome, Prepared } from '../../destination/destination.ts';
import { present } from '../../lib/assert.ts';

/** Units that are handed to the destination for one window. */
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
    while (queue.length > 0) await commitTogether(destination, queue.splice(0, UNITS_AT_ONCE));
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

/** Never rejects: what the destination throws is thrown to each that waits. */
async function commitTogether(destination: Destination, batch: readonly Waiting[]): Promise<void> {
  try {
    const outcomes = await destination.commit(batch.map(({ unit }) => unit));
    for (const [index, { settle }] of batch.entries()) {
      settle.resolve(present(outcomes[index], 'every unit has an outcome'));
    }
  } catch (error) {
    for (const { settle } of batch) settle.reject(error);
  }
}
