/** The content of a snapshot beside the table that it is compared with. */

import type { SnapshotJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { identifier, numberAt, text } from '../../staging/engine/sql.ts';
import type { PlannedColumn, TablePlan } from '../../staging/snapshot/table-plan.ts';
import { createStaged } from './load-sql.ts';
import { type Proven, prove } from './prove-content.ts';
import type { WorkAhead } from './write-session.ts';

/**
 * A temporary table, which needs only the files: it is made before the mirror is attached, and found again in the write session. It is
 * lost with its instance, or with the transaction that made it, and is then made again.
 */
export class StagedContent implements WorkAhead {
  readonly #job: SnapshotJob;
  readonly #plan: TablePlan;
  readonly #name: string;
  #isBegun = false;
  #proven: Proven | null = null;

  constructor(job: SnapshotJob, plan: TablePlan) {
    this.#job = job;
    this.#plan = plan;
    this.#name = `feed-sync: staged ${job.datasetId} ${job.digest}`;
  }

  /** The table as SQL. */
  get table(): string {
    return `temp.${identifier(this.#name)}`;
  }

  /** The columns of the table, in order. */
  get columns(): readonly PlannedColumn[] {
    return this.#plan.columns;
  }

  /** Stages and proves the content, unless that was done. @throws DataError, BadKeysError, DuckDbError */
  async prepare(engine: Engine): Promise<Proven> {
    if (this.#proven !== null && (await this.#isThere(engine))) return this.#proven;
    this.#proven = null;
    this.#isBegun = true;
    await engine.runWhileSpaceIsFree(createStaged(this.table, this.#plan));
    this.#proven = await prove(engine, this.#job, this.table, this.columns);
    return this.#proven;
  }

  /** Removes the content, where it was staged. Is not interrupted. @throws DuckDbError */
  async discard(engine: Engine): Promise<void> {
    if (this.#isBegun) await engine.finish(`DROP TABLE IF EXISTS ${this.table}`);
  }

  async #isThere(engine: Engine): Promise<boolean> {
    const [row = []] = await engine.rows(
      `SELECT count(*) FROM duckdb_tables() WHERE database_name = 'temp' AND table_name = ${text(this.#name)}`,
    );
    return numberAt(row, 0) === 1;
  }
}
