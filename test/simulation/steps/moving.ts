/** A service that moves: between two catch-ups, and at any request of one. */

import { catchUp } from '../catch-up.ts';
import { type Move, moves } from '../moves.ts';
import type { Step } from '../step.ts';
import type { World } from '../world.ts';

/** About as many as a catch-up of two subscriptions makes. */
const MOST_REQUESTS = 30;
const MOST_AT_ONCE = 3;

export const movingSteps: readonly Step[] = [
  ...moves.map(between),
  ...moves.filter(({ isBetween }) => isBetween !== true).map(atARequest),
];

function between(move: Move): Step {
  return {
    name: `moving: ${move.name}`,
    isFault: true,
    weight: 2,
    applies: move.applies,
    onlyOn: 'model',
    act: move.act,
  };
}

/** The move of the name, and up to two others, each at a request of one catch-up; at its end where it made not so many. */
function atARequest(first: Move): Step {
  return {
    name: `moving at a request: ${first.name}`,
    isFault: true,
    weight: 2,
    applies: first.applies,
    onlyOn: 'model',
    act: async (world) => {
      const { random } = world;
      const others = Array.from({ length: random.integer(0, MOST_AT_ONCE - 1) }, () =>
        random.pick(AT_REQUESTS),
      );
      const due = [first, ...others].map((move) => ({ move, at: random.integer(1, MOST_REQUESTS) }));
      return (await moveDuring(world, due)).join('; ');
    },
  };
}

const AT_REQUESTS = moves.filter(({ isBetween }) => isBetween !== true);

interface Due {
  readonly move: Move;
  readonly at: number;
}

async function moveDuring(world: World, due: readonly Due[]): Promise<readonly string[]> {
  const reported: string[] = [];
  const left = new Set(due);
  let requests = 0;
  const take = (one: Due): void => {
    left.delete(one);
    if (one.move.applies(world)) reported.push(`at ${requests} ${one.move.name} ${one.move.act(world)}`);
  };
  const end = world.feed.onRequest(() => {
    requests += 1;
    for (const one of left) if (one.at === requests) take(one);
  });
  try {
    await catchUp(world);
  } finally {
    end();
  }
  requests = 0;
  for (const one of left) take(one);
  return reported;
}
