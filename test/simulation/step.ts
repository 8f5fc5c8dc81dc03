/** A kind of step of a history: something that happens to the feed, to its network, or to an installation. */

import type { Stage } from './stage.ts';
import type { World } from './world.ts';

export interface Step {
  /** Its line in the table of counts. */
  readonly name: string;
  /** How often it is taken, compared with the others that apply. */
  readonly weight: number;
  /**
   * Whether it can happen now. Decided by the feed's side of the world alone, so that a seed has the same steps whatever
   * the program does.
   */
  readonly applies: (world: World) => boolean;
  /** Left out on other stages. */
  readonly onlyOn?: Stage['name'];
  /** Something goes wrong by it. */
  readonly isFault?: boolean;
  /** Takes the step; returns a description of its effect. */
  readonly act: (world: World) => string | Promise<string>;
}

export const always = (): boolean => true;

/** A fault that can happen at any time. */
export function faultAtAnyTime(name: string, act: Step['act']): Step {
  return { name, isFault: true, weight: 2, applies: always, act };
}

export function faulty(step: Step): Step {
  return { ...step, isFault: true };
}
