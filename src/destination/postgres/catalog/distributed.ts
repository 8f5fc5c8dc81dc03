/**
 * Schemas that Citus distributes: each is on one node, with all of its tables. A commit writes rows on that node and the catalog on the
 * coordinator.
 *
 * Invariants: the coordinator decides whether a commit took effect on both, because the commit is prepared on the node first: Citus
 * prepares where rows were copied. A commit begins with the row of its dataset in the table of states, which it locks, so that none
 * begins before an earlier one of the dataset has ended on the node.
 */

import { Readable } from 'node:stream';
import type { ObservedTable } from '../../../model/write-jobs.ts';
import { booleanAt, identifier, integer, numberAt, text } from '../../../staging/engine/sql.ts';
import type { Transaction } from '../connection.ts';
import { PostgresError } from '../errors.ts';
import { isLocked } from '../lock-waits.ts';
import { waitAtMost } from '../settings.ts';
import { type Place, qualified } from './names.ts';
import { isDistributed } from './observed-state.ts';

/** The names of tables of datasets have no such character. */
const STATES = 'feed_sync~states';

/** Returns the table of a schema that says which commit each of its tables has. As SQL. */
function statesOf(schemaName: string): string {
  return qualified({ schemaName, tableName: STATES });
}

/** Gives a new schema to one node. Its owner may. @throws PostgresError */
export async function distributeSchema(transaction: Transaction, schemaName: string): Promise<void> {
  await transaction.rows(`SELECT citus_schema_distribute(${text(identifier(schemaName))})`);
  await makeStates(transaction, schemaName);
}

/** A schema that could not be made, because a node was missing, is made at the next catch-up. @throws PostgresError */
export async function refuseWithoutSchema(transaction: Transaction, { schemaName }: Place): Promise<void> {
  const [row = []] = await transaction.rows(
    `SELECT to_regnamespace(${text(identifier(schemaName))}) IS NULL`,
  );
  if (booleanAt(row, 0))
    throw new PostgresError(
      'node-unavailable',
      `the schema ${schemaName} could not be made without it`,
      null,
    );
}

async function makeStates(transaction: Transaction, schemaName: string): Promise<void> {
  await transaction.run(
    `CREATE TABLE ${statesOf(schemaName)} (dataset_id text PRIMARY KEY, commit_number bigint NOT NULL)`,
  );
}

/** A schema that an operator gave to a node has no such table, nor one whose table somebody has dropped. */
async function hasStates(transaction: Transaction, schemaName: string): Promise<boolean> {
  const [row = []] = await transaction.rows(`SELECT to_regclass(${text(statesOf(schemaName))}) IS NOT NULL`);
  return booleanAt(row, 0);
}

/** Has schemas that are made in the transaction stay on the coordinator, also where the server gives each new one to a node. */
export async function makeSchemasHere(transaction: Transaction): Promise<void> {
  await transaction.run('SET LOCAL citus.enable_schema_based_sharding = off');
}

/** Nobody but a commit locks the row of a state: one that has not ended after so long ends only when it is recovered. */
const STATE_WAIT_MS = 2_000;

/**
 * Writes which commit the table of a dataset gets. The first statement of a commit on its node. @throws PostgresError, with the fault
 * `node-unavailable` also where an earlier commit has not ended there
 */
export async function writeState(
  transaction: Transaction,
  { schemaName, isDistributed }: Place,
  datasetId: string,
  commitNumber: number,
): Promise<void> {
  if (!isDistributed) return;
  const states = statesOf(schemaName);
  await transaction.run(waitAtMost(STATE_WAIT_MS));
  if (!(await hasStates(transaction, schemaName))) await makeStates(transaction, schemaName);
  try {
    await transaction.run(`DELETE FROM ${states} WHERE dataset_id = ${text(datasetId)}`);
  } catch (error) {
    if (!isLocked(error)) throw error;
    throw new PostgresError('node-unavailable', 'an earlier commit has not ended there', error);
  }
  const row = `"${datasetId.replaceAll('"', '""')}",${integer(commitNumber)}\n`;
  await transaction.copyIn(
    `COPY ${states} (dataset_id, commit_number) FROM STDIN (FORMAT csv)`,
    Readable.from([row]),
  );
}

/** Removes the state of a dataset whose table has left the schema. */
export async function dropState(
  transaction: Transaction,
  { schemaName, isDistributed }: Place,
  datasetId: string,
): Promise<void> {
  if (!isDistributed) return;
  await transaction.run(`DELETE FROM ${statesOf(schemaName)} WHERE dataset_id = ${text(datasetId)}`);
}

/** The rows on a node are not those of the newest commit in the catalog: that one, or a later one, is being ended there. */
export class UnendedCommitError extends Error {
  override readonly name = 'UnendedCommitError';
}

/**
 * Refuses rows that are of another commit than the catalog says: a node learns of a commit after the coordinator. All is read in one
 * snapshot of the node. @throws UnendedCommitError
 */
export async function refuseUnended(
  transaction: Transaction,
  { datasetId, schemaName, commitNumber }: ObservedTable,
): Promise<void> {
  if (!(await isDistributed(transaction, schemaName))) return;
  if (!(await hasStates(transaction, schemaName))) return;
  const [row] = await transaction.rows(
    `SELECT commit_number FROM ${statesOf(schemaName)} WHERE dataset_id = ${text(datasetId)}`,
  );
  if (row === undefined || numberAt(row, 0) === commitNumber) return;
  throw new UnendedCommitError(
    `The node has the rows of commit ${numberAt(row, 0)} of ${datasetId}, and the catalog commit ${commitNumber}.`,
  );
}

/** Selects whether the role may have Citus end what a node has prepared. */
export const SELECT_MAY_RECOVER = `SELECT has_function_privilege('pg_catalog.recover_prepared_transactions()', 'EXECUTE')`;

/** Has the coordinator end what a node has prepared. Where the role may not, Citus does it by itself within a minute. */
export async function recoverPrepared(transaction: Transaction): Promise<void> {
  const [row = []] = await transaction.rows(SELECT_MAY_RECOVER);
  if (booleanAt(row, 0)) await transaction.rows('SELECT recover_prepared_transactions()');
}
