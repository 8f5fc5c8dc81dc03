/**
 * The program is killed again and again at random times, while its feed goes on; every so often it catches up, and is
 * compared with the feed. What happens to the feed, and after which time the program is killed, depends on the seed; what
 * it is doing then, on the machine.
 */

import { DAY_MS } from '../../fixtures/feed/clock.ts';
import { type Random, randomFrom } from '../../fixtures/source/random.ts';
import { LivelyFeed } from '../support/lively-feed.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { type OpenCountyFeed, openCountyFeed } from '../support/open-county-feed.ts';
import { everythingPublished } from '../support/published.ts';
import { type End, SoakedInstallation } from './installation.ts';

/** Between two comparisons. */
const KILLS_OF_A_ROUND = 25;
/** A catch-up finds the service as it is at its end within so many runs. */
const MAX_CATCH_UPS = 3;
/** How late a kill may come, in durations of the last undisturbed catch-up. */
const LATEST_KILL = 2;
/** A dataset that has grown larger starts again: the generator adds by shares, and the feed keeps every version. */
const MOST_ROWS = 300;

export interface SoakOptions {
  readonly kills: number;
  readonly seed: number;
  /** Called after every comparison. */
  readonly onRound: (seen: SoakSeen) => void;
}

export interface SoakSeen {
  kills: number;
  /** Processes that had ended before they were to be killed. */
  ended: number;
  /** By the last point of a durable effect that a process had passed. */
  readonly killedAt: Map<string, number>;
  /** What happened to the feed, and how often. */
  readonly happened: Map<string, number>;
  comparisons: number;
  longestCatchUpMs: number;
  /** What was wrong at a comparison; nothing is done after it. */
  differences: readonly string[];
}

interface Soak {
  readonly random: Random;
  readonly county: OpenCountyFeed;
  readonly lively: LivelyFeed;
  readonly installed: SoakedInstallation;
  readonly seen: SoakSeen;
}

/** @returns what was seen, and the folder of the installation, which stays where something was wrong. */
export async function soak({
  kills,
  seed,
  onRound,
}: SoakOptions): Promise<SoakSeen & { readonly home: string }> {
  const random = randomFrom(seed);
  const county = await openCountyFeed({ seed, rowsPerDataset: 30 });
  const installed = new SoakedInstallation(county.feed);
  const seen: SoakSeen = {
    kills: 0,
    ended: 0,
    killedAt: new Map(),
    happened: new Map(),
    comparisons: 0,
    longestCatchUpMs: 0,
    differences: [],
  };
  const world: Soak = { random, county, lively: new LivelyFeed(county, random), installed, seen };
  try {
    let durationMs = await catchUp(world);
    while (seen.kills < kills && seen.differences.length === 0) {
      const last = Math.min(kills, seen.kills + KILLS_OF_A_ROUND);
      while (seen.kills < last) await liveAndKill(world, durationMs);
      durationMs = await compare(world);
      onRound(seen);
    }
  } finally {
    await county.feed.close();
    if (seen.differences.length === 0) installed.remove();
  }
  return { ...seen, home: installed.home };
}

async function liveAndKill(
  { random, county, lively, installed, seen }: Soak,
  durationMs: number,
): Promise<void> {
  const happens = (what: string): void => count(seen.happened, what);
  const versions = random.integer(0, 3);
  lively.publish(versions);
  for (let version = 0; version < versions; version += 1) happens('a version');
  for (const datasetId of lively.members) {
    if (county.contentOf(datasetId).rowCount <= MOST_ROWS) continue;
    county.startAgain(datasetId);
    happens('versions begin again');
  }
  if (random.chance(0.1)) {
    lively.move();
    happens('a dataset leaves or comes back');
  }
  if (random.chance(0.05)) {
    county.feed.publisher.resync(random.pick(lively.members), 'source_retired');
    happens('a resync');
  }
  if (random.chance(0.04)) {
    county.feed.clock.advance(91 * DAY_MS);
    happens('positions expire');
  }
  const command = random.chance(0.85) ? 'run' : 'once';
  const schemaChanges = random.pick(['reload', 'alter']);
  const end = await installed.run(
    command,
    schemaChanges,
    random.integer(0, Math.round(LATEST_KILL * durationMs)),
  );
  if (end.exitCode === null) {
    seen.kills += 1;
    count(seen.killedAt, end.lastPoint ?? 'before anything');
  } else if (command === 'once' && end.exitCode === 0) seen.ended += 1;
  else seen.differences = [`${command} ended with ${end.exitCode}:\n${end.printed}`];
}

/** @returns how long the last one took. */
async function catchUp({ installed, seen }: Soak): Promise<number> {
  let end: End | null = null;
  for (let run = 1; run <= MAX_CATCH_UPS; run += 1) {
    end = await installed.run('once', 'reload', null);
    seen.longestCatchUpMs = Math.max(seen.longestCatchUpMs, end.durationMs);
    if (end.exitCode === 0) return end.durationMs;
  }
  seen.differences = [`${MAX_CATCH_UPS} catch-ups have not ended well:\n${end?.printed}`];
  return 0;
}

/** @returns how long the catch-up took that came before: what is killed next is measured by it, for machines get busy. */
async function compare(world: Soak): Promise<number> {
  const { installed, county, seen } = world;
  const durationMs = seen.differences.length === 0 ? await catchUp(world) : 0;
  if (seen.differences.length > 0) return durationMs;
  const expected = everythingPublished(county.feed);
  const ofCopy = await mirrorDifferences(installed.copyPath, expected);
  seen.comparisons += 1;
  seen.differences = [
    ...(await mirrorDifferences(installed.mirrorPath, expected)),
    ...ofCopy.map((difference) => `published copy: ${difference}`),
    ...installed.leftovers().map((path) => `${path} is left`),
  ];
  return durationMs;
}

function count(counts: Map<string, number>, what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1);
}
