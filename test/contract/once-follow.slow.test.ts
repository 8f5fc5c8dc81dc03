/** `feed-sync once` with a log that expires, events that never came, and a subscription that goes missing. */

import { describe, expect, it } from 'vitest';
import { DAY_MS, stillClock } from '../../fixtures/feed/clock.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import { type CountyFeed, type CountyFeedOptions, countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { type Program, program } from '../support/program.ts';

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

/** What a catch-up asks for that has nothing to load. */
const NO_LOAD: Asked = { events: 1, manifest: 1, downloads: 0 };

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

describe('F26 a log', () => {
  it('that is quiet for 91 days leads to one reload, and to none after as many again', async () => {
    const { feed, datasetOf, publishNext, installed, run } = await mirrored();
    publishNext(datasetOf('permits'));
    expect(await run()).toEqual(NO_LOAD);
    feed.clock.advance(91 * DAY_MS);
    expect(await run()).toEqual({ events: 2, manifest: 2, downloads: 1 });
    feed.clock.advance(91 * DAY_MS);
    expect(await run()).toEqual(NO_LOAD);
    publishNext(datasetOf('permits'));
    expect(await run()).toEqual(NO_LOAD);
    await expectMirrored(installed, feed);
  });

  it('that has lost the position in the first page, in a later one, or again right after starting anew', async () => {
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
    publishNext(permits);
    expire(1, 2, 410);
    expect(await run()).toEqual({ events: 3, manifest: 2, downloads: 1 });
    await expectMirrored(installed, feed);
    publishNext(permits);
    expect(await run()).toEqual(NO_LOAD);

    publishNext(permits);
    feed.faults.add({
      match: { operation: 'events' },
      act: { kind: 'rewrite', rewrite: (page) => ({ ...Object(page), hasMore: true }) },
    });
    expire(2, 1, 400);
    expect(await run()).toEqual({ events: 3, manifest: 2, downloads: 1 });
    await expectMirrored(installed, feed);
  });
});

describe('F28 events that never came', () => {
  it('are made good by the next catch-up, of every type that a manifest shows', async () => {
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
    expect(await run()).toMatchObject({ events: 1, manifest: 2 });
    expect(feed.requests.entries('events').map(({ query }) => query['after'])).toEqual(['evt_4']);
    await expectMirrored(installed, feed);

    feed.publisher.restore(removed, silently);
    await run();
    await expectMirrored(installed, feed);
  });
});

describe('F35 a subscription that is no longer listed', () => {
  it('ends with 77 and keeps its tables, until it is back and a person resumes it', async () => {
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
    const missing = await once(installed, 77);
    expect(`${missing.stdout}${missing.stderr}`).toContain('subscription_missing');
    expect(`${missing.stdout}${missing.stderr}`).toContain('feed-sync forget --subscription sub_2');
    await expectMirrored(installed, feed, { at: before === undefined ? {} : { [zoning]: before } });

    feed.faults.remove(gone.id);
    expect(await run(77)).toEqual(NO_LOAD);
    expect(await installed.run('resume', '--subscription', 'sub_2')).toMatchObject({ exitCode: 0 });
    expect(await run()).toMatchObject({ events: 2, manifest: 2 });
    await expectMirrored(installed, feed);
  });
});
