/**
 * Compares tables of the mirror with the content that the service has for them, beside the program that writes the mirror. The file
 * is open for slices of a few seconds, so that a writer waits no longer than that; it is opened for reading only.
 *
 * Invariant: what is compared is one commit. A slice that finds a newer commit of the table ends the comparison.
 */

import { dirname, join } from 'node:path';
import type { Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { ObservedTable, VersionContent } from '../../model/write-jobs.ts';
import { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, firstLine } from '../../staging/engine/errors.ts';
import { identifier, literalPattern, numberAt, text } from '../../staging/engine/sql.ts';
import {
  type ContentRows,
  examineContent,
  OtherColumnsError,
  proveExpected,
} from '../../staging/version-content.ts';
import { isSameChecksum } from '../catalog/cells.ts';
import { hasOtherColumns } from '../catalog/columns.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import type { Comparer, ContentComparison, ShownKeys } from '../comparer.ts';
import { comparisonFailure } from '../comparison-failure.ts';
import { readFormat } from './catalog/format.ts';
import { readChecksums, readObservedTables } from './catalog/observed-state.ts';
import { MIRROR, mirrored } from './catalog/schema.ts';
import {
  countActual,
  countExpected,
  createActual,
  createExpected,
  dropCompared,
  findDifference,
  insertActual,
  type RowRange,
  showKeys,
} from './compare-rows.ts';
import { IS_DAMAGE, strayColumnsOf } from './count-tables.ts';
import { waitForFile } from './mirror-file.ts';
import { hasAddresses } from './tables.ts';

/** The longest time for which the mirror is open at a stretch. */
const MAX_SLICE_MS = 5_000;
/** No further rows are read in a slice after this time, so that those under way end within the slice. */
const READ_FOR_MS = 3_000;
/** The rows that are read by one statement: at first, at least, and at most. */
const FIRST_ROWS = 122_880;
const MIN_ROWS = 2_048;
const MAX_ROWS = 8_000_000;
/** Longer than a writer waits between two attempts to open the file. */
const PAUSE_MS = 1_000;

export interface ComparerOptions {
  /** The real path of the mirror. */
  readonly path: string;
  /** An own folder: DuckDB spills into it, and it contains the folders of downloads. */
  readonly directory: string;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  /** Disk space that a comparison leaves free. */
  readonly reserveBytes: number;
  /** How long to wait for a writer that has the file open. */
  readonly waitMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Called with a wait that an operator may notice. */
  readonly log?: Log;
}

/** Ends a comparison with its outcome. */
class Ended extends Error {
  readonly outcome: ContentComparison;

  constructor(outcome: ContentComparison) {
    super(outcome.kind);
    this.outcome = outcome;
  }
}

/** Opens a comparer. @throws DuckDbError */
export async function openComparer(options: ComparerOptions): Promise<Comparer> {
  const { path, directory, reserveBytes, clock, signal } = options;
  const engine = await Engine.open({
    memoryLimitBytes: options.memoryLimitBytes,
    threads: options.threads,
    temporaryDirectory: join(directory, 'spilled'),
    directories: [directory, literalPattern(directory), dirname(path)],
    inAnyOrder: true,
    clock,
    signal,
    guard: { folders: [directory], reserveBytes, clock },
  });
  return new MirrorComparer(engine, options);
}

class MirrorComparer implements Comparer {
  readonly #engine: Engine;
  readonly #options: ComparerOptions;
  /** For how long the mirror was open since it was last left to writers. */
  #heldMs = 0;

  constructor(engine: Engine, options: ComparerOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  async compare(
    table: ObservedTable,
    content: VersionContent,
    onRead: (rows: number) => void,
  ): Promise<ContentComparison> {
    try {
      return await this.#compare(table, content, onRead);
    } catch (error) {
      if (error instanceof Ended) return error.outcome;
      if (error instanceof OtherColumnsError) return { kind: 'other-columns', why: error.message };
      throw error instanceof DuckDbError ? await comparisonFailure(error, table, this.#options) : error;
    } finally {
      if (this.#engine.invalidated) await this.#engine.reopen();
      for (const statement of dropCompared()) await this.#engine.finish(statement);
    }
  }

  async close(): Promise<void> {
    this.#engine.close();
  }

  async #compare(
    table: ObservedTable,
    content: VersionContent,
    onRead: (rows: number) => void,
  ): Promise<ContentComparison> {
    const rows = await examineContent(this.#engine, content, table);
    await this.#engine.runWhileSpaceIsFree(createExpected(table, rows));
    proveExpected(content, await countExpected(this.#engine, table));
    await this.#engine.run(createActual(table));
    await this.#readTable(table, onRead);
    const difference = await findDifference(this.#engine, table);
    if (difference === null) return await this.#equal(table);
    return { kind: 'different', difference, keys: await this.#keys(table, rows) };
  }

  async #equal(table: ObservedTable): Promise<ContentComparison> {
    const { checksum } = await countActual(this.#engine);
    const recorded = await this.#inSlice(table, async (format) => {
      return (await readChecksums(this.#engine, [table.datasetId], format)).get(table.datasetId) ?? null;
    });
    return { kind: 'equal', unrecorded: isSameChecksum(recorded, checksum) ? null : checksum };
  }

  #keys(table: ObservedTable, rows: ContentRows): Promise<ShownKeys> {
    return showKeys(this.#engine, table, rows, mirrored(table.tableName), (statement) =>
      this.#inSlice(table, () => this.#engine.run(statement)),
    );
  }

  async #readTable(table: ObservedTable, onRead: (rows: number) => void): Promise<void> {
    const at: Position = { from: 0, end: null, rowsAtOnce: FIRST_ROWS };
    do {
      await this.#inSlice(table, async () => {
        at.end ??= await this.#lengthOf(table);
        const startMs = this.#options.clock.monotonicMs();
        while (at.from < at.end && this.#options.clock.monotonicMs() - startMs < READ_FOR_MS) {
          const before = at.from;
          if (!(await this.#readOn(table, at, at.end))) break;
          onRead(at.from - before);
        }
      });
    } while (at.from < (at.end ?? 0));
  }

  /** Reads the next rows. Resolves to false where the slice has to end first, and fewer rows are to be read at once. */
  async #readOn(table: ObservedTable, at: Position, end: number): Promise<boolean> {
    const to = hasAddresses(table) ? Math.min(end, at.from + at.rowsAtOnce) : end;
    const range = hasAddresses(table) ? { from: at.from, to } : null;
    const tookMs = await this.#readRows(table, range, at.rowsAtOnce > MIN_ROWS);
    at.rowsAtOnce = rowsNext(at.rowsAtOnce, tookMs);
    if (tookMs === null) return false;
    at.from = to;
    return true;
  }

  /** Returns the address after the last row, or the row count of a table without addresses. @throws Ended */
  async #lengthOf(table: ObservedTable): Promise<number> {
    const [stray] = await strayColumnsOf(this.#engine, table);
    if (stray !== undefined) {
      throw new Ended({ kind: 'other-columns', why: hasOtherColumns(table.tableName, stray.columnName) });
    }
    const length = hasAddresses(table) ? 'coalesce(max(rowid) + 1, 0)' : 'count(*)';
    const [row = []] = await this.#reading(table, null, () =>
      this.#engine.rows(`SELECT ${length} FROM ${mirrored(table.tableName)}`),
    );
    return numberAt(row, 0);
  }

  /** Returns how long it took; null where it would take longer than a slice may last. @throws Ended when the table is damaged. */
  async #readRows(table: ObservedTable, range: RowRange | null, mayBeLess: boolean): Promise<number | null> {
    const { clock } = this.#options;
    const startMs = clock.monotonicMs();
    const tooLong = new AbortController();
    const ended = new AbortController();
    if (mayBeLess && range !== null) {
      const stop = () => tooLong.abort();
      void clock.sleep(MAX_SLICE_MS - READ_FOR_MS, ended.signal).then(stop, () => {});
    }
    try {
      const insert = insertActual(table, mirrored(table.tableName), range);
      await this.#reading(table, range, () => this.#engine.use((one) => one.run(insert), tooLong.signal));
      return clock.monotonicMs() - startMs;
    } catch (error) {
      const isTooLong =
        tooLong.signal.aborted && error instanceof DuckDbError && error.fault === 'interrupted';
      if (!isTooLong || this.#options.signal.aborted) throw error;
      return null;
    } finally {
      ended.abort();
    }
  }

  /** @throws Ended when the rows cannot be read. */
  async #reading<T>(table: ObservedTable, range: RowRange | null, read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof DuckDbError) || !IS_DAMAGE.has(error.fault)) throw error;
      const columnName = await this.#findDamaged(table, range).catch(() => null);
      throw new Ended({ kind: 'damaged', columnName, why: firstLine(error) });
    }
  }

  /** Returns the first column of the rows that cannot be read. */
  async #findDamaged(table: ObservedTable, range: RowRange | null): Promise<string | null> {
    if (this.#engine.invalidated) {
      await this.#engine.reopen();
      await this.#engine.run(this.#attach());
    }
    const where = range === null ? '' : ` WHERE rowid >= ${range.from} AND rowid < ${range.to}`;
    for (const { columnName } of table.columns) {
      try {
        const hash = `bit_xor(hash(${identifier(columnName)}))`;
        await this.#engine.rows(`SELECT ${hash} FROM ${mirrored(table.tableName)}${where}`);
      } catch {
        return columnName;
      }
    }
    return null;
  }

  #attach(): string {
    return `ATTACH ${text(this.#options.path)} AS ${identifier(MIRROR)} (READ_ONLY)`;
  }

  /** Calls `use` with the mirror attached and the format of its catalog. @throws Ended when the table is not as it was. */
  async #inSlice<T>(table: ObservedTable, use: (format: number) => Promise<T>): Promise<T> {
    const { clock, path, waitMs, signal } = this.#options;
    if (this.#heldMs >= READ_FOR_MS) {
      await clock.sleep(PAUSE_MS, signal);
      this.#heldMs = 0;
    }
    await waitForFile({ ...this.#options, lockWaitMs: waitMs, isReader: true }, () =>
      this.#engine.run(this.#attach()),
    );
    const startMs = clock.monotonicMs();
    try {
      const format = await readFormat(this.#engine, path);
      if (format === null) throw new Ended({ kind: 'moved' });
      const now = (await readObservedTables(this.#engine, [table.datasetId], format)).get(table.datasetId);
      if (now === undefined || !isPlannedFrom(now, table)) throw new Ended({ kind: 'moved' });
      return await use(format);
    } finally {
      // An instance that gave up has let the file go.
      if (!this.#engine.invalidated) await this.#engine.finish(`DETACH ${identifier(MIRROR)}`);
      this.#heldMs += clock.monotonicMs() - startMs;
    }
  }
}

/** How far a table was read. */
interface Position {
  /** The address of the next row. */
  from: number;
  /** The address after the last row; null before the first slice. */
  end: number | null;
  rowsAtOnce: number;
}

/** `tookMs` is null where the rows could not be read in time. */
function rowsNext(rowsAtOnce: number, tookMs: number | null): number {
  if (tookMs === null) return Math.max(MIN_ROWS, Math.floor(rowsAtOnce / 8));
  if (tookMs < READ_FOR_MS / 8) return Math.min(MAX_ROWS, rowsAtOnce * 2);
  return tookMs > READ_FOR_MS / 2 ? Math.max(MIN_ROWS, Math.floor(rowsAtOnce / 2)) : rowsAtOnce;
}
