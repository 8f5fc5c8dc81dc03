/** What a reader finds in a model mirror, and how it differs from what the feed has published. */

import type { DatasetVersion } from '../../../fixtures/feed/model.ts';
import { columnsOf } from '../../../fixtures/source/wire.ts';
import { isPinned } from '../../../src/model/write-jobs.ts';
import {
  type ArchivedTable,
  historyDifferences,
  loadedVersion,
  pastCommitsOf,
} from '../../support/mirror-commits.ts';
import { type Expectation, tableNameOf } from '../../support/published.ts';
import { sameText } from '../../support/same-text.ts';
import type { MirrorView } from '../stage.ts';
import { type MirrorState, namedRows, seenOf, type Table } from './mirror-state.ts';
import { digestOfTable, textsOf } from './texts.ts';
import { wrongStates } from './undo-log.ts';

/** As a world names its subscriptions. */
const WAS_SUBSCRIPTION = /^sub_\d+$/;

export function mirrorView(state: MirrorState): MirrorView {
  const tables = [...state.tables];
  const seen = tables.flatMap(([datasetId, table]) =>
    table.isDropped ? [] : [[datasetId, seenOf(table)] as const],
  );
  return {
    subscriptionIds: state.service?.subscriptionIds ?? [],
    seen: Object.fromEntries(seen),
    lines: state.lines,
    missing: tables.flatMap(([datasetId, { isDropped }]) => (isDropped ? datasetId : [])),
    pinned: pinnedIn(state),
    wrongStates: async (altered) => wrongStatesIn(state, altered),
    differencesFrom: (expected) => differences(state, expected),
  };
}

function pinnedIn({ tables }: MirrorState): ReadonlyMap<string, number> {
  const pinned = [...tables].filter(([, { observed }]) => isPinned(observed));
  return new Map(pinned.map(([datasetId, { observed }]) => [datasetId, observed.commitNumber ?? 0]));
}

function wrongStatesIn(
  { pasts, tables, lines }: MirrorState,
  altered: ReadonlySet<string>,
): readonly string[] {
  return [...pasts].flatMap(([datasetId, past]) => {
    const table = tables.get(datasetId);
    if (altered.has(datasetId) || table?.isDamaged === true) return [];
    const rolledBack = pastCommitsOf(lines.get(datasetId) ?? []).flatMap(
      ({ commitNumber, restoredCommit }) => {
        const [is, was] = [past.left.get(commitNumber), past.left.get(restoredCommit ?? commitNumber)];
        if (is === undefined || was === undefined) return [];
        const isSame = digestOfTable(is.names, is.rows) === digestOfTable(was.names, was.rows);
        return isSame
          ? []
          : [`${datasetId}: commit ${commitNumber} is not as commit ${restoredCommit} left it`];
      },
    );
    return [...rolledBack, ...wrongStates(datasetId, past, table === undefined ? null : namedRows(table))];
  });
}

async function differences(state: MirrorState, expected: Expectation): Promise<readonly string[]> {
  const { service, tables, names } = state;
  const expectedVersions = new Map(expected.datasets.map(({ datasetId, version }) => [datasetId, version]));
  const found = [...new Set([...expectedVersions.keys(), ...tables.keys()])].flatMap((datasetId) => {
    const version = expectedVersions.get(datasetId);
    const table = tables.get(datasetId);
    if (version === undefined) return [`${datasetId}: a table that is published no more`];
    return table === undefined ? [`${datasetId}: no table`] : tableDifferences(table, version, state);
  });
  return [
    ...sameText('the service', service?.origin, expected.origin),
    ...sameText('subscriptions', service?.subscriptionIds.toSorted(), expected.subscriptionIds.toSorted()),
    ...found,
    ...sameText('names given twice', new Set(names.values()).size, names.size),
    ...(await historyDifferences(expected, state.lines, archivedOf(state), async (tableName) =>
      countOf(state, tableName),
    )),
  ];
}

function tableDifferences(
  table: Table,
  { version, schemaVersion, publishedAt, content }: DatasetVersion,
  { lines }: MirrorState,
): readonly string[] {
  const { observed } = table;
  const { datasetId } = observed;
  const loadedAt = loadedVersion(lines.get(datasetId) ?? []);
  const { schema } = content;
  const roleOf = (name: string, index: number): string => {
    if (schema.keyColumns.includes(name)) return 'key';
    return index < schema.columns.length ? 'data' : 'envelope';
  };
  const columns = columnsOf(schema).map(({ name, type }, index) => [name, type, roleOf(name, index)]);
  // The resync that an operator asked for belongs to no subscription; and what one that was given up since had asked for
  // stays owed by the tables that others contain, and satisfied by them.
  const foreign = [...observed.reloads.keys()].filter((id) => id !== '' && !WAS_SUBSCRIPTION.test(id));
  const named = (what: string): string => `${what} of ${datasetId}`;
  return [
    ...sameText(named('table'), observed.tableName, tableNameOf(datasetId)),
    ...sameText(named('version'), observed.version, version),
    ...sameText(named('schema version'), observed.schemaVersion, schemaVersion),
    ...sameText(
      named('row count'),
      [observed.rowCount, table.rows.size],
      [content.rowCount, content.rowCount],
    ),
    ...sameText(named('key columns'), observed.keyColumns, schema.keyColumns),
    ...sameText(named('snapshot version'), String(observed.snapshotVersion), loadedAt),
    ...sameText(named('published at'), observed.publishedAt?.getTime(), new Date(publishedAt).getTime()),
    ...sameText(
      named('columns'),
      observed.columns.map(({ name, type, role }) => [name, type, role]),
      columns,
    ),
    ...sameText(named('rows'), seenOf(table).digest, textsOf(content).digest),
    ...sameText(named('reloads of subscriptions that never were'), foreign, []),
  ];
}

function archivedOf({ retired }: MirrorState): readonly ArchivedTable[] {
  return retired.map(({ version, ...line }) => ({ ...line, version: String(version) }));
}

function countOf({ retired }: MirrorState, tableName: string): string | null {
  return retired.find((line) => line.tableName === tableName)?.rowCount.toString() ?? null;
}
