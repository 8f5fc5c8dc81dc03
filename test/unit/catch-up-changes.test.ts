/** Changes in a catch-up: fetched ahead, applied as one, and which of them fall back to the snapshot. */

import { readdir } from 'node:fs/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ChangesRequest } from '../../src/feed/feed.ts';
import { present } from '../../src/lib/assert.ts';
import {
  BadChangesError,
  DataError,
  InapplicableChangesError,
  InterruptedError,
  ServiceUnavailableError,
} from '../../src/model/errors.ts';
import type { ReadAhead } from '../../src/model/write-jobs.ts';
import { MAX_SMALL_BYTES, MAX_SMALL_ROWS } from '../../src/sync/execute/executor.ts';
import { LEAST_BYTES_AHEAD } from '../../src/sync/execute/fetch-changes.ts';
import { owesResync } from '../../src/sync/plan/need.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { notRecorded, recorded } from '../support/small-feed.ts';
import {
  calm,
  caughtUp,
  elapse,
  kinds,
  oneSubscription,
  publish,
  publishWithSnapshot,
  throwAt,
  throwUnknownColumns,
  versions,
  type World,
} from '../support/small-world.ts';
import { column, entry, event, NOW, refusal, schema, table, version } from '../support/sync-values.ts';

function commitsOf({ datasets }: CatchUpResult, datasetId = 'parcels') {
  return datasets.find((one) => one.datasetId === datasetId)?.commits;
}

/** What was asked for datasets. The order of versions that are fetched at once is left to chance. */
function asked(world: World): readonly string[] {
  const calls = world.calls.filter((call) => /^(versions|schemas|changes|download) /.test(call));
  return [
    ...calls.filter((call) => !call.startsWith('changes')),
    ...calls.filter((call) => call.startsWith('changes')).sort(),
  ];
}

function syncRuns(world: World): readonly string[] {
  return world.checkpoint.recentSyncRuns(3).map(({ kind, detail }) => `${kind} ${detail}`);
}

describe('published changes', () => {
  it('applies the changes of several versions as one commit, without a download', async () => {
    const world = await caughtUp('parcels');
    for (const added of [1, 2, 3]) {
      publish(world, 'parcels', { counts: { added, changed: 1, removed: 0 }, rowCount: null });
    }
    const result = await world.catchUp();
    expect(commitsOf(result)).toMatchObject([
      {
        kind: 'changes',
        fromVersion: 1,
        toVersion: 4,
        rowCount: 16,
        net: { added: 6, changed: 3, removed: 0 },
        versions: 3,
        bytes: 96,
      },
    ]);
    expect(asked(world)).toEqual([
      'versions parcels',
      'schemas parcels',
      'changes parcels 2',
      'changes parcels 3',
      'changes parcels 4',
    ]);
    expect(world.applied).toMatchObject([
      {
        version: 4,
        publishedAt: NOW,
        addsColumns: false,
        schema: { schemaVersion: '1' },
        versions: [
          { version: 2, counts: { added: 1 }, rowCount: null },
          { version: 3, counts: { added: 2 } },
          { version: 4, counts: { added: 3 } },
        ],
      },
    ]);
    expect(syncRuns(world)[0]).toBe('applied version 1 to 4 (3 versions): 6 added, 3 changed, 0 removed');
    expect(await readdir(world.parts.choices.stagingDirectory)).toEqual([]);
    calm(world);
    // The manifest lists the version before still: that is a reason to read the versions, and none to do more.
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    expect(asked(world)).toEqual(['versions parcels', 'schemas parcels']);
    calm(world);
    world.service.snapshots.set('parcels', { ...entry('parcels', 4), rowCount: 16 });
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    expect(asked(world)).toEqual([]);
  });

  it('has large changes read by the destination while later ones are fetched', async () => {
    const world = await caughtUp('parcels');
    for (const bytes of [LEAST_BYTES_AHEAD, LEAST_BYTES_AHEAD / 2, LEAST_BYTES_AHEAD / 2]) {
      const { version: number } = publish(world, 'parcels', {
        counts: { added: 1, changed: 0, removed: 0 },
        rowCount: null,
      });
      world.service.changes.set(`parcels ${number}`, async (request) => ({
        ...(await recorded(request)),
        bytes,
      }));
    }
    const read: { readonly versions: readonly number[]; readonly part: ReadAhead }[] = [];
    const readAhead = vi.spyOn(world.parts.destination, 'readAhead').mockImplementation(async (job) => {
      const part = { versions: job.versions.length };
      read.push({ versions: job.versions.map((each) => each.version), part });
      return part;
    });
    onTestFinished(() => readAhead.mockRestore());
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied' });
    // How many are there before the last is left to chance.
    const numbers = read.flatMap(({ versions }) => versions);
    expect(numbers.length).toBeGreaterThan(0);
    expect(numbers).toEqual([2, 3, 4].slice(0, numbers.length));
    expect(world.applied).toMatchObject([{ version: 4, ahead: read.map(({ part }) => part) }]);
    expect(await readdir(world.parts.choices.stagingDirectory)).toEqual([]);
  });

  it('F36: applies 600 versions as one commit, each in files of its own, a few fetched at once', async () => {
    const world = await caughtUp('parcels');
    const paths = new Set<string>();
    let [now, most] = [0, 0];
    const full = Promise.withResolvers<void>();
    const counts = { added: 0, changed: 1, removed: 0 };
    const records = Array.from({ length: 600 }, (_, index) => version('parcels', 601 - index, { counts }));
    world.service.versions.set('parcels', [...records, version('parcels', 1)]);
    world.service.logs.set('sub_1', [event(101, 'dataset.updated', { version: 601 })]);
    for (const record of records) {
      world.service.changes.set(`parcels ${record.version}`, async (request) => {
        paths.add(request.pathOf(0));
        most = Math.max(most, ++now);
        if (now === 8) full.resolve();
        // The first ones wait for each other: fewer at once would never end.
        await full.promise;
        const page = await recorded(request, record);
        now -= 1;
        return page;
      });
    }
    const result = await world.catchUp();
    expect(commitsOf(result)).toMatchObject([{ fromVersion: 1, toVersion: 601, versions: 600 }]);
    expect(paths.size).toBe(600);
    expect(most).toBe(8);
  });

  it('fetches the changes of other datasets before all those of a long backlog', async () => {
    const world = await caughtUp('parcels', 'permits');
    const counts = { added: 0, changed: 1, removed: 0 };
    const records = Array.from({ length: 50 }, (_, index) => version('parcels', 51 - index, { counts }));
    world.service.versions.set('parcels', [...records, version('parcels', 1)]);
    world.service.logs.set('sub_1', [event(101, 'dataset.updated', { version: 51 })]);
    const other = publish(world, 'permits');
    // The second half of the backlog is answered once the other one is asked for: behind all of it that would never be.
    const asked = Promise.withResolvers<void>();
    for (const record of records.filter(({ version: number }) => number > 26)) {
      world.service.changes.set(`parcels ${record.version}`, async (request) => {
        await asked.promise;
        return recorded(request, record);
      });
    }
    world.service.changes.set('permits 2', (request) => {
      asked.resolve();
      return recorded(request, other);
    });
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied', permits: 'applied' });
    expect(world.calls.filter((call) => call.startsWith('changes'))).toHaveLength(51);
  });

  it.each([
    ['500 MB', MAX_SMALL_ROWS, 100_000_000],
    ['4 MB where few rows are listed', 1, MAX_SMALL_BYTES / 5],
  ])('leaves changes beyond the spool of one commit to the next one: %s', async (_, changed, bytes) => {
    const world = await caughtUp('parcels');
    for (let number = 2; number <= 21; number++) {
      const record = publish(world, 'parcels', { counts: { added: 0, changed, removed: 0 } });
      world.service.changes.set(`parcels ${number}`, async (request) => ({
        ...(await recorded(request, record)),
        bytes,
      }));
    }
    // Four of the first eight end before five versions are spooled, and each lets another one begin.
    expect(commitsOf(await world.catchUp())).toMatchObject([
      { fromVersion: 1, toVersion: 13, versions: 12, bytes: 12 * bytes },
      { fromVersion: 13, toVersion: 21, versions: 8 },
    ]);
    expect(world.applied[1]?.versions[0]?.version).toBe(14);
  });

  it('applies changes after the snapshot of a manifest that lags, in the same catch-up', async () => {
    const world = await oneSubscription('parcels');
    publish(world, 'parcels');
    publish(world, 'parcels');
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded, applied' });
    expect(versions(world)).toEqual({ parcels: 3 });
    expect(world.calls.filter((call) => call === 'versions parcels')).toHaveLength(1);
  });

  it('plans changes again where the table is not the one that they were planned from', async () => {
    const world = await caughtUp('parcels');
    publish(world, 'parcels');
    publish(world, 'parcels');
    world.service.outcomes.push(({ datasetId }) => {
      world.tables.set(datasetId, { ...table(1), version: 2 });
      return { kind: 'stale-plan', datasetId };
    });
    expect(commitsOf(await world.catchUp())).toMatchObject([{ fromVersion: 2, toVersion: 3 }]);
  });

  it('W24 W25 applies changes that add columns where the operator chose so, and loads the snapshot else', async () => {
    for (const schemaChanges of ['alter', 'reload'] as const) {
      const world = await caughtUp('parcels');
      Object.assign(world.parts.choices, { schemaChanges });
      const added = { kind: 'additive', previousSchemaVersion: '1', keyColumnsChanged: false } as const;
      const [old] = [schema('parcels')];
      const columns = [...old.columns, column('zone')];
      const next = schema('parcels', {
        schemaVersion: '2',
        firstVersion: 2,
        columns,
        changeFromPrevious: added,
      });
      world.service.schemas.set('parcels', [next, old]);
      publishWithSnapshot(world, 'parcels', { schemaVersion: '2' });
      const isAltered = schemaChanges === 'alter';
      expect(kinds(await world.catchUp())).toEqual({ parcels: isAltered ? 'applied' : 'loaded' });
      expect(world.applied).toMatchObject(
        isAltered ? [{ addsColumns: true, schema: { schemaVersion: '2' } }] : [],
      );
      expect(world.tables.get('parcels')?.columns.map(({ name }) => name)).toEqual(['id', 'zone']);
    }
  });
});

describe('F30 the fallback to the snapshot', () => {
  const contradicts = (says: Parameters<typeof recorded>[1]) => (request: ChangesRequest) =>
    recorded(request, says);

  it.each([
    ['are not recorded', notRecorded, 'the service says that it has not recorded them'],
    [
      'start from another version than their record says',
      contradicts({ previousVersion: 1, schemaVersion: '1' }),
      'they start from version 1, and the list of versions says 2',
    ],
    [
      'have another schema than their record says',
      contradicts({ previousVersion: 2, schemaVersion: '7' }),
      'they have the schema "7", and the list of versions says "1"',
    ],
  ])('falls back from changes to the snapshot where they %s', async (_, answer, why) => {
    const world = await caughtUp('parcels');
    for (let number = 2; number <= 4; number++) publishWithSnapshot(world, 'parcels');
    world.service.changes.set('parcels 3', answer);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 4 });
    expect(syncRuns(world)[1]).toBe(`fell back from the changes of version 3 to the snapshot: ${why}`);
    expect(world.logged).toContainEqual([
      'info',
      { dataset: 'parcels', version: 3, why },
      'Fell back to the snapshot.',
    ]);
    expect(await readdir(world.parts.choices.stagingDirectory)).toEqual([]);
  });

  it.each(['prepare', 'commit'])(
    'V10 F31 falls back from changes whose numbers do not add up to the snapshot: found in %s',
    async (where) => {
      const world = await caughtUp('parcels');
      publishWithSnapshot(world, 'parcels');
      const error = new InapplicableChangesError('parcels', 2, 'they add 3 rows, and its record says 2');
      if (where === 'commit') {
        world.service.outcomes.push(({ datasetId }) => ({ kind: 'failed', datasetId, error }));
      } else {
        let inspected = 0;
        world.intervene = (call) => {
          if (call === 'prepare parcels' && ++inspected === 1) throw error;
        };
      }
      expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
      expect(syncRuns(world)[1]).toContain('the changes of version 2 to the snapshot: they add 3 rows');
    },
  );

  it('V4 falls back once the manifest has the version: until then the table takes what it can, and waits', async () => {
    const world = await caughtUp('parcels');
    for (let number = 2; number <= 4; number++) publish(world, 'parcels');
    world.service.changes.set('parcels 3', notRecorded);
    expect(await world.catchUp()).toMatchObject({
      datasets: [{ kind: 'waiting', commits: [{ kind: 'changes', toVersion: 2 }] }],
    });
    publishWithSnapshot(world, 'parcels');
    world.service.changes.set('parcels 5', notRecorded);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 5 });
  });
});

describe('bad changes', () => {
  const bad = new BadChangesError('parcels', 3, 'Version 3, page 1: acreage of row 7 is "many", no number.');

  /** The mirror finds that value where it is among the changes. Gives what ends that. */
  function findBad({ parts }: World): () => void {
    const { validate } = parts.destination;
    const found = vi.spyOn(parts.destination, 'validate').mockImplementation(async (job) => {
      const isBad = job.kind === 'changes' && job.versions.some((each) => each.version === bad.version);
      if (isBad && job.datasetId === bad.datasetId) throw bad;
      return validate(job);
    });
    return () => found.mockRestore();
  }

  it('F57 fails a dataset with bad changes alone, fetches them no more, and loads the snapshot by a resync', async () => {
    const world = await caughtUp('parcels', 'permits');
    for (let number = 2; number <= 3; number++) publishWithSnapshot(world, 'parcels');
    for (let number = 2; number <= 4; number++) publish(world, 'permits');
    const restore = findBad(world);
    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: 'failed', permits: 'applied' });
    expect(result.datasets[0]).toMatchObject({
      error: { name: 'DataError', message: bad.message },
      failure: { contents: [expect.stringMatching(/^changes of version 3 /)] },
      commits: [{ kind: 'changes', fromVersion: 1, toVersion: 2 }],
    });
    expect(versions(world)).toEqual({ parcels: 2, permits: 4 });
    restore();
    calm(world);
    expect(await world.catchUp()).toMatchObject({
      datasets: [{ kind: 'failed', error: { message: bad.message, hint: bad.hint } }, { kind: 'current' }],
    });
    expect(asked(world)).not.toContainEqual(expect.stringMatching(/^changes/));
    world.checkpoint.requestResync(['parcels']);
    expect(kinds(await world.catchUp())).toMatchObject({ parcels: 'loaded' });
    expect(world.checkpoint.failures().size).toBe(0);
  });

  it('C13 passes over bad changes with the snapshot of a later version', async () => {
    const world = await caughtUp('parcels');
    for (let number = 2; number <= 3; number++) publishWithSnapshot(world, 'parcels');
    const restore = findBad(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'failed' });
    restore();
    calm(world);
    publishWithSnapshot(world, 'parcels');
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(asked(world)).not.toContainEqual(expect.stringMatching(/^changes/));
    expect(versions(world)).toEqual({ parcels: 4 });
    expect(world.checkpoint.failures().size).toBe(0);
  });

  it('fetches bad changes again after a day', async () => {
    const world = await caughtUp('parcels');
    for (let number = 2; number <= 4; number++) publish(world, 'parcels');
    const restore = findBad(world);
    await world.catchUp();
    expect(versions(world)).toEqual({ parcels: 2 });
    restore();
    calm(world);
    elapse(world, 24 * 3_600_000);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied' });
    expect(world.checkpoint.failures().size).toBe(0);
  });

  it('reports the commit of a snapshot that bad changes follow', async () => {
    const world = await oneSubscription('parcels');
    publish(world, 'parcels');
    world.intervene = (call) => {
      if (call === 'prepare parcels' && world.tables.has('parcels')) throw bad;
    };
    expect(await world.catchUp()).toMatchObject({
      datasets: [{ kind: 'failed', commits: [{ kind: 'snapshot', toVersion: 1 }] }],
    });
    expect(syncRuns(world)).toHaveLength(1);
  });

  it('C19 reads the schema once more for changes with columns that it does not know', async () => {
    const world = await caughtUp('parcels', 'permits');
    publish(world, 'parcels');
    publish(world, 'permits');
    throwUnknownColumns(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied', permits: 'failed' });
    for (const datasetId of ['parcels', 'permits']) {
      expect(world.calls.filter((call) => call === `schemas ${datasetId}`)).toHaveLength(2);
    }
    expect(world.checkpoint.failures().get('permits')?.contents).toEqual([
      expect.stringMatching(/^changes of version 2 /),
    ]);
  });
});

describe('incidents while changes are fetched and applied', () => {
  it('applies none of the changes where one version cannot be fetched, and leaves nothing behind', async () => {
    const world = await caughtUp('parcels');
    for (let number = 2; number <= 4; number++) publish(world, 'parcels');
    throwAt(world, /^changes parcels 3/, new ServiceUnavailableError('unreachable'));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'failed' });
    expect(world.applied).toEqual([]);
    const { stagingDirectory } = world.parts.choices;
    const [folder = ''] = await readdir(stagingDirectory);
    expect(await readdir(`${stagingDirectory}/${folder}`)).toEqual([]);
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied' });
    expect(world.checkpoint.failures().size).toBe(0);
  });

  it('applies changes at the next catch-up where it was stopped between fetch and commit', async () => {
    const world = await caughtUp('parcels');
    publish(world, 'parcels');
    const stop = new AbortController();
    world.intervene = (call) => {
      if (call !== 'prepare parcels') return;
      stop.abort(new InterruptedError('Asked to stop.'));
      throw stop.signal.reason;
    };
    const result = await world.catchUp(stop.signal);
    expect(result.incidents).toMatchObject([{ error: { name: 'InterruptedError' } }]);
    expect(kinds(result)).toEqual({ parcels: 'waiting' });
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied' });
  });

  it('suspends a dataset whose changes are refused, and asks nothing more for it', async () => {
    const world = await caughtUp('parcels');
    publish(world, 'parcels');
    throwAt(world, /^changes/, refusal({ kind: 'dataset', datasetId: 'parcels' }));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'suspended' });
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'suspended' });
    expect(asked(world)).toEqual([]);
  });

  it('keeps a failure of other content while changes before it are applied', async () => {
    const world = await caughtUp('parcels');
    publish(world, 'parcels');
    publish(world, 'parcels', { resyncRequired: true });
    world.service.snapshots.set('parcels', entry('parcels', 3));
    throwAt(world, /^prepare parcels/, new DataError('The file is broken.'));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'failed' });
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'failed' });
    expect(world.calls).not.toContain('download parcels');
  });
});

describe('a resync that an operator asks for', () => {
  it('loads the same version again, once, where an operator asks for a resync', async () => {
    const world = await caughtUp('parcels', 'permits');
    world.checkpoint.requestResync(['parcels']);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'current' });
    expect(syncRuns(world)[0]).toContain('an operator asked for it');
    const desiredState = present(world.checkpoint.desired('parcels'), 'it is desired');
    expect(desiredState.resyncNumber).toBeGreaterThan(0);
    expect(owesResync(world.tables.get('parcels') ?? null, desiredState)).toBe(false);
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'current' });
    expect(asked(world)).toEqual([]);
  });

  it('waits with a resync where the manifest is older than the table', async () => {
    const world = await caughtUp('parcels');
    publish(world, 'parcels');
    await world.catchUp();
    world.checkpoint.requestResync(['parcels']);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting' });
    publishWithSnapshot(world, 'parcels');
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
  });
});
