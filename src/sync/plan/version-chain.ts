/**
 * How far changes lead a table along the chain of versions, and what stops them there. Pure.
 *
 * A walk goes on only where it is known to be right: a version that leaves out what it follows or which schema it has,
 * or a schema that is not known to have the table's columns still, stops it, and the snapshot takes over.
 */

import type { ContractViolationError } from '../../model/errors.ts';
import type { ColumnType, Schema, Version } from '../../model/records.ts';
import type { ObservedColumn } from '../../model/write-jobs.ts';
import { listedRows } from './paths.ts';
import type { History } from './step.ts';
import { absentSchema, findSchema, recordOf } from './versions.ts';

/** Versions that are folded and committed at once. */
export const MAX_VERSIONS_AT_ONCE = 1_000;
/** Rows that the versions of one step list in all, by their counts. A version that lists more is a step of its own. */
export const MAX_ROWS_AT_ONCE = 2_000_000;

/** Types of which one value can be written as several, or several as one: a change would miss its row, or replace another. */
const INEXACT_KEYS: ReadonlySet<unknown> = new Set<ColumnType>(['json', 'number', 'geometry']);

/** What a walk starts from: a live table (`HeldDataset` is one), or what a snapshot would become. */
interface ChainStart {
  readonly version: number;
  /** When that version was published; null where it is not known. */
  readonly publishedAt: Date | null;
  readonly schemaVersion: string | null;
  readonly keyColumns: readonly string[];
  readonly columns: readonly (Pick<ObservedColumn, 'name'> & Pick<Schema['columns'][number], 'type'>)[];
}

/** What decides how far changes lead. */
export interface ChainConstraints {
  readonly history: History;
  /** Versions whose changes cannot be used, with why: a clause about them. */
  readonly inapplicable: ReadonlyMap<number, string>;
  readonly schemaChanges: 'reload' | 'alter';
}

export interface PossiblePath {
  /** Oldest first: each follows the one before it, the first follows the start. */
  readonly path: readonly Version[];
  /** Null: the path leads to the newest version of the list. */
  readonly stop: Stop | null;
}

/** The first version that changes do not lead to. */
interface Stop {
  readonly version: number;
  /** For people. */
  readonly why: string;
  /** Set where it is the service's fault: it names a schema that it does not list. */
  readonly violation: ContractViolationError | null;
}

export function followChain(start: ChainStart, constraints: ChainConstraints): PossiblePath {
  const path: Version[] = [];
  let at = start;
  const after = versionsAfter(start.version, constraints.history);
  const [first] = after;
  const why = whyNotItsStart(start, constraints.history);
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

/** The version that the walk ends at. */
export function reachOf(start: ChainStart, { path }: PossiblePath): number {
  return path.at(-1)?.version ?? start.version;
}

/** As much of a path as is committed at once, never nothing of one that leads on; the next plan goes on from there. */
export function cutToLimits(path: readonly Version[]): readonly Version[] {
  let rows = 0;
  const tooMuch = path.findIndex((version, index) => {
    rows += listedRows(version);
    return index === MAX_VERSIONS_AT_ONCE || (index > 0 && rows > MAX_ROWS_AT_ONCE);
  });
  return tooMuch === -1 ? path : path.slice(0, tooMuch);
}

/** The newest version that was published; null where the list names none. */
export function headOf({ versions }: History): Version | null {
  return versions.reduce<Version | null>(
    (head, version) => (head === null || version.version > head.version ? version : head),
    null,
  );
}

type Published = Pick<ChainStart, 'version' | 'publishedAt'>;

/**
 * Why the versions that follow may be those of another chain: their changes would be applied to what they are not of. Null:
 * the list names `start`.
 */
function whyNotItsStart({ version, publishedAt }: Published, history: History): string | null {
  const record = recordOf(version, history);
  if (record === null) return `the list of versions does not name version ${version}, which the table has`;
  const listed = record.publishedAt;
  const isAnother = publishedAt !== null && listed !== null && publishedAt.getTime() !== listed.getTime();
  return isAnother ? `version ${version} was published anew, and is not the one that the table has` : null;
}

/** Oldest first. A list that moved while it was paged may name a version twice. */
function versionsAfter(start: number, { versions }: History): readonly Version[] {
  const after = new Map(
    versions.filter(({ version }) => version > start).map((version) => [version.version, version]),
  );
  return [...after.values()].sort((left, right) => left.version - right.version);
}

/** What the table is at `version`, or what stops it before. */
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
  const schema = findSchema(schemaVersion, constraints.history);
  if (schema === null) {
    const violation = absentSchema(schemaVersion, version);
    return { version: version.version, why: `${name} has a schema that is not listed`, violation };
  }
  const incident = schemaObstacle(at, schema, constraints);
  if (incident !== null) return stop(`${name} ${incident}`);
  return { ...columnsOf(schema), version: version.version, publishedAt: version.publishedAt };
}

/** Null where a row can be found by the key of a change. */
function whyKeyless({ keyColumns, columns }: ChainStart): string | null {
  if (keyColumns.length === 0) return 'the table has no key columns';
  const inexact = columns.find(({ name, type }) => keyColumns.includes(name) && INEXACT_KEYS.has(type));
  if (inexact === undefined) return null;
  return `the table has the key column ${JSON.stringify(inexact.name)} of type ${inexact.type}`;
}

/** What a table of this schema is, as far as the schema tells: columns that no file has are left out of tables. */
export function columnsOf(schema: Schema): Omit<ChainStart, 'version' | 'publishedAt'> {
  const { schemaVersion, keyColumns, columns, envelopeColumns } = schema;
  return { schemaVersion, keyColumns, columns: [...columns, ...envelopeColumns] };
}

/** Null where changes of this schema can be applied to the table. */
function schemaObstacle(at: ChainStart, schema: Schema, constraints: ChainConstraints): string | null {
  if (!hasSameKeys(at, schema)) return 'has other key columns';
  if (schema.schemaVersion === at.schemaVersion) return null;
  if (constraints.schemaChanges === 'reload') return `has another schema, "${schema.schemaVersion}"`;
  if (!isAdditive(at.schemaVersion, schema, constraints.history) || !hasAllColumns(at, schema)) {
    return `has another schema, "${schema.schemaVersion}", which does more than add columns`;
  }
  return null;
}

function hasSameKeys({ keyColumns }: ChainStart, schema: Schema): boolean {
  const keys = new Set(keyColumns);
  const named = new Set(schema.keyColumns);
  return named.size === keys.size && [...named].every((name) => keys.has(name));
}

/** The service's word for every schema on the way from `from`; where it is silent, the answer is no. */
function isAdditive(from: string | null, to: Schema, history: History): boolean {
  let at: Schema | null = to;
  // The limit keeps schemas that name one another in a circle from being followed for ever.
  for (let chainSteps = 0; chainSteps < history.schemas.length && at !== null; chainSteps++) {
    const change: Schema['changeFromPrevious'] = at.changeFromPrevious;
    if (change === null || change.kind !== 'additive' || change.keyColumnsChanged) return false;
    if (change.previousSchemaVersion === null) return false;
    if (change.previousSchemaVersion === from) return true;
    at = findSchema(change.previousSchemaVersion, history);
  }
  return false;
}

/** The service's word is checked as far as it can be: every column of the table is there still, with its type. */
function hasAllColumns({ columns }: ChainStart, schema: Schema): boolean {
  const types = new Map([...schema.columns, ...schema.envelopeColumns].map(({ name, type }) => [name, type]));
  return columns.every(({ name, type }) => types.get(name) === type);
}
