/** `feed-sync once` with a log that expires, events that never came, and a subscription that goes missing. */

import { describe, expect, it } from 'vitest';
import { DAY_MS, stillClock } from '../../fixtures/feed/clock.ts';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import { type CountyFeed, type CountyFeedOptions, countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { type Program, program } from '../support/program.ts';

const MINUTE_MS = 60_000;

interface Mirrored extends CountyFeed {
  readonly installed: Program;
  /** Runs `once`, and gives how often each was asked for. */
  run(exitCode?: number): Promise<Asked>;
}

interface Asked {
  readonly events: number;
  readonly manifest: number;
  readonly downloads: number;
}

/** What a catch-up asks for that has nothing to load: it requests the event at the position, then reads on from there. */
const NO_LOAD: Asked = { events: 2, manifest: 1, downloads: 0 };
/** The same of a quiet log. It is read from its start, so that shows the event at the position, too. */
const NO_LOAD_QUIET: Asked = { events: 1, manifest: 1, downloads: 0 };

/** Its first versions are mirrored. */
async function mirrored(options: CountyFeedOptions = {}): Promise<Mirrored> {
  const clock = stillClock('2026-01-01T00:00:00Z');
  const published = await countyFeed({ kinds: ['permits'], rowsPerDataset: 20, clock, ...options });
  const { feed } = published;
  const installed = await program({ feed });
  const run = async (exitCode = 0): Promise<Asked> => {
    feed.requests.clear();
    await once(installed, exitCode);
    return {
      events: feed.requests.entries('events').length,
      manifest: feed.requests.entries('manifest').length,
      downloads: downloadsOf(feed).length,
    };
  };
  await run();
  return { ...published, installed, run };
}

/** The positions after which the log was read since the record of requests was cleared, in order; undefined: from its start. */
function readAfter(feed: FixtureFeed): readonly unknown[] {
  return feed.requests.entries('events').map(({ query }) => query['after']);
}

describe('F26 logs that expire', () => {
  it('F26 a log that is quiet for 91 days leads to one reload, and to none after as many again', async () => {
    const { feed, datasetOf, publishNext, installed, run } = await mirrored();
    publishNext(datasetOf('permits'));
    expect(await run()).toEqual(NO_LOAD);
    feed.clock.advance(91 * DAY_MS);
    // The event at the position, what follows it, and, after the reading from the manifest, the log from its start.
    expect(await run()).toEqual({ events: 3, manifest: 2, downloads: 1 });
    expect(await run()).toEqual(NO_LOAD_QUIET);
    feed.clock.advance(91 * DAY_MS);
    // An event may have come and gone meanwhile: the manifest is read once more, and the table is its very snapshot.
    expect(await run()).toEqual({ ...NO_LOAD_QUIET, manifest: 2 });
    publishNext(datasetOf('permits'));
    expect(await run()).toEqual(NO_LOAD_QUIET);
    await expectMirrored(installed, feed);
  });

  it('F26 a log loses the position in the first page, in a later one, or again right after the restart from the manifest', async () => {
    const { feed, datasetOf, publishNext, installed, run } = await mirrored();
    const permits = datasetOf('permits');
    const expire = (nth: number, times: number, status: number) =>
      feed.faults.add({
        match: { operation: 'events', nth, times },
        act: {
          kind: 'respond',
          status,
          json: { error: { code: 'cursor_expired', message: 'The cursor is past retention.' } },
        },
      });
    // The first request is for the event at the position, the second reads on from there.
    publishNext(permits);
    expire(2, 2, 410);
    expect(await run()).toEqual({ events: 4, manifest: 2, downloads: 1 });
    expect(readAfter(feed)).toEqual([undefined, 'evt_1', 'evt_2', undefined]);
    await expectMirrored(installed, feed);
    publishNext(permits);
    expect(await run()).toEqual(NO_LOAD_QUIET);

    publishNext(permits);
    feed.faults.add({
      match: { operation: 'events', nth: 2 },
      act: { kind: 'rewrite', rewrite: (page) => ({ ...Object(page), hasMore: true }) },
    });
    expire(3, 1, 400);
    expect(await run()).toEqual({ events: 4, manifest: 2, downloads: 1 });
    expect(readAfter(feed)).toEqual(['evt_2', 'evt_3', 'evt_4', undefined]);
    await expectMirrored(installed, feed);

    // The event at the position alone has expired: what follows it is read all the same.
    publishNext(permits);
    expect(await run()).toEqual(NO_LOAD_QUIET);
    publishNext(permits);
    expire(1, 1, 410);
    expect(await run()).toEqual(NO_LOAD);
    expect(readAfter(feed)).toEqual(['evt_4', 'evt_5']);
    await expectMirrored(installed, feed);
  });
});

describe('F28 lost events', () => {
  it('F28 the next catch-up makes up for lost events of every type that a manifest shows', async () => {
    const { feed, datasetOf, contentOf, publishNext, installed, run } = await mirrored({
      kinds: ['permits', 'zoning', 'parcels', 'ordinances'],
    });
    const [updated, evolved, removed] = [datasetOf('permits'), datasetOf('zoning'), datasetOf('parcels')];
    const added = 'us-tx-new-permits';
    const silently = { announce: false };
    publishNext(updated, undefined, silently);
    const column = { name: 'inspected', type: 'boolean', nullable: true } as const;
    publishNext(
      evolved,
      withAddedColumn(contentOf(evolved), column, () => true),
      silently,
    );
    feed.publisher.remove(removed, 'left_coverage', silently);
    const { placeId } = feed.store.dataset(updated);
    feed.publisher.addDataset({ datasetId: added, placeId, topic: 'permits' });
    feed.publisher.publish(added, contentOf(updated), silently);
    // Only a manifest has named the position yet, so its event is requested from the start of the log. Before the changes of a version
    // that no event announced, it is requested and the log is read once more.
    expect(await run()).toEqual({ events: 4, manifest: 1, downloads: 2 });
    expect(readAfter(feed)).toEqual([undefined, 'evt_4', 'evt_3', 'evt_4']);
    await expectMirrored(installed, feed, { also: [removed] });

    // A member that is absent stays until a reading ten minutes later confirms that; then all is read twice, as after any drop.
    feed.clock.advance(9 * MINUTE_MS);
    expect(await run()).toEqual(NO_LOAD);
    await expectMirrored(installed, feed, { also: [removed] });
    feed.clock.advance(MINUTE_MS);
    expect(await run()).toEqual({ events: 4, manifest: 2, downloads: 0 });
    await expectMirrored(installed, feed);

    // The newest event is still the same, so only the later time shows that the member is back.
    feed.clock.advance(MINUTE_MS);
    feed.publisher.restore(removed, silently);
    expect(await run()).toEqual({ events: 2, manifest: 1, downloads: 1 });
    await expectMirrored(installed, feed);
  });
});

describe('F35 a subscription that is no longer listed', () => {
  it('F35 a subscription that is no longer listed ends once with 77 and keeps its tables until an operator resumes it', async () => {
    const { feed, datasetOf, publishNext, installed, run } = await mirrored({ kinds: ['permits', 'zoning'] });
    const [permits, zoning] = [datasetOf('permits'), datasetOf('zoning')];
    feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: [zoning] });
    feed.publisher.remove(zoning, 'subscription_changed', { subscriptionId: 'sub_1' });
    await run();
    const gone = feed.faults.add({
      match: { operation: 'subscriptions', times: 'always' },
      act: {
        kind: 'rewrite',
        rewrite: (body) => ({
          ...Object(body),
          subscriptions: Object(body).subscriptions.filter(({ id }: { id: string }) => id !== 'sub_2'),
        }),
      },
    });
    publishNext(permits);
    const before = feed.store.dataset(zoning).versions.at(-1);
    publishNext(zoning);
    const notYet = async () => {
      await run();
      await expectMirrored(installed, feed, { at: before === undefined ? {} : { [zoning]: before } });
    };
    await notYet();
    feed.clock.advance(9 * MINUTE_MS);
    await notYet();
    feed.clock.advance(MINUTE_MS);
    const missing = await once(installed, 77);
    expect(`${missing.stdout}${missing.stderr}`).toContain('subscription_missing');
    expect(`${missing.stdout}${missing.stderr}`).toContain('feed-sync forget --subscription sub_2');
    await expectMirrored(installed, feed, { at: before === undefined ? {} : { [zoning]: before } });

    feed.faults.remove(gone.id);
    expect(await run(77)).toEqual(NO_LOAD);
    expect(await installed.run('resume', '--subscription', 'sub_2')).toMatchObject({ exitCode: 0 });
    expect(await run()).toMatchObject({ events: 4, manifest: 2 });
    await expectMirrored(installed, feed);
  });
});
