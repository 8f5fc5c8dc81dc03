/**
 * Everything that disturbs is over: the feed answers and lags no more, and a person has acted on what was held. Within a
 * stated number of catch-ups the mirror is then what the feed has published, in all of its tables and books.
 */

import { ConfigurationError } from '../../src/model/errors.ts';
import type { CatchUpResult, DatasetResult } from '../../src/sync/result.ts';
import { refuseCallsInIdleness } from './bounds.ts';
import { catchUp, describe } from './catch-up.ts';
import { followOn } from './daemon.ts';
import { giveUpWhatIsGone, settleHolds } from './person.ts';
import { BrokenRule, differencesFromTheNewest } from './rules.ts';
import { giveBackKey } from './steps/refusals.ts';
import type { World } from './world.ts';

/**
 * The most catch-ups until the mirror is equal: one that reads everything, one after a person has acted on what it
 * found held, one after the wait below, and one more where what came of that is held.
 */
const MAX_ROUNDS = 4;
/**
 * A manifest without a position is believed 15 minutes after what it cannot be seen to answer was asked for, and of what it
 * lacks 15 minutes after the log last told something.
 */
const LONGEST_WAIT_MS = 16 * 60_000;

/** @throws BrokenRule where the mirror is not equal after the last round. */
export async function expectCalm(world: World): Promise<void> {
  const { feed, tally } = world;
  calmTheFeed(world);
  await settleHolds(world);
  let mayHaveMoved = !world.settings.manifestLastEventId;
  for (let round = 1; ; round += 1) {
    const result = await catchUp(world);
    if (mayHaveMoved) {
      mayHaveMoved = false;
      await settleHolds(world);
      feed.clock.advance(LONGEST_WAIT_MS);
      continue;
    }
    if (isSettled(result)) {
      tally.add(`calm: equal after ${round}`);
      break;
    }
    if (round === MAX_ROUNDS)
      throw new BrokenRule('calm', `Not calm after ${round} catch-ups: ${describe(result)}`);
    const acted = await settleHolds(world);
    if (acted > 0) continue;
    if (result.troubles.some(({ error }) => error instanceof ConfigurationError)) {
      await giveUpWhatIsGone(world);
      continue;
    }
    tally.add('calm: waited');
    feed.clock.advance(LONGEST_WAIT_MS);
  }
  const differences = await differencesFromTheNewest(world);
  if (differences.length > 0) throw new BrokenRule('calm', differences.join('\n'));
  world.unreadMoves.clear();
  world.lostRemovals.clear();
  world.hasLostTrack = false;
  for (const datasetId of world.members) world.mayLeave.delete(datasetId);
}

/** Once more, and there is nothing to do: nothing is fetched and nothing is committed. */
export async function expectIdle(world: World): Promise<void> {
  const result = await catchUp(world);
  refuseCallsInIdleness(world.feed.requests.entries(), 1, world);
  const busy = world.feed.requests
    .entries()
    .filter(({ operation }) => operation === 'file' || operation === 'changes');
  const committed = result.datasets.flatMap(({ commits }) => commits);
  if (busy.length + committed.length > 0 || !isSettled(result))
    throw new BrokenRule('idle', `${describe(result)}; ${busy.length} fetched`);
}

function calmTheFeed(world: World): void {
  const { feed, logs, stage } = world;
  stage.machine?.recover();
  feed.faults.clear();
  logs.settle();
  logs.install();
  world.show();
  world.thaw();
  for (const { target } of feed.access.refused()) feed.access.lift(target);
  giveBackKey(world);
  // A count of rows that is not so keeps its version out of the mirror, as damaged content does; the next one is true.
  for (const datasetId of world.members) {
    const { rowCount, content } = world.current(datasetId);
    const isWrong = rowCount !== content.rowCount || world.damaged.has(datasetId);
    if (isWrong) world.told.push(`  set right: ${world.publish(datasetId)}`);
  }
  world.damaged.clear();
}

function isSettled({ datasets, troubles, holds }: CatchUpResult): boolean {
  const isCaughtUp = ({ kind }: DatasetResult): boolean =>
    kind === 'updated' || kind === 'current' || kind === 'retired';
  return troubles.length + holds.length === 0 && datasets.every(isCaughtUp);
}

const HOUR_MS = 3_600_000;
/** The polls of an hour, and the audits at its begin and its end. */
const POLLS_OF_AN_HOUR = 61;
const AUDITS_OF_AN_HOUR = 2;

/** A daemon follows for an hour, and there is nothing to do: it polls the logs, and audits. */
export async function expectIdleHour(world: World): Promise<void> {
  // What it knew from before the calm is looked at once more.
  await followOn(world);
  await followOn(world, HOUR_MS);
  const polls = POLLS_OF_AN_HOUR * world.feed.store.subscriptions.size;
  const requests = world.feed.requests.entries();
  const events = requests.filter(({ operation }) => operation === 'events');
  if (events.length > polls + AUDITS_OF_AN_HOUR * world.feed.store.subscriptions.size)
    throw new BrokenRule('calls', `${events.length} polls in an hour of idleness.`);
  const others = requests.filter(({ operation }) => operation !== 'events');
  refuseCallsInIdleness(others, AUDITS_OF_AN_HOUR, world);
  world.tally.add('followed for an idle hour');
}
