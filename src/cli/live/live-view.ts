/** The live view: looks at what goes on several times a second and draws it, until it is ended. Decides nothing. */

import type { Clock } from '../../lib/clock.ts';
import type { Terminal } from '../terminal.ts';
import { frameOf, type LiveState } from './frame.ts';
import { COLORED, PLAIN } from './paint.ts';
import { Redrawing } from './redrawing.ts';
import type { Screen } from './screen.ts';

type Looked = Omit<LiveState, 'nowMs'>;

export class LiveView {
  readonly #redrawing: Redrawing;

  /** `look`: how things are now; null: there is nothing to show. Never throws. */
  constructor(screen: Screen, terminal: Terminal, clock: Clock, look: () => Looked | null) {
    const paint = terminal.hasColor ? COLORED : PLAIN;
    this.#redrawing = new Redrawing(screen, clock, () => {
      const looked = look();
      const { width, height } = terminal;
      if (looked === null || height === null) screen.clear();
      else screen.draw(frameOf({ ...looked, nowMs: clock.monotonicMs() }, { width, height }, paint));
    });
  }

  /** What follows is written where the view was. */
  end(): Promise<void> {
    return this.#redrawing.end();
  }
}
