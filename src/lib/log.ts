/** The log: JSON lines for machines, short lines and sentences on a terminal. Messages go to standard error; results to standard output. */

import { pino } from 'pino';
import pretty from 'pino-pretty';
import { tellLine } from './log-text.ts';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';
export type LogFormat = 'text' | 'json';
export type LogFields = Readonly<Record<string, unknown>>;

/** Fields first, then one sentence. Fields carry identifiers and numbers, never bodies and never secrets. */
export interface Log {
  trace(fields: LogFields, message: string): void;
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  readonly stream: NodeJS.WritableStream;
  readonly color: boolean;
}

export function createLog(options: LogOptions): Log {
  const settings = {
    level: options.level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  if (options.format === 'json') return pino(settings, options.stream);
  const text = pretty({
    destination: options.stream,
    colorize: options.color,
    translateTime: 'SYS:HH:MM:ss',
    hideObject: true,
    messageFormat: (line, _messageKey, _levelLabel, { colors }) => {
      const { level: _level, time: _time, msg, ...fields } = line;
      const { message, behind, below } = tellLine(String(msg), fields);
      return `${message}${behind === '' ? '' : colors.gray(` ${behind}`)}${below}`;
    },
    sync: true,
  });
  return pino(settings, text);
}

/** The same log, in which nothing is louder than `debug`: for a part whose trouble is told by who uses it. */
export function turnedDown(log: Log): Log {
  const debug: Log['debug'] = (fields, message) => log.debug(fields, message);
  return {
    trace: (fields, message) => log.trace(fields, message),
    debug,
    info: debug,
    warn: debug,
    error: debug,
  };
}

export const silentLog: Log = {
  trace() {},
  debug() {},
  info() {},
  warn() {},
  error() {},
};
