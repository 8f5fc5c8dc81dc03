/** Draws on a screen again and again, until it is ended: what is drawn is of that moment. Decides nothing. */

import type { Clock } from '../../lib/clock.ts';
import { InterruptedError } from '../../model/errors.ts';
import { REDRAW_EVERY_MS, type Screen } from './screen.ts';

export class Redrawing {
  readonly #ending = new AbortController();
  readonly #ended: Promise<void>;

  /** `draw` never throws. */
  constructor(screen: Screen, clock: Clock, draw: () => void) {
    this.#ended = this.#drawAgainAndAgain(draw, clock).finally(() => screen.clear());
  }

  /** What follows is written where it was drawn. */
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
