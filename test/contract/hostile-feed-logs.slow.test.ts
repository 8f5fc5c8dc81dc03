/** Logs whose positions are lost, and logs that restart: what is owed is loaded once, and old content satisfies no reload. */

import { expect, it } from 'vitest';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import {
  DAY_MS,
  expectVersions,
  type HostileFeed,
  hostileFeed,
  MANIFEST_KINDS,
  MINUTE_MS,
} from '../support/hostile-feed.ts';

const POSITIONS = ['taken', 'expired'] as const;

/** A mirror at version 5, with a position in the log that a new log does not reach soon. */
async function atVersionFive(options: FixtureFeedOptions): Promise<HostileFeed> {
  const one = await hostileFeed({ subscriptions: { sub_1: ['x', 'y'] }, ...options });
  await one.once();
  for (let times = 0; times < 4; times += 1) {
    one.pass(MINUTE_MS);
    one.publish('x');
  }
  one.pass(MINUTE_MS);
  await one.once();
  one.pass(MINUTE_MS);
  return one;
}

/** The letters of faults.md, with what happens between two catch-ups in brackets. */
type Letter = 'R' | 'A' | 'F' | 'P' | '|';

async function play(one: HostileFeed, letters: string): Promise<void> {
  for (const letter of letters as Iterable<Letter>) {
    one.pass(MINUTE_MS);
    if (letter === 'R') one.replace('x');
    if (letter === 'A') one.feed.publisher.restartLog('sub_1');
    if (letter === 'F') one.feed.manifest.freeze();
    if (letter === 'P') one.publish('x');
    if (letter === '|') await one.once({ isMoving: true });
  }
}

for (const [kind, options] of MANIFEST_KINDS) {
  for (const unknownPosition of POSITIONS) {
    const given = { ...options, answers: { unknownPosition } };
    const where = `manifest ${kind}, old positions ${unknownPosition}`;

    it(`F54 mirrors versions that a new log announces below the position, ${where}`, async () => {
      const one = await atVersionFive(given);
      one.feed.publisher.restartLog('sub_1');
      one.publish('x');
      one.publish('x');
      await one.once();
      await one.expectRightInTheEnd();
      await expectVersions(one, { x: 7, y: 1 });
    });

    it(`F54 notices a new log that has passed the position when it is read, ${where}`, async () => {
      const one = await atVersionFive(given);
      one.feed.publisher.restartLog('sub_1');
      one.replace('x');
      for (let times = 0; times < 10; times += 1) one.publish('y');
      await one.once({ isMoving: true });
      await one.expectRightInTheEnd();
    });

    const all = ['FR|A', 'R|A', 'RA', 'R|AR', 'FR|AR', 'FAR', 'F|AR', 'FR|A|R', 'AR|R', 'A|FR'];
    for (const letters of unknownPosition === 'taken' ? all : ['FR|A', 'R|AR', 'FAR']) {
      it(`F81 "${letters}" leaves nothing that waits for ever and no reload satisfied by old content, ${where}`, async () => {
        const one = await atVersionFive(given);
        await play(one, letters);
        await one.once({ isMoving: true });
        one.feed.manifest.thaw();
        one.pass(11 * MINUTE_MS);
        await one.once({ isMoving: true });
        await one.expectRightInTheEnd();
      });
    }
  }

  for (const recordSays of ['none', 'an old one'] as const) {
    it(`F83 a lost position where the record names ${recordSays} leads to one reading from the manifest and to no loop, manifest ${kind}`, async () => {
      const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, ...options });
      if (recordSays === 'none') one.feed.settings.contract.recordLastEventId = false;
      await one.once();
      one.publish('x');
      await one.once();
      if (recordSays === 'an old one') one.feed.records.freeze('sub_1');
      one.pass(91 * DAY_MS);
      expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'loaded' } });
      one.feed.requests.clear();
      for (let times = 0; times < 3; times += 1) {
        one.pass(MINUTE_MS);
        expect(await one.once()).toMatchObject({ exitCode: 0, kinds: { x: 'current' } });
      }
      expect(one.feed.requests.entries('file')).toEqual([]);
      one.feed.records.thaw();
      one.publish('x');
      one.replace('x');
      await one.once();
      await one.expectRightInTheEnd();
    });

    it(`F83 keeps a resync between two losses of the position where the record names ${recordSays}, manifest ${kind}`, async () => {
      const one = await hostileFeed({ subscriptions: { sub_1: ['x'] }, ...options });
      if (recordSays === 'none') one.feed.settings.contract.recordLastEventId = false;
      await one.once();
      if (recordSays === 'an old one') one.feed.records.freeze('sub_1');
      one.pass(91 * DAY_MS);
      await one.once();
      one.pass(MINUTE_MS);
      one.replace('x');
      one.pass(91 * DAY_MS);
      await one.once();
      // A manifest whose newest event is newer than the record's may be one of an old log: it is waited for the record.
      one.feed.records.thaw();
      await one.expectRightInTheEnd();
    });
  }
}
