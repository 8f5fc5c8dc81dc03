/** The one writer: the jobs of a write session, their order, and the result of each. */

import { describe, expect, it } from 'vitest';
import type { Destination, JobQueue, JobResult, ValidatedJob } from '../../src/destination/destination.ts';
import { BusyError, StorageError } from '../../src/model/errors.ts';
import { startWriter } from '../../src/sync/execute/writer.ts';
import { snapshot } from '../support/duckdb-mirror.ts';

function job(datasetId: string): ValidatedJob {
  return { job: snapshot({ datasetId, columns: [], files: [] }) };
}

function stalePlan({ job: { datasetId } }: ValidatedJob): JobResult {
  return { kind: 'stale-plan', datasetId };
}

const refuseError = (error: unknown): never => {
  throw error;
};

function writerTo(destination: Destination, onError: (error: unknown) => void = refuseError) {
  return startWriter({ destination, onError });
}

function idsOf(jobs: readonly ValidatedJob[]): readonly string[] {
  return jobs.map((one) => one.job.datasetId);
}

/** Lets everything that is ready go on. */
const turn = () => new Promise(setImmediate);

/** A destination of which only `commit` is called. Each session ends when the test ends it. */
function sessions() {
  const opened: { readonly ids: readonly string[]; readonly end: PromiseWithResolvers<void> }[] = [];
  let open = 0;
  const commit = async (queue: JobQueue): Promise<void> => {
    open += 1;
    expect(open).toBe(1);
    const jobs = queue.take();
    const end = Promise.withResolvers<void>();
    opened.push({ ids: idsOf(jobs), end });
    await end.promise.finally(() => {
      open -= 1;
    });
    for (const one of jobs) queue.report(one, stalePlan(one));
  };
  const unused = () => Promise.reject(new Error('not called here'));
  const others = {
    has: unused,
    enroll: unused,
    validate: unused,
    readAhead: unused,
    storeProgress: unused,
    unpin: unused,
    findDamage: unused,
    forgetPast: unused,
    storeChecksum: unused,
    renewChecksums: unused,
    progress: () => 0,
    close: unused,
  };
  const destination: Destination = { commit, ...others };
  return { opened, destination };
}

describe('the writer', () => {
  it('puts the jobs that became ready during a session into the next one, in order', async () => {
    const { opened, destination } = sessions();
    const writer = writerTo(destination);
    const first = writer.commit(job('a'));
    const others = ['b', 'c', 'd'].map((datasetId) => writer.commit(job(datasetId)));
    await turn();
    expect(opened.map(({ ids }) => ids)).toEqual([['a']]);
    opened[0]?.end.resolve();
    await expect(first).resolves.toEqual({ kind: 'stale-plan', datasetId: 'a' });
    await turn();
    expect(opened.map(({ ids }) => ids)).toEqual([['a'], ['b', 'c', 'd']]);
    opened[1]?.end.resolve();
    expect((await Promise.all(others)).map(({ datasetId }) => datasetId)).toEqual(['b', 'c', 'd']);
  });

  it('takes at most a hundred jobs into one session', async () => {
    const { opened, destination } = sessions();
    const writer = writerTo(destination);
    const all = Array.from({ length: 151 }, (_, index) => writer.commit(job(`dataset-${index}`)));
    for (let session = 0; session < 3; session++) {
      await turn();
      opened[session]?.end.resolve();
    }
    expect(opened.map(({ ids }) => ids.length)).toEqual([1, 100, 50]);
    expect(await Promise.all(all)).toHaveLength(151);
  });

  it("rejects each job of a session with the destination's error, and goes on", async () => {
    const { opened, destination } = sessions();
    const writer = writerTo(destination);
    const first = writer.commit(job('a'));
    const second = writer.commit(job('b'));
    const busy = new BusyError('A reader has the mirror open.');
    await turn();
    opened[0]?.end.reject(busy);
    await expect(first).rejects.toBe(busy);
    await turn();
    opened[1]?.end.resolve();
    await expect(second).resolves.toMatchObject({ datasetId: 'b' });
    const third = writer.commit(job('c'));
    await turn();
    opened[2]?.end.resolve();
    await expect(third).resolves.toMatchObject({ datasetId: 'c' });
  });

  it("reports a job's result during the session, and takes the jobs that became ready meanwhile", async () => {
    const taken: (readonly string[])[] = [];
    const { destination } = sessions();
    const goOn = Promise.withResolvers<void>();
    const lost = new BusyError('The mirror is gone.');
    const commit = async (queue: JobQueue): Promise<void> => {
      const [first] = queue.take();
      if (first === undefined) throw new Error('a job is ready');
      queue.report(first, stalePlan(first));
      await goOn.promise;
      const [second, ...others] = queue.take();
      if (second === undefined) throw new Error('jobs became ready');
      taken.push(idsOf([first]), idsOf([second, ...others]));
      queue.report(second, stalePlan(second));
      throw lost;
    };
    const writer = writerTo({ ...destination, commit });
    await expect(writer.commit(job('a'))).resolves.toEqual({ kind: 'stale-plan', datasetId: 'a' });
    const second = writer.commit(job('b'));
    const third = writer.commit(job('c'));
    goOn.resolve();
    await expect(second).resolves.toEqual({ kind: 'stale-plan', datasetId: 'b' });
    await expect(third).rejects.toBe(lost);
    expect(taken).toEqual([['a'], ['b', 'c']]);
  });

  it.each([
    ['reports none of them', async (queue: JobQueue) => void queue.take()],
    ['takes none', async () => {}],
  ])('leaves no job without a result where the destination %s', async (_, commit) => {
    const { destination } = sessions();
    const writer = writerTo({ ...destination, commit });
    await expect(writer.commit(job('a'))).rejects.toMatchObject({ name: 'AssertionError' });
  });

  it('reports an error after the last result, before the session has ended', async () => {
    const { destination } = sessions();
    const full = new StorageError('The disk is full.');
    const closing = Promise.withResolvers<void>();
    const commit = async (queue: JobQueue): Promise<void> => {
      for (const one of queue.take()) queue.report(one, stalePlan(one));
      await closing.promise;
      throw full;
    };
    const incidents: unknown[] = [];
    const writer = writerTo({ ...destination, commit }, (error) => incidents.push(error));
    await expect(writer.commit(job('a'))).resolves.toMatchObject({ kind: 'stale-plan' });
    expect(incidents).toEqual([]);
    closing.resolve();
    await writer.ended();
    expect(incidents).toEqual([full]);
  });

  it('resolves when the destination is free, whatever waits for it next', async () => {
    const { opened, destination } = sessions();
    const writer = writerTo(destination);
    await writer.release();
    const commits = ['a', 'b'].map((datasetId) => writer.commit(job(datasetId)));
    await turn();
    let isFree = false;
    const release = writer.release().then(() => {
      isFree = true;
    });
    await turn();
    expect(isFree).toBe(false);
    opened[0]?.end.resolve();
    await release;
    await turn();
    opened[1]?.end.resolve();
    await Promise.all(commits);
    await writer.ended();
    await writer.release();
  });

  it('announces the arrival of a job', async () => {
    const { destination } = sessions();
    const seen: string[] = [];
    const commit = async (queue: JobQueue): Promise<void> => {
      await queue.arrival();
      for (const turns of [1, 2]) {
        for (const one of queue.take()) {
          seen.push(`${turns}: ${one.job.datasetId}`);
          queue.report(one, stalePlan(one));
        }
        if (turns === 1) await queue.arrival().then(() => seen.push('arrived'));
      }
    };
    const writer = writerTo({ ...destination, commit });
    await writer.commit(job('a'));
    await turn();
    expect(seen).toEqual(['1: a']);
    await writer.commit(job('b'));
    expect(seen).toEqual(['1: a', 'arrived', '2: b']);
  });

  it('rejects the result of a job that was not taken', async () => {
    const { destination } = sessions();
    const commit = async (queue: JobQueue): Promise<void> => {
      queue.take();
      queue.report(job('stranger'), stalePlan(job('stranger')));
    };
    const writer = writerTo({ ...destination, commit });
    await expect(writer.commit(job('a'))).rejects.toMatchObject({ name: 'AssertionError' });
  });
});
