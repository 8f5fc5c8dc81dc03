/**
 * The windows of one mirror: for large tables one whose instance has all threads, for small ones one that has a single thread.
 * DuckDB writes a row group by one thread, and lets another one ask meanwhile, without a pause, whether that is done: with two
 * threads a checkpoint of small tables takes no less time and twice the processor, which then lacks to what is examined beside it.
 *
 * Invariant: whoever uses them does so in turn, so that the file is attached once at most.
 */

import { Engine, type EngineOptions } from '../engine/engine.ts';
import { temporaryDirectory } from '../engine/temporary-directory.ts';
import { AttachWindow, type WindowOptions } from './attach-window.ts';
import { LeftFree, type LeftFreeOptions } from './left-free.ts';

/** The most rows that a table has in one row group. */
const ROW_GROUP_ROWS = 122_880;

export type TableSize = 'small' | 'large';

/** By which window a table of so many rows is written. */
export function sizeOf(tableRows: number): TableSize {
  return tableRows <= ROW_GROUP_ROWS ? 'small' : 'large';
}

export interface WindowsOptions
  extends Omit<WindowOptions, 'engine' | 'leftFree'>,
    Pick<LeftFreeOptions, 'leftFreeMs'> {
  readonly dataDirectory: string;
}

export class Windows {
  readonly #engines: readonly Engine[];
  readonly #windows: Readonly<Record<TableSize, AttachWindow>>;

  private constructor(options: WindowsOptions, small: Engine, large: Engine) {
    const leftFree = new LeftFree(options);
    this.#engines = [...new Set([small, large])];
    this.#windows = {
      small: new AttachWindow({ ...options, leftFree, engine: small }),
      large: new AttachWindow({ ...options, leftFree, engine: large }),
    };
  }

  /** Opens no file yet. @throws DuckDbError */
  static async open(
    options: WindowsOptions,
    engineOptions: Omit<EngineOptions, 'temporaryDirectory'>,
  ): Promise<Windows> {
    const openEngine = (size: TableSize, threads: number): Promise<Engine> =>
      Engine.open({
        ...engineOptions,
        threads,
        inAnyOrder: size === 'large',
        temporaryDirectory: temporaryDirectory(options.dataDirectory, size),
      });
    const small = await openEngine('small', 1);
    const { threads } = engineOptions;
    return new Windows(options, small, threads === 1 ? small : await openEngine('large', threads));
  }

  of(size: TableSize): AttachWindow {
    return this.#windows[size];
  }

  /** Another number whenever a statement of any of them has ended, or reads on. */
  get progress(): number {
    return this.#engines.reduce((sum, engine) => sum + engine.progress, 0);
  }

  close(): void {
    for (const engine of this.#engines) engine.close();
  }
}
