/** How the fields of a log line are told to a person: what is short behind the message, sentences below it. Pure. */

import { printable } from './printable.ts';
import { formatBytes, formatCount, formatDuration } from './units.ts';

/** Those that hold sentences, in the order in which they are read, and what stands before them. */
const SENTENCES: Readonly<Record<string, string>> = { why: '', hint: '→ ', stack: '' };
/** What such a field holds says what it is: `dataset parcels`. */
const NAMELESS = new Set(['of']);
const INDENT = '\n    ';

export interface LineTold {
  readonly message: string;
  /** What is short, in the line of the message; empty where there is nothing. */
  readonly behind: string;
  /** Further lines, each with the line break before it; empty where there are none. */
  readonly below: string;
}

/** `fields`: as they are in the line for programs. */
export function tellLine(message: string, fields: Readonly<Record<string, unknown>>): LineTold {
  const short = Object.entries(fields).filter(([name, value]) => !isLong(name, value) && value !== null);
  const sentences = Object.entries(SENTENCES).flatMap(([name, before]) =>
    typeof fields[name] === 'string' ? [`${before}${fields[name]}`] : [],
  );
  const links = Object.values(fields).flatMap((value) =>
    isMap(value) ? Object.entries(value).map(([name, link]) => `${name}: ${tellValue(link)}`) : [],
  );
  const below = [...sentences, ...links].flatMap((text) => text.split('\n'));
  return {
    message: message.split('\n').map(printable).join(INDENT),
    behind: printable(short.map(([name, value]) => tellField(name, value)).join(', ')),
    below: below.map((line) => `${INDENT}${printable(line)}`).join(''),
  };
}

function isLong(name: string, value: unknown): boolean {
  return (name in SENTENCES && typeof value === 'string') || isMap(value);
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The unit stands at the end of the name, and goes with it into the value. */
function tellField(name: string, value: unknown): string {
  if (NAMELESS.has(name)) return tellValue(value);
  if (typeof value === 'number' && name.endsWith('Ms')) {
    return `${spaced(name.slice(0, -'Ms'.length))} ${formatDuration(value)}`;
  }
  if (typeof value === 'number' && /bytes$/i.test(name)) return `${spaced(name)} ${formatBytes(value)}`;
  return `${spaced(name)} ${tellValue(value)}`;
}

function tellValue(value: unknown): string {
  if (typeof value === 'number') return formatCount(value);
  if (typeof value === 'string') return value;
  return Array.isArray(value) ? value.map(tellValue).join(' ') : String(value);
}

/** `dataDirectory` is `data directory`. */
function spaced(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
