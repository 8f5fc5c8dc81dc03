/** The meaning of PostgreSQL's errors. Every error of the driver is diagnosed here, by its SQLSTATE and never by its text. */

import { DatabaseError } from 'pg';
import { adviceOnDistrust, type TrustAdvice } from '../../lib/certificates.ts';
import { systemCode, systemReason } from '../../lib/files.ts';
import {
  ASK_DOCTOR,
  asError,
  BusyError,
  ConfigurationError,
  DestinationError,
  type FeedSyncError,
  InterruptedError,
  StorageError,
} from '../../model/errors.ts';

/**
 * The fault behind an error of the server:
 * - `unavailable`: no connection, or it ended, or the server lets nobody write.
 * - `node-unavailable`: the server has no connection to a node that has the table, or lost it.
 * - `not-admitted`: user, password or database are wrong, or the address cannot be used.
 * - `not-permitted`: the role lacks a right.
 * - `interrupted`: this program stopped the statement.
 * - `locked`: a lock was not free within the time that a statement waits for it.
 * - `conflict`: the server ended the transaction for the sake of another one: repeating it helps.
 * - `depended-on`: an object of a reader stands in the way. Keys, counts and types are proven before, so a constraint is a reader's.
 * - `storage`: the server lacks disk or memory, or is damaged.
 * - `value`: a value that the server refuses.
 * - `statement`: any other error of a statement.
 */
export type Fault =
  | 'unavailable'
  | 'node-unavailable'
  | 'not-admitted'
  | 'not-permitted'
  | 'interrupted'
  | 'locked'
  | 'conflict'
  | 'depended-on'
  | 'storage'
  | 'value'
  | 'statement';

/** Codes decide before classes, which are the first two characters of a code. */
const FAULTS: ReadonlyMap<string, Fault> = new Map<string, Fault>([
  ['3D000', 'not-admitted'],
  ['3F000', 'not-permitted'],
  ['42501', 'not-permitted'],
  ['57014', 'interrupted'],
  ['55P03', 'locked'],
  // A server that became a standby, or that its operator lets nobody write to for a while.
  ['25006', 'unavailable'],
  ['25P03', 'conflict'],
  ['25P04', 'conflict'],
  ['40', 'conflict'],
  ['2BP01', 'depended-on'],
  ['23', 'depended-on'],
  // A trigger or a function of a reader refuses, or waits for the end of the transaction.
  ['09', 'depended-on'],
  ['27', 'depended-on'],
  ['38', 'depended-on'],
  ['39', 'depended-on'],
  ['P0', 'depended-on'],
  ['55006', 'depended-on'],
  // A publication without a replica identity; a generated column.
  ['55000', 'depended-on'],
  ['428C9', 'depended-on'],
  ['57P01', 'unavailable'],
  ['57P02', 'unavailable'],
  ['57P03', 'unavailable'],
  ['57P05', 'unavailable'],
  ['53300', 'unavailable'],
  ['08', 'unavailable'],
  ['28', 'not-admitted'],
  ['53', 'storage'],
  ['58', 'storage'],
  ['XX', 'storage'],
  ['22', 'value'],
  ['54', 'value'],
  ['54011', 'statement'],
]);

/** An object of a reader stands in the way of an altered column: the code alone does not say so, for it has other meanings, too. */
const NOT_SUPPORTED = '0A000';
/** The function of the server that refuses to read past a policy for rows. Its code is that of a missing right. */
const OF_POLICIES = 'check_enable_rls';

/** The function of the server that refuses to make a temporary table for a role that lacks the right. */
const OF_TEMPORARY_TABLES = 'InitTempTableNamespace';
const GRANT_TEMPORARY = 'Run as the owner of the database: GRANT TEMPORARY ON DATABASE … TO … (the role).';
const OWN_SCHEMAS =
  'Make the role the owner of the schemas feeds, feed_sync, archived and history, and of everything in them.';

/** PostGIS has one function for all that it refuses, and one code: that of an error within the server. */
const OF_GEOMETRIES = 'pg_error';
const INTERNAL = 'XX000';

export class PostgresError extends Error {
  override readonly name = 'PostgresError';
  readonly fault: Fault;
  /** The code of the server; null where the connection itself failed. */
  readonly sqlState: string | null;
  /** The detail beside the message: which objects, which key. */
  readonly detail: string | null;
  /** Where in a COPY or a function it happened. */
  readonly where: string | null;
  /** The function of the server that refused. */
  readonly routine: string | null;
  /** Whether a node of the server refused, and Citus passed it on. */
  readonly isOfNode: boolean;
  /** Whether a COPY into a stage or a new table met it. */
  isOfCopy = false;

  constructor(fault: Fault, message: string, cause: unknown) {
    super(message, { cause });
    const server = cause instanceof DatabaseError ? cause : null;
    this.fault = fault;
    this.sqlState = server?.code ?? null;
    this.detail = server?.detail ?? null;
    this.where = server?.where ?? null;
    this.routine = server?.routine ?? null;
    this.isOfNode = server !== null && isSaidOfNode(server);
  }
}

/** The connection broke while COMMIT was under way: only the catalog shows whether it took effect. */
export class OutcomeUnknownError extends Error {
  override readonly name = 'OutcomeUnknownError';
  override readonly cause: PostgresError;

  constructor(cause: PostgresError) {
    super(cause.message);
    this.cause = cause;
  }
}

/** Returns whether PostGIS refuses to read a geometry. */
export function isRefusedGeometry(error: unknown): boolean {
  return error instanceof PostgresError && error.sqlState === INTERNAL && error.routine === OF_GEOMETRIES;
}

/** An index cannot hold a value, or a table a row. */
const TOO_LONG = '54000';
/** The function of the server that finds no page for a row. */
const OF_TOO_LONG_ROWS = 'RelationGetBufferForTuple';

/** Returns whether a row is longer than a page of the server. */
export function isTooLongRow(error: unknown): error is PostgresError {
  return isTooLong(error) && error.routine === OF_TOO_LONG_ROWS;
}

/** Returns whether an index cannot hold a value. */
export function isTooLongForIndex(error: unknown): error is PostgresError {
  return isTooLong(error) && error.routine !== OF_TOO_LONG_ROWS;
}

function isTooLong(error: unknown): error is PostgresError {
  return error instanceof PostgresError && error.sqlState === TOO_LONG;
}

/** Diagnoses any value thrown by the driver. */
export function diagnose(thrown: unknown): PostgresError {
  if (thrown instanceof PostgresError) return thrown;
  if (thrown instanceof DatabaseError) {
    return new PostgresError(faultOf(thrown), thrown.message, thrown);
  }
  return new PostgresError('unavailable', reasonOf(thrown), thrown);
}

/** Diagnoses what the driver throws at the address itself, before it connects. Its message never contains the address. */
export function unusableAddress(thrown: unknown): PostgresError {
  const file = thrown instanceof Error && 'path' in thrown ? `the file ${String(thrown.path)}: ` : '';
  return new PostgresError('not-admitted', `${file}${reasonOf(thrown)}`, thrown);
}

function reasonOf(thrown: unknown): string {
  const code = systemCode(thrown);
  if (code === null) return messageOf(thrown);
  return OF_CERTIFICATES.test(code)
    ? `the certificate of the server is not trusted (${code})`
    : systemReason(thrown);
}

/** The codes of OpenSSL and Node for a certificate that is not trusted. */
const OF_CERTIFICATES = /(?:^|_)CERT(?:_|$)|^UNABLE_TO_VERIFY_LEAF_SIGNATURE$/;
const TRUST_ADVICE: TrustAdvice = {
  owner: 'the server',
  otherHost: 'It is for another host: name in destination.url the host that it is for.',
  privateAuthority:
    'Where it is of a private authority, name its file in destination.url: sslrootcert=FILE; if not, somebody stands between.',
};

function hintOfUnavailable({ cause }: PostgresError): string {
  const code = systemCode(cause) ?? '';
  if (!OF_CERTIFICATES.test(code)) return ASK_DOCTOR;
  return adviceOnDistrust(code, TRUST_ADVICE);
}

function faultOf(error: DatabaseError): Fault {
  const { code = '' } = error;
  if (isOfReader(error)) return 'depended-on';
  if (code === INTERNAL && error.routine === OF_GEOMETRIES) return 'value';
  if (isSaidOfNode(error) && (LOST.test(code) || error.routine === OF_METADATA)) return 'node-unavailable';
  return FAULTS.get(code) ?? FAULTS.get(code.slice(0, 2)) ?? 'statement';
}

/** Returns whether Citus passes on what a node has said, or that it says nothing. */
function isSaidOfNode({ file = '' }: Pick<DatabaseError, 'file'>): boolean {
  return OF_NODES.has(file);
}

/** The files of Citus whose functions speak with nodes. */
const OF_NODES: ReadonlySet<string> = new Set([
  'adaptive_executor.c',
  'connection_management.c',
  'metadata_utility.c',
  'multi_copy.c',
  'remote_commands.c',
  'remote_transaction.c',
  'worker_transaction.c',
]);
/** The function of Citus that refuses what takes all nodes, until one that was replaced knows all tables. */
const OF_METADATA = 'ErrorIfAnyMetadataNodeOutOfSync';
/** The codes of a server that is not there, or goes; XX000 and 58030 where it was lost without a word. */
const LOST = /^(?:08...|57P0[123]|XX000|58030)$/;

/** Returns whether a reader's object refuses, where the code alone does not say so. */
function isOfReader({ code, detail, routine }: DatabaseError): boolean {
  return (code === NOT_SUPPORTED && detail !== undefined) || routine === OF_POLICIES;
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Returns whether a node of Citus is missing, also where that was translated already. */
export function isOfNode(error: unknown): boolean {
  const known = error instanceof DestinationError ? error.cause : error;
  return known instanceof PostgresError && known.fault === 'node-unavailable';
}

/** Turns any thrown value into an error of the model. `place` names the database without its password. */
export function destinationError(error: unknown, place: string): Error {
  // Writes beside commits may be repeated, so it does not matter whether this one took effect.
  const known = error instanceof OutcomeUnknownError ? error.cause : error;
  if (known instanceof PostgresError) return destinationFailure(known, place);
  return asError(error);
}

/** The disk is full: also the smallest of the other datasets finds no space, but for those of other nodes. */
const DISK_FULL = '53100';
const MAKE_ANEW =
  'Each column that was dropped counts. Drop the table; the next catch-up makes it anew, without the indexes and views that readers made.';
const MAKE_ROOM = 'Make room on the disk of the server; the next catch-up goes on by itself.';
/** A dropped column takes the place of one until the table is made anew. */
const TOO_MANY_COLUMNS = '54011';
const DEADLOCK = '40P01';
const SERIALIZATION_FAILURE = '40001';

/**
 * Returns the same for an error that the rows of one dataset met: a failure or a wait there holds up no other dataset. Deadlocks and
 * serialization failures come here once the commit was repeated: another program locks the same tables in another order again and again,
 * or a trigger on the table fails so each time.
 */
export function datasetError(error: unknown, place: string): Error {
  if (!(error instanceof PostgresError)) return destinationError(error, place);
  const { fault, sqlState } = error;
  if (fault === 'locked' || sqlState === DEADLOCK) return locked(error, place, 'table_locked');
  if (sqlState === SERIALIZATION_FAILURE) return notSerialized(error, place);
  if (sqlState === DISK_FULL && !error.isOfNode) return destinationError(error, place);
  switch (fault) {
    // A limit for the statements of our role, or a damaged block of the table. The catalog and COMMIT say so where more is wrong.
    case 'node-unavailable':
      return new DestinationError(`A node of the database ${place} cannot be reached: ${sentence(error)}`, {
        code: 'node_unavailable',
        hint: 'Start the node; the next catch-up goes on by itself.',
        cause: error,
      });
    case 'storage':
    case 'statement':
    case 'value':
      return new StorageError(`A table in the database ${place} cannot be written: ${sentence(error)}`, {
        code: 'dataset_storage_failed',
        ...(sqlState === TOO_MANY_COLUMNS ? { hint: MAKE_ANEW } : {}),
        cause: error,
      });
    default:
      return destinationError(error, place);
  }
}

function locked(error: PostgresError, place: string, code: 'mirror_busy' | 'table_locked'): BusyError {
  return new BusyError(`Others hold a table in the database ${place} locked: ${sentence(error)}`, {
    code,
    hint: 'End the transactions that hold it; pg_locks and pg_stat_activity name them.',
    cause: error,
  });
}

function notSerialized(error: PostgresError, place: string): BusyError {
  const what = `The server ended each commit of a table in the database ${place} for the sake of others`;
  return new BusyError(`${what}: ${sentence(error)}`, {
    code: 'table_locked',
    hint: 'End the transactions that write there (pg_stat_activity), or mend the trigger on the table that fails so.',
    cause: error,
  });
}

function destinationFailure(error: PostgresError, place: string): FeedSyncError {
  const cause = error;
  const said = sentence(error);
  switch (error.fault) {
    case 'unavailable':
    case 'node-unavailable':
    case 'conflict':
      return new DestinationError(`The database ${place} is not available: ${said}`, {
        code: 'destination_unavailable',
        hint: hintOfUnavailable(error),
        cause,
      });
    case 'not-admitted':
      return new ConfigurationError(notAdmitted(error, place), {
        hint: 'Correct destination.url (FEED_SYNC_DESTINATION_URL), or the role in the database.',
        cause,
      });
    case 'not-permitted':
      return new DestinationError(`The role lacks a right in the database ${place}: ${said}`, {
        code: 'destination_refused',
        hint: error.routine === OF_TEMPORARY_TABLES ? GRANT_TEMPORARY : OWN_SCHEMAS,
        cause,
      });
    case 'interrupted':
      return new InterruptedError(`Work in the database ${place} was interrupted.`, { cause });
    case 'locked':
      return locked(error, place, 'mirror_busy');
    case 'depended-on':
      return readerDependency(error, place);
    default:
      return new StorageError(`The database ${place} cannot be used: ${said}`, {
        ...(error.sqlState === DISK_FULL ? { hint: MAKE_ROOM } : {}),
        cause,
      });
  }
}

function notAdmitted(error: PostgresError, place: string): string {
  const said = sentence(error);
  // Only the server has a code: without one nothing was sent to it.
  return error.sqlState === null
    ? `The address of the database ${place} cannot be used: ${said}`
    : `The database ${place} does not admit feed-sync: ${said}`;
}

/** An object of a reader stands in the way of one dataset. */
function readerDependency(error: PostgresError, place: string): DestinationError {
  return new DestinationError(
    `A reader's object in the database ${place} stands in the way: ${sentence(error)}`,
    {
      code: 'reader_dependency',
      hint: 'Drop or change the object; the next catch-up goes on by itself. Nothing was changed.',
      cause: error,
    },
  );
}

/** Returns the message with what the server says beside it, as sentences. */
export function sentence({ message, detail }: PostgresError): string {
  const parts = [message, ...(detail === null ? [] : [detail.replaceAll('\n', '; ')])];
  return parts.map((part) => (/[.!]$/.test(part) ? part : `${part}.`)).join(' ');
}
