/**
 * Carries out an apply: fetch the changes of the versions ahead (fetch-changes.ts), let the destination read those that
 * have come while others follow, and hand them over as one unit. Invariant: when this ends, in whatever way, nothing
 * writes into the folders any more, and they are gone.
 */

import type { ChangesUnit, HeldDataset, VersionChanges } from '../../destination/destination.ts';
import { present } from '../../lib/assert.ts';
import { UnusableChangesError } from '../../model/errors.ts';
import type { Schema } from '../../model/schema.ts';
import type { Version } from '../../model/version.ts';
import type { History } from '../plan/history.ts';
import { schemaNamed } from '../plan/schemas.ts';
import { type Fetched, fetchChanges } from './fetch-changes.ts';
import { commitUnit, type Tools, type WorkOutcome } from './work.ts';

export interface Application {
  readonly held: HeldDataset;
  readonly history: History;
  /** Oldest first, never empty. */
  readonly versions: readonly Version[];
  /** What `held` has after the last of them. */
  readonly schema: Schema;
  readonly addsColumns: boolean;
  /** Once so much is spooled, no further version is begun: the path is cut there, and the next plan goes on. */
  readonly maxSpooledBytes: number;
  /** What is staged of the path never has more bytes: the path is cut before the version that does not fit. */
  readonly maxStagedBytes: number;
}

/**
 * `unusable` where the service recorded none, where they contradict the version's record, or where they do not prove;
 * `oversized` where the first version alone does not fit.
 */
export async function applyChanges(application: Application, tools: Tools): Promise<WorkOutcome> {
  const { held } = application;
  const { parts, staging } = tools;
  const startedMs = parts.clock.monotonicMs();
  try {
    const { fetched, unusable, oversized, ahead } = await fetchChanges(application, tools, (some) =>
      parts.destination.readAhead(changesUnit(application, some, application.schema)),
    );
    if (oversized !== null) return { kind: 'oversized', record: oversized };
    if (unusable.size > 0) return { kind: 'unusable', versions: unusable };
    const bytes = fetched.reduce((sum, one) => sum + one.bytes, 0);
    const unit = { ...changesUnit(application, fetched, schemaAfter(application, fetched)), ahead };
    return await commitUnit(unit, { versions: fetched.length, bytes, startedMs }, tools);
  } catch (error) {
    if (!(error instanceof UnusableChangesError)) throw error;
    return { kind: 'unusable', versions: new Map([[error.version, error.why]]) };
  } finally {
    await staging.discardChanges(held.datasetId);
  }
}

function schemaAfter({ versions, schema, history }: Application, fetched: readonly Fetched[]): Schema {
  if (fetched.length === versions.length) return schema;
  const last = lastOf(fetched);
  return schemaNamed(present(last.schemaVersion, 'a walk stops before a version without one'), last, history);
}

function lastOf(fetched: readonly Fetched[]): Version {
  return present(fetched.at(-1), 'the first version is always fetched').record;
}

function changesUnit(
  { held, addsColumns }: Application,
  fetched: readonly Fetched[],
  schema: Schema,
): ChangesUnit {
  const last = lastOf(fetched);
  return {
    kind: 'changes',
    datasetId: held.datasetId,
    version: last.version,
    publishedAt: last.publishedAt,
    schema,
    addsColumns: addsColumns && schema.schemaVersion !== held.schemaVersion,
    versions: fetched.map(
      ({ record: { version, counts, rowCount }, pages }): VersionChanges => ({
        version,
        pages,
        counts,
        rowCount,
      }),
    ),
    plannedFrom: held,
  };
}
