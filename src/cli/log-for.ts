import type { LocalConfiguration } from '../configuration/configuration.ts';
import { createLog, type Log } from '../lib/log.ts';
import type { Terminal } from './terminal.ts';

/** The log as configured, on standard error. Beside the progress line only what is worth a person's attention is written. */
export function logFor({ log: { level, format } }: LocalConfiguration, { stderr, isWatched }: Terminal): Log {
  return createLog({ level, format, stream: stderr, color: isWatched });
}
