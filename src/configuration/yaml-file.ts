/**
 * The settings file's text → its values by key, each with its line.
 *
 * Invariant: no problem repeats text of the file but the names of keys and groups, for a value may be the API key.
 */

import { isMap, isScalar, LineCounter, type ParsedNode, parseDocument } from 'yaml';
import { tellNearest } from './names.ts';
import { type Problem, quoted } from './problems.ts';
import { allKeys, groups, isSettingKey, type SettingKey } from './settings.ts';
import { firstFault } from './yaml-faults.ts';

export interface FileEntry {
  /** As YAML gives it: text, a number, true or false, a list or an object; never null. */
  readonly value: unknown;
  /** From 1. */
  readonly line: number;
}

export interface ReadSettingsFile {
  readonly entries: ReadonlyMap<SettingKey, FileEntry>;
  readonly problems: readonly Problem[];
  /** False where the text is no YAML: then nothing is known of what it sets. */
  readonly isReadable: boolean;
}

/**
 * Reads the text of a settings file. A key or group without a value counts as not there.
 * @param path absolute; only named in problems.
 */
export function readSettingsFile(text: string, path: string): ReadSettingsFile {
  const lineCounter = new LineCounter();
  // At `warn` the parser prints parts of the text itself, at `silent` it overlooks a second document.
  const document = parseDocument(text, { lineCounter, prettyErrors: false, logLevel: 'error' });
  const lineAt = (offset: number) => lineCounter.linePos(offset).line;
  const problemAt = (offset: number, subject: string, trouble: string) => ({
    subject,
    trouble,
    source: `file ${path}:${lineAt(offset)}`,
  });

  const fault = firstFault(document);
  if (fault !== null) {
    const problem = problemAt(fault.offset, 'The file', fault.trouble);
    return { entries: new Map(), problems: [problem], isReadable: false };
  }
  const entries = new Map<SettingKey, FileEntry>();
  const problems: Problem[] = [];
  for (const leaf of leavesOf(document.contents, '')) {
    const trouble = troubleWith(leaf);
    if (trouble !== null) problems.push(problemAt(leaf.offset, subjectOf(leaf), trouble));
    else if (isSettingKey(leaf.name) && !isEmpty(leaf.node)) {
      entries.set(leaf.name, { value: leaf.node?.toJS(document), line: lineAt(leaf.offset) });
    }
  }
  return { entries, problems, isReadable: true };
}

/** A place of the file that is not a known group with keys in it. */
interface Leaf {
  /** The keys from the top, with dots between; empty where the whole file is no group of keys. */
  readonly name: string;
  /** Whether one key was written for several: `service.baseUrl: …` in one line. */
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

function troubleWith({ name, hasDottedKey, node }: Leaf): string | null {
  if (name === '') return 'holds no keys; write for example dataDir: ./data';
  if (hasDottedKey && (isSettingKey(name) || groups.has(name))) {
    const parts = name.split('.').map((word) => `${word}:`);
    return `is several keys in one; write ${parts.join(' and, indented below it, ')}`;
  }
  if (isSettingKey(name)) return null;
  if (groups.has(name)) {
    const members = allKeys.filter((key) => key.startsWith(`${name}.`));
    return isEmpty(node) ? null : `is a group, not a value; its keys are ${members.join(', ')}`;
  }
  return `is not a known key${tellNearest(name, isMap(node) ? [...groups] : allKeys)}`;
}

function isEmpty(node: ParsedNode | null): boolean {
  return node === null || (isScalar(node) && node.value === null);
}

function subjectOf({ name }: Leaf): string {
  if (name === '') return 'The file';
  return /^[\w.-]{1,80}$/.test(name) ? name : quoted(name);
}
