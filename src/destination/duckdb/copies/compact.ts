/**
 * Copies the mirror into a new file, which then replaces the old one: DuckDB itself only cuts free space off the end of a file.
 *
 * Invariants: the path always holds a whole mirror, the old one or the new one. The new file is renamed only after it was read
 * from the disk and found to have every object and row of the old one. From the first copied row until then nobody can write
 * the old file, and everybody can read it.
 */

import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Random } from '../../../lib/backoff.ts';
import type { Clock } from '../../../lib/clock.ts';
import {
  durable,
  giveFile,
  isThere,
  remove,
  renameFile,
  settleFile,
  systemCode,
  systemReason,
} from '../../../lib/files.ts';
import { spaceShortage } from '../../../lib/free-space.ts';
import type { Log } from '../../../lib/log.ts';
import { BusyError, ConfigurationError, FeedSyncError, StorageError } from '../../../model/errors.ts';
import { Engine, temporaryDirectory } from '../../../staging/engine/engine.ts';
import { DuckDbError, mirrorFailure } from '../../../staging/engine/errors.ts';
import { identifier, text } from '../../../staging/engine/sql.ts';
import { hasSchema } from '../catalog/format.ts';
import { readObservedState } from '../catalog/observed-state.ts';
import { IN_OUR_FORMAT, MIRROR } from '../catalog/schema.ts';
import {
  COMPACTED,
  type CopiedTable,
  type CopyProgress,
  copyAllObjects,
  copyAllRows,
  proveSame,
  spaceOf,
  writeCopied,
} from '../copy-content.ts';
import { mirrorFileState, mirrorPath, WAL_SUFFIX, waitForFile } from '../mirror-file.ts';

export interface CompactOptions {
  readonly path: string;
  /** True when the new file has its texts and geometries compressed; false when it has none compressed. */
  readonly compresses: boolean;
  /** DuckDB spills into it what exceeds the memory. */
  readonly dataDirectory: string;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  /** How long to wait for readers before anything is copied. */
  readonly lockWaitMs: number;
  /** Called with a wait that an operator may notice. */
  readonly log?: Log;
  /** Bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  /** The numeric id of the user; null when the system has none. */
  readonly uid: number | null;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: CopyProgress) => void;
}

export type Compaction =
  /** The mirror does not exist yet. */
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'compacted';
      /** Whether texts and geometries were written compressed. */
      readonly isCompressed: boolean;
      readonly bytesBefore: number;
      readonly bytesAfter: number;
      /** All copied tables, including the catalog's. */
      readonly tables: number;
    };

const PERMISSIONS = 0o7777;

/**
 * Rewrites the mirror without free space. The caller holds the instance lock. After an error the mirror is unchanged, and no file is left
 * beside it.
 * @throws BusyError, StorageError, ConfigurationError, InterruptedError.
 */
export async function compactMirror(options: CompactOptions): Promise<Compaction> {
  const path = await mirrorPath(options.path);
  await clearUnfinished(path);
  if ((await mirrorFileState(path)) !== 'database') return { kind: 'absent' };
  const compacting = new Compacting({ ...options, path });
  try {
    return await compacting.compact();
  } catch (error) {
    compacting.letGo();
    // The first error is reported, not a failure to clean up after it.
    await clearUnfinished(path).catch(() => {});
    throw await translated(error, path, options);
  } finally {
    compacting.letGo();
  }
}

class Compacting {
  readonly #options: CompactOptions;
  readonly #unfinished: string;
  #engine: Engine | null = null;

  constructor(options: CompactOptions) {
    this.#options = options;
    this.#unfinished = unfinishedPath(options.path);
  }

  async compact(): Promise<Compaction> {
    const { path, dataDirectory, memoryLimitBytes, threads, signal, clock, reserveBytes, compresses } =
      this.#options;
    const { size: bytesBefore, mode, uid, gid } = await stat(path);
    const engine = await Engine.open({
      memoryLimitBytes,
      threads,
      temporaryDirectory: temporaryDirectory(resolve(dataDirectory), 'compacting'),
      directories: [resolve(dataDirectory), dirname(path)],
      compressesTexts: compresses,
      // Without compression the content of a compressed mirror takes more space than the mirror uses.
      guard: { folders: [dirname(path)], reserveBytes, clock },
      signal,
      clock,
    });
    this.#engine = engine;
    await this.#validate(engine);
    // Fails before anything is copied when the process may not change the owner.
    await giveFile('destination.compact-give', this.#unfinished, { uid, gid });
    await this.#attachMirror(engine, ' (READ_ONLY)');
    const tables = await this.#copy(engine);
    await settleUnfinished(this.#options.path, mode);
    await this.#prove(engine, tables);
    await this.#putInPlace();
    const bytesAfter = (await stat(path)).size;
    return { kind: 'compacted', isCompressed: compresses, bytesBefore, bytesAfter, tables: tables.length };
  }

  /** No statement that a signal could interrupt runs between two tables. */
  readonly #gotOn = (progress: CopyProgress): void => {
    this.#options.signal.throwIfAborted();
    this.#options.onProgress(progress);
  };

  /** Detaches both files. */
  letGo(): void {
    this.#engine?.close();
    this.#engine = null;
  }

  /** Puts the write-ahead log into the mirror and copies all objects without rows, both while no reader has the file open. */
  async #validate(engine: Engine): Promise<void> {
    const { path } = this.#options;
    await durable('destination.compact-attach', () => this.#attachMirror(engine, ''));
    if (!(await hasSchema(engine))) throw noMirror(path);
    await readObservedState(engine, path);
    const { usedBytes } = await spaceOf(engine, MIRROR);
    await this.#requireFreeSpace(usedBytes);
    const create = `ATTACH ${text(this.#unfinished)} AS ${identifier(COMPACTED)} ${IN_OUR_FORMAT}`;
    await durable('destination.compact-create', () => engine.run(create));
    await copyAllObjects(engine, path);
    await durable('destination.compact-no-log', () => engine.finish(`CHECKPOINT ${identifier(MIRROR)}`));
    await engine.finish(`DETACH ${identifier(MIRROR)}`);
  }

  async #attachMirror(engine: Engine, how: '' | ' (READ_ONLY)'): Promise<void> {
    const attach = () => engine.finish(`ATTACH ${text(this.#options.path)} AS ${identifier(MIRROR)}${how}`);
    await waitForFile(this.#options, attach);
  }

  async #copy(engine: Engine): Promise<readonly CopiedTable[]> {
    const tables = await copyAllRows(engine, this.#options.path, this.#gotOn);
    await writeCopied(engine);
    await engine.finish(`DETACH ${identifier(COMPACTED)}`);
    return tables;
  }

  /** Compares the file on the disk, not what DuckDB holds in memory. */
  async #prove(engine: Engine, tables: readonly CopiedTable[]): Promise<void> {
    await engine.run(`ATTACH ${text(this.#unfinished)} AS ${identifier(COMPACTED)} (READ_ONLY)`);
    await proveSame(engine, this.#options.path, tables, this.#gotOn);
    await engine.finish(`DETACH ${identifier(COMPACTED)}`);
  }

  /** A log belongs to a path: DuckDB would apply a log at this path to the new file. */
  async #putInPlace(): Promise<void> {
    const { path, signal } = this.#options;
    signal.throwIfAborted();
    for (const log of [path + WAL_SUFFIX, this.#unfinished + WAL_SUFFIX]) {
      if (!(await isThere(log))) continue;
      throw new BusyError(`Another process wrote the mirror ${path} while it was copied: there is ${log}.`, {
        hint: 'Open the mirror for reading only; feed-sync alone writes it.',
      });
    }
    await renameUnfinished(path);
  }

  async #requireFreeSpace(bytes: number): Promise<void> {
    const { path, reserveBytes } = this.#options;
    const shortage = await spaceShortage(dirname(path), bytes, reserveBytes, 'a new mirror needs');
    if (shortage !== null)
      throw new StorageError(shortage, { hint: 'Free some space. The mirror is unchanged.' });
  }
}

function noMirror(path: string): ConfigurationError {
  return new ConfigurationError(`${path} is a DuckDB database that feed-sync has written nothing into yet.`, {
    hint: 'Set destination.path (FEED_SYNC_DESTINATION_PATH) to the mirror, or make one with: feed-sync once',
  });
}

async function translated(error: unknown, path: string, { uid, signal }: CompactOptions): Promise<unknown> {
  if (signal.aborted) return signal.reason;
  if (error instanceof DuckDbError && error.fault === 'no-space') {
    return new StorageError(
      `Not enough space in ${error.message}: the new mirror needs more than is free beyond disk.reserve.`,
      { code: 'disk_full', hint: 'Free some space. The mirror is unchanged.', cause: error },
    );
  }
  if (error instanceof DuckDbError) return await mirrorFailure(error, { path, uid });
  if (error instanceof FeedSyncError || systemCode(error) === null) return error;
  return new StorageError(`The mirror ${path} cannot be compacted: ${systemReason(error)}.`, {
    hint: 'Run it as the user that owns the mirror, and check its folder. The mirror is unchanged.',
    cause: error,
  });
}

const UNFINISHED_SUFFIX = '.compacting';
/** The suffixes of the file itself and of the files that DuckDB puts beside it. */
const LEFT_SUFFIXES = ['', '.wal', '.wal.checkpoint', '.wal.recovery'];

/** Returns the path of the new file, until it takes the mirror's. */
export function unfinishedPath(mirrorPath: string): string {
  return `${mirrorPath}${UNFINISHED_SUFFIX}`;
}

/** Waits until the disk has the new file, which gets the permissions of `mode`. */
export function settleUnfinished(mirrorPath: string, mode: number): Promise<void> {
  return settleFile('destination.compact-settle', unfinishedPath(mirrorPath), mode & PERMISSIONS);
}

export function renameUnfinished(mirrorPath: string): Promise<void> {
  return renameFile('destination.compact', unfinishedPath(mirrorPath), mirrorPath);
}

/** Removes the files that a killed process left. @throws StorageError */
export async function clearUnfinished(mirrorPath: string): Promise<void> {
  for (const suffix of LEFT_SUFFIXES) {
    const path = unfinishedPath(mirrorPath) + suffix;
    try {
      if (await isThere(path)) await remove('destination.compact-clear', path);
    } catch (cause) {
      throw new StorageError(
        `${path}, left by feed-sync compact, cannot be removed: ${systemReason(cause)}.`,
        {
          hint: 'Make its folder writable for this user, or remove it by hand: the mirror does not need it.',
          cause,
        },
      );
    }
  }
}
