/** The views of the unions: made in the transaction that changes their members or columns. What they contain is decided elsewhere. */

import { ConfigurationError } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import { identifier, text, textAt } from '../../staging/engine/sql.ts';
import { DUCKDB_TYPES } from '../../staging/snapshot/casts.ts';
import {
  isUnionCurrent,
  type MemberChange,
  outdatedUnions,
  type RecordedUnion,
  recordedUnions,
  recordOf,
  recordUnion,
  UNION_ID_COLUMN,
  type UnionOptions,
  type UnionView,
  unionView,
  type WrittenUnion,
} from '../catalog/unions.ts';
import { readObservedTables } from './catalog/observed-state.ts';
import { statementsOf } from './catalog/rows.ts';
import { catalogTable, mirrored, selectKinds, selectMeta } from './catalog/schema.ts';
import { strayColumnsOfAll } from './count-tables.ts';
import { insideMirror } from './history.ts';

/** Makes the views again that the commits of this transaction make wrong. */
export async function writeOutdatedUnions(
  engine: Engine,
  unions: readonly UnionOptions[],
  changes: readonly MemberChange[],
): Promise<readonly WrittenUnion[]> {
  if (!changes.some(({ entry }) => unions.some((union) => union.includes(entry.datasetId)))) return [];
  const recorded = await readUnions(engine);
  return await writeUnions(engine, outdatedUnions(unions, recorded, changes), recorded);
}

/** True when the mirror has exactly these unions. Whether their views are right, each commit sees to. */
export async function hasUnions(engine: Engine, unions: readonly UnionOptions[]): Promise<boolean> {
  const recorded = await readUnions(engine);
  if (recorded.size !== unions.length) return false;
  const kinds = await readKinds(engine, [...recorded.keys()]);
  return unions.every((union) => isCurrent(union, recorded, kinds));
}

/**
 * Brings the views to another configuration.
 * @throws ConfigurationError when something else has the name of a union.
 */
export async function configureUnions(
  engine: Engine,
  unions: readonly UnionOptions[],
): Promise<readonly WrittenUnion[]> {
  const recorded = await readUnions(engine);
  const kinds = await readKinds(engine, [...recorded.keys()]);
  const wanted = new Set(unions.map(({ name }) => name));
  await refuseTakenNames(
    engine,
    [...wanted].filter((name) => !recorded.has(name)),
  );
  for (const union of [...recorded.values()].filter(({ name }) => !wanted.has(name))) {
    if (kinds.get(union.name) === 'view') await runTogether(engine, dropView(union.name));
    await runTogether(engine, statementsOf(recordUnion(union, null)));
  }
  const outdated = unions.filter((union) => !isCurrent(union, recorded, kinds));
  return await writeUnions(engine, outdated, recorded);
}

function isCurrent(
  union: UnionOptions,
  recorded: ReadonlyMap<string, RecordedUnion>,
  kinds: ReadonlyMap<string, string>,
): boolean {
  const record = recorded.get(union.name);
  return isUnionCurrent(union, record) && (record?.members === 0 || kinds.get(union.name) === 'view');
}

async function refuseTakenNames(engine: Engine, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  const [ofDataset] = await engine.rows(`SELECT dataset_id, table_name FROM ${catalogTable('names')}
    WHERE table_name IN (${names.map(text).join(', ')}) ORDER BY ALL`);
  if (ofDataset !== undefined) {
    const [datasetId, name] = [textAt(ofDataset, 0), textAt(ofDataset, 1)];
    throw takenName(name, `the table of ${datasetId} has this name`);
  }
  const [found] = await readKinds(engine, names);
  if (found !== undefined) throw takenName(found[0], `the mirror has a ${found[1]} main.${found[0]} already`);
}

function takenName(name: string, why: string): ConfigurationError {
  return new ConfigurationError(`The union ${name} cannot be made: ${why}. Nothing was changed.`, {
    hint: 'Give the union another name in the setting unions.',
  });
}

async function writeUnions(
  engine: Engine,
  unions: readonly UnionOptions[],
  recorded: ReadonlyMap<string, RecordedUnion>,
): Promise<readonly WrittenUnion[]> {
  if (unions.length === 0) return [];
  const tables = [...(await readObservedTables(engine, null)).values()];
  const altered = await readAltered(
    engine,
    tables.filter(({ datasetId }) => unions.some((union) => union.includes(datasetId))),
  );
  const kinds = await readKinds(
    engine,
    unions.map(({ name }) => name),
  );
  const written: WrittenUnion[] = [];
  for (const union of unions) {
    const before = recorded.get(union.name);
    const ofUnion = tables.filter(({ datasetId }) => union.includes(datasetId));
    const unusable = ofUnion
      .filter(({ datasetId }) => altered.has(datasetId))
      .map(({ datasetId }) => datasetId);
    const view = unionView(ofUnion.filter(({ datasetId }) => !altered.has(datasetId)));
    const kind = kinds.get(union.name);
    const isOurs = kind === undefined || (kind === 'view' && (before?.members ?? 0) > 0);
    const after = recordOf(union, isOurs ? view : null, unusable);
    if (isOurs)
      await runTogether(engine, view === null ? dropView(union.name) : createView(union.name, view));
    await runTogether(engine, statementsOf(recordUnion(before, after)));
    written.push({ before: before ?? null, after, isTaken: !isOurs });
  }
  return written;
}

/** A view over a table that somebody dropped or altered could not be made, and no commit may fail because of that. */
async function readAltered(engine: Engine, tables: readonly ObservedTable[]): Promise<ReadonlySet<string>> {
  const stray = await strayColumnsOfAll(engine, tables);
  const lost = [...stray].filter(([, columns]) => columns.some(({ expected }) => expected !== null));
  return new Set(lost.map(([datasetId]) => datasetId));
}

function dropView(name: string): readonly string[] {
  return [`DROP VIEW IF EXISTS ${mirrored(name)}`];
}

function createView(name: string, view: UnionView): readonly string[] {
  const place = `main.${identifier(name)}`;
  return insideMirror([
    `CREATE OR REPLACE VIEW ${place} AS ${view.members.map((member) => selectMember(view, member)).join(' UNION ALL ')}`,
    `COMMENT ON VIEW ${place} IS ${text(`Union of ${view.members.length} tables, made by feed-sync`)}`,
  ]);
}

function selectMember(
  { columns }: UnionView,
  { datasetId, tableName, columnNames }: UnionView['members'][number],
): string {
  const cells = columns.map(({ columnName, type }, index) => {
    const own = columnNames[index] ?? null;
    const value = own === null ? `NULL::${DUCKDB_TYPES[type]}` : identifier(own);
    return own === columnName ? value : `${value} AS ${identifier(columnName)}`;
  });
  const all = [`${text(datasetId)} AS ${identifier(UNION_ID_COLUMN)}`, ...cells];
  return `SELECT ${all.join(', ')} FROM main.${identifier(tableName)}`;
}

async function readUnions(engine: Engine): Promise<ReadonlyMap<string, RecordedUnion>> {
  return recordedUnions(await engine.rows(selectMeta()));
}

async function readKinds(engine: Engine, names: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (names.length === 0) return new Map();
  const rows = await engine.rows(selectKinds(names));
  return new Map(rows.map((row) => [textAt(row, 0), textAt(row, 1)]));
}
