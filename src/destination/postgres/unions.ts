/**
 * The views of the unions in PostgreSQL. `../catalog/unions.ts` decides what they contain.
 *
 * A view over the tables themselves would stand in the way of each column and each table that goes. So a view selects from a
 * function whose body is a text: the server follows no dependency of a text, and puts the body in the place of the call when it
 * plans. A commit replaces the function, in its transaction.
 *
 * Invariant: a view of readers on a union stays. Columns are only added to a view; one that the members have no longer, or with
 * another type, is null in each row.
 */

import { ConfigurationError } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { identifier, text, textAt, textOrNullAt } from '../../staging/engine/sql.ts';
import {
  isUnionCurrent,
  type MemberChange,
  occurrencesIn,
  outdatedUnions,
  type RecordedUnion,
  recordedUnions,
  recordOf,
  recordUnion,
  UNION_COMMENT,
  UNION_ID_COLUMN,
  type UnionOptions,
  type UnionView,
  unionView,
  type WrittenUnion,
} from '../catalog/unions.ts';
import { CATALOG_SCHEMA, catalogTable, LIVE_SCHEMA, qualified } from './catalog/names.ts';
import { hasCatalog, readTables } from './catalog/observed-state.ts';
import { statementsOf } from './catalog/rows.ts';
import { selectMeta } from './catalog/schema.ts';
import type { Transaction } from './connection.ts';
import { strayOf } from './count-tables.ts';
import { PostgresError, sentence } from './errors.ts';
import type { Turn } from './job.ts';
import { isSameType } from './tables.ts';
import { type Postgis, typeName } from './types.ts';

/** The server plans and locks each table of a view for each query, so an operator makes no larger union. A feed may let one grow. */
const MAX_UNION_MEMBERS = 200;

/** A view is altered like a table: its readers hold locks on it. */
type UnionWriter = Pick<Turn, 'transaction' | 'alter' | 'postgis'>;

/** Makes the views again that a commit of this transaction makes wrong. */
export async function writeOutdatedUnions(
  writer: UnionWriter,
  unions: readonly UnionOptions[],
  change: MemberChange,
): Promise<readonly WrittenUnion[]> {
  if (!unions.some((union) => union.includes(change.entry.datasetId))) return [];
  const recorded = recordedUnions(await writer.transaction.rows(selectMeta()));
  const concerned = unions.filter((union) => union.includes(change.entry.datasetId));
  const names = concerned.map(({ name }) => name);
  const relations = await readRelations(writer.transaction, names);
  const outdated = new Set(outdatedUnions(unions, recorded, [change]));
  const wrong = concerned.filter(
    (union) => outdated.has(union) || isLost(recorded.get(union.name), relations),
  );
  return await writeUnions(writer, wrong, recorded);
}

/** Returns the view of a union as SQL. */
function viewOf(name: string): string {
  return qualified({ schemaName: LIVE_SCHEMA, tableName: name });
}

/** True where somebody dropped or altered the view of a union that has tables, and where nothing has the name of another one. */
function isLost(record: RecordedUnion | undefined, relations: ReadonlyMap<string, Relation>): boolean {
  if (record === undefined) return false;
  const relation = relations.get(record.name);
  return record.members > 0 ? relation?.isIntact !== true : relation === undefined;
}

/** Returns what locks the views of the dataset's unions. Readers lock a view before its tables, so a writer does, too. */
export async function locksOfUnions(
  transaction: Transaction,
  unions: readonly UnionOptions[],
  datasetId: string,
): Promise<readonly string[]> {
  const names = unions.filter((union) => union.includes(datasetId)).map(({ name }) => name);
  if (names.length === 0) return [];
  const relations = await readRelations(transaction, names);
  const views = names.filter((name) => relations.get(name)?.isOurs === true).map(viewOf);
  return views.length === 0 ? [] : [`LOCK TABLE ${views.join(', ')} IN ACCESS EXCLUSIVE MODE`];
}

/**
 * Brings the views to the configuration. `datasetIds` are those that have a table or are to have one.
 * @throws ConfigurationError when a union has too many tables, another object has its name, or the database cannot have unions.
 */
export async function configureUnions(
  writer: UnionWriter,
  unions: readonly UnionOptions[],
  datasetIds: readonly string[],
): Promise<readonly WrittenUnion[]> {
  const { transaction } = writer;
  const recorded = recordedUnions(await transaction.rows(selectMeta()));
  if (unions.length === 0 && recorded.size === 0) return [];
  if (unions.length > 0) await refuseCitus(transaction);
  for (const union of unions.filter((each) => !isUnionCurrent(each, recorded.get(each.name)))) {
    refuseMany(union, datasetIds.filter((id) => union.includes(id)).length);
  }
  const names = new Set([...recorded.keys(), ...unions.map(({ name }) => name)]);
  const relations = await readRelations(transaction, [...names]);
  await refuseTaken(transaction, unions, recorded, relations);
  for (const union of recorded.values()) {
    if (unions.some(({ name }) => name === union.name)) continue;
    await dropUnion(writer, union.name, relations);
    await transaction.runAll(statementsOf(recordUnion(union, null)));
  }
  const outdated = unions.filter((union) => {
    const record = recorded.get(union.name);
    return !isUnionCurrent(union, record) || isLost(record, relations);
  });
  return await writeUnions(writer, outdated, recorded);
}

/** Returns what the catalog records of the unions, in order of name; none where there is no catalog. */
export async function readUnions(transaction: Transaction): Promise<readonly RecordedUnion[]> {
  if (!(await hasCatalog(transaction))) return [];
  const unions = recordedUnions(await transaction.rows(selectMeta()));
  return [...unions.values()].toSorted((left, right) => (left.name < right.name ? -1 : 1));
}

async function refuseCitus(transaction: Transaction): Promise<void> {
  if ((await transaction.rows("SELECT 1 FROM pg_extension WHERE extname = 'citus'")).length === 0) return;
  throw new ConfigurationError('Unions are not available with Citus, which joins no distributed schemas.', {
    hint: 'Leave the setting unions out.',
  });
}

function refuseMany({ name }: UnionOptions, members: number): void {
  if (members <= MAX_UNION_MEMBERS) return;
  throw new ConfigurationError(
    `The union ${name} would have ${members} tables; with PostgreSQL it can have ${MAX_UNION_MEMBERS}.`,
    { hint: 'Narrow its patterns in the setting unions, or make several unions.' },
  );
}

async function refuseTaken(
  transaction: Transaction,
  unions: readonly UnionOptions[],
  recorded: ReadonlyMap<string, RecordedUnion>,
  relations: ReadonlyMap<string, Relation>,
): Promise<void> {
  const names = unions.map(({ name }) => name).filter((name) => !recorded.has(name));
  const [named] = await transaction.rows(`SELECT dataset_id, table_name FROM ${catalogTable('names')}
    WHERE table_name IN (${listed(names)}) ORDER BY table_name`);
  if (named !== undefined) throw taken(textAt(named, 1), `the table of ${textAt(named, 0)} has this name`);
  const [name] = names.filter((each) => relations.has(each));
  if (name !== undefined) throw taken(name, `the database has ${LIVE_SCHEMA}.${name} already`);
}

function taken(name: string, why: string): ConfigurationError {
  return new ConfigurationError(`The union ${name} cannot be made: ${why}. Nothing was changed.`, {
    hint: 'Give the union another name in the setting unions.',
  });
}

/** The object that has the name of a union. */
interface Relation {
  /** Whether the object is a view that our role may replace, and the function of the union is there. */
  readonly isOurs: boolean;
  /** View and function are those that feed-sync made, as feed-sync made them. */
  readonly isIntact: boolean;
  /** Whether the object has the comment of such a view, with any digest, or selects from the function: a restored dump keeps one. */
  readonly isOfUnion: boolean;
  /** Something of a reader depends on it, or on the type of its rows. */
  readonly isNeeded: boolean;
  /** The types by name, in order. */
  readonly columns: ReadonlyMap<string, string>;
  /** The names by which a view of ours takes the columns of the function, in order. */
  readonly takenNames: readonly string[];
}

/** Indexes and types share the names of views. */
async function readRelations(
  transaction: Transaction,
  names: readonly string[],
): Promise<ReadonlyMap<string, Relation>> {
  const rows = await transaction.rows(`SELECT c.relname::text,
      c.relkind = 'v' AND p.oid IS NOT NULL AND pg_has_role(c.relowner, 'USAGE'), ${COLUMNS_AS_JSON},
      obj_description(c.oid, 'pg_class') IN (${commentOf('c.oid')}, ${text(UNION_COMMENT)})
        AND obj_description(p.oid, 'pg_proc') = ${commentOfFunction('p.oid')},
      EXISTS (SELECT 1 FROM pg_depend d LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
        WHERE d.deptype = 'n' AND r.ev_class IS DISTINCT FROM c.oid AND (d.refclassid, d.refobjid) IN (
          SELECT 'pg_class'::regclass, c.oid
          UNION ALL SELECT 'pg_type'::regclass, t.oid FROM pg_type t WHERE c.reltype IN (t.oid, t.typelem))),
      coalesce(starts_with(obj_description(c.oid, 'pg_class'), ${text(UNION_COMMENT)}), false)
        OR EXISTS (SELECT 1 FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
          WHERE r.ev_class = c.oid AND (d.refclassid, d.refobjid) = ('pg_proc'::regclass, p.oid)),
      CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END
    FROM pg_class c LEFT JOIN pg_proc p ON p.pronargs = 0 AND p.proname = c.relname
      AND p.pronamespace = to_regnamespace(${text(CATALOG_SCHEMA)})
    WHERE ${isRelationOf(names)}
    UNION ALL SELECT t.typname::text, false, '[]', false, false, false, NULL FROM pg_type t
      WHERE t.typrelid = 0 AND t.typcategory <> 'A' AND t.typnamespace = to_regnamespace(${text(LIVE_SCHEMA)})
        AND t.typname IN (${listed(names)})`);
  return new Map(
    rows.map((row) => {
      const isOurs = row[1] === true;
      const isIntact = isOurs && row[3] === true;
      const [isNeeded, isOfUnion] = [row[4] === true, row[5] === true];
      const takenNames = isOfUnion ? takenNamesIn(textOrNullAt(row, 6) ?? '') : [];
      return [
        textAt(row, 0),
        { isOurs, columns: columnsAt(row, 2), isIntact, isNeeded, isOfUnion, takenNames },
      ];
    }),
  );
}

/** Reads `… t(dataset_id text, "Id" text)`, which stands in the definition whatever names the columns of the view have by now. */
function takenNamesIn(definition: string): readonly string[] {
  const [, list = ''] = / t\(((?:"(?:[^"]|"")*"|[^")])*)\)/.exec(definition) ?? [];
  return Array.from(list.matchAll(/("(?:[^"]|"")*"|[^\s",]+) [^,]+(?:, |$)/g), ([, name = '']) =>
    name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name,
  );
}

/** The comment of a view has a digest of its definition and its column names, because a view that is replaced keeps its comment. */
function commentOf(oid: string): string {
  const definition = `(SELECT r.ev_action::text FROM pg_rewrite r WHERE r.ev_class = ${oid} AND r.rulename = '_RETURN')`;
  const columns = `(SELECT json_agg(a.attname ORDER BY a.attnum)::text FROM pg_attribute a WHERE a.attrelid = ${oid} AND a.attnum > 0)`;
  return `${text(`${UNION_COMMENT}, `)} || md5(${definition} || ${columns})`;
}

/** A function that is replaced keeps its comment, too. */
function commentOfFunction(oid: string): string {
  const compared = 'f.prosrc, f.prolang, f.provolatile, f.prosecdef, f.proconfig';
  return `(SELECT ${text(`${FUNCTION_COMMENT}, `)} || md5(concat_ws(' ', ${compared})) FROM pg_proc f WHERE f.oid = ${oid})`;
}

const FUNCTION_COMMENT = 'The rows of a union of tables, made by feed-sync';

const COLUMNS_AS_JSON = `(SELECT coalesce(json_agg(json_build_array(a.attname,
    format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum), '[]')::text
  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)`;

function isRelationOf(names: readonly string[]): string {
  return `c.relnamespace = to_regnamespace(${text(LIVE_SCHEMA)})
    AND c.relname IN (${listed(names)})`;
}

function listed(names: readonly string[]): string {
  return ['NULL', ...names.map(text)].join(', ');
}

function columnsAt(row: Row, index: number): ReadonlyMap<string, string> {
  return new Map(JSON.parse(textAt(row, index)) as readonly (readonly [string, string])[]);
}

async function writeUnions(
  writer: UnionWriter,
  unions: readonly UnionOptions[],
  recorded: ReadonlyMap<string, RecordedUnion>,
): Promise<readonly WrittenUnion[]> {
  const { transaction, postgis } = writer;
  if (unions.length === 0) return [];
  const observed = [...(await readTables(transaction, null)).values()].map((table) => table.observed);
  const tables = observed.filter(({ datasetId }) => unions.some((union) => union.includes(datasetId)));
  const altered = await readAltered(transaction, tables, postgis);
  const relations = await readRelations(
    transaction,
    unions.map(({ name }) => name),
  );
  const written: WrittenUnion[] = [];
  for (const union of unions) {
    const before = recorded.get(union.name);
    const relation = relations.get(union.name);
    const isTaken = relation !== undefined && !(relation.isOurs && before !== undefined);
    const ofUnion = tables.filter(({ datasetId }) => union.includes(datasetId));
    const members = isTaken ? [] : ofUnion.filter(({ datasetId }) => !altered.has(datasetId));
    if (!isTaken) await writeUnion(writer, union.name, members, relation ?? null);
    const unusable = ofUnion.map(({ datasetId }) => datasetId).filter((id) => altered.has(id));
    const occurrences = occurrencesIn(members);
    const all = { union: union.name, part: 0, members: members.length, unusable, occurrences };
    const after = recordOf(union, 1, [all]);
    await transaction.runAll(statementsOf(recordUnion(before, after)));
    written.push({ before: before ?? null, after, isTaken });
  }
  return written;
}

/** A view over a table that somebody dropped or altered would fail, and no query of other tables may fail because of that. */
async function readAltered(
  transaction: Transaction,
  tables: readonly ObservedTable[],
  postgis: Postgis | null,
): Promise<ReadonlySet<string>> {
  const names = tables.map((table) => `to_regclass(${text(qualified(table))})`);
  const rows = await transaction.rows(`SELECT n.nspname || '.' || c.relname, ${COLUMNS_AS_JSON}
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid IN (${['NULL', ...names].join(', ')}) AND c.relkind = 'r'`);
  const found = new Map(rows.map((row) => [textAt(row, 0), columnsAt(row, 1)]));
  const isAltered = (table: ObservedTable): boolean =>
    strayOf(table, found.get(`${table.schemaName}.${table.tableName}`) ?? new Map(), postgis).some(
      ({ expected }) => expected !== null,
    );
  return new Set(tables.filter(isAltered).map(({ datasetId }) => datasetId));
}

interface ShownColumn {
  readonly columnName: string;
  /** SQL. */
  readonly type: string;
  /** The place among the columns that the members have; null: the column is null in each row, or the id. */
  readonly index: number | null;
}

/**
 * `relation` is the view, where there is one. Without members and without a view nothing is made. A view that somebody put in its
 * place goes, unless readers need it: then it keeps its columns. A view of ours keeps the rights that were granted on it, and a column
 * that was renamed gets its name back, so that the views of readers on it go on.
 */
async function writeUnion(
  { transaction, alter, postgis }: UnionWriter,
  name: string,
  members: readonly ObservedTable[],
  relation: Relation | null,
): Promise<void> {
  const view = unionView(members);
  const isReplaced = relation !== null && !relation.isIntact;
  const isDropped = isReplaced && !relation.isNeeded && !relation.isOfUnion;
  if (isDropped) await alter([`DROP VIEW ${viewOf(name)}`]);
  const found = isDropped || relation === null ? NOTHING : relation;
  const renamed = renamedColumns(found);
  await alter([...renamed].map(([now, own]) => renameColumn(name, now, own)));
  const existing = new Map([...found.columns].map(([now, type]) => [renamed.get(now) ?? now, type]));
  if (view === null && existing.size === 0) return;
  const columns = shownColumns(view, existing, postgis);
  const selects = (view?.members ?? []).map(({ datasetId, schemaName, tableName, columnNames }) => {
    const cells = columns.map(({ columnName, type, index }) => {
      if (columnName === UNION_ID_COLUMN) return `${text(datasetId)}::text`;
      const own = index === null ? null : (columnNames[index] ?? null);
      return own === null ? `NULL::${type}` : identifier(own);
    });
    return `SELECT ${cells.join(', ')} FROM ${qualified({ schemaName, tableName })}`;
  });
  const none = `SELECT ${columns.map(({ type }) => `NULL::${type}`).join(', ')} WHERE false`;
  const body = selects.length === 0 ? none : selects.join(' UNION ALL ');
  await transaction.run(`CREATE OR REPLACE FUNCTION ${functionOf(name)} RETURNS SETOF record
    LANGUAGE sql STABLE PARALLEL SAFE AS ${text(body)}`);
  const comment = commentOfFunction(`${text(functionOf(name))}::regprocedure`);
  await setComment(transaction, `FUNCTION ${functionOf(name)}`, comment);
  if (columns.length === existing.size && !isReplaced) return;
  const shown = columns.map(({ columnName, type }) => `${identifier(columnName)} ${type}`).join(', ');
  await alter([`CREATE OR REPLACE VIEW ${viewOf(name)} AS SELECT * FROM ${functionOf(name)} AS t(${shown})`]);
  await setComment(transaction, `VIEW ${viewOf(name)}`, commentOf(`${text(viewOf(name))}::regclass`));
}

/** `object` and `comment` are SQL. */
async function setComment(transaction: Transaction, object: string, comment: string): Promise<void> {
  const [row = []] = await transaction.rows(`SELECT ${comment}`);
  await transaction.run(`COMMENT ON ${object} IS ${text(textAt(row, 0))}`);
}

const NOTHING: Pick<Relation, 'columns' | 'takenNames'> = { columns: new Map(), takenNames: [] };

/** Returns the names that columns have by now with those that they had, where no other column has these. */
function renamedColumns({ columns, takenNames }: typeof NOTHING): ReadonlyMap<string, string> {
  if (columns.size !== takenNames.length) return new Map();
  const pairs = [...columns.keys()].map((now, index) => [now, takenNames[index] ?? now] as const);
  return new Map(pairs.filter(([now, own]) => now !== own && !columns.has(own)));
}

function renameColumn(view: string, now: string, own: string): string {
  return `ALTER VIEW ${viewOf(view)} RENAME COLUMN ${identifier(now)} TO ${identifier(own)}`;
}

/**
 * Returns the columns that the view has, and after them those that it gets. Names are compared whatever their case: the name may
 * come from another member than before.
 */
function shownColumns(
  view: UnionView | null,
  existing: ReadonlyMap<string, string>,
  postgis: Postgis | null,
): readonly ShownColumn[] {
  const wanted = new Map(
    (view?.columns ?? []).map((column, index) => [column.columnName.toLowerCase(), { ...column, index }]),
  );
  const kept = [...existing].map(([columnName, type]): ShownColumn => {
    const column = wanted.get(columnName.toLowerCase());
    const isSame = column !== undefined && isSameType(type, column, postgis);
    return isSame
      ? { columnName, type: typeName(column.type, postgis), index: column.index }
      : { columnName, type, index: null };
  });
  const known = new Set(kept.map(({ columnName }) => columnName.toLowerCase()));
  const id = { columnName: UNION_ID_COLUMN, type: typeName('string', postgis), index: null };
  const added = [...wanted.values()].map(({ columnName, type, index }) => {
    return { columnName, type: typeName(type, postgis), index };
  });
  return [...kept, ...[id, ...added].filter(({ columnName }) => !known.has(columnName.toLowerCase()))];
}

function functionOf(name: string): string {
  return `${identifier(CATALOG_SCHEMA)}.${identifier(name)}()`;
}

/** @throws ConfigurationError when a reader has made something on the view. */
async function dropUnion(
  { transaction, alter }: UnionWriter,
  name: string,
  relations: ReadonlyMap<string, Relation>,
): Promise<void> {
  if (relations.get(name)?.isOurs !== true) return;
  try {
    await alter([`DROP VIEW ${viewOf(name)}`]);
    await transaction.run(`DROP FUNCTION ${functionOf(name)}`);
  } catch (error) {
    if (!(error instanceof PostgresError) || error.fault !== 'depended-on') throw error;
    throw new ConfigurationError(`The union ${name} cannot be dropped: ${sentence(error)}`, {
      hint: 'Drop what readers have made on it, or put it back into the setting unions.',
      cause: error,
    });
  }
}
