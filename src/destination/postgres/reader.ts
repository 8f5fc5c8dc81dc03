/** Reads the database beside the writer, for `query`, `status` and `verify`, in transactions that can change nothing. */

import type { Clock } from '../../lib/clock.ts';
import { placeOfDatabase, type Secret } from '../../lib/secret.ts';
import { BusyError, FeedSyncError, InterruptedError, UsageError } from '../../model/errors.ts';
import type { PastCommit, PastState } from '../../model/past-states.ts';
import { identifier, integer, numberAt, textAt } from '../../staging/engine/sql.ts';
import { compareStates, diffResult, simulateRollback } from '../catalog/compare-states.ts';
import type { RecordedUnion } from '../catalog/unions.ts';
import type { ObservedState } from '../destination.ts';
import type { ComparedPast, PastTables } from '../past-tables.ts';
import type {
  CountedDataset,
  DestinationReader,
  DiffResult,
  PastLog,
  QueryResult,
  Rendered,
  SimulatedRollback,
} from '../reader.ts';
import { UnendedCommitError } from './catalog/distributed.ts';
import { LIVE_SCHEMA } from './catalog/names.ts';
import {
  hasCatalog,
  hasCitus,
  readLiveSchemas,
  readMeta,
  readTables,
  readWithMissing,
} from './catalog/observed-state.ts';
import { FORMAT_VERSION, selectBytes } from './catalog/schema.ts';
import { Connection, OF_READER, type Transaction } from './connection.ts';
import { countDatasets, type InTurn } from './count-tables.ts';
import { destinationError, diagnose, isOfNode, PostgresError, sentence } from './errors.ts';
import { readHolder } from './lease.ts';
import { type NodeWatch, watchReader } from './node-watch.ts';
import { showAsOf } from './past/as-of.ts';
import { countDiff, selectDiff } from './past/diff.ts';
import { pastCatalog, readPastLogs } from './past/past-logs.ts';
import { comparePastTables } from './past/past-tables.ts';
import { readServer } from './server.ts';
import { firstStatementsOfQuery } from './settings.ts';
import { type Postgis, searchPath } from './types.ts';
import { readUnions } from './unions.ts';

/** A statement of `query` is ended after so long. */
const MAX_QUERY_MS = 600_000;
/** The size of the tables is not waited for any longer: a node may have fallen silent. */
const MAX_SIZE_MS = 30_000;
/** Rows fetched at once. */
const ROWS_AT_ONCE = 1_000;

export interface PostgresReaderOptions {
  readonly url: Secret;
  readonly clock: Clock;
  /** Ends the running statement when aborted. */
  readonly signal?: AbortSignal;
}

/** Returns null when the database has no catalog yet. @throws DestinationError, ConfigurationError */
export async function openPostgresReader(options: PostgresReaderOptions): Promise<DestinationReader | null> {
  const connection = new Connection({ ...options, ...OF_READER });
  const place = placeOfDatabase(options.url);
  try {
    const found = await connection.transaction(
      async (transaction) => {
        if (!(await hasCatalog(transaction))) return null;
        await readMeta(transaction, place);
        return await readServer(transaction);
      },
      { isReadOnly: true },
    );
    if (found !== null) {
      connection.noteCitus(found.citus !== null);
      const nodes = watchReader(connection, options);
      return new PostgresReader({ connection, place, postgis: found.postgis, nodes, clock: options.clock });
    }
  } catch (error) {
    await connection.close();
    throw destinationError(error, place);
  }
  await connection.close();
  return null;
}

interface Opened {
  readonly connection: Connection;
  readonly place: string;
  readonly postgis: Postgis | null;
  /** Null without Citus. */
  readonly nodes: NodeWatch | null;
  readonly clock: Clock;
}

class PostgresReader implements DestinationReader {
  readonly #connection: Connection;
  readonly #place: string;
  readonly #postgis: Postgis | null;
  readonly #nodes: NodeWatch | null;
  readonly #clock: Clock;

  constructor({ connection, place, postgis, nodes, clock }: Opened) {
    this.#connection = connection;
    this.#place = place;
    this.#postgis = postgis;
    this.#nodes = nodes;
    this.#clock = clock;
  }

  observed(): Promise<ObservedState> {
    return this.#reading((transaction) => readWithMissing(transaction, this.#place));
  }

  async format(): Promise<number> {
    return FORMAT_VERSION;
  }

  count(datasetIds: readonly string[], isEnough: () => boolean): Promise<readonly CountedDataset[]> {
    return this.#ended((transaction) =>
      countDatasets(transaction, this.#postgis, datasetIds, this.#inTurn(transaction, isEnough)),
    );
  }

  /** A node of Citus that is missing, or silent, says nothing of its tables, and the catalog all the same. */
  async bytes(): Promise<number | null> {
    try {
      return await this.#reading(async (transaction) => {
        const isCitus = await hasCitus(transaction);
        if (isCitus) await transaction.run(`SET LOCAL statement_timeout = ${MAX_SIZE_MS}`);
        return numberAt((await transaction.rows(selectBytes(isCitus)))[0] ?? [], 0);
      });
    } catch (error) {
      if (isOfNode(error) || error instanceof InterruptedError) return null;
      throw error;
    }
  }

  /** The lease is granted to no reader. */
  async holder(): Promise<string | null> {
    try {
      const held = await this.#connection.transaction((transaction) => readHolder(transaction), {
        isReadOnly: true,
      });
      return held?.holder ?? null;
    } catch (error) {
      if (error instanceof PostgresError && error.fault === 'not-permitted') return null;
      throw destinationError(error, this.#place);
    }
  }

  commits(datasetId: string): Promise<readonly PastCommit[]> {
    return this.#reading((transaction) => pastCatalog(transaction, this.#postgis).commits(datasetId));
  }

  pastLogs(): Promise<readonly PastLog[]> {
    return this.#reading(readPastLogs);
  }

  unions(): Promise<readonly RecordedUnion[]> {
    return this.#reading(readUnions);
  }

  async diff(
    datasetId: string,
    states: { readonly from: PastState; readonly to: PastState | null },
  ): Promise<DiffResult> {
    return await this.#asking(true, async () => {
      const past = pastCatalog(this.#connection, this.#postgis);
      const compared = await this.#translated(compareStates(past, datasetId, states));
      return diffResult(compared, await this.#show(selectDiff(compared)));
    });
  }

  comparePast(tables: PastTables, isEnough: () => boolean): Promise<ComparedPast> {
    return this.#reading((transaction) =>
      comparePastTables(transaction, this.#postgis, tables, this.#inTurn(transaction, isEnough)),
    );
  }

  async simulateRollback(datasetId: string, state: PastState): Promise<SimulatedRollback> {
    return await this.#reading(async (transaction) => {
      const table = (await readTables(transaction, [datasetId])).get(datasetId)?.observed;
      if (table !== undefined) await this.#nodes?.begin(transaction, table.schemaName);
      return await simulateRollback(pastCatalog(transaction, this.#postgis), datasetId, state, (compared) =>
        countDiff(transaction, compared),
      );
    });
  }

  async query(sql: string, asOf?: Date): Promise<QueryResult> {
    const statement = withoutNul(sql).replace(/[\s;]+$/, '');
    return await this.#asking(asOf === undefined, async () => {
      if (asOf !== undefined) await showAsOf(this.#connection, statement, asOf);
      return await this.#show(statement);
    });
  }

  /** Begins the transaction of a result, which ends with its last row: all that `work` reads is of one state. */
  async #asking<T>(isReadOnly: boolean, work: () => Promise<T>): Promise<T> {
    try {
      const schemas = await this.#reading(readLiveSchemas);
      await this.#connection.begin(this.#begin(isReadOnly, schemas));
      return await work();
    } catch (error) {
      await this.#connection.rollBack();
      throw this.#notRun(error);
    }
  }

  async #show(statement: string): Promise<QueryResult> {
    const shape = await this.#connection.query(`${DECLARE} ${statement}`).then(() => this.#read(0));
    const types = await this.#typesOf(shape.fields.map(({ dataTypeID }) => dataTypeID));
    if (types.includes('GEOMETRY')) {
      const names = shape.fields.map(({ name }) => name);
      await this.#connection.run('CLOSE shown');
      await this.#connection.query(`${DECLARE} ${this.#asText(statement, names, types)}`);
    }
    return {
      columnNames: shape.fields.map(({ name }) => name),
      columnTypes: types,
      rows: this.#rows(types),
    };
  }

  /** Names without a schema are those of the mirrored tables, then those that the role sees anyway. */
  #begin(isReadOnly: boolean, schemas: readonly string[]): readonly string[] {
    const path = [
      LIVE_SCHEMA,
      ...schemas,
      ...(this.#postgis === null ? [] : [this.#postgis.schema]),
      'public',
    ];
    const searched = [...new Set(path)].map(identifier).join(', ');
    const { isCitus } = this.#connection;
    return firstStatementsOfQuery(searched, { isReadOnly, isCitus, limitMs: MAX_QUERY_MS });
  }

  /** The statement may name two columns alike, so they are named by their places. */
  #asText(statement: string, names: readonly string[], types: readonly string[]): string {
    const schema = identifier(this.#postgis?.schema ?? 'public');
    const values = types.map((type, index) => {
      const value = type === 'GEOMETRY' ? `${schema}.ST_AsText(c${index})` : `c${index}`;
      return `${value} AS ${identifier(names[index] || '_')}`;
    });
    return `SELECT ${values.join(', ')} FROM (${statement}\n) AS shown(${types.map((_, index) => `c${index}`).join(', ')})`;
  }

  async #typesOf(ids: readonly number[]): Promise<readonly string[]> {
    if (ids.length === 0) return [];
    const rows = await this.#connection.rows(
      `SELECT format_type(id::oid, NULL) FROM unnest(ARRAY[${ids.join(', ')}]) WITH ORDINALITY AS t(id, place) ORDER BY place`,
    );
    return rows.map((row) => shownType(textAt(row, 0)));
  }

  #read(count: number) {
    return this.#connection.query(`FETCH ${integer(count)} FROM shown`);
  }

  async *#rows(types: readonly string[]): AsyncGenerator<readonly Rendered[]> {
    try {
      for (;;) {
        const { rows } = await this.#read(ROWS_AT_ONCE).catch((error) => {
          throw this.#notRun(error);
        });
        for (const row of rows)
          yield row.map((value, index) => rendered(value as string | null, types[index]));
        if (rows.length < ROWS_AT_ONCE) return;
      }
    } finally {
      // Whatever is read next has a transaction of its own.
      await this.#connection.rollBack();
    }
  }

  #notRun(error: unknown): Error {
    if (error instanceof FeedSyncError) return error;
    const diagnosed = diagnose(error);
    if (diagnosed.fault === 'interrupted') {
      return new BusyError(`The statement was ended: it took longer than ${MAX_QUERY_MS / 60_000} minutes.`, {
        cause: error,
      });
    }
    const isStatements = ['statement', 'value', 'not-permitted', 'depended-on', 'locked'].includes(
      diagnosed.fault,
    );
    if (!isStatements && diagnosed.sqlState !== READ_ONLY) return destinationError(diagnosed, this.#place);
    return new UsageError(`The SQL does not run: ${sentence(diagnosed)}`, {
      hint: 'It is one statement that reads. The tables: feed-sync query "SELECT table_name FROM feed_sync.datasets"',
      cause: error,
    });
  }

  /** All statements see one state: what the catalog says of a table, and its rows. */
  async #reading<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const options = { isReadOnly: true, isSnapshot: true, searchPath: searchPath(this.#postgis) };
    const reading = () => this.#connection.transaction(work, options);
    return await this.#translated(this.#nodes === null ? reading() : this.#nodes.duringAlone(reading));
  }

  #inTurn(transaction: Transaction, isEnough: () => boolean): InTurn {
    return {
      isEnough,
      before: async ({ schemaName }) => await this.#nodes?.begin(transaction, schemaName),
    };
  }

  /** Reads again where a node has not ended a commit yet. @throws DestinationError where it does not for long */
  async #ended<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#reading(work);
      } catch (error) {
        if (!(error instanceof UnendedCommitError)) throw error;
        if (attempt === MAX_READINGS)
          throw destinationError(new PostgresError('node-unavailable', error.message, error), this.#place);
        await this.#clock.sleep(BETWEEN_READINGS_MS);
      }
    }
  }

  async #translated<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      throw error instanceof PostgresError ? destinationError(error, this.#place) : error;
    }
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }
}

/** A commit is ended on its node within milliseconds. */
const MAX_READINGS = 50;
const BETWEEN_READINGS_MS = 100;

const DECLARE = 'DECLARE shown NO SCROLL CURSOR FOR';
/** The code of a statement that would write. */
const READ_ONLY = '25006';

function withoutNul(sql: string): string {
  if (sql.includes('\0')) throw new UsageError('A statement cannot hold a NUL character.');
  return sql;
}

/** `query` chooses the form of a value by the names of DuckDB’s types, whatever the destination. */
const TYPE_NAMES: ReadonlyMap<string, string> = new Map([
  ['text', 'VARCHAR'],
  ['character varying', 'VARCHAR'],
  ['smallint', 'SMALLINT'],
  ['integer', 'INTEGER'],
  ['bigint', 'BIGINT'],
  ['numeric', 'DECIMAL'],
  ['double precision', 'DOUBLE'],
  ['real', 'FLOAT'],
  ['timestamp with time zone', 'TIMESTAMP WITH TIME ZONE'],
  ['jsonb', 'JSON'],
  ['json', 'JSON'],
]);

function shownType(name: string): string {
  return TYPE_NAMES.get(name) ?? (name.endsWith('geometry') ? 'GEOMETRY' : name.toUpperCase());
}

function rendered(value: string | null, type: string | undefined): Rendered {
  if (value === null) return null;
  if (type === 'BOOLEAN') return value === 't';
  if (type === 'DOUBLE' || type === 'FLOAT' || type === 'INTEGER' || type === 'SMALLINT') {
    const number = Number(value);
    return Number.isFinite(number) ? number : value;
  }
  if (type === 'TIMESTAMP WITH TIME ZONE') return value.replace(' ', 'T').replace(/\+00$/, 'Z');
  return type === 'BYTEA' ? value.replace(/^\\x/, '') : value;
}
