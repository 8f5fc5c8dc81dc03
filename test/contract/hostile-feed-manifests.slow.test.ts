/** Manifests that lag, and say so or not: content older than the demand never satisfies it. */

import { expect, it } from 'vitest';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import {
  expectVersions,
  hostileFeed,
  hostileFeedAt,
  loadedThrough,
  MINUTE_MS,
} from '../support/hostile-feed.ts';

const NO_NUMBERS = { manifestLastEventId: false };
const KINDS: readonly (readonly [string, FixtureFeedOptions])[] = [
  ['of the subscription, without lastEventId', { contract: NO_NUMBERS }],
  ['of each dataset', { contract: { manifest: 'dataset' } }],
  ['of the subscription, with lastEventId', {}],
];
const NO_DIGESTS = { sha256: false } as const;

for (const [kind, options] of KINDS) {
  const isByTime = options.contract !== undefined;

  it(`F47 (a) does not load the same content for a reload where a manifest ${kind} lags and states no digests`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, ...options, files: NO_DIGESTS });
    await one.once();
    one.feed.manifest.freeze();
    one.pass(MINUTE_MS);
    one.replace('x');
    one.feed.requests.clear();
    const untilMinutes = isByTime ? 15 : null;
    expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' }, untilMinutes });
    one.pass(14 * MINUTE_MS);
    expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' } });
    expect(one.feed.requests.entries('file')).toEqual([]);
    one.feed.manifest.thaw();
    one.pass(2 * MINUTE_MS);
    expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'loaded' } });
    await one.expectRightInTheEnd();
  });

  it(`F47 (b) does not take an older snapshot of a manifest ${kind} for other content once changes moved the table on`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, ...options });
    await one.once();
    one.publish('x');
    expect((await one.once()).kinds).toEqual({ x: 'applied' });
    one.feed.manifest.freeze();
    one.pass(MINUTE_MS);
    one.replace('x');
    one.feed.requests.clear();
    expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' } });
    one.publish('x');
    expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' } });
    expect([...one.feed.requests.entries('file'), ...one.feed.requests.entries('changes')]).toEqual([]);
    await expectVersions(one, { x: 2 });
    one.feed.manifest.thaw();
    await one.expectRightInTheEnd();
  });

  it(`F47 (c) does not load an old snapshot of a manifest ${kind} after a version restart`, async () => {
    const one = await hostileFeedAt(3, options);
    one.feed.manifest.freeze();
    one.pass(MINUTE_MS);
    one.restart('x', { announce: 'resync' });
    one.feed.requests.clear();
    expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' } });
    expect(one.feed.requests.entries('file')).toEqual([]);
    one.feed.manifest.thaw();
    await one.expectRightInTheEnd();
    await expectVersions(one, { x: 1 });
  });

  it(`F80 old content of a manifest ${kind} that was frozen between two replacements satisfies neither reload`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, ...options });
    await one.once();
    one.pass(MINUTE_MS);
    one.replace('x');
    one.feed.manifest.freeze();
    one.pass(MINUTE_MS);
    one.replace('x');
    expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' } });
    one.pass(5 * MINUTE_MS);
    await one.once();
    one.feed.manifest.thaw();
    await one.expectRightInTheEnd();
  });

  it(`F85 a first start after a version restart does not load the old version of the number from a manifest ${kind}`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, ...options });
    one.publish('x');
    one.feed.manifest.freeze();
    one.pass(MINUTE_MS);
    one.restart('x', { announce: 'resync' });
    one.publish('x');
    expect(await one.once()).toMatchObject({ exitCode: 75, kinds: { x: 'waiting' } });
    one.feed.manifest.thaw();
    await one.expectRightInTheEnd();
    await expectVersions(one, { x: 2 });
  });
}

for (const isAnnounced of [true, false]) {
  const how = isAnnounced ? 'with a resync' : 'without an event';
  it(`F80 old content of a frozen manifest satisfies no reload where another subscription lists the new one, ${how}`, async () => {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x'], sub_2: ['x'] }, contract: NO_NUMBERS });
    await one.once();
    const through = await loadedThrough(one, 'x');
    const other = through === 'sub_1' ? 'sub_2' : 'sub_1';
    one.feed.manifest.freeze({ subscriptionId: other });
    one.pass(MINUTE_MS);
    one.replace('x', { announce: isAnnounced });
    // Two subscriptions asked for it: digests alone do not tell which content came after both.
    const kind = isAnnounced ? 'waiting' : 'loaded';
    expect((await one.once()).kinds).toEqual({ x: kind });
    for (let times = 0; times < 3; times += 1) {
      one.pass(4 * MINUTE_MS);
      expect((await one.once()).kinds).toEqual({ x: isAnnounced ? 'waiting' : 'current' });
    }
    one.feed.manifest.thaw();
    await one.expectRightInTheEnd();
  });
}

for (const frozen of ['sub_1', 'sub_2']) {
  it(`F86 a first start never loads the older version of the lagging manifest of ${frozen} over the newer one`, async () => {
    for (const options of [{}, { contract: NO_NUMBERS }]) {
      const one = await hostileFeed({ subscriptions: { sub_1: ['x'], sub_2: ['x'] }, ...options });
      one.publish('x');
      one.feed.manifest.freeze({ subscriptionId: frozen });
      one.pass(MINUTE_MS);
      one.publish('x', { notRecordedAs: 'flag' });
      const { result, exitCode } = await one.once();
      expect(exitCode).toBe(0);
      const [first, ...later] = result.datasets.flatMap(({ commits }) => commits);
      expect(first?.fromVersion).toBe(null);
      for (const { fromVersion, toVersion } of later) expect(toVersion).toBeGreaterThan(fromVersion ?? 0);
      await expectVersions(one, { x: 3 });
      await one.expectRightInTheEnd();
    }
  });

  it(`F86 the manifest of ${frozen}, frozen before, does not take back a version that came through another manifest`, async () => {
    for (const options of [{}, { contract: NO_NUMBERS }]) {
      const one = await hostileFeed({ subscriptions: { sub_1: ['x'], sub_2: ['x'] }, ...options });
      await one.once();
      one.pass(MINUTE_MS);
      one.replace('x');
      one.feed.manifest.freeze({ subscriptionId: frozen });
      one.pass(MINUTE_MS);
      one.publish('x');
      const isByTime = 'contract' in options;
      // By time nobody can tell yet whether what is listed came after the replacement.
      const expected = isByTime
        ? { exitCode: 75, kinds: { x: 'waiting' } }
        : { exitCode: 0, kinds: { x: 'loaded' } };
      expect(await one.once()).toMatchObject(expected);
      one.pass(5 * MINUTE_MS);
      await one.once();
      await expectVersions(one, { x: isByTime ? 1 : 2 });
      one.feed.manifest.thaw();
      await one.expectRightInTheEnd();
    }
  });
}

it('F87 loads an entry that the reading after a lost position lacked once a later reading names it', async () => {
  for (const options of [{}, { contract: NO_NUMBERS }]) {
    const one = await hostileFeed({ subscriptions: { sub_1: ['x', 'y'] }, ...options });
    await one.once();
    one.replace('x', { announce: false });
    one.pass(91 * 24 * 60 * MINUTE_MS);
    one.feed.omissions.add({ list: 'manifest', subscriptionId: 'sub_1', datasetId: 'x' }, 1);
    await one.once({ isMoving: true });
    one.pass(MINUTE_MS);
    one.replace('x');
    await one.expectRightInTheEnd();
  }
});

it('F88 satisfies sixty resyncs ten minutes apart as their time comes, by a manifest without a watermark', async () => {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, contract: NO_NUMBERS, files: NO_DIGESTS });
  await one.once();
  const loads: number[] = [];
  for (let times = 1; times <= 60; times += 1) {
    one.replace('x');
    one.pass(10 * MINUTE_MS);
    const { result } = await one.once();
    if (result.datasets.some(({ commits }) => commits.length > 0)) loads.push(times);
  }
  // Each resync is covered by the second catch-up after it.
  expect(loads).toEqual(Array.from({ length: 59 }, (_, index) => index + 2));
  await one.expectRightInTheEnd();
});
