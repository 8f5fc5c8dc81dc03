/**
 * Fetches the changes of a path's versions, several at once. The destination reads fetched versions while others are still on
 * their way.
 *
 * Invariants: staged bytes never exceed the limit. Where the versions together exceed it, the latest versions leave the
 * path and their staged bytes are deleted. A version that the destination reads never leaves: all versions before it
 * are complete by then, and no version leaves for a later one. When the fetch ends, nothing writes into the staging
 * folder any more.
 */

import pLimit from 'p-limit';
import type { Changes } from '../../feed/feed.ts';
import { InterruptedError } from '../../model/errors.ts';
import type { Version } from '../../model/records.ts';
import type { ReadAhead } from '../../model/write-jobs.ts';
import type { FetchTools } from './step-tools.ts';

/** Versions whose changes are fetched at once, over all datasets: enough to keep a distant service busy. */
export const VERSIONS_AT_ONCE = 8;

interface Path {
  /** Oldest first, never empty. */
  readonly versions: readonly Version[];
  /** Once so many bytes are spooled, no further version is started. */
  readonly maxSpooledBytes: number;
  readonly maxStagedBytes: number;
}

export interface FetchedVersion {
  readonly record: Version;
  readonly pages: readonly string[];
  readonly bytes: number;
}

interface FetchedPath {
  /** The fetched versions, without a gap from the first on; all versions unless one of the limits cut the path. */
  readonly fetched: readonly FetchedVersion[];
  /** By version, why its changes are inapplicable. */
  readonly inapplicable: ReadonlyMap<number, string>;
  /** The first version, where it alone exceeds the limit; null: it fits. */
  readonly oversized: Version | null;
  /** The parts that were read ahead, without a gap from the first version on. */
  readonly ahead: readonly ReadAhead[];
}

type ReadSome = (some: readonly FetchedVersion[]) => Promise<ReadAhead | null>;

/**
 * Fetches the changes of a path, and starts no further version once one failed or is inapplicable. The first failure is thrown when the
 * others have ended. `read` is called with consecutive parts of the path.
 */
export function fetchChanges(path: Path, tools: FetchTools, read: ReadSome): Promise<FetchedPath> {
  return new PathFetch(path, tools, read).run();
}

interface UnderWay {
  /** Aborted when the version has left the path. */
  readonly leave: AbortController;
  /** Resolves once the staged bytes of a version that has left are deleted. */
  readonly ended: Promise<void>;
}

class PathFetch {
  readonly #path: Path;
  readonly #tools: FetchTools;
  readonly #reading: ReadingAhead<FetchedVersion>;
  readonly #staged: StagedBytes;
  /** Aborted once one version failed, because the others are useless then. */
  readonly #others = new AbortController();
  readonly #signal: AbortSignal;
  /** By position in the path. */
  readonly #underWay = new Map<number, UnderWay>();
  readonly #fetched = new Map<number, FetchedVersion>();
  readonly #inapplicable = new Map<number, string>();
  readonly #failures: unknown[] = [];
  #spooledBytes = 0;
  #oversized: Version | null = null;

  constructor(path: Path, tools: FetchTools, read: ReadSome) {
    this.#path = path;
    this.#tools = tools;
    this.#reading = new ReadingAhead(read);
    this.#staged = new StagedBytes(path.maxStagedBytes);
    this.#signal = AbortSignal.any([tools.signal, this.#others.signal]);
  }

  async run(): Promise<FetchedPath> {
    // Only so many versions queue at once: a long backlog of one dataset does not delay all other datasets.
    await pLimit(VERSIONS_AT_ONCE).map(this.#path.versions, (record, position) =>
      this.#tools.fetching(() => this.#spool(record, position)),
    );
    if (this.#isInVain) this.#reading.stop();
    const ahead = await this.#reading.end();
    if (this.#failures.length > 0) throw this.#failures[0];
    return {
      fetched: this.#withoutGap(),
      inapplicable: this.#inapplicable,
      oversized: this.#oversized,
      ahead,
    };
  }

  /** Whether the path as a whole cannot be applied. */
  get #isInVain(): boolean {
    return this.#failures.length > 0 || this.#inapplicable.size > 0 || this.#oversized !== null;
  }

  get #enoughBytes(): number {
    return Math.min(this.#path.maxSpooledBytes, this.#path.maxStagedBytes);
  }

  /** Never rejects. */
  async #spool(record: Version, position: number): Promise<void> {
    if (this.#isInVain || this.#spooledBytes >= this.#enoughBytes) return;
    if (this.#staged.hasLeft(position)) return;
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const leave = new AbortController();
    this.#underWay.set(position, { leave, ended });
    try {
      const changes = await this.#fetchOne(record, position, leave.signal);
      if (!this.#staged.hasLeft(position)) this.#take(changes, record, position);
    } catch (error) {
      if (!this.#staged.hasLeft(position) && this.#oversized === null) this.#fail(error);
    }
    if (this.#staged.hasLeft(position)) await this.#discard(record).catch((error) => this.#fail(error));
    this.#underWay.delete(position);
    end();
  }

  async #fetchOne(record: Version, position: number, leave: AbortSignal): Promise<Changes> {
    const { parts, staging } = this.#tools;
    const { datasetId, version } = record;
    this.#signal.throwIfAborted();
    const request = {
      datasetId,
      version,
      pathOf: await staging.pagesOfChanges(datasetId, version),
      onBytes: (bytes: number): void => parts.progress.downloaded(bytes, datasetId),
      onStaging: (bytes: number): Promise<void> => this.#freeSpaceFor(record, position, bytes),
    };
    return parts.feed.changes(request, AbortSignal.any([this.#signal, leave]));
  }

  /**
   * Called before a page is written that brings its version to `bytes` staged bytes. Resolves once the versions that
   * had to leave are deleted. A version waits for later versions only, so there is no deadlock. @throws
   * InterruptedError where there is no space.
   */
  async #freeSpaceFor(record: Version, position: number, bytes: number): Promise<void> {
    const fits = this.#staged.grow(position, bytes);
    if (!fits) this.#oversized = record;
    const left = new InterruptedError('The changes of earlier versions need the space.');
    const leaving = [...this.#underWay].filter(([other]) => this.#staged.hasLeft(other));
    for (const [, { leave }] of leaving) leave.abort(left);
    if (!fits || this.#staged.hasLeft(position)) throw left;
    for (const [other, fetched] of [...this.#fetched]) {
      if (!this.#staged.hasLeft(other)) continue;
      this.#fetched.delete(other);
      this.#spooledBytes -= fetched.bytes;
      await this.#discard(fetched.record);
    }
    await Promise.all(leaving.map(([, { ended }]) => ended));
    if (this.#staged.hasLeft(position)) throw left;
  }

  #take(changes: Changes, record: Version, position: number): void {
    const why = whyInapplicable(changes, record);
    if (why !== null) this.#inapplicable.set(record.version, why);
    else if (changes.recorded) {
      const one = { record, pages: changes.pages, bytes: changes.bytes };
      this.#spooledBytes += one.bytes;
      this.#fetched.set(position, one);
      this.#reading.arrived(position, one);
    }
  }

  #fail(error: unknown): void {
    this.#failures.push(error);
    this.#others.abort(new InterruptedError('The changes of another version could not be fetched.'));
  }

  #discard({ datasetId, version }: Version): Promise<void> {
    return this.#tools.staging.discardChanges(datasetId, version);
  }

  #withoutGap(): readonly FetchedVersion[] {
    const fetched: FetchedVersion[] = [];
    for (let next = this.#fetched.get(0); next !== undefined; next = this.#fetched.get(fetched.length)) {
      fetched.push(next);
    }
    return fetched;
  }
}

/** The version's record completes what the pages leave out. Null: the changes are applicable, as far as their envelope shows. */
function whyInapplicable(changes: Changes, { previousVersion, schemaVersion }: Version): string | null {
  if (!changes.recorded) return changes.why;
  if (changes.previousVersion !== null && changes.previousVersion !== previousVersion) {
    return `they start from version ${changes.previousVersion}, and the list of versions says ${previousVersion}`;
  }
  if (changes.schemaVersion !== null && changes.schemaVersion !== schemaVersion) {
    return `they have the schema "${changes.schemaVersion}", and the list of versions says "${schemaVersion}"`;
  }
  return null;
}

/** Fewer bytes are not worth a statement of their own. */
export const LEAST_BYTES_AHEAD = 12_000_000;
/** A part ends at this size, so that the last parts end at about the same time. */
export const BYTES_OF_A_PART = 24_000_000;
/** A destination may be able to read several parts at once. */
const PARTS_AT_ONCE = 2;

export class ReadingAhead<T extends { readonly bytes: number }> {
  readonly #read: (some: readonly T[]) => Promise<ReadAhead | null>;
  /** Out-of-order arrivals, by position. */
  readonly #early = new Map<number, T>();
  /** The arrivals to read next, and the number of arrivals before them. */
  #next: T[] = [];
  #before = 0;
  /** The started parts, in order. */
  readonly #parts: Promise<ReadAhead | null>[] = [];
  #underWay = 0;
  #isOver = false;

  /** `read` is called with consecutive items, beginning where the part before ended. */
  constructor(read: (some: readonly T[]) => Promise<ReadAhead | null>) {
    this.#read = read;
  }

  /** `position` is counted from 0. */
  arrived(position: number, one: T): void {
    this.#early.set(position, one);
    for (;;) {
      const following = this.#before + this.#next.length;
      const next = this.#early.get(following);
      if (next === undefined) break;
      this.#early.delete(following);
      this.#next.push(next);
    }
    this.#readOn();
  }

  /** Starts no further part. */
  stop(): void {
    this.#isOver = true;
  }

  /** Resolves to the parts without a gap from the first on, once no part is being read or worth reading any more. */
  async end(): Promise<readonly ReadAhead[]> {
    const read: ReadAhead[] = [];
    let hasGap = false;
    // When one part ends, the next has been started.
    for (const reading of this.#parts) {
      const part = await reading;
      if (part === null) hasGap = true;
      else if (!hasGap) read.push(part);
    }
    return read;
  }

  #readOn(): void {
    while (!this.#isOver && this.#underWay < PARTS_AT_ONCE) {
      const part = cut(this.#next);
      if (part.length === 0) return;
      this.#next = this.#next.slice(part.length);
      this.#before += part.length;
      this.#underWay += 1;
      this.#parts.push(this.#readPart(part));
    }
  }

  async #readPart(part: readonly T[]): Promise<ReadAhead | null> {
    // Any error appears again when the whole is read.
    const read = await this.#read(part).catch(() => null);
    this.#underWay -= 1;
    // A later part would leave a gap.
    if (read === null) this.#isOver = true;
    this.#readOn();
    return read;
  }
}

/** Returns the items to read next; none where they are too few. */
function cut<T extends { readonly bytes: number }>(some: readonly T[]): readonly T[] {
  let bytes = 0;
  let count = 0;
  for (; count < some.length && bytes < BYTES_OF_A_PART; count += 1) bytes += some[count]?.bytes ?? 0;
  return bytes < LEAST_BYTES_AHEAD ? [] : some.slice(0, count);
}

export class StagedBytes {
  readonly #maxBytes: number;
  /** The staged bytes of the versions that stay. */
  readonly #byPosition = new Map<number, number>();
  #total = 0;
  /** The versions from this position on have left the path. */
  #end = Number.POSITIVE_INFINITY;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** `position` is counted from 0, along the path. */
  hasLeft(position: number): boolean {
    return position >= this.#end;
  }

  /**
   * The version at `position` is about to have `bytes` staged in all. False: the first version alone exceeds the limit,
   * and all others have left.
   */
  grow(position: number, bytes: number): boolean {
    if (this.hasLeft(position)) return true;
    this.#total += bytes - (this.#byPosition.get(position) ?? 0);
    this.#byPosition.set(position, bytes);
    while (this.#total > this.#maxBytes) {
      const latest = Math.max(...this.#byPosition.keys());
      if (latest === 0) {
        this.#end = 1;
        return false;
      }
      this.#total -= this.#byPosition.get(latest) ?? 0;
      this.#byPosition.delete(latest);
      this.#end = latest;
    }
    return true;
  }
}
