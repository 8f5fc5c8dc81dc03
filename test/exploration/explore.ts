/** Every history of up to two steps, and random ones of more. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { type History, historyText, type Placed, type Point, type Step } from './history.ts';
import { Wrong } from './judge.ts';
import { type Played, play } from './play.ts';
import type { Setting } from './setting.ts';
import { isEnd, isSeenBy, stepsOf } from './steps.ts';

type Random = () => number;

/** Node frees what weak references have named only between two turns of the event loop. */
const HISTORIES_OF_A_TURN = 100;

/**
 * More than any setting has (65,000 where two subscriptions contain the dataset). New steps multiply the histories: whoever adds some is
 * reported where not all of them are played any more.
 */
export const MAX_HISTORIES_OF_A_SETTING = 100_000;

export interface Found {
  readonly history: string;
  readonly wrong: string;
}

export interface Explored {
  histories: number;
  requests: number;
  catchUpsOfCalm: number;
  /** The histories beyond the limit, which were not played. */
  leftOut: number;
  readonly met: Set<string>;
  readonly found: Found[];
}

export function nothingExplored(): Explored {
  return { histories: 0, requests: 0, catchUpsOfCalm: 0, leftOut: 0, met: new Set(), found: [] };
}

/**
 * All histories of `depth` steps or fewer (at most two): the first anywhere in the first catch-up, the second after it there or
 * anywhere in the next. `isChosen` leaves out some.
 */
export async function exploreAll(
  setting: Setting,
  depth: number,
  explored: Explored,
  isChosen: (history: number, steps: readonly Step[]) => boolean = () => true,
): Promise<void> {
  const still = await tryOne({ setting, catchUps: [[]] }, explored);
  if (still === null || depth === 0) return;
  let count = 0;
  for (const first of placements(stepsOf(setting), still.points[0] ?? [])) {
    const played = await tryOne({ setting, catchUps: [[first], []] }, explored);
    if (played === null || depth === 1) continue;
    const [during = [], after = []] = played.points;
    const rest = isEnd(first.step) ? [] : during.slice(indexOf(first.at, during));
    const seconds = [
      ...placements(stepsOf(setting), rest).map((second) => [[first, second], []]),
      ...placements(stepsOf(setting), after).map((second) => [[first], [second]]),
    ];
    for (const catchUps of seconds) {
      const steps = catchUps.flatMap((placed) => placed.map(({ step }) => step));
      count += 1;
      if (isChosen(count, steps)) await tryWithinLimit({ setting, catchUps }, explored);
    }
  }
}

async function tryWithinLimit(history: History, explored: Explored): Promise<void> {
  if (explored.histories < MAX_HISTORIES_OF_A_SETTING) await tryOne(history, explored);
  else explored.leftOut += 1;
}

/** A history of `steps` steps, over as many catch-ups as chance will have it; each of its beginnings is played, too. */
export async function exploreRandom(
  setting: Setting,
  steps: number,
  random: Random,
  explored: Explored,
): Promise<void> {
  let catchUps: readonly (readonly Placed[])[] = [[]];
  for (let step = 0; step <= steps; step += 1) {
    const played = await tryOne({ setting, catchUps }, explored);
    if (played === null || step === steps) return;
    let possible = possibleNext(setting, catchUps, played);
    if (possible.length === 0 || random() < 0.3) {
      catchUps = [...catchUps, []];
      const longer = await tryOne({ setting, catchUps }, explored);
      if (longer === null) return;
      possible = possibleNext(setting, catchUps, longer);
    }
    const next = possible[Math.floor(random() * possible.length)];
    if (next === undefined) return;
    catchUps = [...catchUps.slice(0, -1), [...(catchUps.at(-1) ?? []), next]];
  }
}

/** In the last catch-up. */
function possibleNext(
  setting: Setting,
  catchUps: readonly (readonly Placed[])[],
  { points }: Played,
): readonly Placed[] {
  const last = catchUps.at(-1)?.at(-1);
  const during = points.at(-1) ?? [];
  if (last === undefined) return placements(stepsOf(setting), during);
  return isEnd(last.step) ? [] : placements(stepsOf(setting), during.slice(indexOf(last.at, during)));
}

function placements(steps: readonly Step[], points: readonly Point[]): readonly Placed[] {
  return steps.flatMap((step) =>
    points.filter(({ request }) => isSeenBy(step, request)).map((at) => ({ step, at })),
  );
}

function indexOf(at: Point, points: readonly Point[]): number {
  return points.findIndex(({ request, number }) => request === at.request && number === at.number);
}

/** Null where a rule is broken, which is noted. */
async function tryOne(history: History, explored: Explored): Promise<Played | null> {
  explored.histories += 1;
  if (explored.histories % HISTORIES_OF_A_TURN === 0) await nextTurn();
  try {
    const played = await play(history, { met: explored.met });
    explored.requests += played.requests;
    explored.catchUpsOfCalm = Math.max(explored.catchUpsOfCalm, played.calmCatchUps ?? 0);
    return played;
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    explored.found.push({ history: historyText(history), wrong: error.message });
    return null;
  }
}
