/** Datasets and subscriptions that move while they are read, with and without events: nothing goes that somebody contains. */

import { expect, it } from 'vitest';
import { DAY_MS, type HostileFeed, hostileFeed, MANIFEST_KINDS, MINUTE_MS } from '../support/hostile-feed.ts';

const LEFT = 'left_coverage';

/** `x` joins sub_1, with or without an event, and leaves sub_2. */
function move({ feed }: HostileFeed, announce = true): void {
  feed.publisher.restore('x', { subscriptionId: 'sub_1', announce });
  feed.clock.advance(1_000);
  feed.publisher.remove('x', LEFT, { subscriptionId: 'sub_2' });
}

/** The lists are whole again: twenty minutes later both datasets are up to date. */
async function expectCurrentOnceWhole(one: HostileFeed): Promise<void> {
  one.feed.omissions.clear();
  one.pass(20 * MINUTE_MS);
  expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'current', y: 'current' } });
}

async function liveTables({ world }: HostileFeed): Promise<readonly string[]> {
  return [...(await world.parts.destination.has()).datasets.keys()].toSorted();
}

for (const [kind, options] of MANIFEST_KINDS) {
  it(`F49 never retires a dataset that moves between subscriptions at any request, manifest ${kind}`, async () => {
    const quiet = await hostileFeed({ subscriptions: { sub_1: ['y'], sub_2: ['x'] }, ...options });
    await quiet.once();
    quiet.feed.requests.clear();
    await quiet.once();
    const requests = quiet.feed.requests.entries().length;
    expect(requests).toBeGreaterThan(4);
    for (let nth = 1; nth <= requests; nth += 1) {
      const one = await hostileFeed({ subscriptions: { sub_1: ['y'], sub_2: ['x'] }, ...options });
      await one.once();
      one.pass(MINUTE_MS);
      let seen = 0;
      const end = one.feed.onRequest(() => {
        seen += 1;
        if (seen === nth) move(one);
      });
      // Where a manifest lists it before the log announces it, it is loaded again.
      expect(['current', 'loaded', 'waiting']).toContain((await one.once()).kinds['x']);
      end();
      await one.expectRightInTheEnd();
      expect(await liveTables(one)).toEqual(['x', 'y']);
    }
  });

  it(`F82 the table still owes a reload where the subscription that announced it drops the dataset, manifest ${kind}`, async () => {
    for (const isReadBetween of [false, true]) {
      const one = await hostileFeed({ subscriptions: { sub_1: ['y'], sub_2: ['x'] }, ...options });
      await one.once();
      one.feed.manifest.freeze({ subscriptionId: 'sub_2' });
      if (kind === 'of each dataset') one.feed.manifest.freeze({ datasetId: 'x' });
      one.pass(MINUTE_MS);
      one.replace('x');
      if (isReadBetween) expect(await one.once()).toMatchObject({ kinds: { x: 'waiting' } });
      one.pass(MINUTE_MS);
      move(one);
      await one.once();
      one.feed.manifest.thaw();
      await one.expectRightInTheEnd();
    }
  });

  it(`F82 loads a dataset that leaves, changes and joins another subscription within one run, manifest ${kind}`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['y'], sub_2: ['x'] }, ...options });
    await one.once();
    one.pass(MINUTE_MS);
    one.feed.publisher.remove('x', LEFT, { subscriptionId: 'sub_2' });
    one.pass(MINUTE_MS);
    one.replace('x');
    one.feed.publisher.restore('x', { subscriptionId: 'sub_1' });
    await one.once();
    await one.expectRightInTheEnd();
  });

  it(`F82 loads a dataset that leaves, changes and returns without an event, manifest ${kind}`, async () => {
    for (const isRetiredBetween of [false, true]) {
      const one = await hostileFeed({ subscriptions: { sub_1: ['x', 'y'] }, ...options });
      await one.once();
      one.pass(MINUTE_MS);
      one.feed.publisher.remove('x', LEFT, { announce: false });
      // The feed refuses the manifest of a dataset that is in no subscription: a refusal waits for an operator.
      if (kind !== 'of each dataset' || isRetiredBetween) await one.once();
      if (isRetiredBetween) await one.expectRightInTheEnd();
      expect(await liveTables(one)).toEqual(isRetiredBetween ? ['y'] : ['x', 'y']);
      one.pass(MINUTE_MS);
      one.replace('x');
      one.feed.publisher.restore('x', { announce: false });
      await one.once();
      await one.expectRightInTheEnd();
      expect(await liveTables(one)).toEqual(['x', 'y']);
    }
  });

  it(`F84 never retires a dataset that joins by a lagging manifest without an event and leaves the other, manifest ${kind}`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['y'], sub_2: ['x'] }, ...options });
    await one.once();
    one.feed.manifest.freeze({ subscriptionId: 'sub_1' });
    one.pass(MINUTE_MS);
    move(one, false);
    for (let times = 0; times < 3; times += 1) {
      expect((await one.once()).kinds).not.toMatchObject({ x: 'retired' });
      one.pass(4 * MINUTE_MS);
    }
    one.feed.manifest.thaw();
    await one.expectRightInTheEnd();
    expect(await liveTables(one)).toEqual(['x', 'y']);
  });

  it(`F55 does not suspend a subscription that any one reading of the list skips, manifest ${kind}`, async () => {
    for (const reads of [1, 2, 3]) {
      const one = await hostileFeed({ subscriptions: { sub_1: ['x'], sub_2: ['y'] }, ...options });
      await one.once();
      one.pass(MINUTE_MS);
      one.publish('x');
      one.feed.omissions.add({ list: 'subscriptions', subscriptionId: 'sub_2' }, reads);
      for (let times = 0; times < 2; times += 1) {
        const { exitCode, result } = await one.once();
        expect({ exitCode, suspensions: result.suspensions }).toEqual({ exitCode: 0, suspensions: [] });
      }
      await expectCurrentOnceWhole(one);
      await one.expectRightInTheEnd();
      expect(await liveTables(one)).toEqual(['x', 'y']);
    }
  });

  it(`F55 does not retire a dataset that single readings of a list skip, even repeatedly, manifest ${kind}`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x', 'y'] }, ...options });
    await one.once();
    for (let times = 0; times < 3; times += 1) {
      one.pass(20 * MINUTE_MS);
      for (const list of ['manifest', 'record'] as const) {
        one.feed.omissions.add({ list, subscriptionId: 'sub_1', datasetId: 'x' }, 1);
      }
      expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'current', y: 'current' } });
      await expectCurrentOnceWhole(one);
    }
    await one.expectRightInTheEnd();
    expect(await liveTables(one)).toEqual(['x', 'y']);
  });
}

for (const isExpired of [false, true]) {
  const when = isExpired ? 'after the position in the log was lost' : 'without an event';
  it(`F51 notices a removal ${when} after ten minutes, with a manifest of each dataset`, async () => {
    const one = await hostileFeed({
      subscriptions: { sub_1: ['x', 'y'] },
      contract: { manifest: 'dataset' },
    });
    await one.once();
    if (isExpired) one.pass(91 * DAY_MS);
    one.feed.publisher.remove('x', LEFT, { announce: false });
    // The feed refuses the manifest of a dataset that is in no subscription, which is reported as long as it may be one.
    for (const minutes of [1, 9]) {
      one.pass(minutes * MINUTE_MS);
      expect(await one.once()).toMatchObject({ exitCode: 77, kinds: { x: 'suspended', y: 'current' } });
    }
    one.pass(MINUTE_MS);
    expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'retired' } });
    await one.expectRightInTheEnd();
  });
}

it('F51 retires a dataset that the service no longer has, without an event, with a manifest of each dataset', async () => {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x', 'y'] }, contract: { manifest: 'dataset' } });
  await one.once();
  one.feed.publisher.remove('x', LEFT, { announce: false });
  one.feed.access.refuse({ kind: 'dataset', datasetId: 'x' }, { code: 'not_found' });
  await one.once();
  one.pass(11 * MINUTE_MS);
  expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'retired' } });
  await one.expectRightInTheEnd();
});

const twenty = Array.from({ length: 20 }, (_, index) => `d${String(index).padStart(2, '0')}`);

it('F56 retires nine of twenty datasets that leave, and asks an operator about nine more within a day', async () => {
  const one = await hostileFeed({ subscriptions: { sub_1: twenty } });
  await one.once();
  for (const datasetId of twenty.slice(0, 9)) one.feed.publisher.remove(datasetId, LEFT);
  expect(await one.once()).toMatchObject({ exitCode: 0 });
  expect(await liveTables(one)).toEqual(twenty.slice(9));
  one.pass(23 * 60 * MINUTE_MS);
  for (const datasetId of twenty.slice(9, 18)) one.feed.publisher.remove(datasetId, LEFT);
  const { exitCode, result } = await one.once();
  expect(exitCode).toBe(77);
  expect(result.suspensions).toHaveLength(1);
  expect(await liveTables(one)).toEqual(twenty.slice(9));
  one.world.checkpoint.approveRetirements();
  await one.once();
  expect(await liveTables(one)).toEqual(twenty.slice(18));
  await one.expectRightInTheEnd();
});

for (const [kind, options] of MANIFEST_KINDS) {
  it(`F56 lists that are empty twice within seconds retire nothing, manifest ${kind}`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x', 'y', 'z'] }, ...options });
    await one.once();
    for (let times = 0; times < 2; times += 1) {
      for (const datasetId of ['x', 'y', 'z']) {
        for (const list of ['manifest', 'record'] as const) {
          one.feed.omissions.add({ list, subscriptionId: 'sub_1', datasetId }, 4);
        }
      }
      one.pass(2_000);
      expect(await one.once()).toMatchObject({
        exitCode: 0,
        kinds: { x: 'current', y: 'current', z: 'current' },
      });
    }
    one.feed.omissions.clear();
    await one.expectRightInTheEnd();
    expect(await liveTables(one)).toEqual(['x', 'y', 'z']);
  });
}
