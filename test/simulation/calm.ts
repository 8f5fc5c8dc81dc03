/**
 * Every disturbance is over: the feed answers and lags no more, and an operator has settled every suspension. Within a
 * stated number of catch-ups the mirror is then what the feed has published, in all of its tables and its catalog.
 */

import { ConfigurationError } from '../../src/model/errors.ts';
import type { CatchUpResult, DatasetResult } from '../../src/sync/result.ts';
import { probesOf, refuseCallsInIdleness } from './bounds.ts';
import { catchUp, describe } from './catch-up.ts';
import { followOn } from './daemon.ts';
import { forgetWhatIsGone, settleSuspensions } from './operator.ts';
import { endPins, verifyDeep } from './requests-of-operators.ts';
import { BrokenRule, differencesFromTheNewest, refuseWrongPast } from './rules.ts';
import { giveBackKey } from './steps/refusals.ts';
import type { World } from './world.ts';

/**
 * The most catch-ups until the mirror is equal: one that reads everything, one after an operator has settled the
 * suspensions that it found, one after the wait below, one that confirms what the one before saw to be absent, one after the wait for what
 * that asked for, and one more if that led to a suspension.
 */
const MAX_ROUNDS = 6;
/**
 * A manifest without a position is believed 15 minutes after what it cannot be seen to answer was asked for. What is absent
 * is believed to be gone after ten minutes, and a version after an hour.
 */
const LONGEST_WAIT_MS = 61 * 60_000;
/** Every list of versions is read once a day; content that was read and found bad is fetched again after a day. */
const DAY_MS = 24 * 3_600_000;

/** @throws BrokenRule where the mirror is not equal after the last round. */
export async function expectCalm(world: World): Promise<void> {
  calmTheFeed(world);
  await endPins(world);
  await settleSuspensions(world);
  const waited = await waitedFirst(world);
  await catchUpUntilEqual(world, waited + 1);
  await mendSuspects(world);
  await refuseWrongPast(world);
  const differences = await differencesFromTheNewest(world);
  if (differences.length > 0) throw new BrokenRule('calm', differences.join('\n'));
  world.unreadMoves.clear();
  world.lostRemovals.clear();
  world.hasLostTrack = false;
  world.hasRestartedSilently = false;
  for (const datasetId of world.members) world.mayLeave.delete(datasetId);
}

/** What was altered by hand is repaired, and what cannot be read is loaded again; then nobody has to be suspected. */
async function mendSuspects(world: World): Promise<void> {
  if (world.suspects.size === 0) return;
  world.reported.push(`  verified: ${await verifyDeep(world, true)}`);
  await catchUpUntilEqual(world, 1);
  world.suspects.clear();
}

/**
 * What only time or the daily lists reveal is known once time has passed since a first catch-up.
 * @returns how many there were.
 */
async function waitedFirst(world: World): Promise<number> {
  const { settings, hasRestartedSilently, feed } = world;
  if (settings.manifestLastEventId && !hasRestartedSilently) return 0;
  await catchUp(world);
  await settleSuspensions(world);
  feed.clock.advance(hasRestartedSilently ? DAY_MS : LONGEST_WAIT_MS);
  return 1;
}

async function catchUpUntilEqual(world: World, firstRound: number): Promise<void> {
  const { feed, counters } = world;
  for (let round = firstRound; ; round += 1) {
    const result = await catchUp(world);
    const { checkpoint } = await world.installation.parts();
    const isAbsent = checkpoint.absences().length > 0;
    if (!isAbsent && isSettled(result, world)) {
      counters.add(`calm: equal after ${round}`);
      return;
    }
    if (round === MAX_ROUNDS)
      throw new BrokenRule('calm', `Not calm after ${round} catch-ups: ${describe(result)}`);
    feed.clock.advance(waitsForADay(result, world) ? DAY_MS : LONGEST_WAIT_MS);
    const acted = await settleSuspensions(world);
    if (acted > 0) continue;
    if (result.incidents.some(({ error }) => error instanceof ConfigurationError)) {
      await forgetWhatIsGone(world);
      continue;
    }
    counters.add('calm: waited');
  }
}

/** Once more, and there is nothing to do: nothing is fetched and nothing is committed. */
export async function expectIdle(world: World): Promise<void> {
  const probes = await probesOf(world);
  const result = await catchUp(world);
  await refuseCallsInIdleness(world.feed.requests.entries(), { polls: 0, audits: 1, probes }, world);
  const busy = world.feed.requests
    .entries()
    .filter(({ operation }) => operation === 'file' || operation === 'changes');
  const committed = result.datasets.flatMap(({ commits }) => commits);
  if (busy.length + committed.length > 0 || !isSettled(result, world))
    throw new BrokenRule('idle', `${describe(result)}; ${busy.length} fetched`);
}

/** Content that was damaged briefly has the name of the good content where the manifest states no digests. */
function waitsForADay({ datasets }: CatchUpResult, { settings }: World): boolean {
  const isBad = (dataset: DatasetResult) =>
    dataset.kind === 'failed' && (dataset.failure?.contents.length ?? 0) > 0;
  return !settings.sha256 && datasets.some(isBad);
}

function calmTheFeed(world: World): void {
  const { feed, logs, stage } = world;
  stage.machine?.recover();
  feed.faults.clear();
  feed.omissions.clear();
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
    if (isWrong) world.reported.push(`  set right: ${world.publish(datasetId)}`);
    world.damaged.delete(datasetId);
  }
}

function isSettled({ datasets, incidents, suspensions }: CatchUpResult, world: World): boolean {
  return (
    incidents.length + suspensions.length === 0 && datasets.every((dataset) => isCaughtUp(dataset, world))
  );
}

/**
 * Where each dataset has a manifest of its own, one that has left stays a member by the service's own word, if its subscription lists
 * it still, and the event that removed it was read by a checkpoint that is lost.
 */
function isCaughtUp({ datasetId, kind }: DatasetResult, { settings, members }: World): boolean {
  if (kind === 'suspended') return settings.manifest === 'dataset' && !members.includes(datasetId);
  return kind === 'updated' || kind === 'current' || kind === 'retired';
}

const HOUR_MS = 3_600_000;
/** One when it begins. */
const POLLS_OF_AN_HOUR = 61;
/** At its begin and its end. */
const AUDITS_OF_AN_HOUR = 2;

/** A daemon follows for an hour, and there is nothing to do: it polls the logs, and audits. */
export async function expectIdleHour(world: World): Promise<void> {
  // What it knew from before the calm is compared once more.
  await followOn(world);
  const probes = await probesOf(world);
  await followOn(world, HOUR_MS);
  const made = { polls: POLLS_OF_AN_HOUR, audits: AUDITS_OF_AN_HOUR, probes };
  await refuseCallsInIdleness(world.feed.requests.entries(), made, world);
  world.counters.add('followed for an idle hour');
}
