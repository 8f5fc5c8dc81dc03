/**
 * Checks `feed_sync.commits` and `feed_sync.archived` of a mirror: every line continues the one before, and what was
 * retired is where the list says, and nowhere else.
 */

import type { CommitKind } from '../../src/model/commits.ts';
import type { PastCommit } from '../../src/model/past-states.ts';
import { type ExactMirror, identifier } from './exact-mirror.ts';
import type { Expectation } from './published.ts';
import { sameText } from './same-text.ts';

type Text = string | null;

/** A line of the history, as text. */
export interface Line {
  readonly commit: Text;
  /** Of a rollback: the commit whose state it restored. */
  readonly restored: Text;
  readonly from: Text;
  readonly to: Text;
  readonly kind: Text;
  /** Added, changed, removed. */
  readonly counts: readonly Text[];
  readonly appliedAt: Text;
}

/** A line of `feed_sync.archived`; `isKept` where the table stayed under its own name. */
export interface ArchivedTable {
  readonly datasetId: string;
  readonly tableName: Text;
  readonly version: Text;
  readonly reason: Text;
  readonly archivedAt: Text;
  readonly isKept: boolean;
}

/** By dataset id, in the order in which they were written. */
export type Lines = ReadonlyMap<string, readonly Line[]>;

export async function readLines(mirror: ExactMirror): Promise<Lines> {
  const rows = await mirror.rows(`SELECT dataset_id, from_version::VARCHAR, to_version::VARCHAR, kind,
      added::VARCHAR, changed::VARCHAR, removed::VARCHAR, epoch_us(applied_at)::VARCHAR, commit_number::VARCHAR,
      restored_commit::VARCHAR
    FROM feed_sync.commits ORDER BY commit_number`);
  const lines = rows.map(([datasetId, from = null, to = null, kind = null, ...rest]) => {
    const [appliedAt = null, commit = null, restored = null] = rest.slice(3);
    return {
      datasetId: datasetId ?? '',
      line: { commit, restored, from, to, kind, counts: rest.slice(0, 3), appliedAt },
    };
  });
  const byDataset = Map.groupBy(lines, ({ datasetId }) => datasetId);
  return new Map([...byDataset].map(([id, own]) => [id, own.map(({ line }) => line)]));
}

/** The version of the snapshot that a table with these lines was loaded from: a rollback brings back that of its commit. */
export function loadedVersion(lines: readonly Line[]): Text {
  const last = lines.findLast(({ kind }) => ['load', 'reload', 'return', 'rollback'].includes(kind ?? ''));
  if (last?.kind !== 'rollback') return last?.to ?? null;
  return loadedVersion(lines.filter(({ commit }) => Number(commit) <= Number(last.restored)));
}

/** The lines as commands read them. */
export function pastCommitsOf(lines: readonly Line[]): readonly PastCommit[] {
  const number = (text: Text): number | null => (text === null ? null : Number(text));
  return lines.map(({ commit, restored, from, to, kind, appliedAt }) => ({
    commitNumber: Number(commit),
    kind: kind as CommitKind,
    fromVersion: number(from),
    toVersion: Number(to),
    appliedAt: new Date(Number(appliedAt) / 1_000),
    restoredCommit: number(restored),
  }));
}

export async function readArchived(mirror: ExactMirror): Promise<readonly ArchivedTable[]> {
  const rows = await mirror.rows(`SELECT a.dataset_id, a.table_name, a.version::VARCHAR, a.reason,
      epoch_us(a.archived_at)::VARCHAR, coalesce(a.table_name = n.table_name, FALSE)::VARCHAR
    FROM feed_sync.archived a LEFT JOIN feed_sync.names n USING (dataset_id) ORDER BY a.rowid`);
  return rows.map(([id, tableName = null, version = null, reason = null, archivedAt = null, isKept]) => ({
    datasetId: id ?? '',
    tableName,
    version,
    reason,
    archivedAt,
    isKept: isKept === 'true',
  }));
}

/** `countOf` counts the rows of a copy by its name; null where there is none. */
export async function historyDifferences(
  expected: Expectation,
  lines: Lines,
  archived: readonly ArchivedTable[],
  countOf: (tableName: string) => Promise<Text>,
): Promise<readonly string[]> {
  const versions = new Map(expected.datasets.map(({ datasetId, version }) => [datasetId, version.version]));
  const differences = [...new Set([...lines.keys(), ...versions.keys()])].flatMap((datasetId) => {
    const own = lines.get(datasetId) ?? [];
    const what = `history of ${datasetId}`;
    return [
      ...sameText(
        `${what}: from`,
        own.map(({ from }) => from),
        own.map((_, index) => fromAfter(own[index - 1])),
      ),
      ...own.flatMap((line, index) => lineDifferences(`${what}: line ${index + 1}`, line)),
      ...lastDifferences(what, own.at(-1), versions.get(datasetId)),
    ];
  });
  return [
    ...differences,
    ...archivedDifferences(lines, archived),
    ...(await copyDifferences(lines, archived, countOf)),
  ];
}

/** Where a line has to begin: where the one before ended, or nowhere after a retirement. */
function fromAfter(previous: Line | undefined): Text {
  return previous === undefined || previous.kind === 'retire' ? null : previous.to;
}

function lineDifferences(what: string, { from, to, kind, counts, appliedAt }: Line): readonly string[] {
  const [start, end] = [Number(from), Number(to)];
  const isCounted = counts.every((count) => count !== null && Number(count) >= 0);
  const [added, changed, removed] = counts;
  const isUncounted = counts.every((count) => count === null);
  const isByKeys = Number(added ?? -1) >= 0 && changed === null && Number(removed ?? -1) >= 0;
  const isReplaced = from !== null && (isUncounted || isByKeys || isCounted);
  const isSound: Readonly<Record<string, boolean>> = {
    load: from === null && isUncounted,
    return: from === null && isUncounted,
    // The rows are compared by keys, where there are keys and a table that can be read. The version may be a lower one.
    reload: isReplaced,
    changes: from !== null && end > start && isCounted,
    // A table without keys has no changed rows.
    repair: isReplaced && end === start,
    rollback: isReplaced,
    // All its rows leave at once, or none where the table is kept.
    retire: from !== null && end === start && isCounted && added === '0' && changed === '0',
  };
  const isRight = to !== null && appliedAt !== null && isSound[kind ?? ''] === true;
  return isRight
    ? []
    : [`${what} is no line of a history: ${JSON.stringify({ from, to, kind, counts, appliedAt })}`];
}

/** A dataset that is published ends at its version; every other one with its retirement. */
function lastDifferences(
  what: string,
  last: Line | undefined,
  version: number | undefined,
): readonly string[] {
  if (version === undefined) return sameText(`${what}: last`, last?.kind, 'retire');
  return sameText(`${what}: last`, [last?.kind === 'retire', last?.to], [false, String(version)]);
}

/** One row for each retirement, but for those of a kept table that was loaded again. */
function archivedDifferences(lines: Lines, archived: readonly ArchivedTable[]): readonly string[] {
  const retirements = [...lines].flatMap(([datasetId, own]) =>
    own.flatMap(({ kind, to, appliedAt }, index) =>
      kind === 'retire'
        ? [{ key: JSON.stringify([datasetId, to, appliedAt]), hasReturned: index < own.length - 1 }]
        : [],
    ),
  );
  const rows = archived.map(({ datasetId, version, archivedAt, reason, isKept }) => ({
    key: JSON.stringify([datasetId, version, archivedAt]),
    isKept,
    reason,
  }));
  const retired = new Map(retirements.map(({ key, hasReturned }) => [key, hasReturned]));
  const wrong = {
    'is not listed': retirements.filter(
      ({ key, hasReturned }) => !hasReturned && !rows.some((row) => row.key === key),
    ),
    'was never retired': rows.filter(({ key }) => !retired.has(key)),
    'is listed twice': rows.filter(({ key }, index) => rows.findIndex((row) => row.key === key) !== index),
    'was kept and has returned': rows.filter(({ key, isKept }) => isKept && retired.get(key) === true),
    'left for no reason': rows.filter(({ reason }) => (reason ?? '') === ''),
  };
  return Object.entries(wrong).flatMap(([what, keys]) =>
    keys.map(({ key }) => `feed_sync.archived: ${key} ${what}`),
  );
}

/** A copy has as many rows as left with it. */
async function copyDifferences(
  lines: Lines,
  archived: readonly ArchivedTable[],
  countOf: (tableName: string) => Promise<Text>,
): Promise<readonly string[]> {
  const differences: string[] = [];
  for (const { datasetId, tableName, archivedAt, isKept } of archived) {
    const line = lines
      .get(datasetId)
      ?.find(({ kind, appliedAt }) => kind === 'retire' && appliedAt === archivedAt);
    if (tableName === null || line === undefined) continue;
    const removed = line.counts[2];
    const what = `archived table ${tableName}`;
    if (isKept) differences.push(...sameText(`${what}: rows removed`, removed, '0'));
    else differences.push(...sameText(`${what}: rows`, await countOf(tableName), removed));
  }
  return differences;
}

/** The rows of a copy; null where there is none. */
export async function countCopied(mirror: ExactMirror, tableName: string): Promise<Text> {
  const isThere = await mirror.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'archived'");
  if (!isThere.some(([name]) => name === tableName)) return null;
  const [row] = await mirror.rows(`SELECT count(*)::VARCHAR FROM archived.${identifier(tableName)}`);
  return row?.[0] ?? null;
}
