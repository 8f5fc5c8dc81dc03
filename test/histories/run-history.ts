/** Plays the history of a seed: steps and catch-ups, calm in between and at the end. */

import { randomFrom } from '../../fixtures/source/random.ts';
import { expectCalm, expectIdle } from './calm.ts';
import { catchUp } from './catch-up.ts';
import { followOn } from './daemon.ts';
import { differencesFromSomeVersions } from './rules.ts';
import { choicesIn, describeSettings } from './settings.ts';
import type { Step } from './step.ts';
import { steps } from './steps/all.ts';
import type { Tally } from './tally.ts';
import { World } from './world.ts';

export const FEWEST_STEPS = 10;
const MOST_STEPS = 11;
const SHARE_OF_CATCH_UPS = 0.15;
/** By a daemon, a few minutes each; a seed of their own leaves the rest of a history as it is. */
const SHARE_OF_FOLLOWS = 0.05;
const SHARE_OF_CALM = 0.02;
const SHARE_OF_IDLE_ENDS = 0.3;
const SHARE_OF_LOOKS = 0.04;

/** @throws Error that tells the settings and the steps, where a rule was broken; it has the stack of what broke it. */
export async function runHistory(seed: number, tally: Tally): Promise<void> {
  const world = await World.create(seed, tally);
  try {
    await play(world);
  } catch (error) {
    const told = [describeSettings(world.settings), ...world.told].join('\n');
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    const failure = new Error(
      `History ${seed}: ${message}\n\n${told}\n\nTo repeat it:\n  ${commandFor(seed)}`,
    );
    if (stack !== undefined) failure.stack = stack;
    throw failure;
  }
}

function commandFor(seed: number): string {
  return `HISTORIES=1 FIRST_SEED=${seed} npx vitest run --project fast test/histories/share-1.test.ts`;
}

async function play(world: World): Promise<void> {
  const course = randomFrom(world.seed, 2);
  for (const choice of choicesIn(world.settings)) world.tally.add(choice);
  const count = course.integer(FEWEST_STEPS, MOST_STEPS);
  // Half of all installations are there before anything happens.
  if (course.chance(0.5)) await catchUp(world);
  for (let number = 1; number <= count; number += 1) {
    world.random = randomFrom(world.seed, 3, number);
    const step = draw(world);
    const line = world.told.push(`${number}. ${step.name}`) - 1;
    world.told[line] += `: ${await step.act(world)}`;
    world.tally.add(step.name);
    if (course.chance(SHARE_OF_CATCH_UPS)) await catchUp(world);
    if (randomFrom(world.seed, 4, number).chance(SHARE_OF_FOLLOWS)) await followOn(world);
    if (course.chance(SHARE_OF_LOOKS)) await expectPublished(world);
    if (course.chance(SHARE_OF_CALM)) await expectCalm(world);
  }
  await expectCalm(world);
  if (course.chance(SHARE_OF_IDLE_ENDS)) await expectIdle(world);
}

async function expectPublished(world: World): Promise<void> {
  const differences = await differencesFromSomeVersions(world);
  if (differences.length > 0)
    throw new Error(`The mirror is at no published version:\n${differences.join('\n')}`);
}

function draw(world: World): Step {
  const able = steps.filter((step) => step.applies(world));
  let ticket = world.random.fraction() * able.reduce((sum, { weight }) => sum + weight, 0);
  for (const step of able) {
    ticket -= step.weight;
    if (ticket < 0) return step;
  }
  throw new Error('no step applies');
}
