/**
 * Finds how far changes lead a table along the version chain, the obstacle that ends the path, and the best path: the one with the
 * highest target version; among equals the one that leaves the fewest reloads unsatisfied; among equals the one of least cost. Pure.
 *
 * A path continues only where it is known to be right. It ends at a version that does not state its predecessor or its schema, and
 * at a schema that may lack columns of the table; from there a snapshot is needed.
 */

import type { ContractViolationError } from '../../model/errors.ts';
import type { ListedEntry, ManifestEntry } from '../../model/manifest.ts';
import type { ColumnType, Schema, Version } from '../../model/records.ts';
import type { ObservedColumn, ObservedTable } from '../../model/write-jobs.ts';
import { type Asking, answeredBy, pendingReloads } from './need.ts';
import type { Metadata } from './step.ts';
import { absentSchema, findSchema, findSchemaOfSnapshot, recordOf } from './versions.ts';

/** The most versions that are coalesced and committed at once. */
export const MAX_VERSIONS_AT_ONCE = 1_000;
/** The most rows that the versions of one step list in all, by their counts. A version that lists more is a step of its own. */
export const MAX_ROWS_AT_ONCE = 2_000_000;

/**
 * Column types with several spellings of one value, or one spelling of several values: a change by such a key would
 * miss its row, or replace another.
 */
const INEXACT_KEYS: ReadonlySet<unknown> = new Set<ColumnType>(['json', 'number', 'geometry']);

/** The start of a path: a live table, or the table that a snapshot would become. */
interface ChainStart {
  readonly version: number;
  /** When that version was published; null where unknown. */
  readonly publishedAt: Date | null;
  readonly schemaVersion: string | null;
  readonly keyColumns: readonly string[];
  readonly columns: readonly (Pick<ObservedColumn, 'name'> & Pick<Schema['columns'][number], 'type'>)[];
}

/** The constraints that limit how far changes lead. */
export interface ChainConstraints {
  readonly metadata: Metadata;
  /** Versions whose changes are inapplicable, each with the reason as a clause. */
  readonly inapplicable: ReadonlyMap<number, string>;
  readonly schemaChanges: 'reload' | 'alter';
}

export interface PossiblePath {
  /** Oldest first: the first version follows the start, each other version the one before it. */
  readonly path: readonly Version[];
  /** Null: the path leads to the newest version of the list. */
  readonly stop: Stop | null;
}

/** The first version that changes do not reach. */
interface Stop {
  readonly version: number;
  /** The reason, for the operator. */
  readonly why: string;
  /** Set where the service is at fault, because it names a schema that it does not list. */
  readonly violation: ContractViolationError | null;
}

export function followChain(start: ChainStart, constraints: ChainConstraints): PossiblePath {
  const path: Version[] = [];
  let at = start;
  const after = versionsAfter(start.version, constraints.metadata);
  const [first] = after;
  const why = whyNotItsStart(start, constraints.metadata);
  if (first !== undefined && why !== null) {
    return { path, stop: { version: first.version, why, violation: null } };
  }
  for (const version of after) {
    const next = chainStep(at, version, constraints);
    if ('why' in next) return { path, stop: next };
    path.push(version);
    at = next;
  }
  return { path, stop: null };
}

/** Returns the version at the end of the path. */
function reachOf(start: ChainStart, { path }: PossiblePath): number {
  return path.at(-1)?.version ?? start.version;
}

/**
 * Returns the part of a path that is committed at once, at least one version of a path that leads on. The next plan
 * continues from there.
 */
export function cutToLimits(path: readonly Version[]): readonly Version[] {
  let rows = 0;
  const tooMuch = path.findIndex((version, index) => {
    rows += listedRows(version);
    return index === MAX_VERSIONS_AT_ONCE || (index > 0 && rows > MAX_ROWS_AT_ONCE);
  });
  return tooMuch === -1 ? path : path.slice(0, tooMuch);
}

type Published = Pick<ChainStart, 'version' | 'publishedAt'>;

/**
 * Returns why the following versions may belong to another chain, so that their changes must not be applied; null: the list names
 * `start`.
 */
function whyNotItsStart({ version, publishedAt }: Published, metadata: Metadata): string | null {
  const record = recordOf(version, metadata);
  if (record === null) return `the list of versions does not name version ${version}, which the table has`;
  const listed = record.publishedAt;
  const isAnother = publishedAt !== null && listed !== null && publishedAt.getTime() !== listed.getTime();
  return isAnother ? `version ${version} was published anew, and is not the one that the table has` : null;
}

/** Returns the later versions, oldest first. A list that changed while it was paged may name a version twice. */
function versionsAfter(start: number, { versions }: Metadata): readonly Version[] {
  const after = new Map(
    versions.filter(({ version }) => version > start).map((version) => [version.version, version]),
  );
  return [...after.values()].sort((left, right) => left.version - right.version);
}

/** Returns the table as it is at `version`, or the obstacle before it. */
function chainStep(at: ChainStart, version: Version, constraints: ChainConstraints): ChainStart | Stop {
  const { previousVersion, schemaVersion } = version;
  const name = `version ${version.version}`;
  const stop = (why: string): Stop => ({ version: version.version, why, violation: null });
  const keyless = whyKeyless(at);
  if (keyless !== null) return stop(`${keyless}, so it cannot take changes`);
  if (version.resyncRequired) return stop(`${name} asks for the snapshot`);
  if (previousVersion === null) return stop(`${name} does not say which version it follows`);
  if (previousVersion !== at.version) {
    return stop(`${name} follows version ${previousVersion}, not version ${at.version}`);
  }
  const inapplicable = constraints.inapplicable.get(version.version);
  if (inapplicable !== undefined) return stop(`the changes of ${name} cannot be used: ${inapplicable}`);
  if (schemaVersion === null) return stop(`${name} does not say which schema it has`);
  const schema = findSchema(schemaVersion, constraints.metadata);
  if (schema === null) {
    const violation = absentSchema(schemaVersion, version);
    return { version: version.version, why: `${name} has a schema that is not listed`, violation };
  }
  const obstacle = schemaObstacle(at, schema, constraints);
  if (obstacle !== null) return stop(`${name} ${obstacle}`);
  return { ...columnsOf(schema), version: version.version, publishedAt: version.publishedAt };
}

/** Returns null where a change can find its row by the key. */
function whyKeyless({ keyColumns, columns }: ChainStart): string | null {
  if (keyColumns.length === 0) return 'the table has no key columns';
  const inexact = columns.find(({ name, type }) => keyColumns.includes(name) && INEXACT_KEYS.has(type));
  if (inexact === undefined) return null;
  return `the table has the key column ${JSON.stringify(inexact.name)} of type ${inexact.type}`;
}

/** Returns the table columns of a schema. Columns that no file contains are left out of tables. */
export function columnsOf(schema: Schema): Omit<ChainStart, 'version' | 'publishedAt'> {
  const { schemaVersion, keyColumns, columns, envelopeColumns } = schema;
  return { schemaVersion, keyColumns, columns: [...columns, ...envelopeColumns] };
}

/** Returns null where changes of this schema can be applied to the table. */
function schemaObstacle(at: ChainStart, schema: Schema, constraints: ChainConstraints): string | null {
  if (!hasSameKeys(at, schema)) return 'has other key columns';
  if (schema.schemaVersion === at.schemaVersion) return null;
  if (constraints.schemaChanges === 'reload') return `has another schema, "${schema.schemaVersion}"`;
  if (!isAdditive(at.schemaVersion, schema, constraints.metadata) || !hasAllColumns(at, schema)) {
    return `has another schema, "${schema.schemaVersion}", which does more than add columns`;
  }
  return null;
}

function hasSameKeys({ keyColumns }: ChainStart, schema: Schema): boolean {
  const keys = new Set(keyColumns);
  const named = new Set(schema.keyColumns);
  return named.size === keys.size && [...named].every((name) => keys.has(name));
}

/** Returns whether the service calls every schema from `from` on additive; a schema that does not say so is not additive. */
function isAdditive(from: string | null, to: Schema, metadata: Metadata): boolean {
  let at: Schema | null = to;
  // The limit ends the loop where schemas name one another in a circle.
  for (let chainSteps = 0; chainSteps < metadata.schemas.length && at !== null; chainSteps++) {
    const change: Schema['changeFromPrevious'] = at.changeFromPrevious;
    if (change === null || change.kind !== 'additive' || change.keyColumnsChanged) return false;
    if (change.previousSchemaVersion === null) return false;
    if (change.previousSchemaVersion === from) return true;
    at = findSchema(change.previousSchemaVersion, metadata);
  }
  return false;
}

/** Verifies the service's word as far as possible: every column of the table still exists, with the same type. */
function hasAllColumns({ columns }: ChainStart, schema: Schema): boolean {
  const types = new Map([...schema.columns, ...schema.envelopeColumns].map(({ name, type }) => [name, type]));
  return columns.every(({ name, type }) => types.get(name) === type);
}

export type UpdatePath =
  /** The path by changes. A table that owes a reload has no such path. */
  | { readonly kind: 'changes'; readonly reach: number; readonly owed: 0; readonly cost: number }
  /** The path by snapshot, and by the changes after it. */
  | {
      readonly kind: 'load';
      readonly listedEntry: ListedEntry;
      /** The schema of the snapshot; null: the service does not list it, so the snapshot cannot be loaded. */
      readonly schema: Schema | null;
      readonly reach: number;
      /** The number of reloads that the snapshot does not satisfy. */
      readonly owed: number;
      readonly cost: number;
    };

export type PathByLoad = UpdatePath & { readonly kind: 'load' };

/** Returns the path by changes; null where no changes lead further. */
export function pathByChanges(observed: ObservedTable, byChain: PossiblePath): UpdatePath | null {
  const { path } = byChain;
  if (path.length === 0) return null;
  return { kind: 'changes', reach: reachOf(observed, byChain), owed: 0, cost: changesCost(path) };
}

export function pathByLoad(
  listedEntry: ListedEntry,
  { observed, desired }: Pick<Asking, 'observed' | 'desired'>,
  constraints: ChainConstraints,
): PathByLoad {
  const { entry } = listedEntry;
  const { version } = entry;
  const { metadata } = constraints;
  const schema = findSchemaOfSnapshot(entry, metadata);
  const start = schema === null ? null : { ...columnsOf(schema), version, publishedAt: null };
  const after: PossiblePath = start === null ? { path: [], stop: null } : followChain(start, constraints);
  const answered = answeredBy(listedEntry, { observed, desired, metadata });
  const rows = recordOf(version, metadata)?.rowCount ?? observed?.rowCount ?? 0;
  return {
    kind: 'load',
    listedEntry,
    schema,
    reach: after.path.at(-1)?.version ?? version,
    owed: pendingReloads(observed, desired).length - answered.length,
    cost: snapshotCost(entry, rows) + changesCost(after.path),
  };
}

/**
 * Returns whether no snapshot can be a better path than the changes: the changes lead to the newest version of the list at no
 * more cost than the smallest snapshot of as many rows. Then no manifest has to be read.
 */
export function isSurelyBest(
  byChanges: UpdatePath | null,
  byChain: PossiblePath | null,
  observed: ObservedTable | null,
): boolean {
  const last = byChain?.path.at(-1);
  if (byChanges === null || observed === null || last === undefined || byChain?.stop !== null) return false;
  return byChanges.cost <= leastSnapshotCost(last.rowCount ?? observed.rowCount);
}

/** Returns the best path, the earlier one of two equals; null where there is none. */
export function bestPath<Of extends UpdatePath>(updatePaths: readonly Of[]): Of | null {
  return updatePaths.reduce<Of | null>(
    (best, updatePath) => (best === null || isBetter(updatePath, best) ? updatePath : best),
    null,
  );
}

function isBetter(updatePath: UpdatePath, than: UpdatePath): boolean {
  if (updatePath.reach !== than.reach) return updatePath.reach > than.reach;
  return updatePath.owed === than.owed ? updatePath.cost < than.cost : updatePath.owed < than.owed;
}

/** The cost of a request: some 20 ms of latency, with several requests under way at once. */
export const REQUEST_IN_ROWS = 1_000;
/** The cost of a changed row: it travels as text, is decoded, checked and coalesced, and is found in the table by its key. */
export const CHANGED_ROW_IN_ROWS = 10;
/**
 * The cost of a snapshot before its first row: its files are validated, and a new table is written and swapped for the old
 * one.
 */
export const SNAPSHOT_IN_ROWS = 10_000;
/** The rows on a full page of changes; also assumed for a version that does not state its number of rows. */
export const ROWS_PER_PAGE = 1_000;

/** Returns how many rows the changes of a version list. */
export function listedRows({ counts }: Version): number {
  return counts === null ? ROWS_PER_PAGE : counts.added + counts.changed + counts.removed;
}

export function changesCost(versions: readonly Version[]): number {
  return versions.reduce((sum, version) => {
    const rows = listedRows(version);
    const pages = Math.max(1, Math.ceil(rows / ROWS_PER_PAGE));
    return sum + pages * REQUEST_IN_ROWS + rows * CHANGED_ROW_IN_ROWS;
  }, 0);
}

/** The least cost of a snapshot of so many rows while its entry is unread: at least one file. */
function leastSnapshotCost(rows: number): number {
  return SNAPSHOT_IN_ROWS + REQUEST_IN_ROWS + rows;
}

/** Returns the cost of a snapshot, in rows. `otherwiseRows`: the number of rows assumed where the entry states none. */
export function snapshotCost({ rowCount, files }: ManifestEntry, otherwiseRows: number): number {
  return SNAPSHOT_IN_ROWS + files.length * REQUEST_IN_ROWS + (rowCount ?? otherwiseRows);
}
