/** The incidents of a catch-up: what they concern, what goes on beside them, and which requests they end. */

import { readdir } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
import {
  BusyError,
  ConfigurationError,
  ContractViolationError,
  CursorExpiredError,
  DataError,
  type FeedSyncError,
  InterruptedError,
  ServiceUnavailableError,
  StorageError,
} from '../../src/model/errors.ts';
import { SEED } from '../support/seed.ts';
import {
  calm,
  elapse,
  kinds,
  oneSubscription,
  publish,
  publishWithSnapshot,
  subscribe,
  throwAt,
  versions,
  type World,
} from '../support/small-world.ts';
import { entry, event, refusal, subscription, unreadable } from '../support/sync-values.ts';

const UNREACHABLE = new ServiceUnavailableError('The service could not be reached.');

describe('a refused workspace', () => {
  it('F23 a refused workspace stops every call and is reported, and nothing is asked until it is resumed', async () => {
    const world = await oneSubscription('parcels', 'permits');
    throwAt(world, /^versions/, refusal({ kind: 'workspace' }, { status: 401, code: null }));
    const result = await world.catchUp();
    expect(result.suspensions).toMatchObject([{ refusal: { scope: { kind: 'workspace' }, status: 401 } }]);
    expect(result.incidents).toEqual([]);
    expect(world.calls).not.toContain('download parcels');
    calm(world);
    expect(await world.catchUp()).toMatchObject({ subscriptions: 0, datasets: [], suspensions: [{}] });
    expect(world.calls).toEqual([]);
    world.checkpoint.lift({ kind: 'workspace' });
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'loaded' });
  });

  it('R3 R16 a refused workspace stops what is under way for other datasets and subscriptions, too', async () => {
    const world = await oneSubscription('parcels', 'permits');
    throwAt(world, /^versions parcels/, refusal({ kind: 'workspace' }));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting', permits: 'waiting' });
    expect(world.calls).not.toContain('download permits');

    world.checkpoint.lift({ kind: 'workspace' });
    subscribe(world, subscription({ id: 'sub_2' }), 'plats');
    calm(world);
    throwAt(world, /^events sub_1/, refusal({ kind: 'workspace' }));
    await world.catchUp();
    expect(world.calls.filter((call) => call.endsWith('sub_2'))).toEqual([]);
  });

  it('R14 another key lifts the suspension of the workspace', async () => {
    const world = await oneSubscription('parcels');
    throwAt(world, /^subscriptions/, refusal({ kind: 'workspace' }));
    expect(await world.catchUp()).toMatchObject({ suspensions: [{ keyHash: 'key-1' }] });
    calm(world);
    Object.assign(world.parts.choices, { keyHash: 'key-2' });
    expect(await world.catchUp()).toMatchObject({ suspensions: [], datasets: [{ kind: 'updated' }] });
  });
});

describe('an incident of a subscription', () => {
  async function two(): Promise<World> {
    const world = await oneSubscription('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'permits');
    return world;
  }

  it('an incident of a subscription stays with it: the others go on', async () => {
    const world = await two();
    throwAt(world, /^manifest sub_1/, UNREACHABLE);
    const result = await world.catchUp();
    expect(result.incidents).toEqual([{ subscriptionId: 'sub_1', error: UNREACHABLE }]);
    expect(kinds(result)).toEqual({ permits: 'loaded' });
  });

  it('a refusal suspends its subscription, and nothing more is asked for it', async () => {
    const world = await two();
    throwAt(world, /^events sub_1/, refusal({ kind: 'subscription', subscriptionId: 'sub_1' }));
    expect(await world.catchUp()).toMatchObject({
      incidents: [],
      suspensions: [{ refusal: { scope: { subscriptionId: 'sub_1' } } }],
    });
    calm(world);
    expect(await world.catchUp()).toMatchObject({
      suspensions: [{ refusal: { scope: { subscriptionId: 'sub_1' } } }],
    });
    expect(world.calls.filter((call) => call.endsWith('sub_1'))).toEqual([]);
  });

  it('F25 reports a log that promises more events and gives none', async () => {
    const world = await two();
    await world.catchUp();
    world.service.logs.set(
      'sub_1',
      [1, 2, 3].map(() => unreadable({ id: null })),
    );
    const result = await world.catchUp();
    expect(result.incidents).toMatchObject([
      {
        subscriptionId: 'sub_1',
        error: {
          name: 'ServiceUnavailableError',
          message:
            'The log of subscription sub_1 makes no progress: more events are to follow evt_100, and none come.',
        },
      },
    ]);
  });
});

describe('an incident of a dataset', () => {
  it.each([
    ['a refusal', refusal({ kind: 'dataset', datasetId: 'parcels' }), 'suspended'],
    ['an outage', UNREACHABLE, 'failed'],
    ['an answer that does not fit', new ContractViolationError('no', 'versions.0'), 'failed'],
    ['bad content', new DataError('The file is broken.'), 'failed'],
  ])('%s stays with its dataset: the others go on', async (_, error, kind) => {
    const world = await oneSubscription('parcels', 'permits');
    throwAt(world, /^download parcels/, error);
    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: kind, permits: 'loaded' });
    expect(result.incidents).toEqual([]);
    expect(await readdir(world.parts.choices.stagingDirectory)).toHaveLength(
      error instanceof DataError ? 0 : 1,
    );
  });

  it('F24 asks nothing more for a suspended dataset, and its table serves', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    world.service.snapshots.set('parcels', entry('parcels', 2));
    throwAt(world, /^schemas parcels/, refusal({ kind: 'dataset', datasetId: 'parcels' }));
    await world.catchUp();
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'suspended' });
    expect(world.calls.filter((call) => call.endsWith('parcels'))).toEqual([]);
    expect(versions(world)).toEqual({ parcels: 1 });
    world.checkpoint.lift({ kind: 'dataset', datasetId: 'parcels' });
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied' });
  });

  it('reports bad content again without fetching it, until the service names other content', async () => {
    const world = await oneSubscription('parcels');
    const error = new DataError('The file is broken.', { hint: 'Report it to the service.' });
    throwAt(world, /^prepare/, error);
    expect(await world.catchUp()).toMatchObject({ datasets: [{ kind: 'failed', error }] });
    calm(world);
    expect(await world.catchUp()).toMatchObject({
      datasets: [{ kind: 'failed', error: { message: error.message, hint: error.hint } }],
    });
    expect(world.calls).not.toContain('download parcels');
    world.service.snapshots.set('parcels', entry('parcels', 1, 'corrected'));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(world.checkpoint.failures().size).toBe(0);
  });

  describe('a snapshot that does not match', () => {
    const error = new DataError('It has 9 rows, but the version record states 10.');

    /** Version 2 failed, and is offered still. */
    async function failed(): Promise<World> {
      const world = await oneSubscription('parcels');
      await world.catchUp();
      publishWithSnapshot(world, 'parcels', { resyncRequired: true });
      throwAt(world, /^prepare/, error);
      expect(await world.catchUp()).toMatchObject({ datasets: [{ kind: 'failed', error }] });
      expect(world.calls.filter((call) => call === 'download parcels')).toHaveLength(2);
      calm(world);
      return world;
    }

    it.each<readonly [string, (world: World) => unknown]>([
      [
        'until the service names other content',
        ({ service }) => service.snapshots.set('parcels', entry('parcels', 2, 'corrected')),
      ],
      ['until an operator asks', ({ checkpoint }) => checkpoint.requestResync(['parcels'])],
      ['before 24 hours have passed', (world) => elapse(world, 1)],
    ])(
      'V11 F31 keeps the table and does not fetch a snapshot again that did not match, %s',
      async (_, happen) => {
        const world = await failed();
        elapse(world, 24 * 3_600_000 - 1);
        expect(kinds(await world.catchUp())).toEqual({ parcels: 'failed' });
        expect(world.calls).not.toContain('download parcels');
        expect(versions(world)).toEqual({ parcels: 1 });
        happen(world);
        expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
        expect(versions(world)).toEqual({ parcels: 2 });
      },
    );
  });

  it('tries again at once after an outage, and forgets it where nothing is left to do', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    world.service.logs.set('sub_1', [event(101, 'dataset.updated')]);
    throwAt(world, /^versions/, UNREACHABLE);
    await world.catchUp();
    expect(await world.catchUp()).toMatchObject({ datasets: [{ kind: 'failed', failure: { attempts: 2 } }] });
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    expect(world.checkpoint.failures().size).toBe(0);
  });

  it('a commit that fails for one dataset fails for no other', async () => {
    const world = await oneSubscription('parcels', 'permits');
    world.service.outcomes.push(({ datasetId }) => ({
      kind: 'failed',
      datasetId,
      error: new DataError('Two rows have the key 7.'),
    }));
    expect(Object.values(kinds(await world.catchUp())).sort()).toEqual(['failed', 'loaded']);
  });
});

it('F02 reads the version from the destination where SQLite fails after a commit, and does nothing twice', async () => {
  const world = await oneSubscription('parcels');
  await world.catchUp();
  publish(world, 'parcels');
  throwAt(world, /^recordSyncRun$/, new StorageError('No room for a line.'));
  expect((await world.catchUp()).incidents).toHaveLength(1);
  expect(versions(world)).toEqual({ parcels: 2 });
  calm(world);
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
  // The manifest lists the version before still: that is a reason to read the versions, and none to do more.
  expect(world.calls.filter((call) => /^(?:changes|download|versions) /.test(call))).toEqual([
    'versions parcels',
  ]);
});

it('F07 reports an incident of the write session that follows the results of all jobs as one of the run', async () => {
  const world = await oneSubscription('parcels');
  const { destination, progress } = world.parts;
  const error = new StorageError('No room for the checkpoint.');
  const settled = Promise.withResolvers<void>();
  const commit: typeof destination.commit = async (queue) => {
    await destination.commit(queue);
    await settled.promise;
    await new Promise(setImmediate);
    throw error;
  };
  Object.assign(world.parts, {
    destination: { ...destination, commit },
    progress: { ...progress, settled: () => settled.resolve() },
  });
  const result = await world.catchUp();
  expect(kinds(result)).toEqual({ parcels: 'loaded' });
  expect(result.incidents).toEqual([{ subscriptionId: null, error }]);
  expect(exitCodeOfResult(result)).toBe(EXIT_CODES.storageFault);
});

describe('a bug', () => {
  it('a bug fails the dataset that it struck, and the others go on', async () => {
    const world = await oneSubscription('parcels', 'permits');
    const error = new TypeError('undefined is not a function');
    world.service.outcomes.push(({ datasetId }) => ({ kind: 'failed', datasetId, error }));
    const { datasets, incidents } = await world.catchUp();
    expect(datasets.map(({ kind }) => kind).sort()).toEqual(['failed', 'updated']);
    expect(datasets.find(({ kind }) => kind === 'failed')).toMatchObject({ error });
    expect(incidents).toEqual([]);
  });
});

it('reports a dataset that does not fit on the disk, and loads those that fit', async () => {
  const world = await oneSubscription('a', 'large', 'z');
  const error = new StorageError('Not enough space: large needs 3 GB.', { code: 'disk_full' });
  throwAt(world, /^download large$/, error);
  const result = await world.catchUp();
  expect(kinds(result)).toEqual({ a: 'loaded', large: 'failed', z: 'loaded' });
  expect(result.incidents).toEqual([]);
  expect(exitCodeOfResult(result)).toBe(EXIT_CODES.storageFault);
});

describe('an incident of the run', () => {
  it.each([
    ['a full disk', new StorageError('The disk is full.')],
    ['a busy mirror', new BusyError('A reader holds the mirror.')],
    ['a mirror of a newer program', new ConfigurationError('The mirror is of a newer format.')],
  ])('%s ends the run, reported once for all datasets', async (_, error) => {
    const ids = Array.from({ length: 70 }, (_none, index) => `dataset-${index}`);
    const world = await oneSubscription(...ids);
    throwAt(world, /^commit$/, error);
    const result = await world.catchUp();
    expect(result.incidents).toEqual([{ subscriptionId: null, error }]);
    expect(new Set(result.datasets.map(({ kind }) => kind))).toEqual(new Set(['waiting']));
    expect(result.datasets).toHaveLength(70);
    expect(world.calls.filter((call) => call.startsWith('download')).length).toBeLessThan(70);
  });

  it('reports an interruption once, and keeps what was committed', async () => {
    const ids = Array.from({ length: 70 }, (_none, index) => `dataset-${index}`);
    const world = await oneSubscription(...ids);
    const stop = new AbortController();
    const reason = new InterruptedError('Interrupted by SIGTERM.');
    world.intervene = (call) => {
      if (call === 'commit') stop.abort(reason);
    };
    const result = await world.catchUp(stop.signal);
    expect(result.incidents).toEqual([{ subscriptionId: null, error: reason }]);
    const ended = Object.values(kinds(result));
    const loaded = ended.filter((kind) => kind === 'loaded').length;
    expect(loaded).toBeGreaterThan(0);
    expect(loaded).toBeLessThan(70);
    expect(ended.filter((kind) => kind === 'waiting')).toHaveLength(70 - loaded);
    expect(world.tables.size).toBe(loaded);
    calm(world);
    const again = Object.values(kinds(await world.catchUp()));
    expect(again.filter((kind) => kind === 'current')).toHaveLength(loaded);
    expect(again.filter((kind) => kind === 'loaded')).toHaveLength(70 - loaded);
  });

  it('reports an interruption from before the start, and asks nothing', async () => {
    const world = await oneSubscription('a');
    const reason = new InterruptedError('Interrupted by SIGTERM.');
    const result = await world.catchUp(AbortSignal.abort(reason));
    expect(result).toMatchObject({ datasets: [], incidents: [{ subscriptionId: null, error: reason }] });
    expect(world.calls).toEqual([]);
  });

  it('reports a suspension that cannot be stored, together with the refusal', async () => {
    const world = await oneSubscription('parcels');
    const full = new StorageError('The checkpoint cannot be written.');
    const refused = refusal({ kind: 'dataset', datasetId: 'parcels' });
    world.intervene = (call) => {
      if (call === 'suspend') throw full;
      if (call === 'versions parcels') throw refused;
    };
    const { incidents } = await world.catchUp();
    expect(incidents.map(({ error }) => error)).toEqual([full, refused]);
  });
});

describe('incidents at random calls', () => {
  const scopes = fc.constantFrom(
    { kind: 'workspace' } as const,
    { kind: 'subscription', subscriptionId: 'sub_1' } as const,
    { kind: 'dataset', datasetId: 'parcels' } as const,
  );
  const errors: fc.Arbitrary<FeedSyncError> = fc.oneof(
    scopes.map((scope) => refusal(scope)),
    fc.constantFrom(
      new ServiceUnavailableError('unreachable'),
      new ContractViolationError('does not fit', 'a.b'),
      new CursorExpiredError('expired'),
      new DataError('bad'),
      new StorageError('full'),
      new BusyError('busy'),
      new ConfigurationError('wrong'),
      new InterruptedError('stopped'),
    ),
  );
  /** Every call of a port fails with some chance, each with an error of its own. */
  const faults = fc.array(fc.option(errors, { freq: 6 }), { minLength: 1, maxLength: 40 });

  it('a catch-up with faults ends with a result for every dataset, and the next one without has everything', async () => {
    let faulty = 0;
    await fc.assert(
      fc.asyncProperty(
        faults,
        fc.constantFrom('subscription' as const, 'dataset' as const),
        async (given, shape) => {
          const world = await oneSubscription('parcels', 'permits');
          world.service.shape = shape;
          world.service.subscriptions = [subscription({ datasetIds: ['parcels', 'permits'] })];
          world.service.logs.set('sub_1', [event(101, 'dataset.updated', { version: 1 })]);
          let calls = 0;
          world.intervene = () => {
            const error = given[calls++] ?? null;
            if (error === null) return;
            faulty += 1;
            throw error;
          };
          const result = await world.catchUp();
          expect([0, 2]).toContain(result.datasets.length);
          calm(world);
          for (const { refusal: lifted } of world.checkpoint.suspensions())
            world.checkpoint.lift(lifted.scope);
          for (const { datasetId } of world.checkpoint.failures().values())
            world.checkpoint.clearFailure(datasetId);
          expect(await world.catchUp()).toMatchObject({ incidents: [], suspensions: [], datasets: [{}, {}] });
          expect(versions(world)).toEqual({ parcels: 1, permits: 1 });
          world.checkpoint.close();
        },
      ),
      { seed: SEED, numRuns: 40 },
    );
    expect(faulty).toBeGreaterThan(40);
  });
});

describe('stored polls', () => {
  it('stores the last successful poll with its process, and a failure with its start until it is over', async () => {
    const world = await oneSubscription('parcels');
    const { process } = world.parts;
    await world.catchUp();
    const [list, log] = world.checkpoint.polls();
    expect(list).toMatchObject({ subscriptionId: null, success: { process }, failure: null });
    expect(log).toMatchObject({ subscriptionId: 'sub_1', success: { process }, failure: null });

    throwAt(world, /^events sub_1/, UNREACHABLE);
    await world.catchUp();
    const { message } = UNREACHABLE;
    const failed = { success: log?.success, failure: { error: 'service_unavailable', message } };
    expect(world.checkpoint.polls()).toMatchObject([{ failure: null }, failed]);
    const since = world.checkpoint.polls()[1]?.failure?.since;
    await world.catchUp();
    expect(world.checkpoint.polls()[1]?.failure?.since).toEqual(since);

    calm(world);
    await world.catchUp();
    expect(world.checkpoint.polls()).toMatchObject([{ failure: null }, { failure: null }]);
  });

  it('stores no failed poll for a refusal, and none for a subscription that was given up', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    throwAt(world, /^events sub_1/, refusal({ kind: 'subscription', subscriptionId: 'sub_1' }));
    await world.catchUp();
    expect(world.checkpoint.polls()).toMatchObject([{ failure: null }, { failure: null }]);
    world.checkpoint.forget('sub_1');
    expect(world.checkpoint.polls().map(({ subscriptionId }) => subscriptionId)).toEqual([null]);
  });
});
