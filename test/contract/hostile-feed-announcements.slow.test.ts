/** What was announced and does not come true, or not any more: announcements, withdrawn versions, values that cannot be applied. */

import { expect, it } from 'vitest';
import {
  expectVersions,
  HOUR_MS,
  type HostileFeed,
  hostileFeed,
  MINUTE_MS,
} from '../support/hostile-feed.ts';

const LATER = 'subscription_changed';

/** A mirror of `x` at version 1 that waits for version 2, which was announced and is withdrawn. */
async function waitingForWithdrawn(): Promise<HostileFeed> {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x'] } });
  await one.once();
  one.publish('x');
  one.feed.publisher.withdraw('x');
  await one.once();
  return one;
}

for (const isTaken of [true, false]) {
  const when = isTaken ? 'after the mirror took it' : 'before the mirror took it';
  it(`F46 a version that two subscriptions announced ${when} is void with their drops: the dataset that returns at version 1 is mirrored`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x'], sub_2: ['x', 'y'] } });
    const { publisher } = one.feed;
    await one.once();
    for (let times = 0; times < 4; times += 1) one.publish('x');
    if (isTaken) expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'applied' } });
    one.pass(MINUTE_MS);
    publisher.remove('x', 'left_coverage');
    one.pass(MINUTE_MS);
    one.restart('x');
    publisher.restore('x', { subscriptionId: 'sub_1' });
    expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'loaded', y: 'current' } });
    await expectVersions(one, { x: 1, y: 1 });
    one.publish('x');
    expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'applied' } });
    await one.expectRightInTheEnd();
  });
}

it('F50 an announced version that was withdrawn is void after an hour', async () => {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x'] } });
  await one.once();
  one.publish('x');
  one.feed.publisher.withdraw('x');
  expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' }, untilMinutes: 60 });
  one.pass(59 * MINUTE_MS);
  expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' }, untilMinutes: 1 });
  one.pass(MINUTE_MS);
  expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'current' } });
  await expectVersions(one, { x: 1 });
  // The number that was withdrawn is used again.
  one.publish('x');
  expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'applied' } });
  await one.expectRightInTheEnd();
});

it('F50 a withdrawn announcement does not keep the versions before it from being applied', async () => {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x'] } });
  await one.once();
  one.publish('x');
  one.publish('x');
  one.feed.publisher.withdraw('x');
  expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' } });
  await expectVersions(one, { x: 2 });
  await one.expectRightInTheEnd();
});

it('F50 a resync while a withdrawn version is waited for is fulfilled, and the table goes on', async () => {
  const one = await waitingForWithdrawn();
  one.feed.publisher.resync('x', LATER);
  await one.once();
  one.publish('x');
  expect(await one.once()).toMatchObject({ exitCode: 0 });
  await expectVersions(one, { x: 2 });
  await one.expectRightInTheEnd();
});

it('F50 a resync by an operator while a withdrawn version is waited for does not stop the table', async () => {
  const one = await waitingForWithdrawn();
  one.world.checkpoint.requestResync(['x']);
  await one.once();
  one.publish('x');
  expect(await one.once()).toMatchObject({ exitCode: 0 });
  await one.expectRightInTheEnd();
});

it('F57 an inapplicable value in version 9 of a backlog leaves the table at version 8, with the reason', async () => {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x', 'y'] } });
  await one.once();
  for (let version = 2; version <= 9; version += 1) one.publish('x');
  one.publish('y');
  const rewrite = (body: unknown): unknown => {
    const page = body as { readonly version: number; readonly changes: readonly object[] };
    if (page.version !== 9) return body;
    return {
      ...page,
      changes: page.changes.map((change) => ({ ...change, row: { id: 'r0', amount: 'many' } })),
    };
  };
  one.feed.faults.add({
    match: { operation: 'changes', datasetId: 'x', times: 'always' },
    act: { kind: 'rewrite', rewrite: rewrite as never },
  });
  expect(await one.once()).toMatchObject({ exitCode: 65, kinds: { x: 'failed', y: 'applied' } });
  await expectVersions(one, { x: 8, y: 2 });
  one.pass(HOUR_MS);
  one.feed.requests.clear();
  expect(await one.once()).toMatchObject({ exitCode: 65, kinds: { x: 'failed' } });
  expect(one.feed.requests.entries('changes')).toEqual([]);
  await expectVersions(one, { x: 8, y: 2 });
  // The snapshot of a later version leads around it.
  one.publish('x');
  expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'loaded' } });
  await one.expectRightInTheEnd();
});
