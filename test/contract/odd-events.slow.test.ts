/** Logs over the wire that repeat, reorder, lose, promise and invent events: each dataset ends where the service has it. */

import { describe, expect, it } from 'vitest';
import type { FaultMatch } from '../../fixtures/feed/faults.ts';
import { expectCalm, expectNewest } from '../support/oracle.ts';
import { publishNext, SERVED, type ServedWorld, withRealMirror } from '../support/served-world.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

interface Page {
  readonly events: readonly object[];
  readonly hasMore: boolean;
}

/** Changes every page of every log. */
function rewritePages({ feed }: ServedWorld, rewrite: (page: Page) => Page, match: FaultMatch = {}): void {
  feed.faults.add({
    match: { operation: 'events', times: 'always', ...match },
    act: { kind: 'rewrite', rewrite: (body) => rewrite(body as Page) },
  });
}

/** What was asked about content since the record of requests was cleared. */
function workOf({ feed }: ServedWorld): readonly string[] {
  const ofContent = ['versions', 'schemas', 'changes', 'file'];
  return feed.requests.entries().flatMap(({ operation }) => (ofContent.includes(operation) ? operation : []));
}

/** The position that each log was read from last. */
function positions({ feed }: ServedWorld): Readonly<Record<string, unknown>> {
  const asked = feed.requests.entries('events');
  return Object.fromEntries(asked.map(({ subscriptionId, query }) => [subscriptionId, query['after']]));
}

describe('F27 repeated and reordered events', () => {
  it('F27 counts each event once that comes twice, backwards, past evt_9, under the same number in two logs', async () => {
    const world = await withRealMirror();
    await world.catchUp();
    const reported: Record<string, readonly object[]> = {};
    for (const subscriptionId of ['sub_1', 'sub_2']) {
      const backwards = (page: Page): Page => {
        reported[subscriptionId] = [...(reported[subscriptionId] ?? []), ...page.events];
        return { ...page, events: [...page.events, ...page.events].reverse() };
      };
      rewritePages(world, backwards, { subscriptionId });
    }
    // Both logs pass from nine to ten; parcels have the last event of theirs, before those of permits.
    for (let time = 0; time < 5; time += 1) publishNext(world.feed, 'permits');
    for (let time = 0; time < 6; time += 1) publishNext(world.feed, 'parcels');
    for (let time = 0; time < 12; time += 1) publishNext(world.feed, 'roads');
    world.feed.requests.clear();
    const { datasets } = await world.catchUp();
    expect(datasets.map(({ commits }) => commits.length)).toEqual([1, 1, 1]);
    expect(world.feed.requests.entries('versions')).toHaveLength(SERVED.length);
    await expectNewest(world);

    // Now every page is every event that there ever was, as if nothing had been read.
    world.feed.faults.clear();
    for (const subscriptionId of ['sub_1', 'sub_2']) {
      const everything = reported[subscriptionId] ?? [];
      rewritePages(world, (page) => ({ ...page, events: [...everything, ...everything] }), {
        subscriptionId,
      });
    }
    world.feed.requests.clear();
    expect(kinds(await world.catchUp())).toEqual({
      parcels: 'current',
      permits: 'current',
      roads: 'current',
    });
    expect(workOf(world)).toEqual([]);
    expect(positions(world)).toEqual({ sub_1: 'evt_13', sub_2: 'evt_13' });
    await expectNewest(world);
  });
});

describe('F28 events that are missing', () => {
  it('F28 mirrors what lost events in the middle and at the end would announce, and versions with a false previous one', async () => {
    const world = await withRealMirror();
    await world.catchUp();
    const { publisher } = world.feed;
    const rows = (count: number) => smallContent(numberedRows(count), null);
    const isLost = (event: object): boolean =>
      Object(event).data.datasetId === 'parcels' && Object(event).data.version === 2;
    rewritePages(world, (page) => ({ ...page, events: page.events.filter((event) => !isLost(event)) }));
    publishNext(world.feed, 'parcels');
    publishNext(world.feed, 'permits');
    publisher.publish('roads', rows(4), { announce: false });
    await world.catchUp();
    await expectNewest(world);

    publisher.publish('parcels', rows(5), { claims: { previousVersion: 1 } });
    publisher.publish('permits', rows(6), { version: 9, claims: { previousVersion: 8 } });
    publisher.publish('roads', rows(7), { claims: { previousVersion: null } });
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'loaded', roads: 'loaded' });
    await expectNewest(world);
  });
});

describe('F29 unknown events', () => {
  it('F29 reports unknown types and fields once and refreshes metadata, and reloads for an unknown reason', async () => {
    const world = await withRealMirror();
    await world.catchUp();
    publishNext(world.feed, 'permits');
    world.feed.publisher.resync('parcels', 'cursor_expired');
    let strange = '';
    const withReason = (event: object): object => {
      const { id, data } = Object(event);
      const reported = { ...event, data: { ...data, weather: 'fine', reason: 'the_moon' }, mood: ['bright'] };
      if (data.datasetId !== 'permits') return reported;
      strange = id;
      return { id, type: 'dataset.renamed', data: { datasetId: 'permits', to: 'permissions' } };
    };
    rewritePages(world, ({ events, hasMore }) => ({ events: events.map(withReason), hasMore }), {
      subscriptionId: 'sub_1',
    });
    world.feed.requests.clear();
    expect(kinds(await world.catchUp())).toMatchObject({ parcels: 'loaded', permits: 'applied' });
    const warnings = world.logged.filter(([, , message]) => message.startsWith('Skipped events'));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]?.[1]).toMatchObject({ subscription: 'sub_1', event: strange, events: 1 });
    await expectNewest(world);
  });
});

/** Pages that promise more for ever: an empty one of a log; of the other lists, one whose next page is itself. */
function promiseMore({ feed }: ServedWorld, match: FaultMatch): void {
  if (match.operation === 'events') {
    const act = { kind: 'merge', fields: { events: [], hasMore: true } } as const;
    feed.faults.add({ match: { ...match, times: 'always' }, act });
    return;
  }
  const again = { nextCursor: 'again' };
  const json = { datasetId: 'permits', version: 2, versions: [], datasets: [], changes: [], ...again };
  const first = { kind: 'merge', fields: again } as const;
  const later = { kind: 'respond', status: 200, json } as const;
  feed.faults.add({ match: { ...match, page: 'first', times: 'always' }, act: first });
  feed.faults.add({ match: { ...match, page: 'later', times: 'always' }, act: later });
}

it('F25 pages that lead nowhere end the attempt, and the next one has all', async () => {
  const world = await withRealMirror();
  await world.catchUp();
  for (const match of [
    { operation: 'events', subscriptionId: 'sub_1' },
    { operation: 'manifest', subscriptionId: 'sub_1' },
    { operation: 'versions', datasetId: 'permits' },
    { operation: 'changes', datasetId: 'permits' },
  ] as const) {
    publishNext(world.feed, 'permits');
    promiseMore(world, match);
    world.feed.requests.clear();
    const { datasets, incidents } = await world.catchUp();
    const failed = datasets.filter(({ kind }) => kind === 'failed');
    expect(failed.length + incidents.length, match.operation).toBe(1);
    expect(world.feed.requests.entries(match.operation).length).toBeLessThan(10);
    await expectCalm(world);
  }
});

describe('F36 many at once about one dataset', () => {
  it('F36 500 events of one page and 600 versions of backlog are one metadata refresh and one commit', async () => {
    const world = await withRealMirror();
    await world.catchUp();
    for (let time = 0; time < 600; time += 1) publishNext(world.feed, 'permits');
    world.feed.requests.clear();
    const { datasets } = await world.catchUp();
    const permits = datasets.find(({ datasetId }) => datasetId === 'permits');
    expect(permits?.commits).toHaveLength(1);
    expect(
      world.feed.requests.entries('events').filter(({ subscriptionId }) => subscriptionId === 'sub_1'),
    ).toHaveLength(3);
    await expectNewest(world);
  });
});
