/**
 * Carries out an apply: fetch the changes of the versions ahead, several at once, spool them, and hand them over as
 * one unit. Invariant: when this ends, in whatever way, nothing writes into the folders any more, and they are gone.
 */

import pLimit from 'p-limit';
import type { ChangesUnit, HeldDataset, VersionChanges } from '../../destination/destination.ts';
import type { Changes } from '../../feed/feed.ts';
import { present } from '../../lib/assert.ts';
import { InterruptedError, UnusableChangesError } from '../../model/errors.ts';
import type { Schema } from '../../model/schema.ts';
import type { Version } from '../../model/version.ts';
import type { History } from '../plan/history.ts';
import { schemaNamed } from '../plan/schemas.ts';
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
    const { fetched, unusable } = await fetchAhead(application, tools);
    if (unusable.size > 0) return { kind: 'unusable', versions: unusable };
    const bytes = fetched.reduce((sum, one) => sum + one.bytes, 0);
    const unit = changesUnit(application, fetched);
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
}

/** Nothing more is begun once one cannot be used or failed; the first failure is thrown when the others have ended. */
async function fetchAhead({ versions, maxSpooledBytes }: Application, tools: Tools): Promise<Ahead> {
  const others = new AbortController();
  const signal = AbortSignal.any([tools.signal, others.signal]);
  const fetched = new Map<number, Fetched>();
  const unusable = new Map<number, string>();
  const failures: unknown[] = [];
  let spooledBytes = 0;
  const spool = async (record: Version): Promise<void> => {
    if (failures.length > 0 || unusable.size > 0 || spooledBytes >= maxSpooledBytes) return;
    try {
      const changes = await fetchOne(record, tools, signal);
      const why = whyUnusable(changes, record);
      if (why !== null) unusable.set(record.version, why);
      else if (changes.recorded) {
        spooledBytes += changes.bytes;
        fetched.set(record.version, { record, pages: changes.pages, bytes: changes.bytes });
      }
    } catch (error) {
      failures.push(error);
      others.abort(new InterruptedError('The changes of another version could not be fetched.'));
    }
  };
  // Only so many wait for their turn at once: a long backlog of one dataset is not fetched before all others.
  await pLimit(VERSIONS_AT_ONCE).map(versions, (record) => tools.fetching(() => spool(record)));
  if (failures.length > 0) throw failures[0];
  return { fetched: withoutGap(versions, fetched), unusable };
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

function changesUnit(application: Application, fetched: readonly Fetched[]): ChangesUnit {
  const { held, versions, history } = application;
  const { record: last } = present(fetched.at(-1), 'the first version is always fetched');
  const isWhole = fetched.length === versions.length;
  const schema = isWhole
    ? application.schema
    : schemaNamed(present(last.schemaVersion, 'a walk stops before a version without one'), last, history);
  return {
    kind: 'changes',
    datasetId: held.datasetId,
    version: last.version,
    publishedAt: last.publishedAt,
    schema,
    addsColumns: application.addsColumns && schema.schemaVersion !== held.schemaVersion,
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
