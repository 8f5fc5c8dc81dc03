/** Judges what a readable mirror contains, whatever holds it. Pure. */

import type { ObservedState } from '../../destination/destination.ts';
import type { PastLog } from '../../destination/reader.ts';
import { shellWord } from '../../lib/text.ts';
import { plural } from '../../lib/units.ts';
import { remedyOfLostPast } from '../../model/lost-past.ts';
import { type SchemaRule, schemaNameFor } from '../../model/naming.ts';
import { isPinned } from '../../model/write-jobs.ts';
import { ENDS_KEEPING } from '../../sync/damage.ts';
import { isChosenDataset } from '../../sync/follow/subscriptions.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { listed } from '../render/messages.ts';
import { type Finding, ok, problem, warning } from './check.ts';

export function judgeTables(
  { service, datasets, keptDamaged = [] }: Pick<ObservedState, 'service' | 'datasets' | 'keptDamaged'>,
  baseUrl: string | null,
): readonly Finding[] {
  const rows = [...datasets.values()].reduce((sum, { rowCount }) => sum + rowCount, 0);
  const findings: Finding[] = [];
  findings.push(ok('content', `${plural(datasets.size, 'table')}, ${plural(rows, 'row')}`));
  const pinned = [...datasets.values()].filter(isPinned).map(({ datasetId }) => datasetId);
  if (pinned.length > 0) {
    const hint = `To take new versions again: feed-sync resume ${pinned.map((id) => `--dataset ${shellWord(id)}`).join(' ')}`;
    findings.push(warning('pins', `A rollback keeps these where they are: ${listed(pinned)}.`, hint));
  }
  if (keptDamaged.length > 0) {
    const found = `The service does not have these, so they are kept as they were found: ${listed(keptDamaged)}.`;
    findings.push(warning('damaged', found, ENDS_KEEPING));
  }
  const origin = baseUrl === null ? null : new URL(baseUrl).origin;
  if (service !== null && origin !== null && service.origin !== origin) {
    const found = `The mirror belongs to the service at ${service.origin}, not to ${origin}.`;
    const moved = 'If the service has moved there: feed-sync resume --service-moved';
    const other =
      'Give this configuration a data directory of its own (dataDir), or correct service.baseUrl.';
    findings.push(problem('service', found, EXIT_CODES.wrongConfiguration, moved, other));
  }
  return findings;
}

/**
 * Judges the undo logs. A table without keys has no history, whatever history.datasets says. `globs`: that setting; null where it is not
 * known.
 */
export function judgeHistory(
  { datasets }: Pick<ObservedState, 'datasets'>,
  pastLogs: readonly PastLog[],
  globs: readonly string[] | null,
): readonly Finding[] {
  if (globs === null || globs.length === 0) return [];
  return [...lostPasts(pastLogs, globs), ...withoutKeys(datasets, globs)];
}

const MOVES = 'To load them again and move them there: feed-sync resync --all --move';

/**
 * Judges the schemas of the tables, which are recorded at their first load. `rules`: destination.schemas; null where it is not known.
 * `otherwise`: the schema of what no rule matches.
 */
export function judgeSchemas(
  { datasets }: Pick<ObservedState, 'datasets'>,
  rules: readonly SchemaRule[] | null,
  otherwise: string,
): readonly Finding[] {
  if (rules === null) return [];
  const elsewhere = [...datasets.values()].flatMap(({ datasetId, schemaName }) => {
    const expected = schemaNameFor(datasetId, rules, otherwise);
    return schemaName === expected ? [] : `${datasetId} (in ${schemaName}, not ${expected})`;
  });
  if (elsewhere.length === 0) return [];
  const where =
    elsewhere.length === 1
      ? 'the table of 1 dataset is in another schema'
      : `the tables of ${plural(elsewhere.length, 'dataset')} are in other schemas`;
  const found = `${where} than destination.schemas says: ${listed(elsewhere)}`;
  return [{ ...ok('schemas', found), hints: [MOVES] }];
}

/** One finding for each reason. A frozen log answers for a table that is no more. */
function lostPasts(pastLogs: readonly PastLog[], globs: readonly string[]): readonly Finding[] {
  const closed = pastLogs.filter(
    ({ datasetId, closedReason, frozenCommit }) =>
      closedReason !== null && frozenCommit === null && isChosenDataset(datasetId, globs, []),
  );
  return [...Map.groupBy(closed, ({ closedReason }) => closedReason ?? '')].map(([reason, logs]) => {
    const since = logs.map(({ datasetId, firstCommit }) => `${datasetId} before commit ${firstCommit}`);
    return warning(
      'history',
      `Not known: ${listed(since)}. ${capitalized(reason)}.`,
      remedyOfLostPast(reason),
    );
  });
}

function capitalized(clause: string): string {
  return `${clause.slice(0, 1).toUpperCase()}${clause.slice(1)}`;
}

function withoutKeys(datasets: ObservedState['datasets'], globs: readonly string[]): readonly Finding[] {
  const keyless = [...datasets.values()]
    .filter(({ datasetId, keyColumns }) => keyColumns.length === 0 && isChosenDataset(datasetId, globs, []))
    .map(({ datasetId }) => datasetId);
  if (keyless.length === 0) return [];
  return [ok('history', `not of ${listed(keyless)}: without key columns a table has none`)];
}
