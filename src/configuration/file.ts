/**
 * Reads the settings file: finds it, parses its keys with their lines, and reports YAML errors. A file that the user named must
 * exist; the default places may be empty.
 */

import { resolve } from 'node:path';
import {
  type CST,
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  LineCounter,
  type ParsedNode,
  parseDocument,
  visit,
} from 'yaml';
import { systemCode, systemReason } from '../lib/files.ts';
import { formatNearest, quoted } from '../lib/text.ts';
import {
  allKeys,
  FILE_FLAG,
  FILE_VARIABLE,
  groups,
  isSettingKey,
  type SettingKey,
  settingOf,
} from './schema.ts';
import type { Environment } from './setting.ts';

/** Far above any real file, because a wrong path may name anything. */
const MAX_FILE_CHARACTERS = 1_000_000;

/** Where a machine has its configuration. */
export const MACHINE_FILE = '/etc/feed-sync/feed-sync.yaml';
const DEFAULT_PATHS = ['./feed-sync.yaml', MACHINE_FILE];

/** A fault of a configuration. All problems are collected and reported together. */
export interface Problem {
  /** The key, variable or file at fault. */
  readonly subject: string;
  /** The rest of the sentence, without its full stop. Never contains a secret. */
  readonly fault: string;
  /** The source of the value: `file /etc/feed-sync/feed-sync.yaml:4`; null where there is none. */
  readonly source: string | null;
}

/** The texts of flags, by name: `{ '--log-level': 'debug' }`. */
export type Flags = Readonly<Record<string, string | undefined>>;

/** Returns the text of a file as UTF-8. @throws the system's errors, with `code`. */
export type ReadFile = (path: string) => string;

interface OpenedFile extends ReadSettingsFile {
  /** Absolute, also for an unreadable file; null where there is no file. */
  readonly path: string | null;
}

interface OpenInput {
  readonly flags: Flags;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly readFile: ReadFile;
}

export function openFile({ flags, environment, workingDirectory, readFile }: OpenInput): OpenedFile {
  const named = namedFile(flags, environment);
  const source = named?.source ?? 'looked for where no file is named';
  for (const candidate of named === null ? DEFAULT_PATHS : [named.path]) {
    const path = resolve(workingDirectory, candidate);
    const unreadable = (fault: string): OpenedFile => {
      const problem = { subject: `The file ${quoted(path)}`, fault, source };
      return { path, entries: new Map(), problems: [problem], isReadable: false };
    };
    try {
      const text = readFile(path);
      if (text.length > MAX_FILE_CHARACTERS) return unreadable('is too large to be a configuration');
      return { path, ...readSettingsFile(text, path) };
    } catch (error) {
      const isMissing = systemCode(error) === 'ENOENT';
      if (named !== null || !isMissing) return unreadable(`cannot be read: ${systemReason(error)}`);
    }
  }
  return { path: null, entries: new Map(), problems: [], isReadable: true };
}

function namedFile(flags: Flags, environment: Environment): { path: string; source: string } | null {
  const flag = flags[FILE_FLAG];
  if (flag !== undefined) return { path: flag, source: `flag ${FILE_FLAG}` };
  const variable = (environment[FILE_VARIABLE] ?? '').trim();
  return variable === '' ? null : { path: variable, source: `environment ${FILE_VARIABLE}` };
}

export interface FileEntry {
  /** The YAML value: text, a number, true or false, a list or an object; never null. */
  readonly value: unknown;
  /** From 1. */
  readonly line: number;
}

interface ReadSettingsFile {
  readonly entries: ReadonlyMap<SettingKey, FileEntry>;
  readonly problems: readonly Problem[];
  /** False where the content of the file is unknown, because it is unreadable or no YAML. */
  readonly isReadable: boolean;
}

/** UTF-16, as editors of Windows may write it: its first bytes are no UTF-8, or every other byte is zero. */
const OTHER_ENCODING = /^\uFFFD|\0/;

/**
 * Reads the text of a settings file. A key or group without a value counts as missing. @param path absolute; only named in
 * problems.
 */
export function readSettingsFile(text: string, path: string): ReadSettingsFile {
  if (OTHER_ENCODING.test(text)) {
    const problem = {
      subject: 'The file',
      fault: 'is not text in UTF-8; save it as UTF-8',
      source: `file ${path}`,
    };
    return { entries: new Map(), problems: [problem], isReadable: false };
  }
  const lineCounter = new LineCounter();
  // At `warn` the parser prints parts of the text, at `silent` it overlooks a second document.
  const document = parseDocument(text, {
    lineCounter,
    prettyErrors: false,
    logLevel: 'error',
    keepSourceTokens: true,
  });
  const lineAt = (offset: number) => lineCounter.linePos(offset).line;
  const problemAt = (offset: number, subject: string, fault: string) => ({
    subject,
    fault,
    source: `file ${path}:${lineAt(offset)}`,
  });

  const fault = firstFault(document);
  if (fault !== null) {
    const problem = problemAt(fault.offset, 'The file', fault.fault);
    return { entries: new Map(), problems: [problem], isReadable: false };
  }
  const entries = new Map<SettingKey, FileEntry>();
  const problems: Problem[] = [];
  for (const leaf of leavesOf(document.contents, '')) {
    const fault = problemWith(leaf);
    if (fault !== null) problems.push(problemAt(leaf.offset, subjectOf(leaf), fault));
    else if (isSettingKey(leaf.name) && !isEmpty(leaf.node)) {
      entries.set(leaf.name, { value: leaf.node?.toJS(document), line: lineAt(leaf.offset) });
    }
  }
  return { entries, problems, isReadable: true };
}

/** A node of the file that is not a known group with keys. */
interface Leaf {
  /** The keys from the top, joined by dots; empty where the whole file is no group of keys. */
  readonly name: string;
  /** Whether one dotted key was written for several: `service.baseUrl: …` in one line. */
  readonly hasDottedKey: boolean;
  readonly node: ParsedNode | null;
  readonly offset: number;
}

function leavesOf(node: ParsedNode | null, group: string): readonly Leaf[] {
  if (node === null || isEmpty(node)) return [];
  if (!isMap(node)) return [{ name: group, hasDottedKey: false, node, offset: node.range[0] }];
  return node.items.flatMap((pair) => {
    const word = isScalar(pair.key) ? String(pair.key.value) : '?';
    const name = group === '' ? word : `${group}.${word}`;
    const hasDottedKey = word.includes('.');
    if (!hasDottedKey && groups.has(name) && isMap(pair.value)) return leavesOf(pair.value, name);
    return [{ name, hasDottedKey, node: pair.value, offset: pair.key.range[0] }];
  });
}

function problemWith({ name, hasDottedKey, node }: Leaf): string | null {
  if (name === '') return 'holds no keys; write for example dataDir: ./data';
  if (hasDottedKey && (isSettingKey(name) || groups.has(name))) {
    return `is several keys in one; write ${asWritten(name)}`;
  }
  if (isSettingKey(name)) return null;
  if (groups.has(name)) {
    const members = allKeys.filter((key) => key.startsWith(`${name}.`));
    return isEmpty(node) ? null : `is a group, not a value; its keys are ${members.join(', ')}`;
  }
  const key = allKeys.find((known) => settingOf(known).variable === name);
  if (key !== undefined) return `is a variable of the environment; in the file it is ${asWritten(key)}`;
  const mayBeGroup = isMap(node) || !name.includes('.');
  return `is not a known key${formatNearest(name, mayBeGroup ? [...allKeys, ...groups] : allKeys)}`;
}

/** `http: and, indented below it, timeout:` */
function asWritten(name: string): string {
  const parts = name.split('.').map((word) => `${word}:`);
  return parts.join(' and, indented below it, ');
}

function isEmpty(node: ParsedNode | null): boolean {
  return node === null || (isScalar(node) && node.value === null);
}

function subjectOf({ name }: Leaf): string {
  if (name === '') return 'The file';
  return /^[\w.-]{1,80}$/.test(name) ? name : quoted(name);
}

interface YamlFault {
  /** The part of a sentence that follows "The file". */
  readonly fault: string;
  /** The place in the text, in characters from 0. */
  readonly offset: number;
}

const STAR = 'uses *, which stands for another place of the file; put text that starts with * in quotes';
const TAG = 'uses !, which names a type; put text that starts with ! in quotes';
const INDENTATION = 'is not indented as YAML requires; put the keys of a group one below the other';
const ODD_START = 'has text that starts with a character that YAML keeps for itself; put it in quotes';

const FAULTS: Partial<Readonly<Record<ErrorCode, string>>> = {
  ALIAS_PROPS: STAR,
  BAD_ALIAS: STAR,
  BAD_DQ_ESCAPE: 'has a \\ in double quotes that means nothing there; use single quotes',
  BAD_INDENT: INDENTATION,
  BAD_SCALAR_START: ODD_START,
  BLOCK_AS_IMPLICIT_KEY: INDENTATION,
  DUPLICATE_KEY: 'has the same key twice; keep one',
  MISSING_CHAR: 'lacks a colon, a quote or a bracket, or the space after a colon',
  MULTILINE_IMPLICIT_KEY: 'has a line without a colon; write key: value',
  MULTIPLE_DOCS: 'holds a second document after ---; keep one',
  TAB_AS_INDENT: 'is indented with a tab; use spaces',
  TAG_RESOLVE_FAILED: TAG,
};

/** The parser's errors for the lines after an unclosed opening bracket. */
const AFTER_OPEN_BRACKET: ReadonlySet<ErrorCode> = new Set(['BAD_INDENT', 'MULTILINE_IMPLICIT_KEY']);

/**
 * Returns the first error, because later ones often follow from it. Null: the file is YAML as feed-sync reads it. The document
 * must have its source tokens.
 */
function firstFault(document: Document.Parsed): YamlFault | null {
  const [first] = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0]);
  if (first !== undefined) {
    const open = AFTER_OPEN_BRACKET.has(first.code) ? openBracketBefore(first.pos[0], document) : null;
    const unclosed = first.code === 'MISSING_CHAR' ? openQuote(document) : open;
    if (unclosed !== null) return unclosed;
    return { fault: FAULTS[first.code] ?? 'is not YAML', offset: first.pos[0] };
  }
  let aliasOffset: number | null = null;
  visit(document, (_key, node) => {
    if (!isAlias(node)) return undefined;
    aliasOffset = node.range?.[0] ?? 0;
    return visit.BREAK;
  });
  return aliasOffset === null ? null : { fault: STAR, offset: aliasOffset };
}

/**
 * Returns the last unclosed bracket before `offset`, on whose line the closing one is missing. A bracket after `offset` cannot
 * be the cause.
 */
function openBracketBefore(offset: number, document: Document.Parsed): YamlFault | null {
  let last: CST.SourceToken | null = null;
  visit(document, {
    Collection(_key, { srcToken }) {
      if (srcToken?.type !== 'flow-collection') return;
      const { start, end } = srcToken;
      if (end.some(({ type }) => type === (start.source === '[' ? 'flow-seq-end' : 'flow-map-end'))) return;
      if (start.offset < offset && (last === null || start.offset > last.offset)) last = start;
    },
  });
  return last === null ? null : notClosed(last);
}

/** Returns the first quote that no other closes: the parser names the end of the text that it took in. */
function openQuote(document: Document.Parsed): YamlFault | null {
  let first: YamlFault | null = null;
  visit(document, {
    Scalar(_key, { srcToken }) {
      if (srcToken?.type !== 'double-quoted-scalar' && srcToken?.type !== 'single-quoted-scalar')
        return undefined;
      const { source, offset } = srcToken;
      const quote = source.charAt(0);
      if (source.length > 1 && source.endsWith(quote)) return undefined;
      first = { fault: `opens a quote with ${quote} and does not close it; put ${quote} at its end`, offset };
      return visit.BREAK;
    },
  });
  return first;
}

function notClosed({ source, offset }: CST.SourceToken): YamlFault {
  const [closing, what] = source === '[' ? [']', 'list'] : ['}', 'group'];
  const fault = `opens a ${what} with ${source} and does not close it; put ${closing} at its end, indented below its key`;
  return { fault, offset };
}
