/** The faults that histories have found, each as a script of as few steps as possible, with a note of what was wrong. */

import { describe, expect, it } from 'vitest';
import { DAY_MS } from '../../fixtures/feed/clock.ts';
import { eventRecord } from '../../fixtures/feed/wire-records.ts';
import type { Content } from '../../fixtures/source/content.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
import { present } from '../../src/lib/assert.ts';
import { expectCalm, expectIdle } from './calm.ts';
import { catchUp } from './catch-up.ts';
import { followOn } from './daemon.ts';
import { approveAll } from './operator.ts';
import { playScript } from './script.ts';
import type { World } from './world.ts';

const PAST_RETENTION_MS = 91 * DAY_MS;
/** What is absent without an event is believed to be gone after ten minutes. */
const UNTIL_CONFIRMED_MS = 10 * 60_000;
/** More than a history makes. */
const MANY_READINGS = 100;
/** Contents that are drawn until one has as many rows. */
const MOST_ATTEMPTS = 100;

/** A second subscription begins, `sub_2`. */
function subscribeAnother(world: World, ...datasetIds: readonly string[]): void {
  world.feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds });
  world.logs.installFor('sub_2');
}

/** The datasets that have a table in the mirror. */
async function liveTables(world: World): Promise<readonly string[]> {
  const { destination } = await world.installation.parts();
  const { datasets } = await destination.has();
  return [...datasets.keys()].sort();
}

/** A dataset that nobody has is forgotten, and comes back to every subscription with a first version. */
function beginAgain(world: World, datasetId: string): void {
  const { publisher } = world.feed;
  publisher.dropHistory(datasetId);
  world.line(datasetId).startAgain(world.random);
  world.publish(datasetId, 'the same', { version: 1 });
  publisher.restore(datasetId);
  world.wentBack.add(datasetId);
}

/** The only subscription that contains a dataset ends, and the versions of the dataset begin again in another one. */
async function beginAgainInAnother(world: World, datasetId: string, other: string): Promise<void> {
  subscribeAnother(world, other);
  await catchUp(world);
  await world.end('sub_1');
  beginAgain(world, datasetId);
}

/** Content with as many rows as the newest version. */
function otherContentOfAsManyRows(world: World, datasetId: string): Content {
  const { rowCount } = world.current(datasetId).content;
  for (let attempts = 0; attempts < MOST_ATTEMPTS; attempts += 1) {
    const content = world.contentOfNext(datasetId, 'most');
    if (content.rowCount === rowCount) return content;
  }
  throw new Error(`no other content of ${datasetId} has ${rowCount} rows`);
}

describe('faults that histories have found', () => {
  /** The list left out the table's own version, which had begun again, and the changes of the next one led on from it. */
  it('V2 applies changes only from a version that the list of versions names', async () => {
    await playScript({}, async ({ world, first }) => {
      await catchUp(world);
      world.publish(first);
      await catchUp(world);
      world.restart(first, 'updated');
      const { version } = world.current(first);
      expect(version).toBe(2);
      world.feed.omissions.add({ list: 'versions', datasetId: first, version }, MANY_READINGS);
      const nothingNamed = await catchUp(world);
      expect(nothingNamed.datasets.find(({ datasetId }) => datasetId === first)?.kind).toBe('waiting');
      world.publish(first);
      await catchUp(world);
      world.feed.omissions.clear();
      await expectCalm(world);
    });
  });

  /**
   * Only a subscription that ended contained the dataset, and its versions began again in another one. The events of
   * that one named no removal, so the table kept the old content under the higher number.
   */
  it('notices a version restart in another subscription', async () => {
    await playScript({}, async ({ world, first, second }) => {
      world.publish(first);
      await catchUp(world);
      await beginAgainInAnother(world, first, second);
      await expectCalm(world);
    });
  });

  /**
   * The position expired while the manifest lagged: the version that this listed was desired again, though a reload had
   * replaced it by a lower one since. The table waited for a version that will not come for long.
   */
  it('ignores a version of an old manifest that a reload has replaced', async () => {
    await playScript({}, async ({ world, first, second }) => {
      const { publisher, clock } = world.feed;
      for (let version = 2; version <= 4; version += 1) world.publish(first);
      await catchUp(world);
      world.freeze();
      publisher.remove(first, 'source_retired');
      world.mayLeave.add(first);
      beginAgain(world, first);
      await catchUp(world);
      clock.advance(PAST_RETENTION_MS);
      world.publish(second);
      await catchUp(world);
      await expectCalm(world);
    });
  });

  /**
   * The checkpoint was lost while a subscription was not listed: nobody knew any more what that one contains, and a table
   * that the other one dropped was retired, though it was in the hidden one all the time. Today the mirror stores what each
   * subscription contains, so that the dataset is known to have left only one of them.
   */
  it('keeps a table if the mirror knows that an unlisted subscription contains its dataset', async () => {
    await playScript({}, async ({ world, first, second }) => {
      const { publisher } = world.feed;
      subscribeAnother(world, first, second);
      await catchUp(world);
      await world.hide('sub_2');
      await world.installation.lose('checkpoint');
      await catchUp(world);
      publisher.remove(first, 'left_coverage', { subscriptionId: 'sub_1' });
      const { datasets } = await catchUp(world);
      expect(datasets.find(({ datasetId }) => datasetId === first)).toMatchObject({ kind: 'current' });
      const { checkpoint } = await world.installation.parts();
      expect([...(checkpoint.desired(first)?.members.keys() ?? [])]).toEqual(['sub_2']);
      expect(await liveTables(world)).toEqual([first, second]);
      await expectCalm(world);
      await expectIdle(world);
    });
  });

  /**
   * The same, and the mirror says nothing of what subscriptions contain, because the process died before that was stored: only
   * their ids are known.
   */
  it('keeps a table waiting for an unlisted subscription whose members neither store knows', async () => {
    await playScript({}, async ({ world, first, second }) => {
      const { publisher, clock } = world.feed;
      subscribeAnother(world, first, second);
      const beforeProgress = { kind: 'effect', name: 'destination.store-progress', nth: 1 } as const;
      expect(await world.installation.catchUpAndDie(beforeProgress)).toMatchObject({ died: true });
      await world.hide('sub_2');
      await world.installation.lose('checkpoint');
      const { destination } = await world.installation.parts();
      expect((await destination.has()).progress).toBeNull();
      expect(await liveTables(world)).toEqual([first, second]);
      await catchUp(world);
      publisher.remove(first, 'left_coverage', { subscriptionId: 'sub_1' });
      const unlisted = await catchUp(world);
      expect(unlisted.datasets.find(({ datasetId }) => datasetId === first)).toMatchObject({
        kind: 'waiting',
        awaited: [{ subscriptionId: 'sub_2', reason: 'log-unread' }],
      });
      expect(exitCodeOfResult(unlisted)).toBe(EXIT_CODES.tryAgainLater);
      clock.advance(UNTIL_CONFIRMED_MS);
      const suspended = await catchUp(world);
      expect(suspended.datasets.find(({ datasetId }) => datasetId === first)).toMatchObject({
        kind: 'waiting',
        awaited: [{ subscriptionId: 'sub_2', reason: 'suspended' }],
      });
      expect(exitCodeOfResult(suspended)).toBe(EXIT_CODES.operatorMustAct);
      expect(await liveTables(world)).toEqual([first, second]);
      await expectCalm(world);
      await expectIdle(world);
    });
  });

  /**
   * A subscription was refused before it was ever read. A table that the other one dropped was retired, though the refused
   * one contained it all the time.
   */
  it('keeps a table while a subscription that may contain its dataset was never read', async () => {
    await playScript({}, async ({ world, first, second }) => {
      const { publisher, access } = world.feed;
      await catchUp(world);
      subscribeAnother(world, first, second);
      access.refuse({ kind: 'subscription', subscriptionId: 'sub_2' }, { code: 'outside_coverage' });
      publisher.remove(first, 'left_coverage', { subscriptionId: 'sub_1' });
      const { datasets } = await catchUp(world);
      expect(datasets.find(({ datasetId }) => datasetId === first)).toMatchObject({
        kind: 'waiting',
        awaited: [{ subscriptionId: 'sub_2', reason: 'suspended' }],
      });
      await expectCalm(world);
    });
  });

  /** Found by nobody yet, and too rare to be drawn: a dataset moves to a subscription whose log cannot be read just then. */
  it('keeps a table while the log of the subscription that its dataset moved to cannot be read', async () => {
    await playScript({}, async ({ world, first, second }) => {
      const { publisher, faults } = world.feed;
      subscribeAnother(world, second);
      await catchUp(world);
      publisher.remove(first, 'subscription_changed', { subscriptionId: 'sub_1' });
      publisher.restore(first, { subscriptionId: 'sub_2' });
      faults.add({
        match: { operation: 'events', subscriptionId: 'sub_2', times: 'always' },
        act: { kind: 'respond', status: 503 },
      });
      const { datasets } = await catchUp(world);
      expect(datasets.find(({ datasetId }) => datasetId === first)).toMatchObject({
        kind: 'waiting',
        awaited: [{ subscriptionId: 'sub_2', reason: 'log-unread' }],
      });
      await expectCalm(world);
    });
  });

  /**
   * The announced version stayed desired as a number though its versions were gone, where the mirror was lost meanwhile and the
   * dataset began again in another subscription: the table was right, and was said to wait for that version until the new
   * versions had come as far.
   */
  it('does not wait for a version that a forgotten subscription announced', async () => {
    await playScript({}, async ({ world, first, second }) => {
      for (let version = 2; version <= 4; version += 1) world.publish(first);
      await catchUp(world);
      subscribeAnother(world, second);
      await catchUp(world);
      await world.installation.lose('mirror');
      await world.end('sub_1');
      await catchUp(world);
      beginAgain(world, first);
      await expectCalm(world);
    });
  });

  /**
   * Where manifests do not say how far they go: the removal from one subscription was lost with the position, so that one
   * was still believed to contain the dataset and to owe the reload that it asked for; the other one's snapshot was not taken,
   * and there was no table at all.
   */
  it('does not wait for the manifest of a subscription that the dataset has left, without a table', async () => {
    await playScript({ manifestLastEventId: false }, async ({ world, first }) => {
      const { publisher, clock } = world.feed;
      subscribeAnother(world, first);
      await catchUp(world);
      publisher.resync(first, 'subscription_changed');
      world.freeze();
      await catchUp(world);
      await world.installation.lose('mirror');
      publisher.remove(first, 'left_coverage', { subscriptionId: 'sub_1' });
      clock.advance(PAST_RETENTION_MS);
      publisher.resync(first, 'subscription_changed');
      await expectCalm(world);
    });
  });

  /**
   * Who asked for a reload has left. Another one's manifest, which lagged, was taken for the answer, and led the table back to
   * a version from before.
   */
  it('satisfies the reload of a former subscription with no older manifest', async () => {
    await playScript({}, async ({ world, first }) => {
      const { publisher, store, clock } = world.feed;
      subscribeAnother(world, first);
      await catchUp(world);
      world.freeze();
      world.publish(first);
      await catchUp(world);
      const { version, schemaVersion, previousVersion } = world.current(first);
      const facts = { datasetId: first, version, schemaVersion, previousVersion };
      store.announce([store.subscription('sub_1')], 'dataset.resync_required', facts, clock.now());
      publisher.remove(first, 'left_coverage', { subscriptionId: 'sub_1' });
      await catchUp(world);
      await expectCalm(world);
    });
  });

  /** The number of the table's version was given anew in another subscription, and the table was taken for that one. */
  it('notices a version restart under the number of the table', async () => {
    await playScript({}, async ({ world, first, second }) => {
      await beginAgainInAnother(world, first, second);
      await expectCalm(world);
    });
  });

  /** Where manifests do not say how far they go, a lagging one lacked a dataset that the log had just added, and its table was dropped. */
  it('keeps a dataset that a lagging manifest lacks', async () => {
    await playScript({ manifestLastEventId: false }, async ({ world, first, second }) => {
      const { publisher } = world.feed;
      subscribeAnother(world, first);
      await catchUp(world);
      world.freeze();
      publisher.restore(second, { subscriptionId: 'sub_2' });
      publisher.remove(second, 'subscription_changed', { subscriptionId: 'sub_1' });
      await catchUp(world);
      await expectCalm(world);
    });
  });

  /** A daemon knew of one subscription only, and the dataset had moved to another: its table went until the next audit. */
  it('keeps a dataset that moves to a subscription that the daemon has not listed yet', async () => {
    await playScript({}, async ({ world, first }) => {
      const { publisher } = world.feed;
      await followOn(world);
      subscribeAnother(world, first);
      publisher.remove(first, 'subscription_changed', { subscriptionId: 'sub_1' });
      await followOn(world);
      await expectCalm(world);
    });
  });

  /**
   * The removal was lost with the position, so that no event stood against an old one that came again: the version that it
   * announced was waited for, though the dataset had come back with a first one.
   */
  it('raises no announced version by a repeated event of a dataset that the manifest dropped', async () => {
    await playScript({}, async ({ world, first, second }) => {
      const { publisher, clock, baseUrl } = world.feed;
      for (let version = 2; version <= 4; version += 1) world.publish(first);
      const reported = world.logs.kept('sub_1').at(-1);
      await catchUp(world);
      publisher.remove(first, 'source_retired');
      world.mayLeave.add(first);
      clock.advance(PAST_RETENTION_MS);
      world.publish(second);
      await catchUp(world);
      const again = eventRecord(present(reported, 'it was kept'), 'sub_1', {
        baseUrl,
        newerThanParameter: 'since',
      });
      world.logs.changeNextPage((events) => [again, ...events], 'sub_1');
      world.publish(second);
      await catchUp(world);
      world.logs.losing(() => beginAgain(world, first));
      await expectCalm(world);
    });
  });

  /**
   * The log restarted, and its event at the position was lost on its way. Its record names as new an event as was read, so
   * nothing said that the log is another one, and changes that only the list of versions names waited for good.
   */
  it('W42 notices a log restart that has passed the position and has no event there', async () => {
    await playScript({}, async ({ world, first }) => {
      await catchUp(world);
      world.publish(first);
      await catchUp(world);
      const { checkpoint } = await world.installation.parts();
      const position = Number(checkpoint.followed().get('sub_1')?.cursor?.number);
      world.restartLog('sub_1', position, false);
      world.logs.losing(() => world.publish(first));
      await expectCalm(world);
    });
  });

  /**
   * A dataset left, its table was retired, and it came back with other rows under the same version. Then the mirror from before
   * was restored: nothing asked for a reload of its table, and the changes of the next version led on from the old rows.
   */
  it('W7 reloads a table of a restored mirror if its dataset has left and returned since', async () => {
    await playScript({}, async ({ world, first }) => {
      const { publisher } = world.feed;
      await catchUp(world);
      await world.installation.copy('mirror');
      publisher.remove(first, 'left_coverage');
      world.mayLeave.add(first);
      await catchUp(world);
      expect(await liveTables(world)).not.toContain(first);
      world.resync(first, otherContentOfAsManyRows(world, first));
      publisher.restore(first);
      await catchUp(world);
      await world.installation.restoreCopy('mirror');
      world.publish(first, 'the same');
      await expectCalm(world);
      await expectIdle(world);
    });
  });

  /**
   * Changes added a column to a table with an altered row. The checksum was computed anew, with that row: nothing found it any
   * more, and the undo log claimed it as what the commit left.
   */
  it('F70 falls back to the snapshot if changes add a column to altered rows', async () => {
    const settings = { schemaChanges: 'alter', keepsHistory: true, isGated: false } as const;
    await playScript(settings, async ({ world, first }) => {
      await catchUp(world);
      world.publish(first);
      await catchUp(world);
      const { destination } = await world.installation.parts();
      const table = present((await destination.has()).datasets.get(first), 'it was loaded');
      expect(await world.installation.alter(table, 'a value')).not.toBeNull();
      world.suspects.add(first);
      const column = {
        name: 'added_by_changes',
        type: 'string',
        nullable: true,
        description: 'Added.',
      } as const;
      world.line(first).evolve((content) => withAddedColumn(content, column, () => null));
      world.publish(first, 'the same');
      await catchUp(world);
      await expectCalm(world);
    });
  });

  /** The marked table was to be loaded again, but each catch-up began with the approved changes, which cannot be applied to it. */
  it('F68 drops a candidate of changes and loads the snapshot once its table is damaged', async () => {
    await playScript({ isGated: true, keepsHistory: false }, async ({ world, first }) => {
      await catchUp(world);
      world.publish(first);
      await catchUp(world);
      const { checkpoint } = await world.installation.parts();
      expect(checkpoint.candidates().map(({ content }) => content.kind)).toEqual(['changes']);
      world.installation.damage(first);
      world.suspects.add(first);
      await approveAll(world);
      await expectCalm(world);
    });
  });

  /** The approved changes stayed, though the table that they would be applied to was gone, until each of them had failed. */
  it('F76 drops a candidate of changes and loads the snapshot once its table was dropped', async () => {
    await playScript({ isGated: true, keepsHistory: false }, async ({ world, first }) => {
      await catchUp(world);
      world.publish(first);
      await catchUp(world);
      const { checkpoint, destination } = await world.installation.parts();
      expect(checkpoint.candidates().map(({ content }) => content.kind)).toEqual(['changes']);
      const table = present((await destination.has()).datasets.get(first), 'it was loaded');
      await world.installation.drop(table);
      await catchUp(world);
      expect(checkpoint.candidates().map(({ content }) => content.kind)).not.toContain('changes');
      await approveAll(world);
      await expectCalm(world);
    });
  });

  /**
   * A dataset moved to another subscription and back, and no event announced the return. Its table waited, because the record of the
   * first one named it, until one reading of that record skipped it (seed 336739).
   */
  it('W16 F55 keeps a table if one reading of the record skips a dataset that only the record names', async () => {
    await playScript({ manifestLastEventId: false }, async ({ world, first, second }) => {
      const { publisher, omissions } = world.feed;
      subscribeAnother(world, second);
      await catchUp(world);
      publisher.restore(first, { subscriptionId: 'sub_2' });
      publisher.remove(first, 'left_coverage', { subscriptionId: 'sub_1' });
      await catchUp(world);
      publisher.restore(first, { subscriptionId: 'sub_1', announce: false });
      publisher.remove(first, 'left_coverage', { subscriptionId: 'sub_2' });
      const awaited = [{ subscriptionId: 'sub_1', reason: 'record-names-dataset' }];
      const named = await catchUp(world);
      expect(named.datasets.find(({ datasetId }) => datasetId === first)).toMatchObject({ awaited });
      omissions.add({ list: 'record', subscriptionId: 'sub_1', datasetId: first }, MANY_READINGS);
      const skipped = await catchUp(world);
      expect(skipped.datasets.find(({ datasetId }) => datasetId === first)).toMatchObject({ awaited });
      omissions.clear();
      await expectCalm(world);
      expect(await liveTables(world)).toEqual([first, second]);
    });
  });
});
