/** A dry run plans the first step that the same catch-up executes, and changes nothing. */

import { expect, it } from 'vitest';
import type { CommitResult } from '../../src/model/commits.ts';
import { catchUp } from '../../src/sync/catch-up.ts';
import { dryRunExecutor } from '../../src/sync/dry-run.ts';
import type { PlannedStep } from '../../src/sync/result.ts';
import {
  caughtUp,
  oneSubscription,
  publish,
  publishWithSnapshot,
  throwAt,
  type World,
} from '../support/small-world.ts';
import { column, entry, event, id, schema } from '../support/sync-values.ts';

/** Runs a dry run in one world and a catch-up in an equal one. Expects the first step of the dry run to be the first commit of the other. */
async function plannedSteps(arrange: () => Promise<World>): Promise<Record<string, PlannedStep>> {
  const [dryWorld, liveWorld] = [await arrange(), await arrange()];
  throwAt(
    dryWorld,
    /^(?:enroll|commit)$|^(?:prepare|download|changes) /,
    new Error('A dry run changed something.'),
  );
  const dry = await catchUp(dryWorld.parts, new AbortController().signal, dryRunExecutor);
  const live = await liveWorld.catchUp();
  expect(dry.suspensions).toEqual(live.suspensions);
  expect(dry.datasets.map(({ datasetId }) => datasetId)).toEqual(
    live.datasets.map(({ datasetId }) => datasetId),
  );
  for (const [index, { kind, commits }] of live.datasets.entries()) {
    const planned = dry.datasets[index];
    const [first] = commits;
    const expected = kind === 'retired' ? ['retire'] : first === undefined ? [] : movement(first);
    expect(planned?.kind === 'planned' ? movement(planned.step) : []).toEqual(expected);
    if (expected.length === 0) expect(planned?.kind).toBe(kind);
  }
  return Object.fromEntries(
    dry.datasets.flatMap((dataset) =>
      dataset.kind === 'planned' ? [[dataset.datasetId, dataset.step]] : [],
    ),
  );
}

function movement(of: CommitResult | PlannedStep) {
  if (of.kind === 'retire') return ['retire'];
  const isLoad = of.kind === 'snapshot' || of.kind === 'load';
  return [isLoad ? 'load' : 'apply', of.fromVersion, of.toVersion, 'versions' in of ? of.versions : 1];
}

it('plans a load of every dataset at the first start', async () => {
  const steps = await plannedSteps(() => oneSubscription('parcels', 'permits'));
  const load = { kind: 'load', fromVersion: null, toVersion: 1, why: 'there is no table yet' };
  expect(steps['parcels']).toEqual({ ...load, rows: 10, bytes: 100 });
  expect(Object.keys(steps)).toEqual(['parcels', 'permits']);
});

it('plans nothing where every table is up to date', async () => {
  expect(await plannedSteps(() => caughtUp('parcels'))).toEqual({});
});

it('leaves out a size that the service does not state, and takes rows from the version record', async () => {
  const steps = await plannedSteps(async () => {
    const world = await oneSubscription('parcels');
    const listed = entry('parcels', 1);
    const files = listed.files.map((file) => ({ ...file, bytes: null }));
    world.service.snapshots.set('parcels', { ...listed, files, rowCount: null });
    return world;
  });
  expect(steps['parcels']).toMatchObject({ rows: 10, bytes: null });
});

it('counts the rows that the changes of several versions list', async () => {
  const steps = await plannedSteps(async () => {
    const world = await caughtUp('parcels');
    publish(world, 'parcels', { counts: { added: 5, changed: 1_200, removed: 1 }, rowCount: 14 });
    publish(world, 'parcels', { rowCount: 14 });
    return world;
  });
  const apply = { kind: 'apply', fromVersion: 1, toVersion: 3, versions: 2, addsColumns: false };
  expect(steps['parcels']).toEqual({ ...apply, rows: 1_207 });
});

it('plans the snapshot where changes stop, and nothing after it', async () => {
  const steps = await plannedSteps(async () => {
    const world = await caughtUp('parcels');
    publishWithSnapshot(world, 'parcels', { resyncRequired: true });
    publish(world, 'parcels');
    return world;
  });
  const load = { kind: 'load', fromVersion: 1, toVersion: 2, why: 'version 2 asks for the snapshot' };
  expect(steps['parcels']).toMatchObject(load);
});

it('plans changes that add columns where the settings choose so', async () => {
  const steps = await plannedSteps(async () => {
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
  expect(steps['parcels']).toMatchObject({ kind: 'apply', toVersion: 3, addsColumns: true });
});

it('plans a retirement with its reason, and none that awaits an operator', async () => {
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
  const steps = await plannedSteps(() => gone('permits'));
  expect(steps).toEqual({ permits: { kind: 'retire', fromVersion: 1, how: 'archive', why } });
  const many = Array.from({ length: 12 }, (_, index) => `roads-${index}`);
  expect(await plannedSteps(() => gone(...many))).toEqual({});
});

it('plans a resync that an operator asked for', async () => {
  const steps = await plannedSteps(async () => {
    const world = await caughtUp('parcels');
    world.checkpoint.requestResync(['parcels']);
    return world;
  });
  expect(steps['parcels']).toMatchObject({ kind: 'load', fromVersion: 1, toVersion: 1 });
});
