/**
 * The part of a terminal that is drawn over: a few lines below everything that was written for good.
 *
 * Invariant: between two calls the cursor rests at the beginning of the first of these lines. So they are erased without
 * knowing how many they are, also where the screen has become narrower and broken them anew.
 */

import type { Clock } from '../../lib/clock.ts';
import type { Terminal } from '../terminal.ts';

/** Often enough to look alive, seldom enough to cost nothing. */
export const REDRAW_EVERY_MS = 100;

const ESCAPE = '\u001b[';
/** From the cursor to the end of the screen. */
const ERASE_BELOW = `\r${ESCAPE}J`;
const ERASE_REST_OF_LINE = `${ESCAPE}K`;
/** A line that is wider than it was counted to be is cut by the terminal, and begins no other line. */
const WITHOUT_WRAPPING = `${ESCAPE}?7l`;
const WITH_WRAPPING = `${ESCAPE}?7h`;

export class Screen {
  readonly #terminal: Terminal;
  readonly #clock: Clock;
  #lines: readonly string[] = [];
  /** What is on the screen now; empty where nothing is. */
  #drawn = '';
  #drawnMs = Number.NEGATIVE_INFINITY;

  constructor(terminal: Terminal, clock: Clock) {
    this.#terminal = terminal;
    this.#clock = clock;
  }

  /** Shows these lines, at least one, in place of those that are there, as often as `REDRAW_EVERY_MS` lets. */
  draw(lines: readonly string[]): void {
    this.#lines = lines;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#drawnMs < REDRAW_EVERY_MS) return;
    const drawing = drawingOf(lines);
    if (drawing === this.#drawn) return;
    this.#drawnMs = nowMs;
    this.#drawn = drawing;
    this.#terminal.stderr.write(drawing);
  }

  /** Whole lines, written for good above the view. */
  writeAbove(text: string, done?: (error?: Error | null) => void): void {
    const erased = this.#drawn === '' ? '' : ERASE_BELOW;
    this.#drawn = '';
    this.#terminal.stderr.write(`${erased}${text}`, done);
    if (this.#lines.length > 0) this.draw(this.#lines);
  }

  clear(): void {
    if (this.#drawn !== '') this.#terminal.stderr.write(ERASE_BELOW);
    this.#drawn = '';
    this.#lines = [];
  }
}

/** Written over what is there, line by line: nothing is blank in between, so that nothing flickers. */
function drawingOf(lines: readonly string[]): string {
  const written = lines.map((line) => `${line}${ERASE_REST_OF_LINE}`).join('\n');
  const back = lines.length > 1 ? `${ESCAPE}${lines.length - 1}A` : '';
  return `${WITHOUT_WRAPPING}\r${written}${ESCAPE}J${back}\r${WITH_WRAPPING}`;
}
