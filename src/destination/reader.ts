/** The port for everything that reads the mirrored tables beside the writer: `query`, `status` and `verify`. */

import type { CommitResult } from '../model/commits.ts';
import type { PastCommit, PastState } from '../model/past-states.ts';
import type { ObservedTable } from '../model/write-jobs.ts';
import type { RecordedUnion } from './catalog/unions.ts';
import type { ObservedState } from './destination.ts';
import type { ComparedPast, PastTables } from './past-tables.ts';

/** A reader of the destination for commands, which changes nothing. */
export interface DestinationReader {
  /** Returns the contents of the catalog. */
  observed(): Promise<ObservedState>;
  /** Returns the format of the catalog; null when there is none yet. */
  format(): Promise<number | null>;
  /**
   * Counts those of the given datasets that the mirror contains, in one transaction, and returns the recorded and the actual
   * numbers. Asks `isEnough` after each; counts at least one. After an error the reader can only be closed.
   */
  count(datasetIds: readonly string[], isEnough: () => boolean): Promise<readonly CountedDataset[]>;
  /** Returns the bytes of all tables with their indexes, or null where nobody says; missing where the size of the file says so. */
  bytes?(): Promise<number | null>;
  /** Returns the number of free bytes in a file that does not shrink by itself. */
  freeBytes?(): Promise<number>;
  /** Names the instance that holds the lease of a database; null where none does, or the role may not read it. */
  holder?(): Promise<string | null>;
  /** Returns the unions, in order of name; missing where the destination makes none. */
  unions?(): Promise<readonly RecordedUnion[]>;
  /** Returns the commits of a dataset, oldest first. */
  commits(datasetId: string): Promise<readonly PastCommit[]>;
  /** Returns all undo logs, the newest of each dataset first. */
  pastLogs(): Promise<readonly PastLog[]>;
  /**
   * Runs one statement that reads; with a time, the tables with history are as they were then, and the reader can only be closed
   * afterwards.
   * @throws UsageError with the database's message when the statement fails, or when it names a table that has no state of that time.
   */
  query(sql: string, asOf?: Date): Promise<QueryResult>;
  /**
   * Compares two states of a table with history; `to` is the newest where it is null.
   * @throws UsageError where the history does not know one of them, or where they have other columns.
   */
  diff(
    datasetId: string,
    states: { readonly from: PastState; readonly to: PastState | null },
  ): Promise<DiffResult>;
  /** Compares at least one table of the past with its recorded checksum, and further ones until `isEnough`. */
  comparePast(tables: PastTables, isEnough: () => boolean): Promise<ComparedPast>;
  /** Simulates a rollback to a state. @throws UsageError where it is not known, or is the one that the table has. */
  simulateRollback(datasetId: string, state: PastState): Promise<SimulatedRollback>;
  close(): Promise<void>;
}

/** The rows that lead from one state of a table to another. */
export interface DiffResult {
  readonly from: PastCommit;
  readonly to: PastCommit;
  /** The names of the columns, and their types as the database names them. */
  readonly keys: readonly (readonly [name: string, type: string])[];
  readonly values: readonly (readonly [name: string, type: string])[];
  /** In the order of the keys, streamed. Iterable once. */
  readonly rows: AsyncIterable<DiffRow>;
}

export interface DiffRow {
  readonly change: 'added' | 'changed' | 'removed';
  readonly key: readonly Rendered[];
  /** Null where the row was not there. */
  readonly before: readonly Rendered[] | null;
  readonly after: readonly Rendered[] | null;
}

/** The effect that a rollback of a table would have. */
export interface SimulatedRollback {
  /** The newest commit. */
  readonly from: PastCommit;
  /** The commit whose state it restores. */
  readonly to: PastCommit;
  /** Null where the columns change, too. */
  readonly net: CommitResult['net'];
}

export interface QueryResult {
  readonly columnNames: readonly string[];
  /** The types as the database names them. */
  readonly columnTypes: readonly string[];
  /** The rows, streamed. Iterable once. @throws UsageError */
  readonly rows: AsyncIterable<readonly Rendered[]>;
}

/** A rendered value. Numbers are doubles and small integers; larger integers are text. */
export type Rendered = string | number | boolean | null;

/** A dataset as recorded in the catalog, and its actual table. */
export interface CountedDataset {
  readonly observed: ObservedTable;
  /** Null when the table is missing, or cannot be read. */
  readonly table: CountedTable | null;
  /** Why the table cannot be read to its end; null where it was. */
  readonly damage: string | null;
}

export interface CountedTable {
  readonly rowCount: number;
  /** Null for a table without key columns, or with a key column missing. */
  readonly keys: CountedKeys | null;
  /** The columns that differ from the catalog. */
  readonly strayColumns: readonly StrayColumn[];
  /**
   * Whether the rows have the recorded checksum. Null where none was recorded, or one of another version of the hash, and where
   * columns differ.
   */
  readonly hasRecordedChecksum: boolean | null;
}

export interface CountedKeys {
  /** Rows with a null in their key. */
  readonly nullRows: number;
  /** Rows whose key an earlier row already has. */
  readonly repeatedRows: number;
  /** One repeated key, by column name; null when no key repeats. */
  readonly example: ReadonlyMap<string, string | null> | null;
}

export interface StrayColumn {
  readonly columnName: string;
  /** The expected and the found type, as the database names them; null when the column should not exist, or is missing. */
  readonly expected: string | null;
  readonly found: string | null;
}

/** A log, live or frozen, under the name that its table has or had. */
export interface PastLog {
  readonly datasetId: string;
  readonly tableName: string;
  readonly logName: string;
  /** The table of the newest state, with its schema. */
  readonly source: string;
  /** The first commit whose state the log can restore. */
  readonly firstCommit: number;
  readonly firstTime: Date;
  /** Why earlier states are lost; null where the log begins with the table or was begun there. */
  readonly closedReason: string | null;
  readonly frozenCommit: number | null;
  /** The entries of the log; null where their number was not recorded. */
  readonly rowCount: number | null;
  /** The time of the commit that froze the log; null for the log of a live table. */
  readonly frozenTime: Date | null;
  /** True where the log ends with a retired table that was kept in its place. */
  readonly isKept: boolean;
}
