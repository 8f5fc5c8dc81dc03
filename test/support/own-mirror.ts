/** A mirror in a folder of its own, made before the tests that use it and removed after them. */

import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { Destination, JobResult } from '../../src/destination/destination.ts';
import type { SnapshotJob } from '../../src/model/write-jobs.ts';
import { inMirror, load, loadError, mirrorIn, parquet, temporaryFolder } from './duckdb-mirror.ts';

type Options = Parameters<typeof mirrorIn>[1];

export class OwnMirror {
  #folder: Awaited<ReturnType<typeof temporaryFolder>> | null = null;
  #mirror: Destination | null = null;
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
  }

  /** The folder of the mirror, for its files. */
  get path(): string {
    if (this.#folder === null) throw new Error('The mirror is used before the first test.');
    return this.#folder.path;
  }

  get mirror(): Destination {
    if (this.#mirror === null) throw new Error('The mirror is used before the first test.');
    return this.#mirror;
  }

  /** Writes a Parquet file with the rows of a query into the folder, and returns its path. */
  parquet(name: string, select: string, options?: string): Promise<string> {
    return parquet(this.path, name, select, options);
  }

  load(...jobs: readonly SnapshotJob[]): Promise<readonly JobResult[]> {
    return load(this.mirror, ...jobs);
  }

  /** Returns the error of a load that has to fail. */
  loadError(job: SnapshotJob): Promise<Error> {
    return loadError(this.mirror, job);
  }

  query(sql: string): ReturnType<typeof inMirror> {
    return inMirror(this.path, sql);
  }

  async open(): Promise<void> {
    this.#folder = await temporaryFolder();
    this.#mirror = await mirrorIn(this.#folder.path, this.#options);
  }

  async close(): Promise<void> {
    await this.#mirror?.close();
    await this.#folder?.[Symbol.asyncDispose]();
  }
}

/** One for all tests of the file. */
export function mirrorOfFile(options?: Options): OwnMirror {
  const own = new OwnMirror(options);
  beforeAll(() => own.open());
  afterAll(() => own.close());
  return own;
}

/** A new one for each test. */
export function mirrorOfEachTest(options?: Options): OwnMirror {
  const own = new OwnMirror(options);
  beforeEach(() => own.open());
  afterEach(() => own.close());
  return own;
}
