/** Plays a history: steps and catch-ups, calm in between and at the end. The history of a seed is always the same. */

import { type Random, randomFrom } from '../../fixtures/source/random.ts';
import { expectCalm, expectIdle, expectIdleHour } from './calm.ts';
import { catchUp } from './catch-up.ts';
import type { Counters } from './counters.ts';
import { followOn } from './daemon.ts';
import {
  BrokenRule,
  differencesFromSomeVersions,
  refuseBroken,
  refuseWrongPast,
  watchCommits,
} from './rules.ts';
import { choicesIn, describeSettings, type Extent, settingsOf } from './settings.ts';
import type { MakeStage } from './stage.ts';
import type { Step } from './step.ts';
import { steps } from './steps/all.ts';
import { World } from './world.ts';

/** By a daemon, a few minutes each; a seed of their own leaves the rest of a history as it is. */
const SHARE_OF_FOLLOWS = 0.05;
const SHARE_OF_IDLE_ENDS = 0.3;
const SHARE_OF_IDLE_HOURS = 0.1;
const SHARE_OF_LOOKS = 0.04;

/** How a kind of history is played. */
export interface Play {
  readonly extent: Extent;
  readonly makeStage: MakeStage;
  /** The command that repeats the history. */
  readonly commandFor: (seed: number) => string;
}

/** @throws Error with the settings and the steps if a rule was broken; it has the stack of the violation. */
export async function playHistory(seed: number, counters: Counters, how: Play): Promise<void> {
  const settings = settingsOf(randomFrom(seed, 0), how.extent);
  const stage = await how.makeStage(seed, settings);
  const world = new World(seed, settings, stage, counters);
  try {
    watchCommits(world);
    for (const choice of choicesIn(settings)) counters.add(choice);
    await play(world, how.extent);
  } catch (error) {
    throw failureOf(error, world, how);
  } finally {
    await stage.close();
  }
}

/** A violation that was recorded earlier, where nothing could be thrown, comes first. */
function failureOf(error: unknown, world: World, { commandFor }: Play): Error {
  const [first = error] = world.broken;
  const reported = [describeSettings(world.settings), ...world.reported].join('\n');
  const { message, stack } = first instanceof Error ? first : new Error(String(first));
  const failure = new Error(
    `History ${world.seed}: ${message}\n\n${reported}\n\nTo repeat it:\n  ${commandFor(world.seed)}`,
  );
  if (stack !== undefined) failure.stack = stack;
  return failure;
}

async function play(
  world: World,
  { fewestSteps, mostSteps, fewestFaults, shareOfCatchUps, shareOfCalm }: Extent,
): Promise<void> {
  const course = randomFrom(world.seed, 2);
  const count = course.integer(fewestSteps, mostSteps);
  let faults = 0;
  // Half of all installations are there before anything happens.
  if (course.chance(0.5)) await catchUp(world);
  for (let number = 1; number <= count || faults < fewestFaults; number += 1) {
    world.random = randomFrom(world.seed, 3, number);
    const step = draw(world);
    faults += step.isFault ? 1 : 0;
    await take(step, number, world);
    if (course.chance(shareOfCatchUps)) await catchUp(world);
    await lookOn(world, number, course, shareOfCalm);
  }
  await expectCalm(world);
  if (course.chance(SHARE_OF_IDLE_ENDS)) await expectIdle(world);
  if (course.chance(SHARE_OF_IDLE_HOURS)) await expectIdleHour(world);
  refuseBroken(world);
}

export async function take(step: Step, number: number, world: World): Promise<void> {
  const line = world.reported.push(`${number}. ${step.name}`) - 1;
  world.counters.add(step.name);
  world.reported[line] += `: ${await step.act(world)}`;
}

/** What comes between two steps now and then. */
async function lookOn(world: World, number: number, course: Random, shareOfCalm: number): Promise<void> {
  if (randomFrom(world.seed, 4, number).chance(SHARE_OF_FOLLOWS)) await followOn(world);
  if (course.chance(SHARE_OF_LOOKS)) await expectPublished(world);
  if (course.chance(shareOfCalm)) await expectCalm(world);
}

async function expectPublished(world: World): Promise<void> {
  await refuseWrongPast(world);
  const missing = await world.installation.readMirror(async (mirror) => mirror.missing);
  if (world.suspects.size > 0 || (missing ?? []).length > 0) return;
  const differences = await differencesFromSomeVersions(world);
  if (differences.length > 0) throw new BrokenRule('published', differences.join('\n'));
}

function draw(world: World): Step {
  const able = steps.filter(
    ({ applies, onlyOn }) => (onlyOn === undefined || onlyOn === world.stage.name) && applies(world),
  );
  let ticket = world.random.fraction() * able.reduce((sum, { weight }) => sum + weight, 0);
  for (const step of able) {
    ticket -= step.weight;
    if (ticket < 0) return step;
  }
  throw new Error('no step applies');
}
