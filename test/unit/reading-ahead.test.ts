/** The versions that are read while others are being fetched. */

import { describe, expect, it } from 'vitest';
import type { ReadAhead } from '../../src/model/write-jobs.ts';
import { BYTES_OF_A_PART, LEAST_BYTES_AHEAD, ReadingAhead } from '../../src/sync/execute/fetch-changes.ts';

interface One {
  readonly position: number;
  readonly bytes: number;
}

/** The parts that were to be read, each with its end. */
function readings() {
  const begun: {
    readonly positions: readonly number[];
    readonly end: PromiseWithResolvers<ReadAhead | null>;
  }[] = [];
  const reading = new ReadingAhead<One>((some) => {
    const end = Promise.withResolvers<ReadAhead | null>();
    begun.push({ positions: some.map(({ position }) => position), end });
    return end.promise;
  });
  const arrived = (position: number, bytes = LEAST_BYTES_AHEAD): void =>
    reading.arrived(position, { position, bytes });
  const positions = (): readonly (readonly number[])[] => begun.map((each) => each.positions);
  const finish = async (index: number): Promise<void> => {
    begun[index]?.end.resolve({ versions: begun[index]?.positions.length ?? 0 });
    await turn();
  };
  return { reading, begun, arrived, positions, finish };
}

/** Lets everything that is ready go on. */
const turn = () => new Promise(setImmediate);

describe('reading ahead', () => {
  it('starts once enough bytes have arrived', () => {
    const { arrived, positions } = readings();
    arrived(0, LEAST_BYTES_AHEAD - 1);
    expect(positions()).toEqual([]);
    arrived(1, 1);
    expect(positions()).toEqual([[0, 1]]);
  });

  it('reads two parts at once, each as small as possible, and the next one when one ends', async () => {
    const { reading, arrived, positions, finish } = readings();
    arrived(0, BYTES_OF_A_PART);
    arrived(1, BYTES_OF_A_PART);
    for (const position of [2, 3, 4, 5]) arrived(position, BYTES_OF_A_PART / 2);
    expect(positions()).toEqual([[0], [1]]);
    await finish(1);
    expect(positions()).toEqual([[0], [1], [2, 3]]);
    await finish(0);
    expect(positions()).toEqual([[0], [1], [2, 3], [4, 5]]);
    await finish(3);
    await finish(2);
    expect(await reading.end()).toEqual([{ versions: 1 }, { versions: 1 }, { versions: 2 }, { versions: 2 }]);
  });

  it('reads versions in their order, and waits for a late one', () => {
    const { arrived, positions } = readings();
    arrived(1);
    arrived(3);
    expect(positions()).toEqual([]);
    arrived(0);
    expect(positions()).toEqual([[0, 1]]);
    arrived(2);
    expect(positions()).toEqual([
      [0, 1],
      [2, 3],
    ]);
  });

  it.each([
    ['cannot be read', (end: PromiseWithResolvers<ReadAhead | null>) => end.resolve(null)],
    ['throws', (end: PromiseWithResolvers<ReadAhead | null>) => end.reject(new Error('disk'))],
  ])('ends with a part that %s, so that no version is skipped', async (_, fail) => {
    const { reading, begun, arrived, positions, finish } = readings();
    arrived(0);
    await finish(0);
    arrived(1);
    arrived(2);
    fail(begun[1]?.end ?? Promise.withResolvers());
    await turn();
    arrived(3);
    expect(positions()).toEqual([[0], [1], [2]]);
    await finish(2);
    expect(await reading.end()).toEqual([{ versions: 1 }]);
  });

  it('ends once every part that is worth it was read', async () => {
    const { reading, arrived, positions, finish } = readings();
    for (const position of [0, 1, 2]) arrived(position, BYTES_OF_A_PART);
    arrived(3, LEAST_BYTES_AHEAD - 1);
    let isOver = false;
    const over = reading.end().then((parts) => {
      isOver = true;
      return parts;
    });
    await finish(0);
    await finish(1);
    expect(positions()).toEqual([[0], [1], [2]]);
    expect(isOver).toBe(false);
    await finish(2);
    expect(await over).toEqual([{ versions: 1 }, { versions: 1 }, { versions: 1 }]);
    expect(positions()).toHaveLength(3);
  });

  it('starts no further part after a stop, and waits for those being read', async () => {
    const { reading, arrived, positions, finish } = readings();
    for (const position of [0, 1, 2]) arrived(position, BYTES_OF_A_PART);
    reading.stop();
    const over = reading.end();
    await finish(0);
    await finish(1);
    expect(await over).toEqual([{ versions: 1 }, { versions: 1 }]);
    expect(positions()).toEqual([[0], [1]]);
  });
});
