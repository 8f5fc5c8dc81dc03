/** The mirror is a file of DuckDB. */

import { copyFileSync, existsSync, mkdirSync, realpathSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { ContentComparison } from '../../../src/destination/comparer.ts';
import { openComparer } from '../../../src/destination/duckdb/compare-table.ts';
import type { ObservedTable, VersionContent } from '../../../src/model/write-jobs.ts';
import { identifier, openExactly } from '../../support/exact-mirror.ts';
import { writeMirror } from '../../support/mirror-file.ts';
import { PastStates } from '../../support/past-states.ts';
import type { Program } from '../../support/program.ts';
import type { Alteration, MirrorView } from '../stage.ts';
import { alteringStatement } from './alterations.ts';
import type { Comparing, DestinationKind, RealDestination } from './destination.ts';
import { readRealMirror } from './real-mirror.ts';

export async function inFile(): Promise<DestinationKind> {
  return {
    environment: {},
    secrets: [],
    serverWaitMs: null,
    installedBy: (program) => new FileDestination(program),
  };
}

class FileDestination implements RealDestination {
  readonly #program: Program;
  readonly #past = new PastStates();

  constructor(program: Program) {
    this.#program = program;
  }

  read<T>(read: (mirror: MirrorView) => Promise<T>): Promise<T | null> {
    return readRealMirror(this.#program.mirrorPath, this.#past, read);
  }

  async alter(table: ObservedTable, how: Alteration): Promise<string | null> {
    const { mirrorPath } = this.#program;
    const mirror = await openExactly(mirrorPath);
    const alter = alteringStatement(table, how, {
      schema: 'main',
      rowId: 'rowid',
      has: async (sql) => (await mirror.rows(sql)).length > 0,
    });
    const statement = await alter.finally(() => mirror.close());
    if (statement !== null) await writeMirror(mirrorPath, statement);
    return statement;
  }

  drop({ tableName }: ObservedTable): Promise<void> {
    return writeMirror(this.#program.mirrorPath, `DROP TABLE main.${identifier(tableName)}`);
  }

  async compare(
    table: ObservedTable,
    content: VersionContent,
    { directory, clock }: Comparing,
  ): Promise<ContentComparison> {
    const comparer = await openComparer({
      path: realpathSync(this.#program.mirrorPath),
      directory,
      memoryLimitBytes: 256e6,
      threads: 1,
      reserveBytes: 1e6,
      waitMs: 10_000,
      clock,
      random: { next: () => 0.5 },
      signal: new AbortController().signal,
    });
    try {
      return await comparer.compare(table, content, () => {});
    } finally {
      comparer.close();
    }
  }

  async lose(): Promise<void> {
    this.#past.forget();
    for (const path of this.#files) rmSync(path, { force: true });
  }

  async copy(): Promise<void> {
    rmSync(this.#folder, { recursive: true, force: true });
    mkdirSync(this.#folder);
    for (const path of this.#files) {
      if (existsSync(path)) copyFileSync(path, join(this.#folder, basename(path)));
    }
  }

  async restoreCopy(): Promise<void> {
    for (const path of this.#files) {
      const copied = join(this.#folder, basename(path));
      if (existsSync(copied)) copyFileSync(copied, path);
    }
  }

  async settleAfterKill(): Promise<void> {}

  async close(): Promise<void> {}

  get #folder(): string {
    return join(this.#program.home, 'copy-of-mirror');
  }

  get #files(): readonly string[] {
    const { mirrorPath } = this.#program;
    return [mirrorPath, `${mirrorPath}.wal`];
  }
}
