/**
 * Plays a scenario: once undisturbed, which shows its effects and its result; then for every kill from
 * the same state again, killed and done again. What is left then has to be what is left undisturbed, and the mirror what
 * the feed says.
 */

import process from 'node:process';
import { countyFeed } from '../support/county-feed.ts';
import { program } from '../support/program.ts';
import { type History, historyAtTheKill, stagedFiles } from './evidence.ts';
import { readEvidence, type Seen, wrongInTheMirror, wrongWithTheRest, wrongWithTheWork } from './judge.ts';
import { fewest, type KillPoint, killPointsIn, killsOf } from './kills.ts';
import { Runs } from './runs.ts';
import type { Act, Scenario, Stage } from './scenario.ts';

/** Two commits become one where they come at once, so that a further occurrence may be missed, even several times. */
const MAX_ATTEMPTS = 25;
const QUICKLY = {
  FEED_SYNC_DISK_RESERVE: '0MB',
  FEED_SYNC_RETRY_BASE_DELAY: '1ms',
  FEED_SYNC_RETRY_MAX_DELAY: '20ms',
};

export interface Played {
  /** How often each point comes in an undisturbed run. */
  readonly killPoints: ReadonlyMap<KillPoint, number>;
  /** What was killed: `before destination.commit 2`. */
  readonly kills: readonly string[];
  /** What is wrong, each with the kill that it came of. */
  readonly wrong: readonly string[];
}

export interface Choice {
  /** Whether a process is killed at this name in this scenario. */
  readonly isKilledAt: (name: string) => boolean;
  /** Whether this kill is chosen now. */
  readonly isChosen: (kill: string) => boolean;
}

export async function play(scenario: Scenario, { isKilledAt, isChosen }: Choice): Promise<Played> {
  const startedMs = performance.now();
  const county = await countyFeed({ kinds: ['zoning', 'permits'], rowsPerDataset: 6, ...scenario.feed });
  const environment = { ...QUICKLY, ...scenario.environment };
  const stage = { county, installed: await program({ feed: county.feed, environment }) };
  const act = await scenario.validate(stage);
  await county.feed.prepareSnapshots();
  const historyBefore = await historyAtTheKill(stage.installed);
  const trial = { stage, act, runs: new Runs(stage, act), historyBefore };
  const { killPoints, seen } = await undisturbed(trial);
  const kills = killsOf(killPoints, isKilledAt).filter(isChosen);
  const wrong: string[] = [];
  for (const kill of kills) {
    const found = await afterKill(trial, kill, seen);
    wrong.push(...found.map((what) => `${kill}: ${what}`));
    if (found.length > 0) process.stderr.write(`${scenario.name}, ${wrong.at(-1)}\n`);
  }
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  process.stderr.write(`${scenario.name}: ${kills.length} kills in ${seconds} s\n`);
  return { killPoints, kills, wrong };
}

interface Trial {
  readonly stage: Stage;
  readonly act: Act;
  readonly runs: Runs;
  readonly historyBefore: History;
}

/** Plays it twice. @throws where it does not end as it should, even undisturbed. */
async function undisturbed(trial: Trial) {
  const first = await recorded(trial);
  const second = await recorded(trial);
  return { killPoints: fewest(first.killPoints, second.killPoints), seen: second.seen };
}

async function recorded({ stage, act, runs }: Trial) {
  stage.county.feed.requests.clear();
  const { ended, record } = await runs.record();
  const { exitCode = 0 } = act;
  const wrong =
    ended.exitCode === exitCode ? await wrongInTheMirror(stage, act) : [`exit code ${ended.exitCode}`];
  if (wrong.length > 0) {
    throw new Error(`Undisturbed, it is wrong:\n${wrong.join('\n')}\n${ended.stdout}${ended.stderr}`);
  }
  return { killPoints: killPointsIn(record), seen: await readEvidence(stage) };
}

async function afterKill(
  { stage, act, runs, historyBefore }: Trial,
  kill: string,
  undisturbed: Seen,
): Promise<readonly string[]> {
  const { county, installed } = stage;
  for (let attempt = 1; (await runs.killed(kill)).signal !== 'SIGKILL'; attempt += 1) {
    if (attempt === MAX_ATTEMPTS) return ['the kill never happened'];
  }
  const atTheKill = (await act.wrongAtTheKill?.()) ?? [];
  const hasDigests = county.feed.settings.files.sha256;
  const left = {
    historyBefore,
    history: await historyAtTheKill(installed),
    staged: stagedFiles(installed, { hasDigests }),
  };
  county.feed.requests.clear();
  const {
    words,
    exitCode = act.exitCode ?? 0,
    mayDiffer = [],
    mayAskAgain = false,
  } = act.again?.(kill) ?? {};
  const ended = await runs.again(words);
  if (ended.exitCode !== exitCode) {
    return [`done again it ended with ${ended.exitCode ?? 'a signal'}:\n${ended.stdout}${ended.stderr}`];
  }
  const seen = await readEvidence(stage);
  return [
    ...atTheKill,
    ...(await wrongInTheMirror(stage, act)),
    ...wrongWithTheRest(seen, undisturbed, [...(act.mayDiffer ?? []), ...mayDiffer]),
    ...wrongWithTheWork(stage, left, seen, undisturbed, mayAskAgain),
    ...((await act.wrongAtTheEnd?.(kill)) ?? []),
  ];
}
