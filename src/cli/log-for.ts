/** From a configuration to the log, which shares a terminal with the progress line. */

import { Writable } from 'node:stream';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { createLog, type Log } from '../lib/log.ts';
import { ERASE_LINE, type Terminal } from './terminal.ts';

/** The log as configured, on standard error. On a terminal each line takes the place of the progress line. */
export function logFor(
  { log: { level, format } }: LocalConfiguration,
  { stderr, isWatched, hasColor }: Terminal,
): Log {
  const stream = isWatched ? overProgressLine(stderr) : stderr;
  return createLog({ level, format, stream, color: hasColor });
}

function overProgressLine(stderr: NodeJS.WritableStream): NodeJS.WritableStream {
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Uint8Array, _encoding, done) {
      stderr.write(`${ERASE_LINE}${String(chunk)}`, done);
    },
  });
}
