/** Validates a write job before the mirror is touched: its files must fit the schema and the counts of the service. */

import type { Change } from '../../../fixtures/source/content.ts';
import { columnsOf } from '../../../fixtures/source/wire.ts';
import { DataError, InapplicableChangesError, UnknownColumnsError } from '../../../src/model/errors.ts';
import type { Counts } from '../../../src/model/records.ts';
import type { ChangesJob, RepairJob, SnapshotJob, WriteJob } from '../../../src/model/write-jobs.ts';
import { type ChangesColumns, changesColumns } from '../../../src/staging/changes/columns.ts';
import type { Spool } from './spool.ts';
import { keyText, keyTextReader, type Rows, type TextRow, textRow, textsOf } from './texts.ts';
import type { NamedRows } from './undo-log.ts';

export type PreparedContent =
  | { readonly kind: 'snapshot'; readonly rows: Rows; readonly hasFiles: boolean }
  | {
      readonly kind: 'changes';
      readonly columns: ChangesColumns;
      readonly net: ReadonlyMap<string, TextRow | null>;
    }
  | { readonly kind: 'retirement' }
  | { readonly kind: 'repair'; readonly content: NamedRows };

/** @throws DataError, UnknownColumnsError, InapplicableChangesError */
export function prepareContent(job: Exclude<WriteJob, RepairJob>, spool: Spool): PreparedContent {
  switch (job.kind) {
    case 'snapshot':
      return validateSnapshot(job, spool);
    case 'changes':
      return validateChanges(job, spool);
    case 'retirement':
    case 'rollback':
      return { kind: 'retirement' };
  }
}

function validateSnapshot(job: SnapshotJob, spool: Spool): PreparedContent {
  const { datasetId, schema, files } = job;
  const names = [...schema.columns, ...schema.envelopeColumns].map(({ name }) => name);
  const rows = new Map<string, TextRow>();
  for (const { path, name: file, rowCount } of files) {
    const spooled = spool.read(path);
    if (spooled.kind !== 'snapshot') throw new DataError(`The file ${file} is no snapshot.`);
    const found = columnsOf(spooled.content.schema).map(({ name }) => name);
    const unknown = found.filter((name) => !names.includes(name));
    if (unknown.length > 0) throw new UnknownColumnsError(datasetId, unknown, `The file ${file}`);
    if (found.join('\n') !== names.join('\n')) throw new DataError(`The file ${file} lacks columns.`);
    const texts = textsOf(spooled.content);
    if (rowCount !== null && rowCount !== texts.rows.size) throw new DataError(`${file} has other rows.`);
    for (const [key, row] of texts.rows) rows.set(key, row);
  }
  for (const expected of job.expectedRowCounts) {
    if (expected.rowCount === rows.size) continue;
    throw new DataError(
      `The snapshot has ${rows.size} rows, but ${expected.statedBy} states ${expected.rowCount}.`,
    );
  }
  return { kind: 'snapshot', rows, hasFiles: files.length > 0 };
}

/** The last operation of a key wins; null: it is removed. */
function validateChanges(job: ChangesJob, spool: Spool): PreparedContent {
  const columns = changesColumns(job);
  const net = new Map<string, TextRow | null>();
  let rowsBefore = job.plannedFrom.rowCount;
  for (const { version, pages, counts, rowCount } of job.versions) {
    const listed = { added: 0, changed: 0, removed: 0 };
    for (const path of pages) {
      const spooled = spool.read(path);
      if (spooled.kind !== 'changes') throw new DataError(`The page ${path} contains no changes.`);
      const { changes, content } = spooled.version;
      const names = columnsOf(content.schema).map(({ name }) => name);
      const keyOf = keyTextReader(content.schema);
      for (const change of changes ?? []) {
        listed[change.op] += 1;
        if (change.op === 'removed') net.set(keyText(change.key), null);
        else net.set(keyOf(change.row), placed(job, version, columns, names, change));
      }
    }
    proveCounts(job, version, { listed, counts, rowCount, rowsBefore });
    rowsBefore += listed.added - listed.removed;
  }
  return { kind: 'changes', columns, net };
}

/** The cells of a changed row in the columns of the table; what a row leaves out is null. */
function placed(
  job: ChangesJob,
  version: number,
  { columns, known, lacking, required }: ChangesColumns,
  names: readonly string[],
  { row }: Extract<Change, { row: unknown }>,
): TextRow {
  const cells = textRow(row);
  const carried = names.filter((_, index) => cells[index] !== null);
  const unknown = carried.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new UnknownColumnsError(job.datasetId, unknown, `A row of v${version}`);
  const lacks = carried.find((name) => lacking.includes(name));
  if (lacks !== undefined) throw inapplicable(job, version, `rows carry ${lacks}, which the table lacks`);
  const misses = required.find((name) => !carried.includes(name));
  if (misses !== undefined) throw inapplicable(job, version, `rows do not carry ${misses}`);
  return columns.map(({ column }) => cells[names.indexOf(column.name)] ?? null);
}

interface Stated {
  readonly listed: Counts;
  readonly counts: Counts | null;
  readonly rowCount: number | null;
  readonly rowsBefore: number;
}

function proveCounts(
  job: ChangesJob,
  version: number,
  { listed, counts, rowCount, rowsBefore }: Stated,
): void {
  const inWords = ({ added, changed, removed }: Counts): string => `${added}+ ${changed}~ ${removed}-`;
  if (counts !== null && inWords(counts) !== inWords(listed))
    throw inapplicable(
      job,
      version,
      `they are ${inWords(listed)}, and the service counted ${inWords(counts)}`,
    );
  const rows = rowsBefore + listed.added - listed.removed;
  if (rowCount !== null && rowCount !== rows)
    throw inapplicable(job, version, `${rows} rows, and the service states ${rowCount}`);
}

function inapplicable({ datasetId }: ChangesJob, version: number, why: string): InapplicableChangesError {
  return new InapplicableChangesError(datasetId, version, why);
}
