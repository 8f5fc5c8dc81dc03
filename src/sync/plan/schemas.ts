/**
 * Which schema a version or a snapshot has. Who loads and who asks whether the table has the right schema must give the
 * same answer, or a table would be loaded again and again: so it is given here alone. Pure.
 */

import { ContractViolationError } from '../../model/errors.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import type { Schema } from '../../model/schema.ts';
import type { Version } from '../../model/version.ts';
import type { History } from './history.ts';

export function recordOf(version: number, { versions }: History): Version | null {
  return versions.find((candidate) => candidate.version === version) ?? null;
}

/** Null where the list does not name the version, or not when it was published. */
export function publishedAtOf(version: number, history: History): Date | null {
  return recordOf(version, history)?.publishedAt ?? null;
}

export function findSchema(schemaVersion: string, { schemas }: History): Schema | null {
  return schemas.find((candidate) => candidate.schemaVersion === schemaVersion) ?? null;
}

/**
 * The schema of a snapshot: the one that its entry or the version's record names; where neither does, the newest that
 * had begun by then. @throws ContractViolationError where the list of schemas lacks it.
 */
export function schemaOfSnapshot(entry: ManifestEntry, history: History): Schema {
  const schema = findSchemaOfSnapshot(entry, history);
  if (schema === null) throw absentSchema(schemaVersionNamed(entry, history), entry);
  return schema;
}

/** As `schemaOfSnapshot`; null where the list of schemas lacks it. */
export function findSchemaOfSnapshot(entry: ManifestEntry, history: History): Schema | null {
  const named = schemaVersionNamed(entry, history);
  return named === null ? newestBegunBy(entry.version, history) : findSchema(named, history);
}

/**
 * The schema version that a table at `version` should have: the one its record names, else that of the newest schema
 * that began by then. Null where the service does not say.
 */
export function schemaVersionAt(version: number, history: History): string | null {
  const record = recordOf(version, history);
  if (record === null) return null;
  if (record.schemaVersion !== null) return record.schemaVersion;
  const begun = newestBegunBy(version, history);
  // A schema that does not say when it began may have begun after this version.
  return begun === null || begun.firstVersion === null ? null : begun.schemaVersion;
}

/** As `findSchema`. @throws ContractViolationError where the list of schemas lacks it. */
export function schemaNamed(
  schemaVersion: string,
  of: Pick<Version, 'datasetId' | 'version'>,
  history: History,
): Schema {
  const schema = findSchema(schemaVersion, history);
  if (schema === null) throw absentSchema(schemaVersion, of);
  return schema;
}

/** The service names a schema that it does not list. `schemaVersion` null: it names none, and none had begun by then. */
export function absentSchema(
  schemaVersion: string | null,
  { datasetId, version }: Pick<Version, 'datasetId' | 'version'>,
): ContractViolationError {
  const which = schemaVersion === null ? 'of' : `"${schemaVersion}" of`;
  return new ContractViolationError(
    `The schema ${which} version ${version} of dataset ${datasetId} is not in the service's list of schemas.`,
    'schemas',
    { hint: 'It is asked for again at the next catch-up. If it stays so, tell the service.' },
  );
}

function schemaVersionNamed(entry: ManifestEntry, history: History): string | null {
  return entry.schemaVersion ?? recordOf(entry.version, history)?.schemaVersion ?? null;
}

function newestBegunBy(version: number, { schemas }: History): Schema | null {
  return schemas.find(({ firstVersion }) => firstVersion === null || firstVersion <= version) ?? null;
}
