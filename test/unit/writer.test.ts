/** The one writer: what goes into one window, in which order, and what becomes of each unit. */

import { describe, expect, it } from 'vitest';
import type { Destination, Outcome, Prepared, UnitQueue } from '../../src/destination/destination.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { BusyError, StorageError } from '../../src/model/errors.ts';
import { startWriter } from '../../src/sync/work/writer.ts';
import { schema } from '../support/sync-values.ts';

function unit(datasetId: string): Prepared {
  return {
    unit: {
      kind: 'snapshot',
      datasetId,
      version: 1,
      publishedAt: null,
      schema: schema(datasetId),
      files: [],
      digest: '',
      expectedRowCounts: [],
      reloads: new Map(),
      plannedFrom: null,
    },
  };
}

function overtaken({ unit: { datasetId } }: Prepared): Outcome {
  return { kind: 'overtaken', datasetId };
}

const refuseTrouble = (error: unknown): never => {
  throw error;
};

function writerTo(
  destination: Destination,
  onTrouble: (error: unknown) => void = refuseTrouble,
  clock: Pick<Clock, 'sleep'> = systemClock,
) {
  return startWriter({ destination, clock, onTrouble });
}

function idsOf(units: readonly Prepared[]): readonly string[] {
  return units.map((one) => one.unit.datasetId);
}

/** What is ready by now goes on. */
const turn = () => new Promise(setImmediate);

/** A destination of which only `commit` is called. Each window ends when the test says so. */
function windows() {
  const opened: { readonly ids: readonly string[]; readonly end: PromiseWithResolvers<void> }[] = [];
  let open = 0;
  const commit = async (queue: UnitQueue): Promise<void> => {
    open += 1;
    expect(open).toBe(1);
    const units = await queue.take(0);
    const end = Promise.withResolvers<void>();
    opened.push({ ids: idsOf(units), end });
    await end.promise.finally(() => {
      open -= 1;
    });
    for (const one of units) queue.tell(one, overtaken(one));
  };
  const unused = () => Promise.reject(new Error('not called here'));
  const others = { has: unused, enroll: unused, prepare: unused, progress: () => 0, close: unused };
  const destination: Destination = { commit, ...others };
  return { opened, destination };
}

describe('the writer', () => {
  it('puts into the next window, in order, what became ready while one was open', async () => {
    const { opened, destination } = windows();
    const writer = writerTo(destination);
    const first = writer.commit(unit('a'));
    const others = ['b', 'c', 'd'].map((datasetId) => writer.commit(unit(datasetId)));
    await turn();
    expect(opened.map(({ ids }) => ids)).toEqual([['a']]);
    opened[0]?.end.resolve();
    await expect(first).resolves.toEqual({ kind: 'overtaken', datasetId: 'a' });
    await turn();
    expect(opened.map(({ ids }) => ids)).toEqual([['a'], ['b', 'c', 'd']]);
    opened[1]?.end.resolve();
    expect((await Promise.all(others)).map(({ datasetId }) => datasetId)).toEqual(['b', 'c', 'd']);
  });

  it('hands a hundred units to one window at the most', async () => {
    const { opened, destination } = windows();
    const writer = writerTo(destination);
    const all = Array.from({ length: 151 }, (_, index) => writer.commit(unit(`dataset-${index}`)));
    for (let window = 0; window < 3; window++) {
      await turn();
      opened[window]?.end.resolve();
    }
    expect(opened.map(({ ids }) => ids.length)).toEqual([1, 100, 50]);
    expect(await Promise.all(all)).toHaveLength(151);
  });

  it('tells each unit of a window what the destination threw, and goes on', async () => {
    const { opened, destination } = windows();
    const writer = writerTo(destination);
    const first = writer.commit(unit('a'));
    const second = writer.commit(unit('b'));
    const busy = new BusyError('A reader holds the mirror.');
    await turn();
    opened[0]?.end.reject(busy);
    await expect(first).rejects.toBe(busy);
    await turn();
    opened[1]?.end.resolve();
    await expect(second).resolves.toMatchObject({ datasetId: 'b' });
    const third = writer.commit(unit('c'));
    await turn();
    opened[2]?.end.resolve();
    await expect(third).resolves.toMatchObject({ datasetId: 'c' });
  });

  it('tells a unit of its end while the window is still open, and hands over what became ready meanwhile', async () => {
    const taken: (readonly string[])[] = [];
    const { destination } = windows();
    const goOn = Promise.withResolvers<void>();
    const lost = new BusyError('The mirror is gone.');
    const commit = async (queue: UnitQueue): Promise<void> => {
      const [first] = await queue.take(0);
      if (first === undefined) throw new Error('a unit is ready');
      queue.tell(first, overtaken(first));
      await goOn.promise;
      const [second, ...others] = await queue.take(0);
      if (second === undefined) throw new Error('units became ready');
      taken.push(idsOf([first]), idsOf([second, ...others]));
      queue.tell(second, overtaken(second));
      throw lost;
    };
    const writer = writerTo({ ...destination, commit });
    await expect(writer.commit(unit('a'))).resolves.toEqual({ kind: 'overtaken', datasetId: 'a' });
    const second = writer.commit(unit('b'));
    const third = writer.commit(unit('c'));
    goOn.resolve();
    await expect(second).resolves.toEqual({ kind: 'overtaken', datasetId: 'b' });
    await expect(third).rejects.toBe(lost);
    expect(taken).toEqual([['a'], ['b', 'c']]);
  });

  it.each([
    ['is told of none of them', async (queue: UnitQueue) => void (await queue.take(0))],
    ['takes none', async () => {}],
  ])('leaves no unit without an answer where the destination %s', async (_, commit) => {
    const { destination } = windows();
    const writer = writerTo({ ...destination, commit });
    await expect(writer.commit(unit('a'))).rejects.toMatchObject({ name: 'AssertionError' });
  });

  it('tells of trouble that strikes once all were told of their end, before it has ended', async () => {
    const { destination } = windows();
    const full = new StorageError('The disk is full.');
    const closing = Promise.withResolvers<void>();
    const commit = async (queue: UnitQueue): Promise<void> => {
      for (const one of await queue.take(0)) queue.tell(one, overtaken(one));
      await closing.promise;
      throw full;
    };
    const troubles: unknown[] = [];
    const writer = writerTo({ ...destination, commit }, (error) => troubles.push(error));
    await expect(writer.commit(unit('a'))).resolves.toMatchObject({ kind: 'overtaken' });
    expect(troubles).toEqual([]);
    closing.resolve();
    await writer.ended();
    expect(troubles).toEqual([full]);
  });

  describe('waits for the next unit', () => {
    function patient(clock: Pick<Clock, 'sleep'>) {
      const { destination } = windows();
      const taken: (readonly string[])[] = [];
      const commit = async (queue: UnitQueue): Promise<void> => {
        for (const waitMs of [0, 200]) {
          const units = await queue.take(waitMs);
          taken.push(idsOf(units));
          for (const one of units) queue.tell(one, overtaken(one));
        }
      };
      return { taken, writer: writerTo({ ...destination, commit }, refuseTrouble, clock) };
    }

    it('as long as it is told to', async () => {
      const slept: number[] = [];
      const { taken, writer } = patient({ sleep: async (durationMs) => void slept.push(durationMs) });
      await writer.commit(unit('a'));
      await writer.ended();
      expect(taken).toEqual([['a'], []]);
      expect(slept).toEqual([200]);
    });

    it('and no longer than until it is there', async () => {
      const untilAborted = (_: number, signal?: AbortSignal) =>
        new Promise<void>((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
        });
      const { taken, writer } = patient({ sleep: untilAborted });
      await writer.commit(unit('a'));
      await writer.commit(unit('b'));
      await writer.ended();
      expect(taken).toEqual([['a'], ['b']]);
    });
  });

  it('takes no outcome of a unit that was not handed over', async () => {
    const { destination } = windows();
    const commit = async (queue: UnitQueue): Promise<void> => {
      await queue.take(0);
      queue.tell(unit('stranger'), overtaken(unit('stranger')));
    };
    const writer = writerTo({ ...destination, commit });
    await expect(writer.commit(unit('a'))).rejects.toMatchObject({ name: 'AssertionError' });
  });
});
