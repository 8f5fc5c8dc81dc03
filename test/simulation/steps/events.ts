/** Logs that do not arrive as they were written: lost, repeated, in another order, unreadable; and positions that expire. */

import { DAY_MS } from '../../../fixtures/feed/clock.ts';
import { eventRecord } from '../../../fixtures/feed/wire-records.ts';
import { catchUp } from '../catch-up.ts';
import type { ChangePage } from '../event-log.ts';
import { mayLoseTrack } from '../feed-changes.ts';
import { always, faultAtAnyTime, type Step } from '../step.ts';
import type { World } from '../world.ts';

const PAST_RETENTION_MS = 91 * DAY_MS;
const QUIET_MS = 46 * DAY_MS;
const MOST_REPEATED = 4;

export const eventSteps: readonly Step[] = [
  {
    name: 'events: of a version, lost on their way',
    isFault: true,
    weight: 3,
    applies: (world) => world.members.length > 0,
    act: (world) => world.logs.losing(() => world.publish(world.anyMember())),
  },
  {
    name: 'events: repeated',
    isFault: true,
    weight: 3,
    applies: always,
    act: (world) => {
      const { logs, random, feed } = world;
      const subscriptionId = random.pick([...feed.store.subscriptions.keys()]);
      const kept = logs.kept(subscriptionId);
      if (kept.length === 0) return 'none is kept';
      const start = random.integer(0, kept.length - 1);
      const again = kept
        .slice(start, start + MOST_REPEATED)
        .map((event) =>
          eventRecord(event, subscriptionId, { baseUrl: feed.baseUrl, newerThanParameter: 'since' }),
        );
      // Only what came before: a page that gives more than it should makes what it leaves out be lost.
      const before = (events: readonly unknown[]) =>
        again.filter((event) => isBefore(Object(event).id, events));
      logs.changeNextPage((events) => [...before(events), ...events, ...events], subscriptionId);
      return `${again.length} of ${subscriptionId}, from evt_${kept[start]?.number}`;
    },
  },
  change('events: in another order', (events) => events.toReversed()),
  change('events: unreadable ones among them', (events) => [
    { id: 'event 7', type: 'dataset.updated', data: {} },
    'no event',
    ...events,
    ...events.map((event) => ({ ...Object(event), type: 'dataset.praised' })),
  ]),
  {
    name: 'events: equal numbers in both logs',
    isFault: true,
    weight: 3,
    applies: ({ feed }) => {
      const subscriptions = [...feed.store.subscriptions.values()];
      return subscriptions.length === 2 && subscriptions.every(({ members }) => members.size > 0);
    },
    act: sameNumbers,
  },
  {
    name: 'events: the position expires',
    isFault: true,
    weight: 3,
    applies: mayLoseTrack,
    act: (world) => {
      world.noteLostTrack();
      world.passMonths(PAST_RETENTION_MS);
      if (world.members.length === 0) return 'nothing follows';
      return `then ${world.publish(world.anyMember())}`;
    },
  },
  {
    name: 'events: the position expires while the log is read',
    isFault: true,
    weight: 3,
    applies: mayLoseTrack,
    act: async (world) => {
      const { feed, random } = world;
      world.noteLostTrack();
      const published = world.members.map((datasetId) => world.publish(datasetId)).join('; ');
      const nth = random.integer(1, 2);
      const rewrite = (body: unknown): unknown => {
        world.passMonths(PAST_RETENTION_MS);
        return body;
      };
      const fault = feed.faults.add({
        match: { operation: 'events', nth },
        act: { kind: 'rewrite', rewrite },
      });
      await catchUp(world);
      feed.faults.remove(fault.id);
      return `after page ${nth}; ${published}`;
    },
  },
  {
    name: 'events: the position is refused, though it is kept',
    isFault: true,
    weight: 3,
    applies: (world) => mayLoseTrack(world) && world.members.length > 0,
    act: async (world) => {
      const { feed } = world;
      world.noteLostTrack();
      const datasetId = world.anyMember();
      const subscriptionId = feed.store.subscriptionsOf(datasetId)[0]?.subscriptionId ?? '';
      // Where nothing is newer than a position that is refused, the log is read from its start each time.
      const published = world.publish(datasetId);
      const error = { code: 'cursor_expired', message: 'Reload from the manifest.', links: {} };
      const fault = feed.faults.add({
        match: { operation: 'events', subscriptionId, page: 'later' },
        act: { kind: 'respond', status: 410, json: { error } },
      });
      await catchUp(world);
      feed.faults.remove(fault.id);
      return `of ${subscriptionId}; ${published}`;
    },
  },
  {
    name: 'events: none for longer than they are kept',
    weight: 2,
    applies: mayLoseTrack,
    act: async (world) => {
      world.noteLostTrack();
      world.passMonths(QUIET_MS);
      await catchUp(world);
      world.passMonths(QUIET_MS);
      await catchUp(world);
      world.passMonths(QUIET_MS);
      return 'for 138 days, with catch-ups between';
    },
  },
];

/** The next event of both logs has the same number, and they are different ones. */
function sameNumbers(world: World): string {
  const { feed, random } = world;
  const subscriptions = [...feed.store.subscriptions.values()];
  const highest = Math.max(...subscriptions.map(({ log }) => log.lastNumber ?? 0));
  const reported = subscriptions.map((subscription, index) => {
    const { subscriptionId, log, members } = subscription;
    log.skipNumbers(highest - (log.lastNumber ?? highest));
    const datasetId = random.pick([...members]);
    const { version, schemaVersion, previousVersion } = world.current(datasetId);
    const facts = { datasetId, version, schemaVersion, previousVersion };
    const type = index === 0 ? 'dataset.resync_required' : 'dataset.updated';
    feed.store.announce([subscription], type, facts, feed.clock.now());
    return `${subscriptionId}: evt_${log.lastNumber} ${type} ${datasetId}`;
  });
  return reported.join(', ');
}

function change(name: string, how: ChangePage): Step {
  return faultAtAnyTime(name, ({ logs, random, feed }) => {
    const subscriptionId = random.pick([...feed.store.subscriptions.keys()]);
    logs.changeNextPage(how, subscriptionId);
    return `in the next page of ${subscriptionId}`;
  });
}

function isBefore(id: string, events: readonly unknown[]): boolean {
  const number = (text: unknown): number => Number(/^evt_(\d+)$/.exec(String(text))?.[1] ?? 0);
  return events.every((event) => number(id) <= number(Object(event).id));
}
