/**
 * The log: JSON lines for machines, short lines and sentences on a terminal. Messages go to standard error; results to standard
 * output.
 */

import { createRequire } from 'node:module';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import type { default as Pretty } from 'pino-pretty';
import { printable } from './text.ts';
import { formatBytes, formatCount, formatDuration } from './units.ts';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';
export type LogFormat = 'text' | 'json';
export type LogFields = Readonly<Record<string, unknown>>;

/** A log, whose methods take the fields, then one sentence. Fields carry identifiers and numbers, never bodies or secrets. */
export interface Log {
  trace(fields: LogFields, message: string): void;
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

interface LogOptions {
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
  // Loaded for a terminal only.
  const pretty: typeof Pretty = createRequire(import.meta.url)('pino-pretty');
  const text = pretty({
    destination: onto(options.stream),
    colorize: options.color,
    translateTime: 'SYS:HH:MM:ss',
    hideObject: true,
    messageFormat: (line, _messageKey, _levelLabel, { colors }) => {
      const { level: _level, time: _time, msg, ...fields } = line;
      const { message, behind, below } = formatLine(String(msg), fields);
      return `${message}${behind === '' ? '' : colors.gray(` ${behind}`)}${below}`;
    },
    sync: true,
  });
  return pino(settings, text);
}

/**
 * Returns a stream of its own for each log: logs are made for every reading of the mirror, and each would leave its listeners on standard
 * error.
 */
function onto(stream: NodeJS.WritableStream): Writable {
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Uint8Array, _encoding, done) {
      stream.write(chunk);
      done();
    },
  });
}

/** Returns a log that lowers every message to `debug`, for a part whose caller reports its failures. */
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

/** The fields that contain sentences or whole lines, in reading order, with their prefixes. */
const SENTENCES: Readonly<Record<string, string>> = { why: '', hint: '→ ', output: '', stack: '' };
/** Fields whose values need no name: `dataset parcels`. */
const NAMELESS = new Set(['of']);
const INDENT = '\n    ';

interface LoggedLine {
  readonly message: string;
  /** The short fields, in the line of the message; may be empty. */
  readonly behind: string;
  /** Further lines, each beginning with a line break; may be empty. */
  readonly below: string;
}

/** `fields` are the fields of the line for programs. */
function formatLine(message: string, fields: Readonly<Record<string, unknown>>): LoggedLine {
  const short = Object.entries(fields).filter(([name, value]) => !isLong(name, value) && value !== null);
  const sentences = Object.entries(SENTENCES).flatMap(([name, before]) =>
    typeof fields[name] === 'string' ? [`${before}${fields[name]}`] : [],
  );
  const links = Object.values(fields).flatMap((value) =>
    isMap(value) ? Object.entries(value).map(([name, link]) => `${name}: ${formatValue(link)}`) : [],
  );
  const below = [...sentences, ...links].flatMap((text) => text.split('\n'));
  return {
    message: message.split('\n').map(printable).join(INDENT),
    behind: printable(short.map(([name, value]) => formatField(name, value)).join(', ')),
    below: below.map((line) => `${INDENT}${printable(line)}`).join(''),
  };
}

function isLong(name: string, value: unknown): boolean {
  return (name in SENTENCES && typeof value === 'string') || isMap(value);
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The unit at the end of the name moves into the value. */
function formatField(name: string, value: unknown): string {
  if (NAMELESS.has(name)) return formatValue(value);
  if (typeof value === 'number' && name.endsWith('Ms')) {
    return `${spaced(name.slice(0, -'Ms'.length))} ${formatDuration(value)}`;
  }
  if (typeof value === 'number' && /bytes$/i.test(name)) return `${spaced(name)} ${formatBytes(value)}`;
  // The id of a process is copied into other commands, so its digits stay together.
  if (name.endsWith('Process')) return `${spaced(name)} ${value}`;
  return `${spaced(name)} ${formatValue(value)}`;
}

function formatValue(value: unknown): string {
  if (typeof value === 'number') return formatCount(value);
  if (typeof value === 'string') return value;
  return Array.isArray(value) ? value.map(formatValue).join(' ') : String(value);
}

/** Returns `data directory` for `dataDirectory`. */
function spaced(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
