/** What is refused by which answer to which operation: nothing more is asked for it, others go on, and what ends it. */

import { describe, expect, it } from 'vitest';
import type { Operation } from '../../fixtures/feed/operations.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import { exitCodeOfResult, summarize } from '../../src/cli/render/summary.ts';
import { behind, publishNext, requestsAbout, type ServedWorld } from '../support/served-world.ts';
import { kinds, versions } from '../support/small-world.ts';

const BY_DATASET = { contract: { manifest: 'dataset' } } as const;

/**
 * What a catch-up asks for, in this order, where one dataset of two subscriptions is behind. Before a log is read on, the event at
 * its position is requested, and after each manifest the subscriptions are listed again.
 */
const IN_ORDER: readonly Operation[] = [
  'subscriptions',
  'openapi',
  'events',
  'events',
  'manifest',
  'subscriptions',
  'events',
  'events',
  'manifest',
  'subscriptions',
  'versions',
  'schemas',
  'changes',
];

interface Refused {
  readonly status: number;
  readonly code: string;
}

interface Subject {
  readonly datasetId?: string;
  readonly subscriptionId?: string;
}

/** Cases by the titles `403 outside_coverage on versions`. */
function answers(...cases: readonly (readonly [Operation, number, string])[]) {
  return cases.map(
    ([operation, status, code]) =>
      [`${status} ${code} on ${operation}`, operation, { status, code } satisfies Refused] as const,
  );
}

/** Every answer to `operation`, of one subject where it is named, is this refusal. */
function refuseEvery({ feed }: ServedWorld, operation: Operation, refused: Refused, of: Subject = {}): void {
  const { status, code } = refused;
  const error = { code, message: `Ask about ${code}.`, links: { help: `https://app.example/${code}` } };
  feed.faults.add({
    match: { operation, ...of, times: 'always' },
    act: { kind: 'respond', status, json: { error } },
  });
}

/** The service refuses no more, and its record of requests is empty again. */
function calm({ feed }: ServedWorld): void {
  feed.faults.clear();
  feed.requests.clear();
}

/** The message for the operator has the words and links of the refusal. */
function expectReported(text: string, { code }: Refused, resume: string): void {
  for (const words of [`It says: Ask about ${code}.`, `help: https://app.example/${code}`, resume]) {
    expect(text).toContain(words);
  }
}

async function expectCaughtUp(world: ServedWorld): Promise<void> {
  expect(await world.catchUp()).toMatchObject({ suspensions: [], incidents: [] });
  const published = [...world.feed.store.datasets.values()].map(
    (one) => [one.datasetId, one.versions.at(-1)?.version] as const,
  );
  expect(versions(world)).toEqual(Object.fromEntries(published));
}

describe('refusals of the workspace', () => {
  const cases = answers(
    ['subscriptions', 401, 'revoked'],
    ['events', 401, 'revoked'],
    ['versions', 401, 'revoked'],
    ['schemas', 401, 'revoked'],
    ['changes', 401, 'revoked'],
    ['manifest', 401, 'revoked'],
    ['subscriptions', 403, 'insufficient_scope'],
    ['events', 403, 'insufficient_scope'],
    ['versions', 403, 'insufficient_scope'],
    ['schemas', 403, 'insufficient_scope'],
    ['subscriptions', 403, 'not_entitled'],
  );

  it.each(cases)('R3 R16 F23 %s suspends the workspace', async (_, operation, refused) => {
    // Of one dataset alone, so that no other request is on its way when the refusal comes.
    const world = await behind(['parcels']);
    refuseEvery(world, operation, refused);
    const result = await world.catchUp();
    expect(result.suspensions).toMatchObject([{ refusal: { scope: { kind: 'workspace' }, ...refused } }]);
    const operations = world.feed.requests.entries().map((entry) => entry.operation);
    expect(operations).toEqual(IN_ORDER.slice(0, IN_ORDER.indexOf(operation) + 1));
    expectReported(summarize(result), refused, 'feed-sync resume --workspace');

    calm(world);
    const again = await world.catchUp();
    expect(world.feed.requests.entries()).toEqual([]);
    expect(exitCodeOfResult(again)).toBe(EXIT_CODES.operatorMustAct);
    expectReported(summarize(again), refused, 'feed-sync resume --workspace');
    expect(versions(world)).toEqual({ parcels: 1, permits: 1, roads: 1 });

    world.checkpoint.lift({ kind: 'workspace' });
    await expectCaughtUp(world);
  });
});

describe('refusals of a subscription', () => {
  const cases = answers(
    ['events', 404, 'not_found'],
    ['events', 403, 'outside_coverage'],
    ['manifest', 403, 'insufficient_scope'],
    ['manifest', 409, 'something_new'],
  );

  it.each(cases)('R4 R16 %s suspends that subscription, and others go on', async (_, operation, refused) => {
    const world = await behind();
    refuseEvery(world, operation, refused, { subscriptionId: 'sub_1' });
    const scope = { kind: 'subscription', subscriptionId: 'sub_1' } as const;
    const result = await world.catchUp();
    expect(result.suspensions).toMatchObject([{ refusal: { scope, ...refused } }]);
    expect(versions(world)).toEqual({ parcels: 1, permits: 1, roads: 2 });
    expectReported(summarize(result), refused, 'feed-sync resume --subscription sub_1');

    calm(world);
    publishNext(world.feed, 'roads');
    expectReported(summarize(await world.catchUp()), refused, 'feed-sync resume --subscription sub_1');
    expect(requestsAbout(world.feed, 'sub_1', 'parcels', 'permits')).toEqual([]);
    expect(versions(world)).toEqual({ parcels: 1, permits: 1, roads: 3 });

    world.checkpoint.lift(scope);
    await expectCaughtUp(world);
  });
});

describe('refusals of a dataset', () => {
  const scope = { kind: 'dataset', datasetId: 'permits' } as const;
  const bySubscription: FixtureFeedOptions = {};
  const cases = [
    ...answers(
      ['versions', 403, 'outside_coverage'],
      ['versions', 410, 'gone'],
      ['schemas', 404, 'not_found'],
      ['changes', 403, 'not_distributable'],
    ).map((one) => [...one, bySubscription] as const),
    ...answers(['manifest', 404, 'not_found']).map((one) => [...one, BY_DATASET] as const),
  ];

  it.each(cases)(
    'R5 R16 F24 %s suspends that dataset, and others go on',
    async (_, operation, refused, options) => {
      const world = await behind(undefined, options);
      refuseEvery(world, operation, refused, { datasetId: 'permits' });
      const result = await world.catchUp();
      expect(result).toMatchObject({ suspensions: [], incidents: [] });
      expect(world.checkpoint.suspensions()).toMatchObject([{ refusal: { scope, ...refused } }]);
      expect(versions(world)).toEqual({ parcels: 2, permits: 1, roads: 2 });
      expectReported(summarize(result), refused, 'feed-sync resume --dataset permits');

      calm(world);
      publishNext(world.feed, 'parcels');
      expectReported(summarize(await world.catchUp()), refused, 'feed-sync resume --dataset permits');
      expect(requestsAbout(world.feed, 'permits')).toEqual([]);
      expect(versions(world)).toEqual({ parcels: 3, permits: 1, roads: 2 });

      world.checkpoint.lift(scope);
      await expectCaughtUp(world);
    },
  );

  it.each(answers(['changes', 409, 'changes_not_recorded'], ['changes', 403, 'insufficient_scope']))(
    'R5 %s suspends nothing: the changes are not recorded',
    async (_, operation, refused) => {
      const world = await behind();
      refuseEvery(world, operation, refused, { datasetId: 'permits' });
      expect(kinds(await world.catchUp())).toEqual({
        parcels: 'applied',
        permits: 'loaded',
        roads: 'applied',
      });
      expect(world.checkpoint.suspensions()).toEqual([]);
    },
  );

  const refused = { status: 403, code: 'outside_coverage' };

  async function observed(): Promise<ServedWorld> {
    const world = await behind(['permits']);
    refuseEvery(world, 'versions', refused, { datasetId: 'permits' });
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    calm(world);
    return world;
  }

  it('R5 F24 a refusal of a dataset ends its earlier failure', async () => {
    const world = await behind(['permits']);
    world.feed.faults.add({
      match: { operation: 'versions', datasetId: 'permits', times: 'always' },
      act: { kind: 'respond', status: 500, json: {} },
    });
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'failed' });
    expect([...world.checkpoint.failures().keys()]).toEqual(['permits']);
    calm(world);
    refuseEvery(world, 'versions', refused, { datasetId: 'permits' });
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    expect([...world.checkpoint.failures().keys()]).toEqual([]);
  });

  it('R14 F24 a refused dataset that leaves its subscription and is added again is suspended no more', async () => {
    const world = await observed();
    world.feed.publisher.remove('permits', 'left_coverage');
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'retired' });
    expect(world.checkpoint.suspensions()).toMatchObject([{ refusal: { scope } }]);
    expect(requestsAbout(world.feed, 'permits')).toEqual([]);
    world.feed.publisher.restore('permits');
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
    expect(world.checkpoint.suspensions()).toEqual([]);
  });

  it('R15 F24 a refused dataset keeps its desired state up to date with events, and stays suspended', async () => {
    const world = await observed();
    const { feed, checkpoint } = world;
    publishNext(feed, 'permits');
    await world.catchUp();
    expect(checkpoint.desired('permits')?.members.get('sub_1')?.announced).toBe(3);
    expect(checkpoint.desired('permits')?.reloads).toEqual([]);
    feed.publisher.resync('permits', 'subscription_changed');
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'suspended' });
    const newest = checkpoint.followed().get('sub_1')?.cursor?.number;
    expect(checkpoint.desired('permits')?.reloads).toMatchObject([
      { subscriptionId: 'sub_1', eventNumber: newest },
    ]);
    expect(checkpoint.suspensions()).toMatchObject([{ refusal: { scope } }]);
    expect(requestsAbout(feed, 'permits')).toEqual([]);
    checkpoint.lift(scope);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
    expect(versions(world)).toMatchObject({ permits: 3 });
  });
});
