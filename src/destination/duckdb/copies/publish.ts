/**
 * The published copy contains everything that is committed, in a separate file that readers may keep open.
 *
 * Invariants: the path holds either a whole copy, verified before the rename, or the previous file. The mirror is copied only
 * while nobody writes it and its write-ahead log is empty.
 */

import { type FileHandle, lstat, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  cloneFile,
  durable,
  isThere,
  openForWriting,
  remove,
  renameFile,
  settleFile,
  systemCode,
  systemReason,
} from '../../../lib/files.ts';
import { spaceShortage } from '../../../lib/free-space.ts';
import type { CommitPosition } from '../../../model/commits.ts';
import { BusyError, FeedSyncError, StorageError } from '../../../model/errors.ts';
import { Engine, type Row } from '../../../staging/engine/engine.ts';
import { DuckDbError, firstLine, MORE_MEMORY } from '../../../staging/engine/errors.ts';
import { identifier, text, textAt } from '../../../staging/engine/sql.ts';
import type { ObservedState } from '../../destination.ts';
import type { Publication } from '../../publication.ts';
import { readPosition } from '../catalog/commits.ts';
import { readFormat } from '../catalog/format.ts';
import { readObservedState } from '../catalog/observed-state.ts';
import { MIRROR, selectTableNames } from '../catalog/schema.ts';
import { type CopiedTable, placeOf, tablesOf } from '../copy-content.ts';
import { IS_DAMAGE } from '../count-tables.ts';
import { errorOfReading, LITTLE_MEMORY_BYTES } from '../damage/damage.ts';
import { fileState, WAL_SUFFIX } from '../mirror-file.ts';
import { readPastBegins } from '../past/past-logs.ts';
import { isKeptDamaged } from '../past/past-tables.ts';
import type { WriteSessions } from '../write-session.ts';

/** The name of an unfinished copy. The next publication removes what a killed process left. */
const UNFINISHED_SUFFIX = '.publishing';
const PERMISSIONS = 0o777;

export interface CopyPlace extends ExaminationOptions {
  /** The path of the copy, with links resolved. */
  readonly target: string;
  /** Bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  readonly isSuspect?: boolean;
  readonly onSound?: () => void;
  readonly signal?: AbortSignal;
}

interface PublisherOptions extends CopyPlace {
  /** The path of the mirror, with links resolved. */
  readonly path: string;
  readonly session: WriteSessions;
  /** Runs work on the mirror while no other work on it runs. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>;
}

interface Copied {
  readonly catalog: Catalog;
  readonly bytes: number;
  readonly isClone: boolean;
}

export class Publisher {
  readonly #options: PublisherOptions;
  readonly #unfinished: string;
  #isSuspect: boolean;
  #copied = 0;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#isSuspect = options.isSuspect ?? false;
    this.#unfinished = `${options.target}${UNFINISHED_SUFFIX}`;
  }

  /** A number that changes as long as a copy advances. */
  get progress(): number {
    return this.#copied;
  }

  /** Publishes one copy at a time. @throws the errors of `PostCommitSource.publish`. */
  async publish(): Promise<Publication> {
    try {
      const copied = await this.#options.inTurn(() => this.#copyInTurn());
      if ('kind' in copied) return copied;
      await this.#verify(copied.catalog);
      await this.#putInPlace();
      const { catalog, bytes, isClone } = copied;
      return { kind: 'published', commitNumber: catalog.position.commitNumber, bytes, isClone };
    } catch (error) {
      await remove('destination.publish-discard', this.#unfinished).catch(() => {});
      throw this.#translated(error);
    }
  }

  async #copyInTurn(): Promise<Copied | Publication> {
    const { path, target, session } = this.#options;
    if (['absent', 'empty'].includes(await fileState(path))) return { kind: 'absent' };
    // A killed process or a failed checkpoint can leave a log. Its commits belong into the copy, too.
    if (await isThere(path + WAL_SUFFIX)) await session.write((write) => write.transaction(async () => {}));
    const catalog = await session.read((engine) => catalogOf(engine, path));
    if (catalog === null) return { kind: 'absent' };
    const published = this.#isSuspect ? 'unreadable' : await catalogAt(target, this.#options);
    if (hasSameContent(published, catalog))
      return { kind: 'current', commitNumber: catalog.position.commitNumber };
    return { catalog, ...(await this.#copy()) };
  }

  async #copy(): Promise<Pick<Copied, 'bytes' | 'isClone'>> {
    const { path, reserveBytes, signal } = this.#options;
    await remove('destination.publish-clear', this.#unfinished);
    const before = await fingerprint(path);
    const isClone = await copyFile({
      from: path,
      to: this.#unfinished,
      bytes: before.bytes,
      reserveBytes,
      onCopied: () => {
        this.#copied += 1;
      },
      signal,
    });
    const after = await fingerprint(path);
    if (isDeepStrictEqual(before, after) && !(await isThere(path + WAL_SUFFIX))) {
      return { bytes: before.bytes, isClone };
    }
    throw new BusyError(`Another process wrote the mirror ${path} while it was copied.`, {
      hint: 'Open the mirror for reading only; feed-sync alone writes it.',
    });
  }

  /**
   * Verifies that the catalog and the table names of the copy equal those of the mirror, and that every table of it can be read to
   * its end: readers may be at work on a sound copy that a damaged one would replace.
   */
  async #verify(catalog: Catalog): Promise<void> {
    await this.#leaveOutDamaged();
    await settleFile('destination.publish-settle', this.#unfinished, await this.#mode());
    const { copied, left } = await this.#usingCopy(LITTLE_MEMORY_BYTES, async (engine) => ({
      copied: await catalogOf(engine, this.#unfinished),
      left: await this.#readTables(engine, await tablesOf(engine, MIRROR)),
    }));
    if (!isDeepStrictEqual(copied, catalog)) {
      throw new StorageError(
        `The copy of the mirror in ${dirname(this.#unfinished)} differs from the mirror, so it is not published.`,
        {
          code: 'copy_failed',
          hint: 'Check the disk of destination.publish. The previous copy stays in place.',
        },
      );
    }
    if (left.length > 0) await this.#readLarge(left);
  }

  /** The tables that the mirror keeps though they cannot be read are no part of a copy that can be read whole. */
  async #leaveOutDamaged(): Promise<void> {
    const tables = await this.#usingCopy(LITTLE_MEMORY_BYTES, async (engine) =>
      (await tablesOf(engine, MIRROR)).filter(isKeptDamaged),
    );
    if (tables.length === 0) return;
    const { memoryLimitBytes, temporaryDirectory } = this.#options;
    const engine = await Engine.open({
      memoryLimitBytes: Math.min(memoryLimitBytes, LITTLE_MEMORY_BYTES),
      threads: 1,
      temporaryDirectory,
      directories: [dirname(this.#unfinished)],
    });
    try {
      await engine.finish(`ATTACH ${text(this.#unfinished)} AS ${identifier(MIRROR)}`);
      for (const table of tables) await engine.run(`DROP TABLE ${placeOf(MIRROR, table)}`);
      await engine.finish(`DETACH DATABASE ${identifier(MIRROR)}`);
    } finally {
      engine.close();
    }
  }

  /**
   * Reads tables to their end, and returns those that need more memory than the engine may use.
   * @throws StorageError `mirror_damaged`: nearly always the mirror has the damage, too.
   */
  async #readTables(engine: Engine, tables: readonly CopiedTable[]): Promise<readonly CopiedTable[]> {
    const left: CopiedTable[] = [];
    for (const table of tables) {
      this.#options.signal?.throwIfAborted();
      try {
        const error = await errorOfReading(engine, this.#unfinished, table);
        if (error !== null) throw this.#damaged(`The table ${table.schema}.${table.name}`, error);
      } catch (error) {
        if (!(error instanceof DuckDbError) || error.fault !== 'out-of-memory') throw error;
        left.push(table);
      }
      this.#copied += 1;
    }
    return left;
  }

  /** A value may take more memory than a reading beside other work may use: then the mirror does no other work. */
  async #readLarge(tables: readonly CopiedTable[]): Promise<void> {
    const { inTurn, memoryLimitBytes, target } = this.#options;
    const [large] = await inTurn(() =>
      this.#usingCopy(memoryLimitBytes, (engine) => this.#readTables(engine, tables)),
    );
    if (large === undefined) return;
    throw new StorageError(
      `The table ${large.schema}.${large.name} of a new copy needs more memory than DuckDB may use, so ${target} is not replaced.`,
      { code: 'copy_failed', hint: `${MORE_MEMORY} The previous copy stays in place.` },
    );
  }

  /** Opens the new copy for reading. @throws StorageError where it cannot be read. */
  async #usingCopy<T>(memoryLimitBytes: number, use: (engine: Engine) => Promise<T>): Promise<T> {
    const options = {
      ...this.#options,
      memoryLimitBytes: Math.min(memoryLimitBytes, this.#options.memoryLimitBytes),
    };
    try {
      return await usingFile(this.#unfinished, options, use);
    } catch (error) {
      if (!(error instanceof DuckDbError)) throw error;
      if (IS_DAMAGE.has(error.fault)) throw this.#damaged('The catalog', error);
      throw new StorageError(
        `A new copy of ${this.#options.path} cannot be read, so ${this.#options.target} is not replaced: ${firstLine(error)}`,
        { code: 'copy_failed', hint: 'Check its folder. The previous copy stays in place.', cause: error },
      );
    }
  }

  #damaged(what: string, error: DuckDbError): StorageError {
    const { path, target } = this.#options;
    return new StorageError(
      `${what} of a new copy of ${path} is damaged, so ${target} is not replaced: ${firstLine(error)}`,
      {
        code: 'mirror_damaged',
        hint: 'Check the disks of the mirror and of destination.publish. The previous copy stays in place.',
        cause: error,
      },
    );
  }

  /** The mode of the previous copy, so that its permissions need not be granted again. */
  async #mode(): Promise<number | undefined> {
    const before = await lstat(this.#options.target).catch(() => null);
    return before?.isFile() === true ? before.mode & PERMISSIONS : undefined;
  }

  async #putInPlace(): Promise<void> {
    const { target } = this.#options;
    // Only a writer of the previous copy can have left this log, and DuckDB would apply it to the new copy.
    await remove('destination.publish-clear-log', target + WAL_SUFFIX);
    await renameFile('destination.publish', this.#unfinished, target);
    if (this.#isSuspect) this.#options.onSound?.();
    this.#isSuspect = false;
  }

  #translated(error: unknown): unknown {
    if (error instanceof FeedSyncError || systemCode(error) === null) return error;
    return new StorageError(`No copy can be published at ${this.#options.target}: ${systemReason(error)}.`, {
      code: 'copy_failed',
      hint: 'Check its folder and the space on its disk. The previous copy stays in place.',
      cause: error,
    });
  }
}

/**
 * Returns whether readers find the same in both. Newer progress alone is not worth a copy: a copy with older progress only starts
 * further back in the event logs if it ever becomes the mirror.
 */
function hasSameContent(published: Awaited<ReturnType<typeof catalogAt>>, catalog: Catalog): boolean {
  if (typeof published === 'string') return false;
  const withoutProgress = (one: Catalog): Catalog => ({
    ...one,
    observed: { ...one.observed, progress: null },
  });
  return isDeepStrictEqual(withoutProgress(published), withoutProgress(catalog));
}

/** Changes when the file is written or replaced. */
async function fingerprint(path: string) {
  const { dev, ino, size, mtimeNs } = await stat(path, { bigint: true });
  return { dev, ino, mtimeNs, bytes: Number(size) };
}

/** Bytes that are read and written at once. */
const CHUNK_BYTES = 4_000_000;
/** Bytes between two syncs, so that the final sync, which cannot be interrupted, stays short. */
const MAX_UNSYNCED_BYTES = 256_000_000;

interface CopyOptions {
  readonly from: string;
  /** Must not exist yet. */
  readonly to: string;
  readonly bytes: number;
  /** Bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  /** Called after every chunk. */
  readonly onCopied: () => void;
  readonly signal: AbortSignal | undefined;
}

/**
 * Returns whether the copy is a clone. The copy may still be lost when power fails.
 * @throws StorageError when the disk lacks space, before anything is written; the system's error; the signal's reason.
 */
async function copyFile(options: CopyOptions): Promise<boolean> {
  const { from, to, signal } = options;
  signal?.throwIfAborted();
  if (await cloneFile('destination.publish-clone', from, to)) return true;
  await requireFreeSpace(options);
  await using source = await open(from, 'r');
  await using target = await openForWriting('destination.publish-open', to, 'new');
  await durable('destination.publish-copy', () => copyContent(source, target, options));
  return false;
}

async function copyContent(
  source: FileHandle,
  target: FileHandle,
  { onCopied, signal }: CopyOptions,
): Promise<void> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let unsyncedBytes = 0;
  for (let position = 0; ; ) {
    signal?.throwIfAborted();
    const { bytesRead } = await source.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) return;
    await target.writeFile(chunk.subarray(0, bytesRead));
    position += bytesRead;
    unsyncedBytes += bytesRead;
    if (unsyncedBytes >= MAX_UNSYNCED_BYTES) {
      await target.datasync();
      unsyncedBytes = 0;
    }
    onCopied();
  }
}

async function requireFreeSpace({ to, bytes, reserveBytes }: CopyOptions): Promise<void> {
  const folder = dirname(to);
  const shortage = await spaceShortage(folder, bytes, reserveBytes, 'a copy of the mirror needs');
  if (shortage === null) return;
  throw new StorageError(shortage, {
    code: 'copy_failed',
    hint: 'Free some space, or set destination.publish to a larger disk. The previous copy stays in place.',
  });
}

interface Catalog {
  readonly position: CommitPosition;
  readonly observed: ObservedState;
  /** The names of all tables and views of the schema `main`, in order. */
  readonly tables: readonly string[];
  /** The first commit that each undo log can restore: a copy forgets what the mirror has forgotten. */
  readonly past: readonly Row[];
}

export interface ExaminationOptions {
  readonly memoryLimitBytes: number;
  readonly temporaryDirectory: string;
}

/** Returns null when the attached database is not a mirror, or nothing was ever committed to it. */
async function catalogOf(engine: Engine, path: string): Promise<Catalog | null> {
  const format = await readFormat(engine, path);
  if (format === null) return null;
  const tables = (await engine.rows(selectTableNames('main'))).map((row) => textAt(row, 0));
  return {
    position: await readPosition(engine, format),
    // A copy leaves damaged tables out.
    observed: { ...(await readObservedState(engine, path)), keptDamaged: [] },
    tables: tables.toSorted(),
    past: await readPastBegins(engine),
  };
}

/** Reads the catalog of the file at the path. `foreign`: the file is readable and has no catalog. */
export async function catalogAt(
  path: string,
  { memoryLimitBytes, temporaryDirectory }: ExaminationOptions,
): Promise<Catalog | 'unreadable' | 'foreign'> {
  if ((await fileState(path)) !== 'database') return 'unreadable';
  const options = {
    memoryLimitBytes: Math.min(memoryLimitBytes, LITTLE_MEMORY_BYTES),
    temporaryDirectory,
  };
  try {
    return await usingFile(path, options, async (engine) => (await catalogOf(engine, path)) ?? 'foreign');
  } catch (error) {
    if (error instanceof DuckDbError) return 'unreadable';
    throw error;
  }
}

/** Opens the file at the path for reading. @throws DuckDbError */
async function usingFile<T>(
  path: string,
  { memoryLimitBytes, temporaryDirectory }: ExaminationOptions,
  use: (engine: Engine) => Promise<T>,
): Promise<T> {
  const engine = await Engine.open({
    memoryLimitBytes,
    threads: 1,
    temporaryDirectory,
    directories: null,
    readOnlyDatabase: { path, name: MIRROR },
  });
  try {
    return await use(engine);
  } finally {
    engine.close();
  }
}
