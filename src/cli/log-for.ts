/** From a configuration to the log, which shares a terminal with the live view. */

import { Writable } from 'node:stream';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import type { Clock } from '../lib/clock.ts';
import { createLog, type Log } from '../lib/log.ts';
import type { Terminal } from './context.ts';
import { Screen } from './render/screen.ts';

/** The screen to draw on; null where nothing is drawn: nobody watches, or what is written is for programs. */
export function screenFor({ log }: LocalConfiguration, terminal: Terminal, clock: Clock): Screen | null {
  return terminal.height === null || log.format === 'json' ? null : new Screen(terminal, clock);
}

/** The log as configured, on standard error: above what is drawn there. */
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
