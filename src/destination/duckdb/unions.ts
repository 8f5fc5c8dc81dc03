/**
 * The views of the unions: made in the transaction that changes their members or columns. `../catalog/unions.ts` decides what they contain.
 *
 * A union of many tables is a view over views of some dozen tables each: a commit makes the view of its part again, and the one
 * above only where its columns change.
 */

import { ConfigurationError } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { type Engine, type Row, runTogether } from '../../staging/engine/engine.ts';
import { DuckDbError } from '../../staging/engine/errors.ts';
import { identifier, text, textAt } from '../../staging/engine/sql.ts';
import { DUCKDB_TYPES, TYPE_NAMES } from '../../staging/snapshot/casts.ts';
import {
  countParts,
  isUnionCurrent,
  type MemberChange,
  occurrencesIn,
  outdatedUnions,
  partOf,
  type RecordedPart,
  type RecordedUnion,
  recordedParts,
  recordedUnions,
  recordOf,
  recordParts,
  recordUnion,
  UNION_COMMENT,
  UNION_ID_COLUMN,
  type UnionOptions,
  type UnionView,
  unionView,
  viewOfParts,
  type WrittenUnion,
} from '../catalog/unions.ts';
import { readObservedTables } from './catalog/observed-state.ts';
import { statementsOf } from './catalog/rows.ts';
import {
  catalogTable,
  MIRROR,
  mirrored,
  OUTSIDE_MIRROR,
  selectKinds,
  selectMeta,
  selectSchema,
} from './catalog/schema.ts';
import { strayColumnsOfAll } from './count-tables.ts';
import { insideMirror } from './past/history.ts';

/** Makes the views again that the commits of this transaction make wrong. */
export async function writeOutdatedUnions(
  engine: Engine,
  unions: readonly UnionOptions[],
  changes: readonly MemberChange[],
): Promise<readonly WrittenUnion[]> {
  if (!changes.some(({ entry }) => unions.some((union) => union.includes(entry.datasetId)))) return [];
  const meta = await engine.rows(selectMeta());
  const changed = new Set(changes.map(({ entry }) => entry.datasetId));
  const recorded = recordedUnions(meta);
  const concerned = unions.filter((union) => [...changed].some((datasetId) => union.includes(datasetId)));
  const wrong = new Set([
    ...outdatedUnions(unions, recorded, changes),
    ...(await findWrong(engine, concerned, meta, recorded)),
  ]);
  return await writeUnions(
    engine,
    concerned.filter((union) => wrong.has(union)),
    meta,
    changed,
  );
}

/** Returns whether the mirror has exactly these unions, and nobody dropped or replaced a view of them. */
export async function hasUnions(engine: Engine, unions: readonly UnionOptions[]): Promise<boolean> {
  const meta = await engine.rows(selectMeta());
  const recorded = recordedUnions(meta);
  if (recorded.size !== unions.length) return false;
  return (await findWrong(engine, unions, meta, recorded)).length === 0;
}

/** Returns the unions whose views are not as the configuration and the catalog have them. */
async function findWrong(
  engine: Engine,
  unions: readonly UnionOptions[],
  meta: readonly Row[],
  recorded: ReadonlyMap<string, RecordedUnion>,
): Promise<readonly UnionOptions[]> {
  const views = await readOwnViews(engine);
  const wrong: UnionOptions[] = [];
  for (const union of unions) {
    if (!isCurrent(union, recorded, meta, views) || (await isFreeAgain(engine, union, recorded)))
      wrong.push(union);
  }
  return wrong;
}

/** True where something else had the name of a union, and has it no longer: there is no view over its tables. */
async function isFreeAgain(
  engine: Engine,
  union: UnionOptions,
  recorded: ReadonlyMap<string, RecordedUnion>,
): Promise<boolean> {
  const record = recorded.get(union.name);
  if (record === undefined || record.members > 0 || record.unusable.length > 0) return false;
  const hasTables = (await readLiveIds(engine)).some((datasetId) => union.includes(datasetId));
  return hasTables && (await readKinds(engine, [union.name])).size === 0;
}

/**
 * Brings the views to another configuration.
 * @throws ConfigurationError when something else has the name of a union.
 */
export async function configureUnions(
  engine: Engine,
  unions: readonly UnionOptions[],
): Promise<readonly WrittenUnion[]> {
  const meta = await engine.rows(selectMeta());
  const recorded = recordedUnions(meta);
  const wanted = new Set(unions.map(({ name }) => name));
  await refuseTakenNames(
    engine,
    [...wanted].filter((name) => !recorded.has(name)),
  );
  const unwanted = [...recorded.values()].filter(({ name }) => !wanted.has(name));
  const kinds = await readKinds(
    engine,
    unwanted.map(({ name }) => name),
  );
  for (const union of unwanted) {
    if (isView(kinds.get(union.name))) await runTogether(engine, dropView(mirrored(union.name)));
    const parts = recordedParts(meta, union.name);
    await runTogether(engine, dropParts(union.name, parts));
    await runTogether(engine, statementsOf([...recordParts(parts, []), ...recordUnion(union, null)]));
  }
  return await writeUnions(engine, await findWrong(engine, unions, meta, recorded), meta, null);
}

/** The object that has the name of a union. A view that feed-sync did not make is there in the place of one that somebody replaced. */
type Kind = 'table' | 'view' | 'other view';

/** The views that feed-sync made. */
interface OwnViews {
  /** The names of those of unions. */
  readonly tops: ReadonlySet<string>;
  /** The names of those of parts. */
  readonly parts: ReadonlySet<string>;
}

function isView(kind: Kind | undefined): boolean {
  return kind === 'view' || kind === 'other view';
}

/** Reads the views alone: to list the tables, too, takes ten times as long where there are thousands. */
async function readOwnViews(engine: Engine): Promise<OwnViews> {
  const rows = await engine.rows(`SELECT schema_name = ${text(PARTS_SCHEMA)}, view_name FROM duckdb_views()
    WHERE database_name = ${text(MIRROR)} AND schema_name IN ('main', ${text(PARTS_SCHEMA)})
      AND comment = ${text(UNION_COMMENT)}`);
  const namesOf = (isPart: boolean) =>
    new Set(rows.filter((row) => (row[0] === true) === isPart).map((row) => textAt(row, 1)));
  return { tops: namesOf(false), parts: namesOf(true) };
}

function isCurrent(
  union: UnionOptions,
  recorded: ReadonlyMap<string, RecordedUnion>,
  meta: readonly Row[],
  { tops, parts }: OwnViews,
): boolean {
  const record = recorded.get(union.name);
  if (!isUnionCurrent(union, record) || record === undefined) return false;
  return record.members === 0 || (tops.has(union.name) && hasParts(record, meta, parts));
}

function hasParts(
  { name, parts }: RecordedUnion,
  meta: readonly Row[],
  existing: ReadonlySet<string>,
): boolean {
  if (parts === 1) return true;
  const filled = recordedParts(meta, name).filter(({ members }) => members > 0);
  return filled.every(({ part }) => existing.has(partName(name, part)));
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
  if (found === undefined) return;
  const kind = isView(found[1]) ? 'view' : 'table';
  throw takenName(found[0], `the mirror has a ${kind} main.${found[0]} already`);
}

function takenName(name: string, why: string): ConfigurationError {
  return new ConfigurationError(`The union ${name} cannot be made: ${why}. Nothing was changed.`, {
    hint: 'Give the union another name in the setting unions.',
  });
}

/** `changed`: the datasets with other tables than before. Null: nothing of the views is known to be right. */
async function writeUnions(
  engine: Engine,
  unions: readonly UnionOptions[],
  meta: readonly Row[],
  changed: ReadonlySet<string> | null,
): Promise<readonly WrittenUnion[]> {
  if (unions.length === 0) return [];
  const recorded = recordedUnions(meta);
  const live = await readLiveIds(engine);
  const kinds = await readKinds(
    engine,
    unions.map(({ name }) => name),
  );
  const views = await readOwnViews(engine);
  const written: WrittenUnion[] = [];
  for (const union of unions) {
    const before = recorded.get(union.name);
    const kind = kinds.get(union.name);
    const isOurs = kind === undefined || (isView(kind) && (before?.members ?? 0) > 0);
    const members = isOurs ? live.filter((datasetId) => union.includes(datasetId)) : [];
    const work = { engine, union, before, partsBefore: recordedParts(meta, union.name), members };
    const isKnown = changed !== null && kind === 'view' && isCurrent(union, recorded, meta, views);
    const after = isOurs ? await writeUnion(work, isKnown ? changed : null) : await forgetViews(work);
    await runTogether(engine, statementsOf(recordUnion(before, after)));
    written.push({ before: before ?? null, after, isTaken: !isOurs });
  }
  return written;
}

interface UnionWork {
  readonly engine: Engine;
  readonly union: UnionOptions;
  readonly before: RecordedUnion | undefined;
  readonly partsBefore: readonly RecordedPart[];
  /** The datasets of the union that have a table. */
  readonly members: readonly string[];
}

/** Something else has the name: there is no view, and none below it. */
async function forgetViews({ engine, union, partsBefore }: UnionWork): Promise<RecordedUnion> {
  await runTogether(engine, dropParts(union.name, partsBefore));
  await runTogether(engine, statementsOf(recordParts(partsBefore, [])));
  return recordOf(union, 1, []);
}

/** Makes the views of the parts with changed datasets, and the one above where it becomes another. */
async function writeUnion(work: UnionWork, changed: ReadonlySet<string> | null): Promise<RecordedUnion> {
  const { engine, union, before, partsBefore, members } = work;
  const parts = countParts(members.length, before?.parts ?? 1);
  const isWhole = changed === null || before?.parts !== parts;
  const changedParts = new Set([...(changed ?? [])].map((datasetId) => partOf(datasetId, parts)));
  const isStale = (part: number) => isWhole || changedParts.has(part);
  const kept = partsBefore.filter(({ part }) => !isStale(part));
  const made = await writeParts(
    work,
    parts,
    members.filter((datasetId) => isStale(partOf(datasetId, parts))),
  );
  const after = [...kept, ...made];
  try {
    if (parts > 1) await writeTop(work, parts, after, isWhole);
  } catch (error) {
    // Somebody altered a table of another part: its view is as wrong.
    if (isWhole || !isRefused(error)) throw error;
    await runTogether(engine, [OUTSIDE_MIRROR]);
    return await writeUnion(work, null);
  }
  const filled = new Set(parts === 1 ? [] : after.filter((each) => each.members > 0).map(({ part }) => part));
  const emptied = [...partsBefore, ...made].filter(({ part }) => !filled.has(part));
  await runTogether(engine, dropParts(union.name, emptied));
  if (!after.some((each) => each.members > 0)) await runTogether(engine, dropView(mirrored(union.name)));
  await runTogether(engine, statementsOf(recordParts(partsBefore, after)));
  return recordOf(union, parts, after);
}

/** Makes the views of the parts that these datasets are. */
async function writeParts(
  { engine, union }: UnionWork,
  parts: number,
  members: readonly string[],
): Promise<readonly RecordedPart[]> {
  if (members.length === 0) return [];
  if (parts > 1) await engine.run(`CREATE SCHEMA IF NOT EXISTS ${identifier(MIRROR)}.${PARTS_SCHEMA}`);
  const tables = [...(await readObservedTables(engine, members)).values()];
  const made: RecordedPart[] = [];
  for (const [part, ofPart] of Map.groupBy(tables, ({ datasetId }) => partOf(datasetId, parts))) {
    const place = parts === 1 ? mainPlace(union.name) : partPlace(union.name, part);
    const isMade = await makeView(engine, place, unionView(ofPart));
    const altered = isMade ? new Set<string>() : await readAltered(engine, ofPart);
    const usable = ofPart.filter(({ datasetId }) => !altered.has(datasetId));
    const view = unionView(usable);
    if (!isMade && view !== null) await runTogether(engine, createView(place, view));
    const unusable = [...altered];
    made.push({
      union: union.name,
      part,
      members: usable.length,
      unusable,
      occurrences: occurrencesIn(usable),
    });
  }
  return made;
}

/** Resolves to false where a table is not as the catalog has it: a view over it cannot be made, or has other types. */
async function makeView(engine: Engine, place: string, view: UnionView | null): Promise<boolean> {
  if (view === null) return true;
  try {
    await runTogether(engine, createView(place, view));
    const found = await engine.rows(`DESCRIBE ${identifier(MIRROR)}.${place}`);
    const expected = [TYPE_NAMES.string, ...view.columns.map(({ type }) => TYPE_NAMES[type])];
    return found.every((row, index) => textAt(row, 1).replace(/\(.*/, '') === expected[index]);
  } catch (error) {
    if (!isRefused(error)) throw error;
    await runTogether(engine, [OUTSIDE_MIRROR]);
    return false;
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof DuckDbError && error.fault === 'statement';
}

/** Makes the view over the parts, unless it is the same already. */
async function writeTop(
  { engine, union, before, partsBefore }: UnionWork,
  parts: number,
  after: readonly RecordedPart[],
  isWhole: boolean,
): Promise<void> {
  const top = createTop(union.name, after);
  if (!isWhole && before?.parts === parts && top?.join() === createTop(union.name, partsBefore)?.join())
    return;
  if (top !== null) await runTogether(engine, top);
}

function createTop(union: string, parts: readonly RecordedPart[]): readonly string[] | null {
  const { columns, sources } = viewOfParts(parts);
  if (sources.length === 0) return null;
  const selects = sources.map(({ part, columnNames }) => {
    const all = [identifier(UNION_ID_COLUMN), ...selectCells(columns, columnNames)];
    return `SELECT ${all.join(', ')} FROM ${partPlace(union, part)}`;
  });
  return createAs(mainPlace(union), selects);
}

/** A view over a table that somebody dropped or altered could not be made, and no commit may fail because of that. */
async function readAltered(engine: Engine, tables: readonly ObservedTable[]): Promise<ReadonlySet<string>> {
  const stray = await strayColumnsOfAll(engine, tables);
  const lost = [...stray].filter(([, columns]) => columns.some(({ expected }) => expected !== null));
  return new Set(lost.map(([datasetId]) => datasetId));
}

/** The schema of the views below those of the unions. */
const PARTS_SCHEMA = 'union_parts';

function partName(union: string, part: number): string {
  return `${union}_${part}`;
}

function partPlace(union: string, part: number): string {
  return `${PARTS_SCHEMA}.${identifier(partName(union, part))}`;
}

function mainPlace(union: string): string {
  return `main.${identifier(union)}`;
}

function dropView(place: string): readonly string[] {
  return [`DROP VIEW IF EXISTS ${place}`];
}

function dropParts(union: string, parts: readonly RecordedPart[]): readonly string[] {
  return parts.flatMap(({ part }) => dropView(`${identifier(MIRROR)}.${partPlace(union, part)}`));
}

function createView(place: string, view: UnionView): readonly string[] {
  return createAs(
    place,
    view.members.map((member) => selectMember(view, member)),
  );
}

function createAs(place: string, selects: readonly string[]): readonly string[] {
  return insideMirror([
    `CREATE OR REPLACE VIEW ${place} AS ${selects.join(' UNION ALL ')}`,
    `COMMENT ON VIEW ${place} IS ${text(UNION_COMMENT)}`,
  ]);
}

function selectMember(
  { columns }: UnionView,
  { datasetId, tableName, columnNames }: UnionView['members'][number],
): string {
  const all = [`${text(datasetId)} AS ${identifier(UNION_ID_COLUMN)}`, ...selectCells(columns, columnNames)];
  return `SELECT ${all.join(', ')} FROM main.${identifier(tableName)}`;
}

function selectCells(
  columns: UnionView['columns'],
  columnNames: readonly (string | null)[],
): readonly string[] {
  return columns.map(({ columnName, type }, index) => {
    const own = columnNames[index] ?? null;
    const value = own === null ? `NULL::${DUCKDB_TYPES[type]}` : identifier(own);
    return own === columnName ? value : `${value} AS ${identifier(columnName)}`;
  });
}

/** Returns what the catalog records of the unions, in order of name; none in a file without a catalog. */
export async function readUnions(engine: Engine): Promise<readonly RecordedUnion[]> {
  if ((await engine.rows(selectSchema())).length === 0) return [];
  const unions = recordedUnions(await engine.rows(selectMeta()));
  return [...unions.values()].toSorted((left, right) => (left.name < right.name ? -1 : 1));
}

async function readLiveIds(engine: Engine): Promise<readonly string[]> {
  const rows = await engine.rows(`SELECT dataset_id FROM ${catalogTable('datasets')}`);
  return rows.map((row) => textAt(row, 0));
}

async function readKinds(engine: Engine, names: readonly string[]): Promise<ReadonlyMap<string, Kind>> {
  if (names.length === 0) return new Map();
  const rows = await engine.rows(selectKinds(names));
  const kindOf = (row: Row): Kind => {
    if (textAt(row, 1) !== 'view') return 'table';
    return row[2] === UNION_COMMENT ? 'view' : 'other view';
  };
  return new Map(rows.map((row) => [textAt(row, 0), kindOf(row)]));
}
