/** F38 over the wire: NUL and halves of characters are in no name, and are refused with what they belong to. */

import { expect, it } from 'vitest';
import { exitCodeOfResult } from '../../src/cli/summary.ts';
import { messageOf } from '../support/bad-content.ts';
import { publishNext, servedWorld } from '../support/served-world.ts';
import { kinds } from '../support/small-world.ts';

const UNUSABLE = ['a\0b', 'a\ud800b'];
/** The body with one thing of it put there again under a name that cannot be. */
const withAnother =
  (list: string, another: (first: Readonly<Record<string, unknown>>) => object) =>
  (body: unknown): unknown => {
    const changed = structuredClone(body);
    Object(changed)[list].push(another(Object(changed)[list][0]));
    return changed;
  };

it.each(UNUSABLE)('F38 %j in an event: it is told, and the log goes on', async (datasetId) => {
  const world = await servedWorld();
  await world.catchUp();
  publishNext(world.feed, 'roads');
  const rewrite = withAnother('events', (first) => ({
    ...first,
    data: { ...Object(first['data']), datasetId },
  }));
  const match = { operation: 'events', subscriptionId: 'sub_2' } as const;
  world.feed.faults.add({ match, act: { kind: 'rewrite', rewrite } });
  const result = await world.catchUp();
  expect(kinds(result)).toMatchObject({ roads: 'applied' });
  expect(result.troubles).toEqual([]);
  expect(world.logged).toContainEqual([
    'warn',
    expect.objectContaining({ why: 'data.datasetId: holds NUL or half a character' }),
    expect.stringContaining('could not be read'),
  ]);
});

it.each(UNUSABLE)(
  'F38 %j in a manifest: it is told, and what is known goes on by its changes',
  async (datasetId) => {
    const world = await servedWorld();
    await world.catchUp();
    for (const id of ['parcels', 'roads']) publishNext(world.feed, id);
    const rewrite = withAnother('datasets', (first) => ({ ...first, datasetId }));
    const match = { operation: 'manifest', subscriptionId: 'sub_1', times: 'always' } as const;
    world.feed.faults.add({ match, act: { kind: 'rewrite', rewrite } });
    const result = await world.catchUp();
    expect(kinds(result)).toMatchObject({ parcels: 'applied', permits: 'current', roads: 'applied' });
    expect(result.troubles).toMatchObject([
      { subscriptionId: 'sub_1', error: { path: 'datasets[2].datasetId' } },
    ]);
    expect(exitCodeOfResult(result)).toBe(65);
    world.feed.faults.clear();
    expect(exitCodeOfResult(await world.catchUp())).toBe(0);
  },
);

it.each(UNUSABLE)('F38 %j as the name of a column: its dataset fails alone', async (name) => {
  const world = await servedWorld();
  await world.catchUp();
  for (const id of ['parcels', 'permits']) publishNext(world.feed, id);
  const rewrite = withAnother('schemas', (first) => ({
    ...first,
    columns: [{ name, type: 'string', nullable: true }],
  }));
  world.feed.faults.add({
    match: { operation: 'schemas', datasetId: 'permits', times: 'always' },
    act: { kind: 'rewrite', rewrite },
  });
  const result = await world.catchUp();
  expect(kinds(result)).toMatchObject({ parcels: 'applied', permits: 'failed', roads: 'current' });
  expect(messageOf(result, 'permits')).toContain('schemas[1].columns[0].name: holds NUL or half a character');
  expect(exitCodeOfResult(result)).toBe(65);
  world.feed.faults.clear();
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'applied' });
});
