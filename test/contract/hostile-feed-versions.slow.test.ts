/** Versions that the mirror took and that are withdrawn, or restart, with no event that says so. */

import { expect, it } from 'vitest';
import {
  expectVersions,
  HOUR_MS,
  type HostileFeed,
  hostileFeed,
  hostileFeedAt,
  MANIFEST_KINDS,
  MINUTE_MS,
} from '../support/hostile-feed.ts';

/** Which files and changes were asked for since the record of requests was cleared. */
function fetched({ feed }: HostileFeed): readonly string[] {
  return [...feed.requests.entries('file'), ...feed.requests.entries('changes')].map(
    ({ operation }) => operation,
  );
}

for (const [kind, options] of MANIFEST_KINDS) {
  it(`F79 replaces a version that the service withdrew after the mirror had it, after an hour, manifest ${kind}`, async () => {
    const one = await hostileFeedAt(2, options);
    await expectVersions(one, { x: 2 });
    one.pass(MINUTE_MS);
    one.feed.publisher.withdraw('x');
    one.feed.requests.clear();
    expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'current' }, untilMinutes: 60 });
    one.pass(59 * MINUTE_MS);
    expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'current' }, untilMinutes: 1 });
    expect(fetched(one)).toEqual([]);
    await one.expectRightInTheEnd();
    await expectVersions(one, { x: 1 });
  });

  it(`F79 loads a version that is withdrawn and published anew under its number, manifest ${kind}`, async () => {
    const one = await hostileFeedAt(2, options);
    one.pass(MINUTE_MS);
    one.feed.publisher.withdraw('x');
    one.publish('x');
    one.publish('x');
    await one.once();
    await one.expectRightInTheEnd();
    await expectVersions(one, { x: 3 });
  });

  it(`F79 notices a version restart without an event, and applies no changes to the old table, manifest ${kind}`, async () => {
    const one = await hostileFeedAt(3, options);
    one.pass(MINUTE_MS);
    one.restart('x');
    one.feed.requests.clear();
    await one.once();
    one.pass(MINUTE_MS);
    // The new versions pass the number that the table has.
    one.publish('x');
    await one.once();
    one.publish('x');
    await one.once();
    one.publish('x');
    await one.once();
    await one.expectRightInTheEnd();
    await expectVersions(one, { x: 4 });
  });
}

it('W38 a version that is announced no more is void an hour after the first list that lacks it, though the table was loaded meanwhile', async () => {
  const one = await hostileFeedAt(3);
  one.pass(20 * MINUTE_MS);
  one.restart('x');
  expect(await one.once()).toMatchObject({ exitCode: 75, untilMinutes: 60 });
  one.pass(61 * MINUTE_MS);
  expect(await one.once()).toMatchObject({ exitCode: 0 });
  await expectVersions(one, { x: 1 });
});

it('F79 notices a version restart at the number of the table, without event and digests, within a day', async () => {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, files: { sha256: false } });
  await one.once();
  one.pass(MINUTE_MS);
  one.restart('x');
  one.pass(24 * HOUR_MS);
  await one.once();
  await one.expectRightInTheEnd();
});

for (const announce of ['resync', 'removed+added', 'updated'] as const) {
  it(`F79 loads versions after a version restart that is announced by "${announce}"`, async () => {
    for (const [, options] of MANIFEST_KINDS) {
      const one = await hostileFeedAt(2, options);
      one.pass(MINUTE_MS);
      one.restart('x', { announce });
      await one.once();
      await one.expectRightInTheEnd();
      await expectVersions(one, { x: 1 });
    }
  });
}
