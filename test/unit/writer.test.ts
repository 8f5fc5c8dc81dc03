/** The one writer: what goes into one window, in which order, and what becomes of each unit. */

import { describe, expect, it } from 'vitest';
import type { Destination, Outcome, Prepared, UnitQueue } from '../../src/destination/destination.ts';
import { BusyError, StorageError } from '../../src/model/errors.ts';
import { startWriter } from '../../src/sync/execute/writer.ts';
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
      digestKind: 'stated',
      loadedThrough: null,
      loadedAt: null,
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

function writerTo(destination: Destination, onTrouble: (error: unknown) => void = refuseTrouble) {
  return startWriter({ destination, onTrouble });
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
    const units = queue.take();
    const end = Promise.withResolvers<void>();
    opened.push({ ids: idsOf(units), end });
    await end.promise.finally(() => {
      open -= 1;
    });
    for (const one of units) queue.tell(one, overtaken(one));
  };
  const unused = () => Promise.reject(new Error('not called here'));
  const others = {
    has: unused,
    enroll: unused,
    prepare: unused,
    readAhead: unused,
    storeProgress: unused,
    progress: () => 0,
    close: unused,
  };
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
      const [first] = queue.take();
      if (first === undefined) throw new Error('a unit is ready');
      queue.tell(first, overtaken(first));
      await goOn.promise;
      const [second, ...others] = queue.take();
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
    ['is told of none of them', async (queue: UnitQueue) => void queue.take()],
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
      for (const one of queue.take()) queue.tell(one, overtaken(one));
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

  it('says when the destination is let go of, whatever waits for it next', async () => {
    const { opened, destination } = windows();
    const writer = writerTo(destination);
    await writer.letGo();
    const commits = ['a', 'b'].map((datasetId) => writer.commit(unit(datasetId)));
    await turn();
    let isLetGo = false;
    const letGo = writer.letGo().then(() => {
      isLetGo = true;
    });
    await turn();
    expect(isLetGo).toBe(false);
    opened[0]?.end.resolve();
    await letGo;
    await turn();
    opened[1]?.end.resolve();
    await Promise.all(commits);
    await writer.ended();
    await writer.letGo();
  });

  it('says when a unit is ready', async () => {
    const { destination } = windows();
    const seen: string[] = [];
    const commit = async (queue: UnitQueue): Promise<void> => {
      await queue.arrival();
      for (const turns of [1, 2]) {
        for (const one of queue.take()) {
          seen.push(`${turns}: ${one.unit.datasetId}`);
          queue.tell(one, overtaken(one));
        }
        if (turns === 1) await queue.arrival().then(() => seen.push('arrived'));
      }
    };
    const writer = writerTo({ ...destination, commit });
    await writer.commit(unit('a'));
    await turn();
    expect(seen).toEqual(['1: a']);
    await writer.commit(unit('b'));
    expect(seen).toEqual(['1: a', 'arrived', '2: b']);
  });

  it('takes no outcome of a unit that was not handed over', async () => {
    const { destination } = windows();
    const commit = async (queue: UnitQueue): Promise<void> => {
      queue.take();
      queue.tell(unit('stranger'), overtaken(unit('stranger')));
    };
    const writer = writerTo({ ...destination, commit });
    await expect(writer.commit(unit('a'))).rejects.toMatchObject({ name: 'AssertionError' });
  });
});
