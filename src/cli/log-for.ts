/** Creates the log of a configuration. The log shares the terminal with the live view. */

import { Writable } from 'node:stream';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import type { Clock } from '../lib/clock.ts';
import { createLog, type Log } from '../lib/log.ts';
import type { Terminal } from './context.ts';
import { Screen } from './render/screen.ts';

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

function above(screen: Screen): NodeJS.WritableStream {
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Uint8Array, _encoding, done) {
      screen.writeAbove(String(chunk), done);
    },
  });
}
