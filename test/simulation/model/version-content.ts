/** The content that the service has for the version of a table, and how a table differs from it. */

import { isDeepStrictEqual } from 'node:util';
import type { ContentComparison } from '../../../src/destination/comparer.ts';
import { assert } from '../../../src/lib/assert.ts';
import type { ObservedTable, VersionContent } from '../../../src/model/write-jobs.ts';
import { changed, loadedColumns } from './execute-job.ts';
import { namedRows, type Table } from './mirror-state.ts';
import { prepareContent } from './prepare-content.ts';
import type { Spool } from './spool.ts';
import { digestOfTable } from './texts.ts';
import { checksumOf, type NamedRows } from './undo-log.ts';

/** @throws DataError, UnknownColumnsError, InapplicableChangesError */
export function contentRows(
  { snapshot, changes }: VersionContent,
  table: ObservedTable,
  spool: Spool,
): NamedRows {
  const prepared = prepareContent(snapshot, spool);
  assert(prepared.kind === 'snapshot', 'a snapshot was prepared');
  const { rows, hasFiles } = prepared;
  const { schema, version } = snapshot;
  const observed = {
    ...table,
    version,
    schemaVersion: schema.schemaVersion,
    rowCount: rows.size,
    keyColumns: schema.keyColumns,
    columns: loadedColumns(snapshot, hasFiles),
  };
  const loaded = { observed, rows, committed: rows, checksum: 0n, isDamaged: false };
  if (changes === null) return namedRows(loaded);
  const job = { ...changes, plannedFrom: observed };
  const net = prepareContent(job, spool);
  assert(net.kind === 'changes', 'changes were prepared');
  return namedRows(changed(job, net, loaded, 0, table.appliedAt).table);
}

/** As `verify --deep` compares. */
export function compareTable(
  table: Table | undefined,
  given: ObservedTable,
  content: NamedRows,
): ContentComparison {
  if (table === undefined || !isDeepStrictEqual(table.observed.commitNumber, given.commitNumber))
    return { kind: 'moved' };
  if (table.isDropped) return { kind: 'other-columns', why: 'the table is missing' };
  if (table.isDamaged) return { kind: 'damaged', columnName: null, why: 'a block cannot be read' };
  const { names, rows } = namedRows(table);
  if (!isDeepStrictEqual(names, content.names)) return { kind: 'other-columns', why: 'they are others' };
  if (digestOfTable(names, rows) !== digestOfTable(names, content.rows)) {
    const difference = { added: 0, changed: null, removed: 0 };
    return { kind: 'different', difference, keys: { added: [], changed: [], removed: [] } };
  }
  const sum = checksumOf(rows.values());
  return { kind: 'equal', unrecorded: sum === table.checksum ? null : { sum, version: CHECKSUM_VERSION } };
}

export const CHECKSUM_VERSION = 'model';
