/**
 * Carries out an apply: fetch the changes of the versions ahead, several at once, spool them, let the destination read
 * those that have come while others follow, and hand them over as one unit. Invariant: when this ends, in whatever way,
 * nothing writes into the folders any more, and they are gone.
 */

import pLimit from 'p-limit';
import type { ChangesUnit, HeldDataset, ReadAhead, VersionChanges } from '../../destination/destination.ts';
import type { Changes } from '../../feed/feed.ts';
import { present } from '../../lib/assert.ts';
import { InterruptedError, UnusableChangesError } from '../../model/errors.ts';
import type { Schema } from '../../model/schema.ts';
import type { Version } from '../../model/version.ts';
import type { History } from '../plan/history.ts';
import { schemaNamed } from '../plan/schemas.ts';
import { ReadingAhead } from './reading-ahead.ts';
import { commitUnit, type Tools, type WorkOutcome } from './work.ts';

/** Versions whose changes are fetched at once, over all datasets: enough to keep a service busy that is far away. */
export const VERSIONS_AT_ONCE = 8;

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
}

/** `unusable` where the service recorded none, where they contradict the version's record, or where they do not prove. */
export async function applyChanges(application: Application, tools: Tools): Promise<WorkOutcome> {
  const { held } = application;
  const { parts, staging } = tools;
  const startedMs = parts.clock.monotonicMs();
  try {
    const { fetched, unusable, ahead } = await fetchAhead(application, tools);
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

interface Fetched {
  readonly record: Version;
  readonly pages: readonly string[];
  readonly bytes: number;
}

interface Ahead {
  /** From the first version on, without a gap; all of them unless the limit of spooled bytes cut the path. */
  readonly fetched: readonly Fetched[];
  readonly unusable: ReadonlyMap<number, string>;
  readonly ahead: readonly ReadAhead[];
}

/** Nothing more is begun once one cannot be used or failed; the first failure is thrown when the others have ended. */
async function fetchAhead(application: Application, tools: Tools): Promise<Ahead> {
  const { versions, maxSpooledBytes } = application;
  const others = new AbortController();
  const signal = AbortSignal.any([tools.signal, others.signal]);
  const fetched = new Map<number, Fetched>();
  const unusable = new Map<number, string>();
  const failures: unknown[] = [];
  const reading = new ReadingAhead<Fetched>(async (some) =>
    tools.parts.destination.readAhead(changesUnit(application, some, application.schema)),
  );
  let spooledBytes = 0;
  const spool = async (record: Version, position: number): Promise<void> => {
    if (failures.length > 0 || unusable.size > 0 || spooledBytes >= maxSpooledBytes) return;
    try {
      const changes = await fetchOne(record, tools, signal);
      const why = whyUnusable(changes, record);
      if (why !== null) unusable.set(record.version, why);
      else if (changes.recorded) {
        spooledBytes += changes.bytes;
        const one = { record, pages: changes.pages, bytes: changes.bytes };
        fetched.set(record.version, one);
        reading.arrived(position, one);
      }
    } catch (error) {
      failures.push(error);
      others.abort(new InterruptedError('The changes of another version could not be fetched.'));
    }
  };
  // Only so many wait for their turn at once: a long backlog of one dataset is not fetched before all others.
  await pLimit(VERSIONS_AT_ONCE).map(versions, (record, position) =>
    tools.fetching(() => spool(record, position)),
  );
  if (failures.length > 0 || unusable.size > 0) reading.stop();
  const ahead = await reading.end();
  if (failures.length > 0) throw failures[0];
  return { fetched: withoutGap(versions, fetched), unusable, ahead };
}

async function fetchOne(
  { datasetId, version }: Version,
  { parts, staging }: Tools,
  signal: AbortSignal,
): Promise<Changes> {
  signal.throwIfAborted();
  const directory = await staging.folderOfChanges(datasetId, version);
  const onBytes = (bytes: number): void => parts.progress.downloaded(bytes, datasetId);
  return parts.feed.changes({ datasetId, version, directory, onBytes }, signal);
}

/** What the pages leave out, the record says. Null: they can be used, as far as their envelope tells. */
function whyUnusable(changes: Changes, { previousVersion, schemaVersion }: Version): string | null {
  if (!changes.recorded) return changes.why;
  if (changes.previousVersion !== null && changes.previousVersion !== previousVersion) {
    return `they start from version ${changes.previousVersion}, and the list of versions says ${previousVersion}`;
  }
  if (changes.schemaVersion !== null && changes.schemaVersion !== schemaVersion) {
    return `they have the schema "${changes.schemaVersion}", and the list of versions says "${schemaVersion}"`;
  }
  return null;
}

function withoutGap(versions: readonly Version[], fetched: ReadonlyMap<number, Fetched>): readonly Fetched[] {
  const ahead: Fetched[] = [];
  for (const { version } of versions) {
    const one = fetched.get(version);
    if (one === undefined) break;
    ahead.push(one);
  }
  return ahead;
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
