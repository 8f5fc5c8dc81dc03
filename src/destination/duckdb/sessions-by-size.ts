/**
 * The write sessions of the mirror by the size of tables: one thread for small tables, where further threads cost more than they save,
 * all threads for large ones.
 */

import { Engine, type EngineOptions, temporaryDirectory } from '../../staging/engine/engine.ts';
import {
  type ReaderGraceOptions,
  ReaderGracePeriod,
  type WriteSessionOptions,
  WriteSessions,
} from './write-session.ts';

/** The number of rows in a full DuckDB row group. */
const ROW_GROUP_ROWS = 122_880;

export type TableSize = 'small' | 'large';

/** Chooses the write session for a table by its row count. */
export function sizeOf(tableRows: number): TableSize {
  return tableRows <= ROW_GROUP_ROWS ? 'small' : 'large';
}

interface WriteSessionsOptions
  extends Omit<WriteSessionOptions, 'engine' | 'readerGracePeriod'>,
    Pick<ReaderGraceOptions, 'readerGraceMs'> {
  readonly dataDirectory: string;
}

export class WriteSessionsBySize {
  readonly #engines: readonly Engine[];
  readonly #sessions: Readonly<Record<TableSize, WriteSessions>>;

  /** Opens no file and no instance yet. */
  constructor(options: WriteSessionsOptions, engineOptions: Omit<EngineOptions, 'temporaryDirectory'>) {
    const engine = (size: TableSize, threads: number): Engine =>
      new Engine({
        ...engineOptions,
        threads,
        inAnyOrder: size === 'large',
        temporaryDirectory: temporaryDirectory(options.dataDirectory, size),
      });
    const { threads } = engineOptions;
    const small = engine('small', 1);
    const large = threads === 1 ? small : engine('large', threads);
    const readerGracePeriod = new ReaderGracePeriod(options);
    this.#engines = [...new Set([small, large])];
    this.#sessions = {
      small: new WriteSessions({ ...options, readerGracePeriod, engine: small }),
      large: new WriteSessions({ ...options, readerGracePeriod, engine: large }),
    };
  }

  of(size: TableSize): WriteSessions {
    return this.#sessions[size];
  }

  /** A number that changes whenever a statement of any engine ends or makes progress. */
  get progress(): number {
    return this.#engines.reduce((sum, engine) => sum + engine.progress, 0);
  }

  close(): void {
    for (const engine of this.#engines) engine.close();
  }
}
