/** What `src/cli/log-lines.md` says of the lines of the log, and whether a line that was written is one of them. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import type { Log, LogFields } from '../../src/lib/log.ts';

const FOLDER = join(import.meta.dirname, '../../src/cli');

type Level = keyof Log;

export interface DocumentedLine {
  readonly levels: readonly string[];
  readonly fields: readonly string[];
  /** Those that a line may lack. */
  readonly rareFields: readonly string[];
}

/** By the message. */
export const DOCUMENTED_LINES: ReadonlyMap<string, DocumentedLine> = new Map(
  rowsOf('log-lines.md', 'Lines').map(([message = '', levels = '', _by, fields = '']) => {
    const [always = '', rare = ''] = fields.split('(');
    return [message, { levels: levels.split(', '), fields: namesIn(always), rareFields: namesIn(rare) }];
  }),
);

/** The types of all fields, by their names: `text or null`. */
const TYPES: ReadonlyMap<string, string> = new Map(
  [...rowsOf('outputs.md', 'The log'), ...rowsOf('log-lines.md', 'Fields')].map(([names = '', type = '']) => {
    return [namesIn(names)[0] ?? '', type];
  }),
);

/** Returns the problem of a line; null where there is none. `line`: as it was written, with its level and message. */
export function problemOfLine(line: Readonly<Record<string, unknown>>): string | null {
  const { level, msg, time: _time, ...fields } = line;
  const documented = DOCUMENTED_LINES.get(String(msg));
  if (documented === undefined) return `"${msg}" is not in src/cli/log-lines.md`;
  if (!documented.levels.includes(String(level)))
    return `"${msg}" is documented with another level than ${level}`;
  const names = Object.keys(fields);
  const known = [...documented.fields, ...documented.rareFields];
  const wrong = [
    ...names.filter((name) => !known.includes(name)).map((name) => `has ${name}`),
    ...documented.fields.filter((name) => !names.includes(name)).map((name) => `lacks ${name}`),
    ...names
      .filter((name) => !isOfType(fields[name], TYPES.get(name) ?? ''))
      .map((name) => `has ${name} ${JSON.stringify(fields[name])}, documented as ${TYPES.get(name)}`),
  ];
  return wrong.length === 0 ? null : `"${msg}" ${wrong.join(', ')}`;
}

/** `log`; when the test has finished, every line that was written to it has to be as documented. */
export function documentedLog(log: Log): Log {
  const incidents = new Set<string>();
  onTestFinished(() => expect([...incidents]).toEqual([]));
  const at = (level: Level) => (fields: LogFields, msg: string) => {
    const problem = problemOfLine({ ...JSON.parse(JSON.stringify(fields)), level, msg });
    if (problem !== null) incidents.add(problem);
    log[level](fields, msg);
  };
  return { trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** All fields that a documented line has are documented, too. */
export function undocumentedFields(): readonly string[] {
  return [...DOCUMENTED_LINES.values()]
    .flatMap(({ fields, rareFields }) => [...fields, ...rareFields])
    .filter((name) => !TYPES.has(name));
}

function isOfType(value: unknown, type: string): boolean {
  if (value === null) return type.endsWith(' or null');
  switch (type.replace(/ or null$/, '')) {
    case 'integer':
      return Number.isInteger(value);
    case 'boolean':
      return typeof value === 'boolean';
    case 'text':
      return typeof value === 'string';
    case 'time':
      return typeof value === 'string' && new Date(value).toISOString() === value;
    case 'list of text':
      return Array.isArray(value) && value.every((one) => typeof one === 'string');
    case 'map of text':
      return typeof value === 'object' && Object.values(value ?? {}).every((one) => typeof one === 'string');
    default:
      return false;
  }
}

function rowsOf(page: string, title: string): readonly (readonly string[])[] {
  const sections = readFileSync(join(FOLDER, page), 'utf8').split(/^##+ /m);
  const section = sections.find((one) => one.startsWith(`${title}\n`)) ?? '';
  return section
    .split('\n')
    .filter((line) => line.startsWith('| ') && !/^\| (?:field|message) \|/.test(line))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

function namesIn(cell: string): readonly string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
}
