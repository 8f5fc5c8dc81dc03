/**
 * `feed-sync run` over a hundred publishes, polling every second: the service fails, the network goes away, positions
 * expire, the daemon is stopped and killed. At the end the mirror is what the feed says it is.
 *
 * What happens depends on the seed alone; `SEED=7` tries another.
 */

import process from 'node:process';
import { expect, it, onTestFailed } from 'vitest';
import { DAY_MS } from '../../fixtures/feed/clock.ts';
import { type Random, randomFrom } from '../../fixtures/source/random.ts';
import { type BreakableLink, breakableLink } from '../support/breakable-link.ts';
import { type CountyFeed, countyFeed } from '../support/county-feed.ts';
import { literal, openExactly } from '../support/exact-mirror.ts';
import { LastingDaemon } from '../support/lasting-daemon.ts';
import { LivelyFeed } from '../support/lively-feed.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { eventually, until } from '../support/patience.ts';
import { type Program, program } from '../support/program.ts';
import { everythingPublished } from '../support/published.ts';
import { QUICK_SETTINGS } from '../support/quick-settings.ts';
import { SEED } from '../support/seed.ts';
import { steered } from '../support/steered-process.ts';

const PUBLISHES = 100;
const VERSION_KINDS = 6;
/** A reader that opens the mirror more often keeps it from being written. */
const CHECK_EVERY_MS = 250;
/** Requests after which a process that works is stopped or killed, and durable effects. */
const SOON = 12;

interface World {
  readonly random: Random;
  readonly county: CountyFeed;
  readonly lively: LivelyFeed;
  readonly link: BreakableLink;
  readonly installed: Program;
  readonly daemon: LastingDaemon;
}

/** What happens beside the publishing of a round: it publishes what it is given, and ends with a daemon that runs. */
type Trial = (world: World, publish: () => void) => Promise<void>;

const failing = (world: World, act: Parameters<World['county']['feed']['faults']['add']>[0]['act']): void => {
  const times = world.random.integer(1, 4);
  world.county.feed.faults.add({ match: { nth: world.random.integer(1, SOON), times }, act });
};

const TRIALS: Readonly<Record<string, Trial>> = {
  async nothing(_world, publish) {
    publish();
  },
  async 'answers with 503'(world, publish) {
    failing(world, { kind: 'respond', status: 503 });
    publish();
  },
  async 'connections that are reset'(world, publish) {
    failing(world, { kind: 'reset', afterBytes: world.random.integer(0, 300) });
    publish();
  },
  async 'a network that is gone'({ link, daemon }, publish) {
    link.refuse();
    publish();
    // It may have had an incident before, which is not reported again.
    await until('an incident of the daemon without a network', () => daemon.incidents().size > 0);
    link.accept();
  },
  async 'a position that expires while it runs'({ county }, publish) {
    county.feed.clock.advance(91 * DAY_MS);
    publish();
  },
  async 'a position that expires while it is stopped'({ county, daemon }, publish) {
    await daemon.stop();
    county.feed.clock.advance(91 * DAY_MS);
    publish();
    await daemon.startAgain();
  },
  async 'SIGTERM while it works'(world, publish) {
    const asked = nextRequest(world);
    publish();
    await asked;
    await world.daemon.stop();
    await world.daemon.startAgain();
  },
  async 'SIGKILL while it works'(world, publish) {
    const asked = nextRequest(world);
    publish();
    await asked;
    world.daemon.signal('SIGKILL');
    await world.daemon.startAgain();
  },
  async 'SIGKILL at an effect that lasts'({ daemon, random }, publish) {
    await daemon.stop();
    publish();
    await daemon.startAgain(steered({ killAt: String(random.integer(3, 2 * SOON)) }));
    expect(await daemon.ended()).toMatchObject({ signal: 'SIGKILL' });
    await daemon.startAgain();
  },
  async 'a dataset that leaves or comes back'({ lively }, publish) {
    publish();
    lively.move();
  },
};

/** Each of them once, some more often. */
const ROUNDS = [
  ...Object.keys(TRIALS),
  ...['nothing', 'answers with 503', 'connections that are reset', 'a dataset that leaves or comes back'],
  ...['SIGKILL while it works', 'SIGKILL at an effect that lasts'],
];

/** Resolves with the answer to a request that comes soon. */
function nextRequest({ county, random }: World): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const until = async (): Promise<void> => resolve();
  county.feed.faults.add({ match: { nth: random.integer(1, SOON) }, act: { kind: 'wait', until } });
  return promise;
}

function shuffled<Element>(list: readonly Element[], random: Random): readonly Element[] {
  const left = [...list];
  return list.map(() => left.splice(random.integer(0, left.length - 1), 1)[0] as Element);
}

/** The versions of these datasets in the mirror, which a daemon may have open at any time. */
async function mirrored({ installed }: World, datasetIds: readonly string[]): Promise<unknown> {
  const mirror = await openExactly(installed.mirrorPath);
  try {
    const ids = datasetIds.map(literal).join(', ');
    const rows = await mirror.rows(
      `SELECT dataset_id, version::VARCHAR FROM feed_sync.datasets WHERE dataset_id IN (${ids})`,
    );
    return Object.fromEntries(rows);
  } finally {
    mirror.close();
  }
}

async function isAtNewest(world: World, datasetIds: readonly string[]): Promise<void> {
  const { lively, county } = world;
  const members = datasetIds.filter((datasetId) => lively.members.includes(datasetId));
  const newest = members.map((id) => [id, String(county.feed.store.dataset(id).versions.at(-1)?.version)]);
  await eventually(
    async () => expect(await mirrored(world, datasetIds)).toEqual(Object.fromEntries(newest)),
    CHECK_EVERY_MS,
  );
}

const seed = Number(process.env['SEED'] ?? SEED);

it(`the mirror is right after ${PUBLISHES} publishes and all that happens meanwhile (seed ${seed})`, async () => {
  const random = randomFrom(seed);
  const county = await countyFeed({ seed, counties: 2, rowsPerDataset: 30 });
  const link = await breakableLink(county.feed.baseUrl);
  const feed = { baseUrl: link.baseUrl, apiKey: county.feed.apiKey };
  const installed = await program({ feed, environment: QUICK_SETTINGS });
  const lively = new LivelyFeed(county, random);
  const daemon = new LastingDaemon(installed);
  onTestFailed(
    () =>
      void process.stderr.write(
        `${daemon
          .lines()
          .map((line) => JSON.stringify(line))
          .join('\n')}\n`,
      ),
  );
  const world = { random, county, lively, link, installed, daemon };
  await isAtNewest(world, county.datasetIds);

  const rounds = shuffled(ROUNDS, random);
  const forTheEnd = county.datasetIds.length;
  for (const [index, name] of rounds.entries()) {
    const share = Math.floor((PUBLISHES - forTheEnd - lively.published) / (rounds.length - index));
    const count = index === rounds.length - 1 ? share : random.integer(1, 2 * share - 1);
    let published: ReadonlySet<string> = new Set();
    await TRIALS[name]?.(world, () => {
      published = lively.publish(count);
    });
    await isAtNewest(world, [...published]);
  }

  county.feed.faults.clear();
  while (lively.members.length < county.datasetIds.length) lively.move();
  // What has failed in between waits for a minute, unless something new is known of it.
  for (const datasetId of county.datasetIds) lively.publishOf(datasetId, 'changes');
  // A comparison of all of it keeps the mirror open for long, and again at once: nothing could be committed meanwhile.
  await isAtNewest(world, county.datasetIds);
  const expected = { ...everythingPublished(county.feed), origin: link.baseUrl };
  await daemon.stop();
  expect(await mirrorDifferences(installed.mirrorPath, expected)).toEqual([]);
  expect(lively.published).toBe(PUBLISHES);
  expect(lively.counts.size).toBe(VERSION_KINDS);
  expect(daemon.lines().filter(({ level }) => level === 'error')).toEqual([]);
  expect(daemon.count('The position in the log has expired: starting from the manifest.')).toBe(2);
  expect(daemon.count('Recovered.')).toBeGreaterThanOrEqual(1);
});
