/**
 * Compares tables of the database with the content that the service has for them, beside the program that writes them. The content is
 * staged in the database, and is gone with the transaction.
 *
 * Invariant: what is compared is one commit, because all of it is read in one snapshot of the database.
 */

import { join } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import type { RunProgram } from '../../lib/run-program.ts';
import { placeOfDatabase, type Secret } from '../../lib/secret.ts';
import type { RowDifference } from '../../model/commits.ts';
import { MAX_SHOWN_KEYS } from '../../model/gate.ts';
import type { ObservedTable, VersionContent } from '../../model/write-jobs.ts';
import { Engine, temporaryDirectory } from '../../staging/engine/engine.ts';
import { DuckDbError } from '../../staging/engine/errors.ts';
import { identifier, literalPattern } from '../../staging/engine/sql.ts';
import { type ContentRows, examineContent, OtherColumnsError } from '../../staging/version-content.ts';
import { isSameChecksum } from '../catalog/cells.ts';
import { hasOtherColumns, shownKeyAt } from '../catalog/columns.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import { plannedColumn } from '../catalog/restored-state.ts';
import type { ChangedKey, Comparer, ContentComparison, ShownKey, ShownKeys } from '../comparer.ts';
import { comparisonFailure } from '../comparison-failure.ts';
import { MAX_KEY_CHARACTERS } from '../judge-commit.ts';
import { refuseUnended, UnendedCommitError } from './catalog/distributed.ts';
import { qualified } from './catalog/names.ts';
import { readCurrent } from './catalog/observed-state.ts';
import { Connection, OF_READER, type Transaction } from './connection.ts';
import { isSameContent, readContent } from './content.ts';
import { strayOf } from './count-tables.ts';
import { createDifference, DIFFERENCE, lowestKeys } from './difference.ts';
import { destinationError } from './errors.ts';
import { copyInto } from './job.ts';
import { type NodeWatch, watchReader } from './node-watch.ts';
import { makePipe, type Pipe } from './pipe.ts';
import { readServer } from './server.ts';
import { changeable, stageOf, type Target } from './stage.ts';
import { compareWholeRows, hasKeys, stageContent } from './stage-content.ts';
import { differs, type Postgis, searchPath } from './types.ts';

export interface PostgresComparerOptions {
  readonly url: Secret;
  /** An own folder: for the pipe to the database and what DuckDB spills; it contains the folders of downloads. */
  readonly directory: string;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  /** Disk space that a comparison leaves free. */
  readonly reserveBytes: number;
  readonly runProgram: RunProgram;
  /** The PATH in which `mkfifo` is looked up. */
  readonly programPath: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Opens a comparer. @throws DestinationError, StorageError */
export async function openPostgresComparer(options: PostgresComparerOptions): Promise<Comparer> {
  const { url, directory, clock, signal } = options;
  const connection = new Connection({ url, clock, signal, ...OF_READER });
  await using opened = new AsyncDisposableStack();
  opened.defer(() => connection.close());
  const place = placeOfDatabase(url);
  try {
    const { postgis, citus } = await connection.transaction(readServer, { isReadOnly: true });
    connection.noteCitus(citus !== null);
    const path = join(directory, 'postgres.pipe');
    const pipe = await makePipe(path, options.runProgram, options.programPath, clock);
    const engine = new Engine({
      memoryLimitBytes: options.memoryLimitBytes,
      threads: options.threads,
      temporaryDirectory: temporaryDirectory(directory, 'large'),
      directories: [directory, literalPattern(directory)],
      inAnyOrder: true,
      clock,
      signal,
      guard: { folders: [directory], reserveBytes: options.reserveBytes, clock },
    });
    opened.move();
    const nodes = watchReader(connection, options);
    return new DatabaseComparer({ place, directory, connection, nodes, postgis, pipe, engine });
  } catch (error) {
    throw destinationError(error, place);
  }
}

interface Opened {
  readonly place: string;
  readonly directory: string;
  readonly connection: Connection;
  /** Null without Citus. */
  readonly nodes: NodeWatch | null;
  readonly postgis: Postgis | null;
  readonly pipe: Pipe;
  readonly engine: Engine;
}

class DatabaseComparer implements Comparer {
  readonly #opened: Opened;

  constructor(opened: Opened) {
    this.#opened = opened;
  }

  async compare(
    table: ObservedTable,
    content: VersionContent,
    onRead: (rows: number) => void,
  ): Promise<ContentComparison> {
    const { engine, connection, nodes, postgis, place, directory: path } = this.#opened;
    try {
      const rows = await examineContent(engine, content, table);
      const compared = (transaction: Transaction) => this.#compare(transaction, table, content, rows);
      const options = { isSnapshot: true, isDiscarded: true, searchPath: searchPath(postgis) };
      const comparing = () => connection.transaction(compared, options);
      const comparison = await (nodes === null ? comparing() : nodes.duringAlone(comparing));
      onRead(table.rowCount);
      return comparison;
    } catch (error) {
      if (error instanceof OtherColumnsError) return { kind: 'other-columns', why: error.message };
      throw error instanceof DuckDbError
        ? await comparisonFailure(error, table, { path, directory: path })
        : destinationError(error, place);
    } finally {
      if (engine.invalidated) await engine.reopen();
    }
  }

  async close(): Promise<void> {
    const { engine, connection } = this.#opened;
    engine.close();
    await connection.close();
  }

  async #compare(
    transaction: Transaction,
    table: ObservedTable,
    content: VersionContent,
    rows: ContentRows,
  ): Promise<ContentComparison> {
    const { engine, pipe, postgis, nodes } = this.#opened;
    const { datasetId, tableName, columns } = table;
    await nodes?.begin(transaction, table.schemaName);
    const current = await readCurrent(transaction, datasetId, postgis);
    const { live, found, recordedColumns, checksum, schemaName, isDistributed } = current;
    if (live === null || !isPlannedFrom(live, table) || (await isUnended(transaction, live)))
      return { kind: 'moved' };
    const why =
      found === null ? `The table ${tableName} is missing.` : otherColumns(table, found.columns, postgis);
    if (why !== null) return { kind: 'other-columns', why };
    const planned = recordedColumns.map(plannedColumn);
    const target: Target = { schemaName, tableName, isDistributed, columns: planned, isNet: false };
    const copy = copyInto(engine, pipe, { transaction, postgis });
    const staged = await stageContent({ transaction, postgis, copy }, target, columns, content, rows);
    const actual = await readContent(transaction, qualified(table), columns);
    if (isSameContent(actual, staged))
      return {
        kind: 'equal',
        unrecorded: isSameChecksum(checksum, actual.checksum) ? null : actual.checksum,
      };
    return { kind: 'different', ...(await findDifference(transaction, target)) };
  }
}

/** A node learns of a commit after the coordinator. */
async function isUnended(transaction: Transaction, live: ObservedTable): Promise<boolean> {
  try {
    await refuseUnended(transaction, live);
    return false;
  } catch (error) {
    if (error instanceof UnendedCommitError) return true;
    throw error;
  }
}

function otherColumns(
  table: ObservedTable,
  found: ReadonlyMap<string, string>,
  postgis: Postgis | null,
): string | null {
  const [stray] = strayOf(table, found, postgis);
  if (stray === undefined) return null;
  return hasOtherColumns(table.tableName, stray.columnName);
}

async function findDifference(
  transaction: Transaction,
  target: Target,
): Promise<{ readonly difference: RowDifference; readonly keys: ShownKeys }> {
  const { columns } = target;
  if (!(await hasKeys(transaction, target))) {
    const difference = await compareWholeRows(transaction, target);
    return { difference, keys: { added: [], changed: [], removed: [] } };
  }
  const known = new Set(columns.map(({ columnName }) => columnName));
  const { added, changed, removed } = await createDifference(transaction, {
    target,
    known,
    keepsRows: false,
  });
  const lowest = lowestKeys(target);
  const shown = async (statement: string | null): Promise<readonly ShownKey[]> =>
    statement === null
      ? []
      : (await transaction.rows(statement)).map((row) => shownKeyAt(row, target.columns));
  return {
    difference: { added, changed, removed },
    keys: {
      added: await shown(lowest.added),
      changed: await readChanged(transaction, target),
      removed: await shown(lowest.removed),
    },
  };
}

async function readChanged(transaction: Transaction, target: Target): Promise<readonly ChangedKey[]> {
  const { columns } = target;
  const keys = columns.flatMap(({ role }, index) => (role === 'key' ? [`d.v${index}`] : []));
  const values = changeable(columns);
  const shown = keys.map((key) => `left(${key}::text, ${MAX_KEY_CHARACTERS})`);
  const changes = values.map(({ columnName, type }) =>
    differs(`t.${identifier(columnName)}`, `s.${identifier(columnName)}`, type),
  );
  const rows = await transaction.rows(`SELECT ${[...shown, ...changes].join(', ')}
    FROM ${DIFFERENCE} AS d JOIN ${qualified(target)} AS t ON t.ctid = d.place JOIN ${stageOf(target)} AS s ON s.ctid = d.staged
    WHERE d.operation = 'changed' ORDER BY ${keys.join(', ')} LIMIT ${MAX_SHOWN_KEYS}`);
  return rows.map((row) => ({
    key: shownKeyAt(row, columns),
    columns: values.flatMap(({ columnName }, index) => (row[keys.length + index] === true ? columnName : [])),
  }));
}
