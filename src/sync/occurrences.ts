/** The occurrences at a table that operators may want to be notified of: it lost many rows, its columns changed, it is damaged. */

import { formatCount, plural } from '../lib/units.ts';
import type { CommitResult } from '../model/commits.ts';
import { judge, NO_LIMITS, rowCountsOf } from '../model/gate.ts';
import { remedyOfLostPast } from '../model/lost-past.ts';
import type { ObservedColumn, ObservedTable } from '../model/write-jobs.ts';
import type { Parts } from './parts.ts';

type Reporters = Pick<Parts, 'log' | 'onOccurrence'>;

/** Notes the occurrences of a commit. `before`: only a table that was there can lose rows or columns. */
export function noteOccurrences(before: ObservedTable | null, commit: CommitResult, parts: Reporters): void {
  if (before === null) return;
  warnOfRemovals(before, commit, parts);
  const difference = schemaDifference(before.columns, commit.observed.columns);
  if (difference === null) return;
  const subject = `dataset ${before.datasetId}`;
  const text = `version ${commit.toVersion} ${difference}`;
  parts.onOccurrence?.({ kind: 'schema_changed', subject, text });
}

/** Reports a commit that has lost the past of its table: once, because nothing that comes later brings it back. */
export function noteLostPast(
  { observed, tableName: table, toVersion: version, lostPast }: CommitResult,
  { log }: Pick<Reporters, 'log'>,
): void {
  if (lostPast === undefined) return;
  const { datasetId: dataset } = observed;
  log.warn(
    { dataset, table, version, why: lostPast, hint: remedyOfLostPast(lostPast) },
    'The earlier states of a table are not known any more.',
  );
}

/** Warns of a commit that removed much, gate or not. */
function warnOfRemovals(before: ObservedTable, commit: CommitResult, { log, onOccurrence }: Reporters): void {
  const { tableName: table, toVersion: version, rowCount: rows, net, observed } = commit;
  const counts = rowCountsOf(before.rowCount, rows, net);
  if (judge(counts, NO_LIMITS).kind !== 'warn') return;
  const { removed, before: rowsBefore } = counts;
  log.warn(
    { dataset: observed.datasetId, table, version, removed, rowsBefore, rows },
    'A commit removed more than a quarter of a table.',
  );
  const left = `${plural(rows, 'row')} ${rows === 1 ? 'is' : 'are'} left`;
  onOccurrence?.({
    kind: 'large_change',
    subject: `dataset ${observed.datasetId}`,
    text: `version ${version} removed ${formatCount(removed)} of ${plural(rowsBefore, 'row')}; ${left}`,
  });
}

/** Returns a clause: `added a (string), removed b, retyped c (integer to number)`; null where the columns are the same. */
export function schemaDifference(
  before: readonly ObservedColumn[],
  after: readonly ObservedColumn[],
): string | null {
  const old = new Map(before.map((column) => [column.name, column]));
  const names = new Set(after.map(({ name }) => name));
  const added = after.filter(({ name }) => !old.has(name)).map(({ name, type }) => `${name} (${type})`);
  const removed = before.filter(({ name }) => !names.has(name)).map(({ name }) => name);
  const retyped = after.flatMap(({ name, type }) => {
    const was = old.get(name)?.type ?? type;
    return was === type ? [] : [`${name} (${was} to ${type})`];
  });
  const keys = [keysOf(before), keysOf(after)];
  const parts = [
    ...listed('added', added),
    ...listed('removed', removed),
    ...listed('retyped', retyped),
    ...(keys[0] === keys[1] ? [] : [`changed the key from ${keys[0]} to ${keys[1]}`]),
  ];
  return parts.length === 0 ? null : parts.join('; ');
}

function keysOf(columns: readonly ObservedColumn[]): string {
  const keys = columns.filter(({ role }) => role === 'key').map(({ name }) => name);
  return keys.length === 0 ? 'none' : keys.join(', ');
}

function listed(verb: string, columns: readonly string[]): readonly string[] {
  return columns.length === 0 ? [] : [`${verb} ${columns.join(', ')}`];
}
