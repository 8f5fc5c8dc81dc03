/** The live view: looks at what goes on several times a second and draws it, until it is ended. Decides nothing. */

import type { Clock } from '../../lib/clock.ts';
import { InterruptedError } from '../../model/errors.ts';
import type { Terminal } from '../terminal.ts';
import { frameOf, type LiveState } from './frame.ts';
import { COLORED, PLAIN } from './paint.ts';
import { REDRAW_EVERY_MS, type Screen } from './screen.ts';

type Looked = Omit<LiveState, 'nowMs'>;

export class LiveView {
  readonly #ending = new AbortController();
  readonly #ended: Promise<void>;

  /** `look`: how things are now; null: there is nothing to show. Never throws. */
  constructor(screen: Screen, terminal: Terminal, clock: Clock, look: () => Looked | null) {
    const paint = terminal.hasColor ? COLORED : PLAIN;
    const draw = (): void => {
      const looked = look();
      const { width, height } = terminal;
      if (looked === null || height === null) screen.clear();
      else screen.draw(frameOf({ ...looked, nowMs: clock.monotonicMs() }, { width, height }, paint));
    };
    this.#ended = this.#drawAgainAndAgain(draw, clock).finally(() => screen.clear());
  }

  /** What follows is written where the view was. */
  async end(): Promise<void> {
    this.#ending.abort(new InterruptedError('There is nothing more to show.'));
    await this.#ended;
  }

  async #drawAgainAndAgain(draw: () => void, clock: Clock): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      draw();
      await clock.sleep(REDRAW_EVERY_MS, signal).catch(() => {});
    }
  }
}
