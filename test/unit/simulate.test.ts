/** A catch-up that only foresees: it tells what the same catch-up in earnest does, and asks for nothing to be done. */

import { expect, it } from 'vitest';
import type { CommitResult } from '../../src/model/commits.ts';
import { catchUp } from '../../src/sync/catch-up.ts';
import { type SimulatedOutcome, simulatingExecutor } from '../../src/sync/simulate.ts';
import {
  kinds,
  oneSubscription,
  publish,
  publishWithSnapshot,
  throwAt,
  type World,
} from '../support/small-world.ts';
import { column, entry, event, id, schema } from '../support/sync-values.ts';

/** Foresees the catch-up of a world, does it in another that is the same, and expects the first to have told the second. */
async function foresees(arrange: () => Promise<World>): Promise<Record<string, readonly SimulatedOutcome[]>> {
  const [foretold, earnest] = [await arrange(), await arrange()];
  throwAt(
    foretold,
    /^(?:enroll|commit)$|^(?:prepare|download|changes) /,
    new Error('Something was to be done.'),
  );
  const { makeExecutor, steps } = simulatingExecutor();
  const dry = await catchUp(foretold.parts, new AbortController().signal, makeExecutor);
  const real = await earnest.catchUp();
  expect(kinds(dry)).toEqual(kinds(real));
  expect(dry.suspensions).toEqual(real.suspensions);
  for (const { datasetId, commits } of real.datasets) {
    const moves = (steps.get(datasetId) ?? []).filter((step) => step.kind !== 'retire');
    expect(moves.map(movement)).toEqual(commits.map(movement));
  }
  expect([...steps.values()].flat().some(({ kind }) => kind === 'retire')).toBe(
    real.datasets.some(({ kind }) => kind === 'retired'),
  );
  return Object.fromEntries(steps);
}

function movement(of: CommitResult | Exclude<SimulatedOutcome, { kind: 'retire' }>) {
  const isLoad = of.kind === 'snapshot' || of.kind === 'load';
  return [isLoad ? 'load' : 'apply', of.fromVersion, of.toVersion, 'versions' in of ? of.versions : 1];
}

async function caughtUp(...datasetIds: string[]): Promise<World> {
  const world = await oneSubscription(...datasetIds);
  await world.catchUp();
  return world;
}

it('the first start', async () => {
  const steps = await foresees(() => oneSubscription('parcels', 'permits'));
  const load = { kind: 'load', fromVersion: null, toVersion: 1, why: 'there is no table yet' };
  expect(steps['parcels']).toEqual([{ ...load, rows: 10, bytes: 100, requests: 1 }]);
  expect(Object.keys(steps)).toEqual(['parcels', 'permits']);
});

it('nothing to do', async () => {
  expect(await foresees(() => caughtUp('parcels'))).toEqual({});
});

it('a size and rows that the service does not give', async () => {
  const steps = await foresees(async () => {
    const world = await oneSubscription('parcels');
    const listed = entry('parcels', 1);
    const files = listed.files.map((file) => ({ ...file, bytes: null }));
    world.service.snapshots.set('parcels', { ...listed, files, rowCount: null });
    return world;
  });
  expect(steps['parcels']).toMatchObject([{ rows: 10, bytes: null }]);
});

it('changes of several versions, and the rows they list', async () => {
  const steps = await foresees(async () => {
    const world = await caughtUp('parcels');
    publish(world, 'parcels', { counts: { added: 5, changed: 1_200, removed: 1 }, rowCount: 14 });
    publish(world, 'parcels', { rowCount: 14 });
    return world;
  });
  const apply = { kind: 'apply', fromVersion: 1, toVersion: 3, versions: 2, addsColumns: false };
  expect(steps['parcels']).toEqual([{ ...apply, rows: 1_207, requests: 3 }]);
});

it('a snapshot where changes stop, and the changes after it', async () => {
  const steps = await foresees(async () => {
    const world = await caughtUp('parcels');
    publishWithSnapshot(world, 'parcels', { resyncRequired: true });
    publish(world, 'parcels');
    return world;
  });
  expect(steps['parcels']).toMatchObject([
    { kind: 'load', fromVersion: 1, toVersion: 2, why: 'version 2 asks for the snapshot' },
    { kind: 'apply', fromVersion: 2, toVersion: 3 },
  ]);
});

it('changes that add columns, where that is chosen', async () => {
  const steps = await foresees(async () => {
    const world = await caughtUp('parcels');
    Object.assign(world.parts.choices, { schemaChanges: 'alter' });
    const added = schema('parcels', {
      schemaVersion: '2',
      columns: [column('id', { nullable: false }), column('zone')],
      changeFromPrevious: { kind: 'additive', previousSchemaVersion: '1', keyColumnsChanged: false },
    });
    world.service.schemas.set('parcels', [added, schema('parcels')]);
    publish(world, 'parcels', { schemaVersion: '2' });
    publish(world, 'parcels', { schemaVersion: '2' });
    return world;
  });
  expect(steps['parcels']).toMatchObject([{ kind: 'apply', toVersion: 3, addsColumns: true }]);
});

it('a retirement with its reason, and one that waits for a person', async () => {
  const gone = async (...datasetIds: string[]): Promise<World> => {
    const world = await caughtUp('parcels', ...datasetIds);
    const log = datasetIds.map((datasetId, index) =>
      event(101 + index, 'dataset.removed', { datasetId, reason: 'left_coverage' }),
    );
    world.service.logs.set('sub_1', log);
    world.service.watermarkCovers.set('sub_1', id(100 + datasetIds.length));
    world.service.members.set('sub_1', ['parcels']);
    return world;
  };
  const why = 'left subscription sub_1: left_coverage';
  const steps = await foresees(() => gone('permits'));
  expect(steps).toEqual({ permits: [{ kind: 'retire', fromVersion: 1, how: 'archive', why }] });
  const many = Array.from({ length: 12 }, (_, index) => `roads-${index}`);
  expect(await foresees(() => gone(...many))).toEqual({});
});

it('a resync that a person asked for, once', async () => {
  const steps = await foresees(async () => {
    const world = await caughtUp('parcels');
    world.checkpoint.requestResync(['parcels']);
    return world;
  });
  expect(steps['parcels']).toMatchObject([{ kind: 'load', fromVersion: 1, toVersion: 1 }]);
});
