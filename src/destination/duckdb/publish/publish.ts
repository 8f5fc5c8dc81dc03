/**
 * The published copy: everything that is committed, in a file of its own that readers may keep open for as long as they
 * like.
 *
 * Invariants: what is at the path is always a whole copy, verified before it got its name, or what was there before; the
 * mirror is copied while nobody writes it and nothing is left in its log.
 */

import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { isThere, remove, renameFile, settleFile } from '../../../lib/files.ts';
import { systemCode, systemReason } from '../../../lib/system-code.ts';
import { BusyError, CopyError, FeedSyncError } from '../../../model/errors.ts';
import type { Publication } from '../../outlet.ts';
import type { AttachWindow } from '../window/attach-window.ts';
import { fileState, WAL_SUFFIX } from '../window/quarantine.ts';
import { type Books, booksAt, booksOf, type LookingOptions } from './copy-books.ts';
import { copyFile } from './copy-file.ts';

/** The copy while it is made. What a process that was killed has left is removed before the next one. */
const UNFINISHED_SUFFIX = '.publishing';
const PERMISSIONS = 0o777;

export interface CopyPlace extends LookingOptions {
  /** Without links. */
  readonly target: string;
  /** Bytes kept free on the disk. */
  readonly reserveBytes: number;
  readonly signal?: AbortSignal;
}

export interface PublisherOptions extends CopyPlace {
  /** Of the mirror, without links. */
  readonly path: string;
  readonly window: AttachWindow;
  /** Runs what works on the mirror while nothing else does. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>;
}

interface Copied {
  readonly books: Books;
  readonly bytes: number;
  readonly isClone: boolean;
}

export class Publisher {
  readonly #options: PublisherOptions;
  readonly #unfinished: string;
  #copied = 0;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#unfinished = `${options.target}${UNFINISHED_SUFFIX}`;
  }

  /** Another number as long as a copy gets on. */
  get progress(): number {
    return this.#copied;
  }

  /** One at a time. @throws as `Outlet.publish` does. */
  async publish(): Promise<Publication> {
    try {
      const copied = await this.#options.inTurn(() => this.#copyInTurn());
      if ('kind' in copied) return copied;
      await this.#verify(copied.books);
      await this.#putInPlace();
      const { books, bytes, isClone } = copied;
      return { kind: 'published', lines: books.position.lines, bytes, isClone };
    } catch (error) {
      await remove('destination.publish-discard', this.#unfinished).catch(() => {});
      throw this.#translated(error);
    }
  }

  async #copyInTurn(): Promise<Copied | Publication> {
    const { path, target, window } = this.#options;
    if (['absent', 'empty'].includes(await fileState(path))) return { kind: 'absent' };
    // Left by a process that was killed, or by a checkpoint that failed: what is in it is committed, too.
    if (await isThere(path + WAL_SUFFIX)) await window.write((write) => write.transaction(async () => {}));
    const books = await window.read((engine) => booksOf(engine, path));
    if (books === null) return { kind: 'absent' };
    const published = await booksAt(target, this.#options);
    if (hasSameContent(published, books)) return { kind: 'current', lines: books.position.lines };
    return { books, ...(await this.#copy()) };
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

  /** DuckDB opens it, its books are those of the mirror, and so are the names of its tables. Rows are not read. */
  async #verify(books: Books): Promise<void> {
    await settleFile('destination.publish-settle', this.#unfinished, await this.#mode());
    const copied = await booksAt(this.#unfinished, this.#options);
    if (isDeepStrictEqual(copied, books)) return;
    throw new CopyError(
      `The copy of the mirror in ${dirname(this.#unfinished)} is not what the mirror is: it is not published.`,
      { hint: 'Check the disk of destination.publish. The copy of before stays in place.' },
    );
  }

  /** What somebody has allowed for the copy of before, so that it need not be allowed again. */
  async #mode(): Promise<number | undefined> {
    const before = await stat(this.#options.target).catch(() => null);
    return before === null ? undefined : before.mode & PERMISSIONS;
  }

  async #putInPlace(): Promise<void> {
    const { target } = this.#options;
    // Of somebody who wrote into the copy of before: DuckDB would put it into this one.
    await remove('destination.publish-clear-log', target + WAL_SUFFIX);
    await renameFile('destination.publish', this.#unfinished, target);
  }

  #translated(error: unknown): unknown {
    if (error instanceof FeedSyncError || systemCode(error) === null) return error;
    return new CopyError(`No copy can be published at ${this.#options.target}: ${systemReason(error)}.`, {
      hint: 'Check its folder and the space on its disk. The copy of before stays in place.',
      cause: error,
    });
  }
}

/**
 * Whether readers find the same in both. Newer progress alone is worth no copy: a copy with older progress only
 * starts further back in the logs, should it ever become the mirror.
 */
function hasSameContent(published: Awaited<ReturnType<typeof booksAt>>, books: Books): boolean {
  if (typeof published === 'string') return false;
  const withoutProgress = (one: Books): Books => ({ ...one, held: { ...one.held, progress: null } });
  return isDeepStrictEqual(withoutProgress(published), withoutProgress(books));
}

/** Another one once somebody has written the file, or put another in its place. */
async function fingerprint(path: string) {
  const { dev, ino, size, mtimeNs } = await stat(path, { bigint: true });
  return { dev, ino, mtimeNs, bytes: Number(size) };
}
