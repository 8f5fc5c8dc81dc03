/** Compares the table's version, announced versions and manifest entries with the list of versions. Pure. */

import type { AbsenceSubject } from '../../model/absence.ts';
import { announcedVersions, type DesiredState } from '../../model/desired-state.ts';
import { ContractViolationError } from '../../model/errors.ts';
import { type ListedEntry, type ManifestEntry, timeOf } from '../../model/manifest.ts';
import type { Schema, Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { DifferingCounts, Metadata } from './step.ts';

/** How a list of versions names the version of a table. */
type Naming =
  /** The list names this very version. */
  | 'named'
  /** The list names another version under the same number. */
  | 'another'
  /** The list lacks the version and names only lower ones. */
  | 'absent'
  /** The list lacks the version and implies nothing more. */
  | 'unknown';

type Published = Pick<ObservedTable, 'version' | 'publishedAt' | 'rowCount'>;

/**
 * Judges how the list names the table's version. Where the list names higher versions than the table's but not its own, the version chain
 * decides what follows.
 */
export function namingOf(table: Published, metadata: Metadata): Naming {
  const record = recordOf(table.version, metadata);
  if (record !== null) {
    const isAnotherTime =
      table.publishedAt !== null &&
      record.publishedAt !== null &&
      table.publishedAt.getTime() !== record.publishedAt.getTime();
    const isAnotherCount = record.rowCount !== null && record.rowCount !== table.rowCount;
    return isAnotherTime || isAnotherCount ? 'another' : 'named';
  }
  const head = headOf(metadata);
  return head !== null && head.version < table.version ? 'absent' : 'unknown';
}

/** Returns whether the list was read far enough back to show that the table's version is absent. */
export function mayLackTable(table: Published, metadata: Metadata): boolean {
  return recordOf(table.version, metadata) === null && (headOf(metadata)?.version ?? -1) < table.version;
}

/** Returns the expected versions that the list lacks while it names only lower ones: the table's own, and announced ones. */
export function absentVersions(
  table: Published | null,
  desired: DesiredState,
  metadata: Metadata,
): readonly AbsenceSubject[] {
  const head = headOf(metadata);
  if (head === null) return [];
  const expected = [...(table === null ? [] : [table.version]), ...announcedVersions(desired)];
  const above = expected.filter((version) => version > head.version);
  return [...new Set(above)].map((version) => ({ kind: 'version', datasetId: desired.datasetId, version }));
}

/**
 * Judges whether the list confirms an entry: the list, read after the entry, names its version, with the same number of rows where both
 * state one, and as published before the manifest was read. `unread`: no list was read since. `unnamed`: the entry belongs to another time
 * of the dataset, or the list lags.
 */
export function confirmationOf(
  { entry, readAt }: Pick<ListedEntry, 'entry' | 'readAt'>,
  metadata: Metadata,
): 'named' | 'unnamed' | 'unread' {
  if (!metadata.entriesBefore.has(entry)) return 'unread';
  const record = recordOf(entry.version, metadata);
  if (record === null) return 'unnamed';
  const { publishedAt } = record;
  const isPublishedBefore = publishedAt === null || publishedAt < timeOf(readAt);
  return isPublishedBefore && differingCounts(entry, metadata) === null ? 'named' : 'unnamed';
}

/**
 * Returns the row counts in which entry and list differ. Null: the list names the version with the same number of rows or not at all, or
 * one of the two states no number.
 */
export function differingCounts(
  { version, rowCount: entryRows }: ManifestEntry,
  metadata: Metadata,
): DifferingCounts | null {
  const listedRows = recordOf(version, metadata)?.rowCount ?? null;
  if (listedRows === null || entryRows === null || listedRows === entryRows) return null;
  return { version, entryRows, listedRows };
}

/**
 * Returns whether the version of an entry was published again between two lists. The entry does not say which of the two
 * contents it has where service time, in whole seconds, cannot distinguish them.
 */
export function isAnyReplaced(entries: readonly ManifestEntry[], before: Metadata, after: Metadata): boolean {
  return entries.some(({ version }) => {
    const was = publishedAtOf(version, before);
    const is = publishedAtOf(version, after);
    return was !== null && is !== null && was.getTime() !== is.getTime();
  });
}

export function recordOf(version: number, { versions }: Metadata): Version | null {
  return versions.find((candidate) => candidate.version === version) ?? null;
}

/** Returns when a version was published; null where the list does not name the version, or does not state its time. */
export function publishedAtOf(version: number, metadata: Metadata): Date | null {
  return recordOf(version, metadata)?.publishedAt ?? null;
}

export function findSchema(schemaVersion: string, { schemas }: Metadata): Schema | null {
  return schemas.find((candidate) => candidate.schemaVersion === schemaVersion) ?? null;
}

/**
 * Returns the schema of a snapshot: the schema named by its entry or by the version's record; where neither names one,
 * the newest schema that had begun by then.
 * @throws ContractViolationError where the list of schemas lacks it.
 */
export function schemaOfSnapshot(entry: ManifestEntry, metadata: Metadata): Schema {
  const schema = findSchemaOfSnapshot(entry, metadata);
  if (schema === null) throw absentSchema(schemaVersionNamed(entry, metadata), entry);
  return schema;
}

/** Returns the same schema as `schemaOfSnapshot`; null where the list of schemas lacks it. */
export function findSchemaOfSnapshot(entry: ManifestEntry, metadata: Metadata): Schema | null {
  const named = schemaVersionNamed(entry, metadata);
  return named === null ? newestBegunBy(entry.version, metadata) : findSchema(named, metadata);
}

/**
 * Returns the schema version expected of a table at `version`: the one its record names, else the newest schema that
 * had begun by then. Null where the service does not say.
 */
export function schemaVersionAt(version: number, metadata: Metadata): string | null {
  const record = recordOf(version, metadata);
  if (record === null) return null;
  if (record.schemaVersion !== null) return record.schemaVersion;
  const begun = newestBegunBy(version, metadata);
  // A schema that does not state when it began may have begun after this version.
  return begun === null || begun.firstVersion === null ? null : begun.schemaVersion;
}

/** Returns the same schema as `findSchema`. @throws ContractViolationError where the list of schemas lacks it. */
export function schemaNamed(
  schemaVersion: string,
  of: Pick<Version, 'datasetId' | 'version'>,
  metadata: Metadata,
): Schema {
  const schema = findSchema(schemaVersion, metadata);
  if (schema === null) throw absentSchema(schemaVersion, of);
  return schema;
}

/**
 * Returns the error for a schema that the service names and does not list. `schemaVersion` null: the service names
 * none, and none had begun by then.
 */
export function absentSchema(
  schemaVersion: string | null,
  { datasetId, version }: Pick<Version, 'datasetId' | 'version'>,
): ContractViolationError {
  const which = schemaVersion === null ? 'of' : `"${schemaVersion}" of`;
  return new ContractViolationError(
    `The schema ${which} version ${version} of dataset ${datasetId} is not in the service's list of schemas.`,
    'schemas',
    { hint: 'The next catch-up asks again. If the answer stays the same, report it to the service.' },
  );
}

function schemaVersionNamed(entry: ManifestEntry, metadata: Metadata): string | null {
  return entry.schemaVersion ?? recordOf(entry.version, metadata)?.schemaVersion ?? null;
}

function newestBegunBy(version: number, { schemas }: Metadata): Schema | null {
  return schemas.find(({ firstVersion }) => firstVersion === null || firstVersion <= version) ?? null;
}

/** Returns the newest published version; null where the list names none. */
export function headOf({ versions }: Metadata): Version | null {
  return versions.reduce<Version | null>(
    (head, version) => (head === null || version.version > head.version ? version : head),
    null,
  );
}
