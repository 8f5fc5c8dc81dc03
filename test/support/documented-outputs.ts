/**
 * What `src/cli/outputs.md` says of the outputs for programs, and what the golden files contain. A section is named after
 * an output; each row of its table is a field: its path, its type, its meaning. A type that links to another section stands
 * for that section's fields.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

export interface Documented {
  /** `text`, `time`, `integer`, `boolean`, `object`, `map of text`, `list of text`, `list`. */
  readonly type: string;
  readonly isNullable: boolean;
  /** The words that the field may contain; empty where any text may stand there. */
  readonly words: readonly string[];
  /** The section and the field, where several outputs share it: `a-suspension status`. */
  readonly shared: string | null;
}

/** By the title of the section and the path of the field. */
export function documentedOutputs(): ReadonlyMap<string, ReadonlyMap<string, Documented>> {
  const page = readFileSync(join(ROOT, 'src/cli/outputs.md'), 'utf8');
  const sections = page.split(/^##+ /m).slice(1);
  const rows = new Map(
    sections.map((section) => [section.split('\n', 1)[0] ?? '', rowsOf(section)] as const),
  );
  const byAnchor = new Map([...rows].map(([title, found]) => [anchorOf(title), found]));
  return new Map([...rows].map(([title, found]) => [title, expanded(found, byAnchor)]));
}

interface Row {
  readonly path: string;
  readonly type: string;
  readonly meaning: string;
}

function rowsOf(section: string): readonly Row[] {
  return section.split('\n').flatMap((line) => {
    const [path, type, meaning] = line
      .split('|')
      .slice(1)
      .map((cell) => cell.trim());
    const isField = path !== undefined && /^`[^`]+`$/.test(path);
    return isField ? [{ path: path.slice(1, -1), type: type ?? '', meaning: meaning ?? '' }] : [];
  });
}

function expanded(
  rows: readonly Row[],
  byAnchor: ReadonlyMap<string, readonly Row[]>,
): ReadonlyMap<string, Documented> {
  return new Map(
    rows.flatMap(({ path, type, meaning }): readonly (readonly [string, Documented])[] => {
      const anchor = /\(#([^)]+)\)/.exec(type)?.[1];
      const isNullable = type.endsWith(' or null');
      const plain = type.replace(/ or null$/, '');
      if (anchor === undefined) {
        return [[path, { type: plain, isNullable, words: wordsOf(meaning), shared: null }]];
      }
      const isList = plain.startsWith('list of');
      const inner = expanded(byAnchor.get(anchor) ?? [], byAnchor);
      const prefix = isList ? `${path}[]` : path;
      return [
        [path, { type: isList ? 'list' : 'object', isNullable, words: [], shared: null }],
        ...[...inner].map(
          ([name, one]) => [`${prefix}.${name}`, { ...one, shared: `${anchor} ${name}` }] as const,
        ),
      ];
    }),
  );
}

/** Those that a meaning enumerates: `One of x, y.` with each in backticks. */
function wordsOf(meaning: string): readonly string[] {
  const [, listed = ''] = /One of (.*)/.exec(meaning) ?? [];
  return [...listed.matchAll(/`([^`]+)`/g)].map(([, word = '']) => word);
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^a-z0-9 -]/g, '')
    .replaceAll(' ', '-');
}

/** What was found at a path: every value. */
export type Found = ReadonlyMap<string, readonly unknown[]>;

/** All fields of the golden files of an output. A field that is documented as a map is not read further. */
export function foundIn(output: string, documented: ReadonlyMap<string, Documented>): Found {
  const folder = join(ROOT, 'test/contract/golden', output);
  const found = new Map<string, unknown[]>();
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.json'))) {
    collect(JSON.parse(readFileSync(join(folder, name), 'utf8')), '', documented, found);
  }
  return found;
}

function collect(
  value: unknown,
  path: string,
  documented: ReadonlyMap<string, Documented>,
  found: Map<string, unknown[]>,
): void {
  if (path !== '' && !path.endsWith('[]')) found.set(path, [...(found.get(path) ?? []), value]);
  if (typeof value !== 'object' || value === null) return;
  if (documented.get(path)?.type.startsWith('map') === true) return;
  const inner = Array.isArray(value)
    ? value.map((one) => [path === '' ? '' : `${path}[]`, one] as const)
    : Object.entries(value).map(([name, one]) => [path === '' ? name : `${path}.${name}`, one] as const);
  for (const [name, one] of inner) collect(one, name, documented, found);
}
