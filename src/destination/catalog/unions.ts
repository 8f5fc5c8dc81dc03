/**
 * Unions: views over all tables whose datasets match a pattern. The content of such a view is decided here, the same for every
 * destination.
 *
 * A view lists its columns, so it is right only for the members and columns that it was made for: whoever commits a change of
 * either makes the view again in the same transaction.
 */

import { createHash } from 'node:crypto';
import { assert } from '../../lib/assert.ts';
import type { Log } from '../../lib/log.ts';
import type { ColumnType } from '../../model/records.ts';
import type { ObservedColumn, ObservedTable } from '../../model/write-jobs.ts';
import { isWgs84 } from '../../staging/coordinate-systems.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { storedJson, textAt } from '../../staging/engine/sql.ts';
import type { CatalogEntry } from './entries.ts';
import { META_UNION, META_UNION_PART } from './tables.ts';
import { type CatalogWrite, deleteRows, insertRows } from './writes.ts';

/** A union as the configuration has it. */
export interface UnionOptions {
  /** The name of the view. */
  readonly name: string;
  /** The patterns of ids, for people, and to notice that they were changed. */
  readonly globs: readonly string[];
  /** Returns whether the table of the dataset belongs to the union. */
  includes(datasetId: string): boolean;
}

/** The first column of each union. */
export const UNION_ID_COLUMN = 'dataset_id';

/** The comment of the views that feed-sync makes. A view that somebody makes by hand in the place of one has none. */
export const UNION_COMMENT = 'Union of tables, made by feed-sync';

/** Raised when views are to be made in another way, so that those of an earlier program are made again. */
const UNION_FORM = 2;

/** A union as the catalog records it. */
export interface RecordedUnion {
  readonly name: string;
  readonly globs: readonly string[];
  readonly form: number;
  /** The number of tables in the view; none: there is no view. */
  readonly members: number;
  /** The number of parts that the tables are divided into. One part is the view itself; others are views below it. */
  readonly parts: number;
  /** The datasets whose tables cannot be read as the catalog describes them, because somebody altered them. */
  readonly unusable: readonly string[];
  readonly leftOut: readonly LeftOutColumn[];
}

/** A column that members have and the view does not. */
export interface LeftOutColumn {
  readonly columnName: string;
  /** The types of the column in the members, each with the number of members and the id of one of them. */
  readonly kinds: readonly { readonly kind: string; readonly members: number; readonly example: string }[];
}

/** A table of the union. */
type UnionMember = Pick<ObservedTable, 'datasetId' | 'schemaName' | 'tableName' | 'columns'>;

interface UnionColumn {
  readonly columnName: string;
  readonly type: ColumnType;
}

/** The content of the view. */
export interface UnionView {
  readonly columns: readonly UnionColumn[];
  readonly leftOut: readonly LeftOutColumn[];
  readonly members: readonly {
    readonly datasetId: string;
    readonly schemaName: string;
    readonly tableName: string;
    /** In the order of the columns of the view, the name of each in this table; null: this table has none. */
    readonly columnNames: readonly (string | null)[];
  }[];
}

/** How a column occurs in some members, whatever the case of its name. */
interface Occurrences {
  readonly columnName: string;
  readonly type: ColumnType;
  /** The first member by id that has the column, and where: it gives the column its name and its place. */
  readonly first: string;
  readonly position: number;
  readonly kinds: LeftOutColumn['kinds'];
}

/** A part of a union, as the catalog records it: what the whole is decided from without its members. */
export interface RecordedPart {
  readonly union: string;
  readonly part: number;
  readonly members: number;
  readonly unusable: readonly string[];
  readonly occurrences: readonly Occurrences[];
}

/** A view below the view of the union, as a member of it. */
interface UnionSource {
  readonly part: number;
  readonly columnNames: UnionView['members'][number]['columnNames'];
}

/** So many members have a part in the middle: DuckDB makes a view over them in milliseconds. */
const MOST_MEMBERS_OF_PART = 64;
const LEAST_MEMBERS_OF_PART = 16;

/** Returns the number of parts: a power of two that changes seldom, because every view is then made again. */
export function countParts(members: number, before: number): number {
  let parts = before;
  while (members > parts * MOST_MEMBERS_OF_PART) parts *= 2;
  while (parts > 1 && members < parts * LEAST_MEMBERS_OF_PART) parts /= 2;
  return parts;
}

/** Returns the part of the dataset, which depends on nothing else. */
export function partOf(datasetId: string, parts: number): number {
  return createHash('sha256').update(datasetId).digest().readUInt32BE() % parts;
}

/**
 * Returns the view of the members: their columns by name, in the order in which members have them first. A column whose types or
 * coordinate systems differ is left out, because no type would be right for all rows. Null: there are no members.
 */
export function unionView(given: readonly UnionMember[]): UnionView | null {
  if (given.length === 0) return null;
  const members = given.toSorted((left, right) => (left.datasetId < right.datasetId ? -1 : 1));
  const { columns, leftOut } = decideColumns(occurrencesIn(given));
  return {
    columns,
    leftOut,
    members: members.map((member) => {
      const names = new Map(member.columns.map(({ columnName }) => [folded(columnName), columnName]));
      const { datasetId, schemaName, tableName } = member;
      const columnNames = columns.map(({ columnName }) => names.get(folded(columnName)) ?? null);
      return { datasetId, schemaName, tableName, columnNames };
    }),
  };
}

/**
 * Returns the columns of the view over these parts, and where each part has them. Columns without a conflict in all parts have none in
 * a few of them.
 */
export function viewOfParts(parts: readonly RecordedPart[]): {
  readonly columns: UnionView['columns'];
  readonly leftOut: UnionView['leftOut'];
  readonly sources: readonly UnionSource[];
} {
  const { columns, leftOut } = decideColumns(joined(parts.flatMap(({ occurrences }) => occurrences)));
  const filled = parts.filter(({ members }) => members > 0).toSorted((left, right) => left.part - right.part);
  const sources = filled.map(({ part, occurrences }) => {
    const names = new Map(occurrences.map(({ columnName }) => [folded(columnName), columnName]));
    return { part, columnNames: columns.map(({ columnName }) => names.get(folded(columnName)) ?? null) };
  });
  return { columns, leftOut, sources };
}

/** Returns how the columns of the members occur. */
export function occurrencesIn(members: readonly UnionMember[]): readonly Occurrences[] {
  return joined(
    members.flatMap(({ datasetId, columns }) =>
      columns.map(({ columnName, type, crs }, position) => {
        const kinds = [{ kind: kindOf(type, crs), members: 1, example: datasetId }];
        return { columnName, type, first: datasetId, position, kinds };
      }),
    ),
  );
}

/** Joins the occurrences of the same columns, in the order of the first member that has each. */
function joined(occurrences: readonly Occurrences[]): readonly Occurrences[] {
  const found = new Map<string, Occurrences>();
  for (const each of occurrences.toSorted(byFirst)) {
    const name = folded(each.columnName);
    const before = found.get(name);
    found.set(
      name,
      before === undefined ? each : { ...before, kinds: joinedKinds(before.kinds, each.kinds) },
    );
  }
  return [...found.values()];
}

function joinedKinds(left: LeftOutColumn['kinds'], right: LeftOutColumn['kinds']): LeftOutColumn['kinds'] {
  const kinds = new Map(left.map((each) => [each.kind, each]));
  for (const each of right) {
    const before = kinds.get(each.kind) ?? { ...each, members: 0 };
    const example = before.example < each.example ? before.example : each.example;
    kinds.set(each.kind, { ...before, members: before.members + each.members, example });
  }
  return [...kinds.values()];
}

function byFirst(left: Occurrences, right: Occurrences): number {
  if (left.first !== right.first) return left.first < right.first ? -1 : 1;
  return left.position - right.position;
}

function decideColumns(occurrences: readonly Occurrences[]): Pick<UnionView, 'columns' | 'leftOut'> {
  const isLeftOut = ({ columnName, kinds }: Occurrences) =>
    folded(columnName) === UNION_ID_COLUMN || haveConflict(kinds.map(({ kind }) => kind));
  return {
    columns: occurrences
      .filter((each) => !isLeftOut(each))
      .map(({ columnName, type }) => ({ columnName, type })),
    leftOut: occurrences.filter(isLeftOut).map(({ columnName, kinds }) => ({ columnName, kinds })),
  };
}

/** Databases compare names without regard to the case of the letters A to Z. */
function folded(columnName: string): string {
  return columnName.toLowerCase();
}

const UNKNOWN_SYSTEM = 'geometry in an unknown coordinate system';

function kindOf(type: ColumnType, crs: string | null): string {
  if (type !== 'geometry') return type;
  if (crs === null) return UNKNOWN_SYSTEM;
  return `geometry in ${isWgs84(crs) ? 'WGS 84' : crs}`;
}

/** A geometry column without a value has no coordinate system yet: it is in conflict with none. */
function haveConflict(kinds: readonly string[]): boolean {
  const known = kinds.filter((kind) => kind !== UNKNOWN_SYSTEM);
  if (known.length > 1) return true;
  return known.length < kinds.length && known.some((kind) => !kind.startsWith('geometry'));
}

/** A change of a table, as far as unions depend on it. */
export interface MemberChange {
  /** Null: there was no live table. */
  readonly before: Pick<ObservedTable, 'schemaName' | 'columns'> | null;
  readonly entry: CatalogEntry;
}

/** Returns the unions whose views the commits make wrong. */
export function outdatedUnions(
  unions: readonly UnionOptions[],
  recorded: ReadonlyMap<string, RecordedUnion>,
  changes: readonly MemberChange[],
): readonly UnionOptions[] {
  return unions.filter((union) => {
    const unusable = new Set(recorded.get(union.name)?.unusable);
    return changes.some(({ before, entry }) => {
      const { datasetId } = entry;
      return union.includes(datasetId) && (unusable.has(datasetId) || hasOtherShape(before, entry));
    });
  });
}

function hasOtherShape(before: MemberChange['before'], entry: CatalogEntry): boolean {
  if (entry.kind === 'retired') return before !== null;
  if (before !== null && before.schemaName !== entry.table.schemaName) return true;
  return before === null || (entry.areColumnsNew && shapeOf(before.columns) !== shapeOf(entry.columns));
}

function shapeOf(
  columns: readonly (Pick<ObservedColumn, 'columnName' | 'crs'> & { readonly type: string })[],
) {
  return JSON.stringify(columns.map(({ columnName, type, crs }) => [columnName.toWellFormed(), type, crs]));
}

/** Returns whether the catalog has a view of this union as this program makes it, over the datasets of the same patterns. */
export function isUnionCurrent({ globs }: UnionOptions, recorded: RecordedUnion | undefined): boolean {
  return recorded?.form === UNION_FORM && JSON.stringify(recorded.globs) === JSON.stringify(globs);
}

/** Reads the unions from the rows of `meta`, by name. */
export function recordedUnions(meta: readonly Row[]): ReadonlyMap<string, RecordedUnion> {
  const rows = meta.filter((row) => textAt(row, 0) === META_UNION);
  const unions = rows.map((row) => storedJson(textAt(row, 1)) as RecordedUnion);
  return new Map(unions.map((union) => [union.name, union]));
}

/** Reads the parts of a union from the rows of `meta`. */
export function recordedParts(meta: readonly Row[], union: string): readonly RecordedPart[] {
  const rows = meta.filter((row) => textAt(row, 0) === META_UNION_PART);
  return rows.map((row) => storedJson(textAt(row, 1)) as RecordedPart).filter((part) => part.union === union);
}

/** Replaces what the catalog records of a union. Null: the union is there no longer. */
export function recordUnion(
  before: RecordedUnion | undefined,
  after: RecordedUnion | null,
): readonly CatalogWrite[] {
  return replaceMeta(META_UNION, before === undefined ? [] : [before], after === null ? [] : [after]);
}

/** Replaces what the catalog records of parts. */
export function recordParts(
  before: readonly RecordedPart[],
  after: readonly RecordedPart[],
): readonly CatalogWrite[] {
  return replaceMeta(META_UNION_PART, before, after);
}

function replaceMeta(
  key: string,
  before: readonly object[],
  after: readonly object[],
): readonly CatalogWrite[] {
  const rows = (values: readonly object[]) => values.map((value) => [key, JSON.stringify(value)]);
  return [
    ...(before.length === 0 ? [] : [deleteRows('meta', ['key', 'value'], rows(before))]),
    ...(after.length === 0 ? [] : [insertRows('meta', rows(after))]),
  ];
}

/** Returns the record of a union that was made of these parts. */
export function recordOf(
  { name, globs }: UnionOptions,
  parts: number,
  of: readonly RecordedPart[],
): RecordedUnion {
  const members = of.reduce((sum, part) => sum + part.members, 0);
  const unusable = of.flatMap((part) => part.unusable).toSorted();
  return { name, globs, form: UNION_FORM, members, parts, unusable, leftOut: viewOfParts(of).leftOut };
}

/** Says of a column why it is left out, for people: `"height": integer in 2 tables (us-a), string in 1 (us-b)`. */
export function formatLeftOut({ columnName, kinds }: LeftOutColumn): string {
  assert(kinds.length > 0, 'a column occurs in a table');
  const occurrences = kinds.map(({ kind, members, example }) => `${kind} in ${members} (${example})`);
  return `${JSON.stringify(columnName)}: ${occurrences.join(', ')}`;
}

/** The view of a union after a commit. */
export interface WrittenUnion {
  readonly before: RecordedUnion | null;
  readonly after: RecordedUnion;
  /** True when something that is not ours has the name of the view, which is left as it is. */
  readonly isTaken: boolean;
}

/** The unions of the configuration as the last transaction left them, for whoever must not open the destination. */
export class KnownUnions {
  readonly options: readonly UnionOptions[];
  readonly #log: Log;
  #recorded: ReadonlyMap<string, RecordedUnion> = new Map();

  constructor(unions: readonly UnionOptions[], log: Log) {
    this.options = unions;
    this.#log = log;
  }

  /** In order of name. */
  get all(): readonly RecordedUnion[] {
    const names = this.options.map(({ name }) => name).toSorted();
    return names.flatMap((name) => this.#recorded.get(name) ?? []);
  }

  /** Reads the recorded unions. `recorded` returns all that the catalog records, and is called only where there are unions. */
  async read(recorded: () => Promise<readonly RecordedUnion[]>): Promise<void> {
    if (this.options.length === 0) return;
    this.#recorded = new Map((await recorded()).map((union) => [union.name, union]));
  }

  /** Notes the views once the transaction that wrote them has ended. */
  wrote(written: readonly WrittenUnion[]): void {
    logUnions(this.#log, written);
    this.#recorded = new Map([
      ...this.#recorded,
      ...written.map(({ after }) => [after.name, after] as const),
    ]);
  }
}

/** Logs what an operator should know of the views, unless it was so before. */
function logUnions(log: Log, written: readonly WrittenUnion[]): void {
  for (const { before, after, isTaken } of written) {
    const { name: union, leftOut, unusable } = after;
    if (isTaken) {
      log.warn(
        { union },
        'The view of a union was not made: something that feed-sync did not make has its name.',
      );
    }
    if (leftOut.length > 0 && kindsOf(leftOut) !== kindsOf(before?.leftOut ?? [])) {
      const columns = leftOut.map(formatLeftOut);
      log.warn(
        { union, columns },
        'Columns are left out of a union, because they differ between its tables.',
      );
    }
    if (unusable.length > 0 && unusable.join() !== (before?.unusable ?? []).join()) {
      const datasetIds = unusable;
      log.warn(
        { union, datasetIds },
        'Tables are left out of a union, because they were altered outside feed-sync.',
      );
    }
  }
}

/** A further table with the same conflict is no news. */
function kindsOf(leftOut: readonly LeftOutColumn[]): string {
  return JSON.stringify(
    leftOut.map(({ columnName, kinds }) => [columnName, kinds.map(({ kind }) => kind).toSorted()]),
  );
}
