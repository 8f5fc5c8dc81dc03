/**
 * Which schema a version or a snapshot has. Who loads and who asks whether the table has the right schema must give the
 * same answer, or a table would be loaded again and again: so it is given here alone. Pure.
 */

import { ContractViolationError } from '../model/errors.ts';
import type { ManifestEntry } from '../model/manifest.ts';
import type { Schema } from '../model/schema.ts';
import type { Version } from '../model/version.ts';
import type { History } from './history.ts';

export function recordOf(version: number, { versions }: History): Version | null {
  return versions.find((candidate) => candidate.version === version) ?? null;
}

/**
 * The schema that a version's record names. @throws ContractViolationError where the list of schemas lacks it.
 */
export function schemaNamed(schemaVersion: string, { datasetId, version }: Of, { schemas }: History): Schema {
  const schema = schemas.find((candidate) => candidate.schemaVersion === schemaVersion);
  if (schema !== undefined) return schema;
  throw absentFromList(`"${schemaVersion}" of version ${version}`, datasetId);
}

/**
 * The schema of a snapshot: the one that its entry or the version's record names; where neither does, the newest that
 * had begun by then. @throws ContractViolationError where the list of schemas lacks it.
 */
export function schemaOfSnapshot(entry: ManifestEntry, history: History): Schema {
  const named = entry.schemaVersion ?? recordOf(entry.version, history)?.schemaVersion ?? null;
  if (named !== null) return schemaNamed(named, entry, history);
  const begun = newestBegunBy(entry.version, history);
  if (begun === null) throw absentFromList(`of version ${entry.version}`, entry.datasetId);
  return begun;
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

/** Of what: a version's record or a manifest entry. */
interface Of {
  readonly datasetId: string;
  readonly version: number;
}

function newestBegunBy(version: number, { schemas }: History): Schema | null {
  return schemas.find(({ firstVersion }) => firstVersion === null || firstVersion <= version) ?? null;
}

function absentFromList(which: string, datasetId: string): ContractViolationError {
  return new ContractViolationError(
    `The schema ${which} of dataset ${datasetId} is not in the service's list of schemas.`,
    'schemas',
    { hint: 'It is asked for again at the next catch-up. If it stays so, tell the service.' },
  );
}
