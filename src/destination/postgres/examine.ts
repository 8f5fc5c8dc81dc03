/** Examines a server for `doctor`: the rights of the role, the sessions in the database, the obstacles. Changes nothing. */

import type { Clock } from '../../lib/clock.ts';
import { placeOfDatabase, type Secret } from '../../lib/secret.ts';
import { booleanAt, identifier, numberAt, text, textAt } from '../../staging/engine/sql.ts';
import { macroNames } from '../catalog/undo-logs.ts';
import { SELECT_MAY_RECOVER } from './catalog/distributed.ts';
import {
  ARCHIVE_SCHEMA,
  CATALOG_SCHEMA,
  catalogTable,
  HISTORY_SCHEMA,
  LIVE_SCHEMA,
} from './catalog/names.ts';
import { hasCatalog } from './catalog/observed-state.ts';
import { Connection, OF_READER, type Transaction } from './connection.ts';
import { destinationError } from './errors.ts';
import { readServer, type Server } from './server.ts';

const SCHEMAS: readonly string[] = [LIVE_SCHEMA, CATALOG_SCHEMA, ARCHIVE_SCHEMA, HISTORY_SCHEMA];

export interface ExamineOptions {
  readonly url: Secret;
  readonly clock: Clock;
  /** The roles of `destination.readers`. */
  readonly readers: readonly string[];
  readonly signal?: AbortSignal;
}

export interface ExaminedServer extends Server {
  /** The rights that the role lacks, as clauses. */
  readonly missingRights: readonly string[];
  readonly isSuperuser: boolean;
  /** Whether the role may make schemas. Only those that are missing need the right. */
  readonly mayCreateSchemas: boolean;
  /** Roles of `destination.readers` that do not exist. */
  readonly unknownReaders: readonly string[];
  /** Whether the role may have Citus end what a node has prepared; true without Citus. */
  readonly mayRecover: boolean;
  /** Whether a pooler such as PgBouncer stands between. */
  readonly isPooled: boolean;
  /** Settings of the server with which it may lose, or hide, what it has: `fsync = off`. */
  readonly unsafeSettings: readonly string[];
  /** Tables of the mirror, as SQL, that the server empties when it crashes. */
  readonly unloggedTables: readonly string[];
  /** How far the clock of the server is ahead of the clock of this machine. */
  readonly clockAheadMs: number;
  /** The process that works on the database; null where none does. */
  readonly holder: string | null;
  /** Transactions that have held locks on tables of the mirror for longer than `OLD_TRANSACTION_MINUTES`. */
  readonly blockers: readonly Blocker[];
  /** Objects of readers that keep frozen tables, logs or their functions from being forgotten. */
  readonly pastHolders: readonly PastHolder[];
}

export interface PastHolder {
  /** As the server describes it: `view public.past`. */
  readonly what: string;
  /** The table, log or function that it hangs on. */
  readonly on: string;
}

export interface Blocker {
  /** Null for a prepared transaction, which has no process. */
  readonly pid: number | null;
  /** The name of a prepared transaction; else the role and the program. */
  readonly who: string;
  readonly minutes: number;
}

/** Examines a server. @throws DestinationError, ConfigurationError */
export async function examineServer(options: ExamineOptions): Promise<ExaminedServer> {
  const { url, clock, readers } = options;
  const connection = new Connection({ ...options, ...OF_READER });
  try {
    return await connection.transaction(
      async (transaction) => {
        const isPooled = connection.isPooled ?? false;
        const server = await readServer(transaction);
        const askedAtMs = clock.now().getTime();
        const [row = []] =
          await transaction.rows(`SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
          (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
          has_database_privilege(current_database(), 'CREATE')`);
        const betweenMs = (askedAtMs + clock.now().getTime()) / 2;
        const isThere = await hasCatalog(transaction);
        return {
          ...server,
          missingRights: await missingRights(transaction, isThere),
          isSuperuser: booleanAt(row, 1),
          mayRecover: server.citus === null || (await mayRecover(transaction)),
          mayCreateSchemas: booleanAt(row, 2),
          unknownReaders: await unknownRoles(transaction, readers),
          isPooled,
          unsafeSettings: (await transaction.rows(SELECT_UNSAFE)).map((setting) => textAt(setting, 0)),
          unloggedTables: isThere ? await readUnlogged(transaction) : [],
          clockAheadMs: numberAt(row, 0) - betweenMs,
          holder: isThere ? await holderOfLease(transaction) : null,
          blockers: await readBlockers(transaction),
          pastHolders: isThere ? await readPastHolders(transaction) : [],
        };
      },
      { isReadOnly: true },
    );
  } catch (error) {
    throw destinationError(error, placeOfDatabase(url));
  } finally {
    await connection.close();
  }
}

const NAMES = `ARRAY[${SCHEMAS.map(text).join(', ')}]`;
/** Beside the tables of datasets a schema may have tables of others. */
const OWN_NAMES = `ARRAY[${SCHEMAS.filter((name) => name !== LIVE_SCHEMA)
  .map(text)
  .join(', ')}]`;

const SELECT_MISSING_RIGHTS = `SELECT 'create temporary tables in the database'
    WHERE NOT has_database_privilege(current_database(), 'TEMP')
  UNION ALL SELECT 'create the schema ' || name FROM unnest(${NAMES}) AS name
    WHERE to_regnamespace(name) IS NULL AND NOT has_database_privilege(current_database(), 'CREATE')
  UNION ALL SELECT 'create tables in the schema ' || name FROM unnest(${NAMES}) AS name
    WHERE to_regnamespace(name) IS NOT NULL AND NOT has_schema_privilege(name, 'CREATE')
  UNION ALL SELECT 'own the table ' || n.nspname || '.' || c.relname FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ${text(CATALOG_SCHEMA)} AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE')`;

/** A table of a dataset that another role owns cannot be written. */
const SELECT_FOREIGN_TABLES = `
  UNION ALL SELECT 'own the table ' || n.nspname || '.' || c.relname FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE')
      AND (n.nspname, c.relname) IN (SELECT schema_name, table_name FROM ${catalogTable('datasets')})`;

/** No session can change them, or may. A role that commits sets the others by itself. */
const SELECT_UNSAFE = `SELECT name || ' = ' || setting FROM pg_settings WHERE (name, setting) IN
  (('fsync', 'off'), ('full_page_writes', 'off'), ('ignore_checksum_failure', 'on'), ('zero_damaged_pages', 'on'))
  ORDER BY name`;

async function readUnlogged(transaction: Transaction): Promise<readonly string[]> {
  const known = (await mayRead(transaction, 'datasets'))
    ? ` OR (n.nspname, c.relname) IN (SELECT schema_name, table_name FROM ${catalogTable('datasets')})`
    : '';
  const rows = await transaction.rows(`SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence = 'u' AND (n.nspname = ANY (${OWN_NAMES})${known}) ORDER BY 1`);
  return rows.map((row) => textAt(row, 0));
}

async function missingRights(transaction: Transaction, isThere: boolean): Promise<readonly string[]> {
  const known = isThere && (await mayRead(transaction, 'datasets')) ? SELECT_FOREIGN_TABLES : '';
  return (await transaction.rows(SELECT_MISSING_RIGHTS + known)).map((right) => textAt(right, 0));
}

async function mayRead(
  transaction: Transaction,
  table: Parameters<typeof catalogTable>[0],
): Promise<boolean> {
  const name = text(catalogTable(table));
  const [[isAllowed] = []] = await transaction.rows(`SELECT has_table_privilege(${name}, 'SELECT')`);
  return isAllowed === true;
}

async function mayRecover(transaction: Transaction): Promise<boolean> {
  const [row = []] = await transaction.rows(SELECT_MAY_RECOVER);
  return booleanAt(row, 0);
}

async function unknownRoles(
  transaction: Transaction,
  readers: readonly string[],
): Promise<readonly string[]> {
  if (readers.length === 0) return [];
  const names = readers.map((name) => `(${text(name)})`).join(', ');
  const rows = await transaction.rows(`SELECT name FROM (VALUES ${names}) AS reader(name)
    WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = name)`);
  return rows.map((row) => textAt(row, 0));
}

async function holderOfLease(transaction: Transaction): Promise<string | null> {
  if (!(await mayRead(transaction, 'lease'))) return null;
  const [row] = await transaction.rows(
    `SELECT holder FROM ${catalogTable('lease')} WHERE expires_at > clock_timestamp()`,
  );
  return row === undefined ? null : textAt(row, 0);
}

/** A commit of feed-sync may take as long. */
export const OLD_TRANSACTION_MINUTES = 15;

/** A role sees since when the transactions of others run only where it may read all statistics. */
async function readBlockers(transaction: Transaction): Promise<readonly Blocker[]> {
  const rows = await transaction.rows(`WITH held AS (
      SELECT DISTINCT l.pid, l.virtualtransaction FROM pg_locks l
      JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND n.nspname = ANY (${NAMES}) AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid())
    SELECT a.pid, a.usename || ', ' || coalesce(nullif(a.application_name, ''), 'a program without a name'),
        floor(extract(epoch FROM clock_timestamp() - a.xact_start) / 60)::int
      FROM held JOIN pg_stat_activity a ON a.pid = held.pid
      WHERE a.xact_start < clock_timestamp() - interval '${OLD_TRANSACTION_MINUTES} minutes'
    UNION ALL SELECT NULL, p.gid, floor(extract(epoch FROM clock_timestamp() - p.prepared) / 60)::int
      FROM held JOIN pg_locks own ON held.pid IS NULL AND own.pid IS NULL AND own.locktype = 'transactionid'
        AND own.virtualtransaction = held.virtualtransaction
      JOIN pg_prepared_xacts p ON p.transaction = own.transactionid
      WHERE p.prepared < clock_timestamp() - interval '${OLD_TRANSACTION_MINUTES} minutes'
    ORDER BY 3 DESC, 2`);
  return rows.map((row) => ({
    pid: row[0] === null ? null : numberAt(row, 0),
    who: textAt(row, 1),
    minutes: numberAt(row, 2),
  }));
}

/** Only frozen logs are dropped: what hangs on the log of a live table is in nobody's way. */
async function readPastHolders(transaction: Transaction): Promise<readonly PastHolder[]> {
  const logs = await transaction.rows(`SELECT log_name, table_name FROM ${catalogTable('history_logs')}
    WHERE frozen_commit IS NOT NULL`);
  const tables = logs.flatMap((row) => {
    const [schema, name] = textAt(row, 1).split('.');
    return [textAt(row, 0), ...(schema === HISTORY_SCHEMA && name !== undefined ? [name] : [])];
  });
  const functions = logs.flatMap((row) => macroNames(textAt(row, 0)));
  const list = (names: readonly string[]) => `ARRAY[${names.map(text).join(', ')}]::text[]`;
  const rows = await transaction.rows(`WITH past AS (
      SELECT c.tableoid AS class, c.oid, c.reltype, n.nspname || '.' || c.relname AS name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ${text(HISTORY_SCHEMA)} AND c.relname = ANY (${list(tables)})
      UNION ALL SELECT p.tableoid, p.oid, 0, n.nspname || '.' || p.proname
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = ${text(HISTORY_SCHEMA)} AND p.proname = ANY (${list(functions)}))
    SELECT DISTINCT coalesce(pg_describe_object('pg_class'::regclass, r.ev_class, 0),
        pg_describe_object(d.classid, d.objid, 0)), past.name
      FROM past JOIN pg_depend d ON d.deptype = 'n'
        AND ((d.refclassid, d.refobjid) = (past.class, past.oid)
          OR (d.refclassid, d.refobjid) = ('pg_type'::regclass, past.reltype))
      LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
      WHERE NOT EXISTS (SELECT 1 FROM past AS own WHERE own.oid = coalesce(r.ev_class, d.objid))
      ORDER BY 1, 2`);
  return rows.map((row) => ({ what: textAt(row, 0), on: textAt(row, 1) }));
}

interface SetUp {
  readonly role: string;
  readonly database: string;
  /** The roles of `destination.readers`. */
  readonly readers: readonly string[];
  /** Whether the role is to make schemas by rules, whose names follow from the ids of datasets. */
  readonly makesSchemas: boolean;
}

/** Returns the script for psql that makes role, database and schemas where they are missing. It contains no password. */
export function setUpScript({ role, database, readers, makesSchemas }: SetUp): string {
  const created = (kind: string, name: string, catalog: string, column: string, rest = ''): string => {
    const make = `CREATE ${kind} ${identifier(name)}${rest}`;
    return `SELECT ${text(make)} WHERE NOT EXISTS (SELECT 1 FROM ${catalog} WHERE ${column} = ${text(name)}) \\gexec`;
  };
  const owner = identifier(role);
  const rights = ['CONNECT', 'TEMPORARY', ...(makesSchemas ? ['CREATE'] : [])].join(', ');
  return [
    '-- Run by a superuser: psql -d postgres -f FILE. It may be run again.',
    created('ROLE', role, 'pg_roles', 'rolname', ' LOGIN'),
    `-- To give the role a password: \\password ${owner}`,
    ...readers.map((reader) => created('ROLE', reader, 'pg_roles', 'rolname')),
    created('DATABASE', database, 'pg_database', 'datname', " ENCODING 'UTF8' TEMPLATE template0"),
    `\\connect ${identifier(database)}`,
    '-- Without PostGIS geometries are stored as bytes (WKB).',
    'CREATE EXTENSION IF NOT EXISTS postgis;',
    `GRANT ${rights} ON DATABASE ${identifier(database)} TO ${owner};`,
    ...SCHEMAS.map((name) => `CREATE SCHEMA IF NOT EXISTS ${identifier(name)} AUTHORIZATION ${owner};`),
    '-- With Citus: ends what a node that was lost has prepared.',
    `SELECT ${text(`GRANT EXECUTE ON FUNCTION pg_catalog.recover_prepared_transactions() TO ${owner}`)}
      WHERE EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') \\gexec`,
    '',
  ].join('\n');
}
