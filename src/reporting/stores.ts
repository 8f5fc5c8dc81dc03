/** Reads the checkpoint and the mirror for a report. Both are opened for reading only, beside a running instance too. */

import type {
  CheckpointReader,
  Failure,
  Followed,
  HookRecord,
  Suspension,
} from '../checkpoint/checkpoint.ts';
import { openCheckpointReader } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import type { ObservedState } from '../destination/destination.ts';
import { type MirrorReader, openReader, type ReaderOptions } from '../destination/duckdb/reader.ts';
import type { Absence } from '../model/absence.ts';
import type { RememberedContract } from '../model/contract.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { BusyError, ConfigurationError, StorageError } from '../model/errors.ts';

export interface CheckpointContent {
  readonly followed: ReadonlyMap<string, Followed>;
  readonly forgotten: readonly string[];
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  readonly absences: readonly Absence[];
  readonly suspensions: readonly Suspension[];
  readonly failures: ReadonlyMap<string, Failure>;
  readonly hook: HookRecord;
  readonly contract: RememberedContract;
}

export const NO_CHECKPOINT: CheckpointContent = {
  followed: new Map(),
  forgotten: [],
  desiredStates: new Map(),
  absences: [],
  suspensions: [],
  failures: new Map(),
  hook: { reported: null, reportedAt: null, failure: null },
  contract: { manifestPath: null, newerThanParameter: null },
};

export function contentOf(reader: CheckpointReader): CheckpointContent {
  return {
    followed: reader.followed(),
    forgotten: reader.forgotten(),
    desiredStates: reader.desiredStates(),
    absences: reader.absences(),
    suspensions: reader.suspensions(),
    failures: reader.failures(),
    hook: reader.hook(),
    contract: reader.rememberedContract(),
  };
}

/** Null where there is no checkpoint; none is made. @throws StorageError where it cannot be read. */
export function readCheckpoint(
  { checkpoint: { path } }: LocalConfiguration,
  uid: number | null,
): CheckpointContent | null {
  const reader = openCheckpointReader({ path, uid });
  if (reader === null) return null;
  try {
    return contentOf(reader);
  } finally {
    reader.close();
  }
}

export interface MirrorContent extends ObservedState {
  /** The unused bytes of the file; null where the file was not opened for this report. */
  readonly freeBytes: number | null;
}

/** Null: there is no mirror. 'unread': the running daemon has not read it yet. An error: it cannot be read. */
export type MirrorSeen = MirrorContent | null | 'unread' | Error;

export type MirrorPlace = Pick<ReaderOptions, 'clock' | 'random' | 'signal'>;

export function readerOptions(
  { destination: { path }, lock: { waitMs }, duckdb }: LocalConfiguration,
  { clock, random, signal }: MirrorPlace,
): ReaderOptions {
  return { path, waitMs, ...duckdb, clock, random, ...(signal === undefined ? {} : { signal }) };
}

/** Null where there is no mirror. @throws as `openReader` */
export async function readMirror(
  options: ReaderOptions,
): Promise<Awaited<ReturnType<typeof mirrorContent>> | null> {
  const reader = await openReader(options);
  return reader === null ? null : closing(reader, mirrorContent);
}

/** Returns the result of `use` and closes the mirror. @throws StorageError also where there is no mirror. */
export async function usingMirror<T>(
  configuration: LocalConfiguration,
  place: MirrorPlace,
  use: (reader: MirrorReader) => Promise<T>,
): Promise<T> {
  const options = readerOptions(configuration, place);
  const reader = await openReader(options);
  if (reader !== null) return closing(reader, use);
  throw new StorageError(`There is no mirror at ${options.path}.`, { hint: 'Make it with: feed-sync once' });
}

async function closing<T>(reader: MirrorReader, use: (reader: MirrorReader) => Promise<T>): Promise<T> {
  try {
    return await use(reader);
  } finally {
    await reader.close();
  }
}

/** `format`: of the catalog; null where nothing was written yet. */
export async function mirrorContent(reader: MirrorReader) {
  const observed = await reader.observed();
  return { ...observed, freeBytes: await reader.freeBytes(), format: await reader.format() };
}

/** An operator waits for a report of the mirror less long than a commit waits for the mirror. */
const MAX_WAIT_MS = 5_000;

/** Reads the mirror for a report that is useful without the mirror, too. */
export async function seeMirror(configuration: LocalConfiguration, place: MirrorPlace): Promise<MirrorSeen> {
  const options = readerOptions(configuration, place);
  try {
    return await readMirror({ ...options, waitMs: Math.min(options.waitMs, MAX_WAIT_MS) });
  } catch (error) {
    const isReported =
      error instanceof BusyError || error instanceof StorageError || error instanceof ConfigurationError;
    if (isReported) return error;
    throw error;
  }
}

/** Null where the mirror could not be read. */
export function observedOf(mirror: MirrorSeen): Pick<ObservedState, 'service' | 'datasets'> | null {
  if (mirror === null) return { service: null, datasets: new Map() };
  return mirror === 'unread' || mirror instanceof Error ? null : mirror;
}
