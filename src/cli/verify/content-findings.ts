/** The findings of `verify --deep` about the content of a table, as JSON and for people. Pure. */

import type { ContentComparison, ShownKey, ShownKeys } from '../../destination/comparer.ts';
import { shellWord } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import type { RowDifference } from '../../model/commits.ts';
import type { FeedSyncError } from '../../model/errors.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf } from '../exit-codes.ts';

export type ContentFinding =
  | Exclude<ContentComparison, { readonly kind: 'moved' | 'equal' | 'different' }>
  /** `commitNumber` is that of the commit that was compared. */
  | (Extract<ContentComparison, { readonly kind: 'equal' }> & Compared)
  | (Extract<ContentComparison, { readonly kind: 'different' }> &
      Compared & { readonly snapshotVersion: number; readonly snapshotDigest: string })
  /** `exitCode` is 0 where somebody decided it. */
  | { readonly kind: 'not-comparable'; readonly why: string; readonly exitCode: ExitCode }
  | { readonly kind: 'failed'; readonly error: FeedSyncError };

interface Compared {
  readonly commitNumber: number | null;
}

/** Returns the finding as JSON; `cli/outputs.md` documents its fields. */
export function contentJson(finding: ContentFinding) {
  const different = finding.kind === 'different' ? finding : null;
  return {
    result: finding.kind,
    difference: different && { ...different.difference },
    keys: different && keysJson(different.keys),
    column: finding.kind === 'damaged' ? finding.columnName : null,
    why: whyOf(finding),
  };
}

function keysJson({ added, changed, removed }: ShownKeys) {
  return {
    added: added.map((key) => ({ key: keyJson(key) })),
    changed: changed.map(({ key, columns }) => ({ key: keyJson(key), columns })),
    removed: removed.map((key) => ({ key: keyJson(key) })),
  };
}

function keyJson(key: ShownKey) {
  return Object.fromEntries(key);
}

function whyOf(finding: ContentFinding): string | null {
  switch (finding.kind) {
    case 'not-comparable':
    case 'damaged':
    case 'other-columns':
      return finding.why;
    case 'failed':
      return [finding.error.message, finding.error.hint ?? ''].join(' ').trim();
    case 'equal':
    case 'different':
      return null;
  }
}

/** Returns the exit code of a finding that is not a difference; 0 otherwise. */
export function exitCodeOfContent(finding: ContentFinding): ExitCode {
  switch (finding.kind) {
    case 'not-comparable':
      return finding.exitCode;
    case 'failed':
      return exitCodeOf(finding.error);
    case 'damaged':
      return EXIT_CODES.storageFault;
    case 'equal':
    case 'different':
    case 'other-columns':
      return EXIT_CODES.caughtUp;
  }
}

interface ContentDifference {
  readonly kind: 'content' | 'damaged' | 'column';
  readonly message: string;
  readonly remedy: string;
}

/** Returns the difference that the finding is; null where it is none. */
export function differenceOfContent(
  datasetId: string,
  tableName: string,
  finding: ContentFinding,
): ContentDifference | null {
  const id = shellWord(datasetId);
  switch (finding.kind) {
    case 'different': {
      const rows = describeDifference(finding.difference);
      const message = `The rows of the table ${tableName} are not those of the service: ${rows}.`;
      return { kind: 'content', message, remedy: `feed-sync verify --deep --repair ${id}` };
    }
    case 'damaged': {
      const where = finding.columnName === null ? '' : ` in the column ${JSON.stringify(finding.columnName)}`;
      const message = `The table ${tableName} is damaged${where} and cannot be read: ${finding.why}`;
      return { kind: 'damaged', message, remedy: `feed-sync resync ${id}` };
    }
    case 'other-columns':
      return { kind: 'column', message: finding.why, remedy: `feed-sync resync ${id}` };
    default:
      return null;
  }
}

/** Returns a clause: the difference that makes the table equal. */
export function describeDifference({ added, changed, removed }: RowDifference): string {
  if (changed === null) {
    return `${plural(added, 'row')} missing and ${formatCount(removed)} too many (without key columns, whole rows are compared)`;
  }
  const parts: readonly (readonly [number, string])[] = [
    [added, 'missing'],
    [changed, 'changed'],
    [removed, 'too many'],
  ];
  const named = parts.filter(([count]) => count > 0).map(([count, what]) => `${formatCount(count)} ${what}`);
  const rows = added + changed + removed === 1 ? 'row' : 'rows';
  const [first = '', ...rest] = named;
  return [first.replace(' ', ` ${Number(first.split(' ')[0]) === 1 ? 'row' : rows} `), ...rest].join(', ');
}

type ContentView = ReturnType<typeof contentJson>;

/** Returns lines for people about a content that is different or was not compared. */
export function contentLines({ result, keys, why }: ContentView): readonly string[] {
  if (keys !== null) return describeKeys(keys);
  if (result === 'not-comparable') return [`not comparable: ${why}`];
  return result === 'failed' ? [String(why)] : [];
}

function describeKeys({ added, changed, removed }: NonNullable<ContentView['keys']>): readonly string[] {
  return [
    ...describe(
      'missing',
      added.map(({ key }) => describeKey(key)),
    ),
    ...describe(
      'changed',
      changed.map(({ key, columns }) => `${describeKey(key)} (${columns.join(', ')})`),
    ),
    ...describe(
      'too many',
      removed.map(({ key }) => describeKey(key)),
    ),
  ];
}

function describe(what: string, keys: readonly string[]): readonly string[] {
  return keys.length === 0 ? [] : [`${what}: ${keys.join('; ')}`];
}

function describeKey(key: Readonly<Record<string, string | null>>): string {
  return Object.entries(key)
    .map(([name, value]) => `${name} = ${value ?? 'null'}`)
    .join(', ');
}
