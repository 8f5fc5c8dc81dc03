/**
 * The redrawn part of a terminal: a few lines below all permanent output, such as the log.
 *
 * Invariant: between two calls the cursor rests at the beginning of the first of these lines. So they are erased without
 * counting them, also where the screen has become narrower and wrapped them again.
 */

import { Writable } from 'node:stream';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { Clock } from '../../lib/clock.ts';
import { createLog, type Log } from '../../lib/log.ts';
import { InterruptedError } from '../../model/errors.ts';
import type { MirrorPlace } from '../../reporting/stores.ts';
import type { Context, Terminal } from '../context.ts';

/** Often enough to look alive, seldom enough to cost nothing. */
const REDRAW_EVERY_MS = 100;

const ESCAPE = '\u001b[';
/** From the cursor to the end of the screen. */
const ERASE_BELOW = `\r${ESCAPE}J`;
const ERASE_REST_OF_LINE = `${ESCAPE}K`;
/** The terminal cuts a line that is wider than counted, instead of wrapping it. */
const WITHOUT_WRAPPING = `${ESCAPE}?7l`;
const WITH_WRAPPING = `${ESCAPE}?7h`;

export class Screen {
  readonly #terminal: Terminal;
  readonly #clock: Clock;
  #lines: readonly string[] = [];
  /** The text on the screen now; empty where there is none. */
  #drawn = '';
  #drawnMs = Number.NEGATIVE_INFINITY;

  constructor(terminal: Terminal, clock: Clock) {
    this.#terminal = terminal;
    this.#clock = clock;
  }

  /** Shows these lines, at least one, in place of the current ones, at most once per `REDRAW_EVERY_MS`. */
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

  /** Writes whole, permanent lines above the view. */
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

/** Overwrites line by line: nothing is blank in between, so nothing flickers. */
function drawingOf(lines: readonly string[]): string {
  const written = lines.map((line) => `${line}${ERASE_REST_OF_LINE}`).join('\n');
  const back = lines.length > 1 ? `${ESCAPE}${lines.length - 1}A` : '';
  return `${WITHOUT_WRAPPING}\r${written}${ESCAPE}J${back}\r${WITH_WRAPPING}`;
}

export class Redrawing {
  readonly #ending = new AbortController();
  readonly #ended: Promise<void>;

  /** `draw` never throws. */
  constructor(screen: Screen, clock: Clock, draw: () => void) {
    this.#ended = this.#drawAgainAndAgain(draw, clock).finally(() => screen.clear());
  }

  /** Later output starts at the place of the view. */
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

export interface Paint {
  readonly strong: (text: string) => string;
  readonly faint: (text: string) => string;
  readonly alarming: (text: string) => string;
}

const asItIs = (text: string): string => text;

export const PLAIN: Paint = { strong: asItIs, faint: asItIs, alarming: asItIs };

export const COLORED: Paint = {
  strong: inside(1, 22),
  faint: inside(2, 22),
  alarming: inside(33, 39),
};

/** By the numbers of "select graphic rendition". */
function inside(begin: number, end: number): (text: string) => string {
  return (text) => (text === '' ? '' : `\u001b[${begin}m${text}\u001b[${end}m`);
}

const LEFT_OUT = '…';

/** Cuts the middle, because ids differ at their beginnings and ends. */
export function shortened(text: string, width: number): string {
  if (text.length <= width) return text;
  const kept = Math.max(0, width - LEFT_OUT.length);
  const end = Math.floor(kept / 2);
  return `${text.slice(0, kept - end)}${LEFT_OUT}${text.slice(text.length - end)}`;
}

/** Cuts the end. */
export function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - LEFT_OUT.length))}${LEFT_OUT}`;
}

/** Joins as many parts as fit, the most important parts first. */
export function joined(parts: readonly string[], width: number): string {
  const whole = parts.join(' · ');
  return whole.length <= width || parts.length <= 1 ? cut(whole, width) : joined(parts.slice(0, -1), width);
}

/** Returns the screen to draw on; null without an operator at a terminal, or where the output is for programs. */
export function screenFor({ log }: LocalConfiguration, terminal: Terminal, clock: Clock): Screen | null {
  return terminal.height === null || log.format === 'json' ? null : new Screen(terminal, clock);
}

/** Returns the configured log on standard error, above the live view. */
export function logFor(
  { log: { level, format } }: LocalConfiguration,
  { stderr, hasColor }: Terminal,
  screen: Screen | null = null,
): Log {
  return createLog({ level, format, stream: screen === null ? stderr : above(screen), color: hasColor });
}

/** Returns the place of a mirror that is read, with a log that reports a long wait for it. */
export function readingPlace(configuration: LocalConfiguration, context: Context): MirrorPlace {
  const { clock, random, signal, terminal } = context;
  return { clock, random, signal, log: logFor(configuration, terminal) };
}

function above(screen: Screen): NodeJS.WritableStream {
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Uint8Array, _encoding, done) {
      screen.writeAbove(String(chunk), done);
    },
  });
}
