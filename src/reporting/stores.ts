/**
 * Reads the checkpoint and the mirror for a report. Both are opened for reading only, beside a running instance too. The
 * file of the mirror is also examined from outside, without opening it: its size and its locks.
 */

import { statSync } from 'node:fs';
import type {
  CheckpointReader,
  Failure,
  Followed,
  HookRecord,
  Mention,
  Poll,
  Suspension,
} from '../checkpoint/checkpoint.ts';
import { openCheckpointReader } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import type { ReadFile } from '../configuration/file.ts';
import type { RecordedUnion } from '../destination/catalog/unions.ts';
import type { ObservedState } from '../destination/destination.ts';
import { type MirrorReader, openReader, type ReaderOptions } from '../destination/duckdb/reader.ts';
import type { DestinationReader, PastLog } from '../destination/reader.ts';
import type { Absence } from '../model/absence.ts';
import type { Candidate } from '../model/candidate.ts';
import type { RememberedContract } from '../model/contract.ts';
import type { DesiredState } from '../model/desired-state.ts';
import {
  BusyError,
  ConfigurationError,
  DestinationError,
  StorageError,
  UsageError,
} from '../model/errors.ts';
import { NEVER_SCRUBBED, type ScrubRecord } from '../model/scrub.ts';

export interface CheckpointContent {
  readonly followed: ReadonlyMap<string, Followed>;
  readonly polls: readonly Poll[];
  readonly forgotten: readonly string[];
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  readonly absences: readonly Absence[];
  readonly mentions: readonly Mention[];
  readonly suspensions: readonly Suspension[];
  readonly candidates: readonly Candidate[];
  readonly failures: ReadonlyMap<string, Failure>;
  readonly hook: HookRecord;
  readonly scrub: ScrubRecord;
  readonly contract: RememberedContract;
}

export const NO_CHECKPOINT: CheckpointContent = {
  followed: new Map(),
  polls: [],
  forgotten: [],
  desiredStates: new Map(),
  absences: [],
  mentions: [],
  suspensions: [],
  candidates: [],
  failures: new Map(),
  hook: { reported: null, reportedAt: null, failure: null },
  scrub: NEVER_SCRUBBED,
  contract: { manifestPath: null, newerThanParameter: null },
};

export function contentOf(reader: CheckpointReader): CheckpointContent {
  return {
    followed: reader.followed(),
    polls: reader.polls(),
    forgotten: reader.forgotten(),
    desiredStates: reader.desiredStates(),
    absences: reader.absences(),
    mentions: reader.mentions(),
    suspensions: reader.suspensions(),
    candidates: reader.candidates(),
    failures: reader.failures(),
    hook: reader.hook(),
    scrub: reader.scrub(),
    contract: reader.rememberedContract(),
  };
}

/** Reads the checkpoint; null where there is none, and none is made. @throws StorageError where it cannot be read. */
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
  /** The bytes of the tables of a database; null for a file, and where they were not counted for this report. */
  readonly bytes: number | null;
  /** The unused bytes of the file; null where the file was not opened for this report. */
  readonly freeBytes: number | null;
  /** The undo logs; null as above. */
  readonly pastLogs: readonly PastLog[] | null;
  /** The unions; null where they are not known. */
  readonly unions: readonly RecordedUnion[] | null;
  /** Names the instance that holds the lease of a database; null where none does, it is not known, or the mirror is a file. */
  readonly leaseHolder: string | null;
}

/** Returns the content of a mirror whose file is not opened for the report. */
export function contentWithoutFile(
  observed: ObservedState,
  unions: readonly RecordedUnion[] | null = null,
  leaseHolder: string | null = null,
): MirrorContent {
  return { ...observed, bytes: null, freeBytes: null, pastLogs: null, unions, leaseHolder };
}

/** The mirror as it was read. Null: there is no mirror. 'unread': the running daemon has not read it yet. An error: it cannot be read. */
export type MirrorSeen = MirrorContent | null | 'unread' | Error;

export type MirrorPlace = Pick<ReaderOptions, 'clock' | 'random' | 'signal' | 'log'>;

type MirrorSettings = Pick<LocalConfiguration, 'destination' | 'lock' | 'duckdb'>;

/** Opens the mirror, a file or a database. Null where there is none. `maxWaitMs`: for a writer that has the file open. */
async function openMirrorReader(
  configuration: MirrorSettings,
  place: MirrorPlace,
  maxWaitMs = Number.POSITIVE_INFINITY,
): Promise<DestinationReader | null> {
  const { postgres } = configuration.destination;
  if (postgres !== null) {
    // Loaded only where it is used, like the implementation of a command.
    const { openPostgresReader } = await import('../destination/postgres/reader.ts');
    return await openPostgresReader({ ...place, url: postgres.url });
  }
  const options = readerOptions(configuration, place);
  return await openReader({ ...options, waitMs: Math.min(options.waitMs, maxWaitMs) });
}

function readerOptions(
  { destination: { path }, lock: { waitMs }, duckdb }: MirrorSettings,
  { clock, random, signal, log }: MirrorPlace,
): ReaderOptions {
  const ending = signal === undefined ? {} : { signal };
  return { path, waitMs, ...duckdb, clock, random, ...ending, ...(log === undefined ? {} : { log }) };
}

/** Reads the mirror; null where there is none. @throws as `openReader` and `openPostgresReader` */
export async function readMirror(
  configuration: MirrorSettings,
  place: MirrorPlace,
  maxWaitMs?: number,
): Promise<Awaited<ReturnType<typeof mirrorContent>> | null> {
  const reader = await openMirrorReader(configuration, place, maxWaitMs);
  return reader === null ? null : closing(reader, mirrorContent);
}

/** Returns the result of `use` and closes the mirror. @throws StorageError also where there is no mirror. */
export async function usingMirror<T>(
  configuration: LocalConfiguration,
  place: MirrorPlace,
  use: (reader: DestinationReader) => Promise<T>,
): Promise<T> {
  const reader = await openMirrorReader(configuration, place);
  return closing(reader ?? noMirror(configuration), use);
}

/** Does the same for work that needs a file. @throws UsageError where the mirror is a database. */
export async function usingMirrorFile<T>(
  what: string,
  configuration: LocalConfiguration,
  place: MirrorPlace,
  use: (reader: MirrorReader) => Promise<T>,
  further: Pick<ReaderOptions, 'extensions' | 'folder'> = {},
): Promise<T> {
  refuseWithPostgres(what, configuration);
  const reader = await openReader({ ...readerOptions(configuration, place), ...further });
  return closing(reader ?? noMirror(configuration), use);
}

function noMirror({ destination }: LocalConfiguration): never {
  throw new StorageError(`There is no mirror yet at ${destination.place}.`, {
    code: 'mirror_missing',
    hint: 'Make it with: feed-sync once',
  });
}

/** Refuses an option that PostgreSQL does not have. `what` is a command with the option in question. @throws UsageError */
export function refuseWithPostgres(what: string, { destination }: LocalConfiguration): void {
  if (destination.postgres === null) return;
  const why = `it is for a mirror in a file, and this one is ${destination.place}`;
  throw new UsageError(`${what} is not available with PostgreSQL: ${why}.`, {
    hint: 'The guide lists what works with PostgreSQL.',
  });
}

async function closing<Reader extends DestinationReader, T>(
  reader: Reader,
  use: (reader: Reader) => Promise<T>,
): Promise<T> {
  try {
    return await use(reader);
  } finally {
    await reader.close();
  }
}

/** Reads the content of a mirror. `format`: of the catalog; null where nothing was written yet. */
export async function mirrorContent(reader: DestinationReader) {
  const observed = await reader.observed();
  const freeBytes = (await reader.freeBytes?.()) ?? null;
  const bytes = (await reader.bytes?.()) ?? null;
  const pastLogs = await reader.pastLogs();
  const unions = (await reader.unions?.()) ?? [];
  const leaseHolder = (await reader.holder?.()) ?? null;
  return { ...observed, bytes, freeBytes, pastLogs, unions, leaseHolder, format: await reader.format() };
}

/** A scrape of metrics waits no longer for a database. */
const MAX_COUNT_MS = 2_000;

/** Returns the bytes of the tables of a database; null for a file, and where the database does not say soon. */
export async function databaseBytes(
  configuration: MirrorSettings,
  place: MirrorPlace,
): Promise<number | null> {
  const isCounted = new AbortController();
  const count = async (): Promise<number | null> => {
    const reader = await openMirrorReader(configuration, place);
    return reader === null ? null : await closing(reader, async () => (await reader.bytes?.()) ?? null);
  };
  const late = place.clock.sleep(MAX_COUNT_MS, isCounted.signal).then(
    () => null,
    () => null,
  );
  try {
    return await Promise.race([count().catch(() => null), late]);
  } finally {
    isCounted.abort();
  }
}

/** An operator waits for a report of the mirror less long than a commit waits for the mirror. */
const MAX_WAIT_MS = 5_000;

/** Reads the mirror for a report that is useful without the mirror, too. */
export async function seeMirror(configuration: LocalConfiguration, place: MirrorPlace): Promise<MirrorSeen> {
  try {
    return await readMirror(configuration, place, MAX_WAIT_MS);
  } catch (error) {
    const isReported =
      error instanceof BusyError ||
      error instanceof StorageError ||
      error instanceof DestinationError ||
      error instanceof ConfigurationError;
    if (isReported) return error;
    throw error;
  }
}

/** Returns the observed state; null where the mirror could not be read. */
export function observedOf(mirror: MirrorSeen): Pick<ObservedState, 'service' | 'datasets'> | null {
  if (mirror === null) return { service: null, datasets: new Map() };
  return mirror === 'unread' || mirror instanceof Error ? null : mirror;
}

/** Compacting for less is not worth the time it takes. */
const LEAST_RECLAIMED_BYTES = 256_000_000;
/** A reload needs space for the old and the new table, and leaves up to half of the file free behind. */
const LEAST_FREE_SHARE = 0.5;

export interface MirrorSize {
  /** The size of the file and its log; 0 where there is no file, or it cannot be examined. */
  readonly bytes: number;
  /** The unused bytes of the file; null where they are not known. */
  readonly freeBytes: number | null;
}

export function isWorthCompacting({ bytes, freeBytes }: MirrorSize): boolean {
  return freeBytes !== null && freeBytes >= LEAST_RECLAIMED_BYTES && freeBytes > bytes * LEAST_FREE_SHARE;
}

/** Returns the size of the file at the path and its log; 0 where there is no file, or it cannot be examined. */
export function mirrorBytes(path: string): number {
  return bytesOf(path) + bytesOf(`${path}.wal`);
}

function bytesOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

export function mirrorLocks(path: string, readFile: ReadFile): readonly FileLock[] {
  try {
    const file = statSync(path, { throwIfNoEntry: false });
    return file === undefined ? [] : locksOn(file, readFile('/proc/locks'));
  } catch {
    // Only Linux lists the locks; opening the mirror names a writer on every system.
    return [];
  }
}

export interface FileLock {
  readonly pid: number;
  /** A reader admits other readers; a writer admits nobody. */
  readonly mode: 'reads' | 'writes';
}

/** The device and the number of a file, as `stat` gives them. */
interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/** `1: POSIX  ADVISORY  WRITE 1234 fe:00:131 0 EOF`; a line that waits for a lock has an arrow before its kind. */
const LINE = /^\d+: POSIX\s+\S+\s+(READ|WRITE)\s+(\d+)\s+([\da-f]+):([\da-f]+):(\d+)\s/;

/** Returns the locks on a file. `locks` is the text of /proc/locks. A process that both reads and writes is listed once, as a writer. */
export function locksOn({ dev, ino }: FileIdentity, locks: string): readonly FileLock[] {
  const modes = new Map<number, FileLock['mode']>();
  for (const line of locks.split('\n')) {
    const [, mode, pid, major, minor, inode] = LINE.exec(line) ?? [];
    if (mode === undefined || Number(inode) !== ino) continue;
    if (deviceOf(Number.parseInt(major ?? '', 16), Number.parseInt(minor ?? '', 16)) !== dev) continue;
    const known = modes.get(Number(pid));
    modes.set(Number(pid), mode === 'WRITE' || known === 'writes' ? 'writes' : 'reads');
  }
  return [...modes].map(([pid, mode]) => ({ pid, mode }));
}

/** How Linux puts the two numbers of a device into one. */
function deviceOf(major: number, minor: number): number {
  const low = (minor % 0x100) + (major % 0x1000) * 0x100;
  return low + Math.floor(minor / 0x100) * 0x100000 + Math.floor(major / 0x1000) * 0x1_0000_0000;
}
