/**
 * The tests of scenarios: each is played, and what was recorded of it is compared with the catalogue.
 *
 * `CRASH_CASES=all` plays every kill. Without it those are left out that come before a process knows what it will do, but
 * for the scenario `load`: the state is the same in all. `CRASH_CASES='before destination.commit 2'` plays that one alone,
 * and without the number the first and the last of that name.
 */

import process from 'node:process';
import { expect, it } from 'vitest';
import { endAfterAll } from './again.ts';
import { CATALOGUE, namesOf, occurrencesOf } from './catalogue.ts';
import { nameOf } from './kills.ts';
import { play } from './play.ts';
import type { Scenario } from './scenario.ts';

const { CRASH_CASES } = process.env;

/** Effects of every start. */
const OF_A_START = [
  'checkpoint.make-lock-directory',
  'checkpoint.create-lock',
  'checkpoint.write-lock-holder',
  'checkpoint.make-directory',
  'checkpoint.create',
  'checkpoint.remember-contract',
  'destination.make-directory',
  'destination.make-publish-directory',
];

/** A test for each scenario. `file` is the test file, for the command that repeats what failed. */
export function testScenarios(scenarios: readonly Scenario[], file: string): void {
  endAfterAll();
  it.each(scenarios.map((scenario) => [scenario.name, scenario.summary, scenario] as const))(
    'ends as undisturbed after each kill in scenario %s: %s',
    async (name, _, scenario) => {
      const own = namesOf(name);
      const isKilledAt = (effect: string) => scenario.killedAt === 'every name' || own.includes(effect);
      const { killPoints, kills, wrong } = await play(scenario, {
        isKilledAt,
        isChosen: (kill) => isChosen(kill, name),
      });
      const failures = wrong.map(
        (failure) => `${failure}
  repeat: ${repeatCommand(failure, name, file)}`,
      );
      expect(failures).toEqual([]);
      expect(kills.length).toBeGreaterThan(0);
      const killed = new Set([...killPoints.keys()].map(nameOf).filter(isKilledAt));
      expect([...killed].toSorted()).toEqual(own.toSorted());
      expect(repeatedIn(name).filter((effect) => (killPoints.get(`before ${effect}`) ?? 0) < 2)).toEqual([]);
    },
  );
}

function isChosen(kill: string, scenario: string): boolean {
  if (CRASH_CASES === 'all') return true;
  if (CRASH_CASES !== undefined) return kill === CRASH_CASES || kill.startsWith(`${CRASH_CASES} `);
  const [, name = ''] = kill.split(' ');
  return scenario === 'load' || !OF_A_START.includes(name) || !isEverywhere(scenario);
}

/** Of the scenarios that are killed at every name, but the one that begins with nothing. */
function isEverywhere(scenario: string): boolean {
  return namesOf(scenario).includes('checkpoint.write-lock-holder');
}

/** Those that the catalogue says to occur more than once. */
function repeatedIn(scenario: string): readonly string[] {
  return Object.entries(CATALOGUE).flatMap(([name, entry]) =>
    occurrencesOf(entry).some((occurrence) => occurrence.scenario === scenario && occurrence.isRepeated)
      ? [name]
      : [],
  );
}

function repeatCommand(wrong: string, scenario: string, file: string): string {
  const [kill] = wrong.split(':');
  const title = scenario.replaceAll(/[()]/g, '.');
  return `CRASH_CASES='${kill}' npx vitest run --project slow ${file} -t ' ${title}: '`;
}
