/** F38, F39 over the wire: names that JSON can say and no database or object should have. */

import { expect, it } from 'vitest';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
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

it.each(UNUSABLE)(
  'F38 reports an event that names the dataset %j, and reads the log on',
  async (datasetId) => {
    const world = await servedWorld();
    await world.catchUp();
    publishNext(world.feed, 'roads');
    const rewrite = withAnother('events', (first) => ({
      ...first,
      data: { ...Object(first['data']), datasetId },
    }));
    // The first request asks for the event at the position alone.
    const match = { operation: 'events', subscriptionId: 'sub_2', nth: 2 } as const;
    world.feed.faults.add({ match, act: { kind: 'rewrite', rewrite } });
    const result = await world.catchUp();
    expect(kinds(result)).toMatchObject({ roads: 'applied' });
    expect(result.incidents).toEqual([]);
    expect(world.logged).toContainEqual([
      'warn',
      expect.objectContaining({ why: 'data.datasetId: holds NUL or half a character' }),
      expect.stringContaining('could not be read'),
    ]);
  },
);

it.each(UNUSABLE)(
  'F38 reports the dataset id %j in a manifest, and applies the changes of known datasets',
  async (datasetId) => {
    const world = await servedWorld();
    await world.catchUp();
    for (const id of ['parcels', 'roads']) publishNext(world.feed, id);
    const rewrite = withAnother('datasets', (first) => ({ ...first, datasetId }));
    const match = { operation: 'manifest', subscriptionId: 'sub_1', times: 'always' } as const;
    world.feed.faults.add({ match, act: { kind: 'rewrite', rewrite } });
    const result = await world.catchUp();
    expect(kinds(result)).toMatchObject({ parcels: 'applied', permits: 'current', roads: 'applied' });
    expect(result.incidents).toMatchObject([
      { subscriptionId: 'sub_1', error: { path: 'datasets[2].datasetId' } },
    ]);
    expect(exitCodeOfResult(result)).toBe(65);
    world.feed.faults.clear();
    expect(exitCodeOfResult(await world.catchUp())).toBe(0);
  },
);

it.each(UNUSABLE)('F38 fails only the dataset whose schema has a column named %j', async (name) => {
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

it('F39 __proto__ and constructor in every answer touch no prototype', async () => {
  const hostile = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}';
  const withHostile = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(withHostile);
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.entries(value).map(([name, member]) => [name, withHostile(member)] as const);
    const all = [...Object.entries(JSON.parse(hostile)), ...members];
    return Object.defineProperties(
      {},
      Object.fromEntries(all.map(([name, member]) => [name, { value: member, enumerable: true }])),
    );
  };
  const world = await servedWorld();
  for (const operation of [
    'openapi',
    'subscriptions',
    'events',
    'manifest',
    'versions',
    'schemas',
  ] as const) {
    world.feed.faults.add({
      match: { operation, times: 'always' },
      act: { kind: 'rewrite', rewrite: withHostile },
    });
  }
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'loaded', roads: 'loaded' });
  publishNext(world.feed, 'permits');
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'applied' });
  expect(Object('').polluted).toBeUndefined();
  expect(Object.getOwnPropertyNames(Object.prototype)).not.toContain('polluted');
});
