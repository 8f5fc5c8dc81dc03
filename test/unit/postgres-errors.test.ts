/** The scope and the exit code of an error of PostgreSQL: by its code, and by the statement that it met. */

import process from 'node:process';
import { DatabaseError } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Connection } from '../../src/destination/postgres/connection.ts';
import { datasetError, destinationError, diagnose } from '../../src/destination/postgres/errors.ts';
import { exceedsAnIndex } from '../../src/destination/postgres/tables.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { errorCodeOf, errorEntryOf } from '../../src/model/errors.ts';

function serverError(code: string, file = 'execMain.c') {
  return diagnose(Object.assign(new DatabaseError('said by the server', 0, 'error'), { code, file }));
}

describe('an error of PostgreSQL', () => {
  it('is of an index only where no COPY met it: a JSON text that is too long has the same code', () => {
    const error = serverError('54000');
    expect(exceedsAnIndex(error)).toBe(true);
    error.isOfCopy = true;
    expect(exceedsAnIndex(error)).toBe(false);
  });

  it.each([
    ['a lock that was not free in time', '55P03', 'table_locked', 'part', 75],
    ['deadlocks that repeat', '40P01', 'table_locked', 'part', 75],
    ['serialization failures that repeat', '40001', 'table_locked', 'part', 75],
    ['a limit of temporary files', '53400', 'dataset_storage_failed', 'part', 74],
    ['too little memory for a statement', '53200', 'dataset_storage_failed', 'part', 74],
    ['a damaged block', 'XX001', 'dataset_storage_failed', 'part', 74],
    ['a damaged index', 'XX002', 'dataset_storage_failed', 'part', 74],
    ['a row that is too large for the server', 'XX000', 'dataset_storage_failed', 'part', 74],
    ['a file of a table that cannot be read', '58030', 'dataset_storage_failed', 'part', 74],
    ['a statement that does not run', '42P01', 'dataset_storage_failed', 'part', 74],
    ['a value that the server refuses', '22003', 'dataset_storage_failed', 'part', 74],
    ['a constraint of a reader', '23503', 'reader_dependency', 'part', 77],
    ['a missing right', '42501', 'destination_refused', 'part', 77],
    ['a full disk', '53100', 'storage_failed', 'run', 74],
    ['a server that ends', '57P01', 'destination_unavailable', 'run', 75],
    ['a read-only server', '25006', 'destination_unavailable', 'run', 75],
    ['too many connections', '53300', 'destination_unavailable', 'run', 75],
    ['a statement that was cancelled', '57014', 'interrupted', 'run', 75],
  ])('gives %s (%s) for the rows of a dataset its code, scope and exit code', (_, code, ...expected) => {
    const error = datasetError(serverError(code), 'db');
    const { scope, exitCode } = errorEntryOf(error);
    expect([errorCodeOf(error), scope, exitCode]).toEqual(expected);
  });

  it.each([
    ['is full', '53100', 'dataset_storage_failed', 74],
    ['cannot be reached', '08006', 'node_unavailable', 75],
    ['ends', '57P01', 'node_unavailable', 75],
    ['is lost without a word', 'XX000', 'node_unavailable', 75],
    ['takes no more of a COPY', '58030', 'node_unavailable', 75],
  ])('holds up the datasets of one node alone where it %s (%s)', (_, code, ...expected) => {
    const error = datasetError(serverError(code, 'remote_commands.c'), 'db');
    const { scope, exitCode } = errorEntryOf(error);
    expect([errorCodeOf(error), exitCode, scope]).toEqual([...expected, 'part']);
  });

  it.each([
    ['a lock that was not free in time', '55P03', 'mirror_busy', 75],
    ['a deadlock', '40P01', 'destination_unavailable', 75],
    ['a limit of temporary files', '53400', 'storage_failed', 74],
    ['a damaged block', 'XX001', 'storage_failed', 74],
  ])('stops the run after %s (%s) for all datasets', (_, code, ...expected) => {
    const error = destinationError(serverError(code), 'db');
    const { scope, exitCode } = errorEntryOf(error);
    expect([errorCodeOf(error), exitCode, scope]).toEqual([...expected, 'run']);
  });
});

describe('the way to a server of PostgreSQL', () => {
  const NOWHERE = 'postgres://feeds:canary@127.0.0.1:1/county';
  const failure = async (rest: string): Promise<Error> => {
    const connection = new Connection({ url: new Secret(`${NOWHERE}${rest}`), clock: systemClock });
    const error: unknown = await connection.run('SELECT 1').catch((thrown: unknown) => thrown);
    return destinationError(error, 'db');
  };

  it.each([
    ['?sslrootcert=/nowhere/ca.pem', 'the file /nowhere/ca.pem: no such file or directory (ENOENT).'],
    ['?uselibpqcompat=true&sslmode=verify-ca', 'verify-ca requires specifying a CA'],
  ])('reports an address with %s as a wrong setting, and no bug', async (rest, reason) => {
    const error = await failure(rest);
    expect([errorCodeOf(error), errorEntryOf(error).exitCode]).toEqual(['configuration_invalid', 78]);
    expect(error.message).toContain('The address of the database db cannot be used: ');
    expect(error.message).toContain(reason);
    expect(error.message).not.toContain('canary');
  });

  it('has the driver write no warning of its own for a weaker sslmode', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on('warning', note);
    onTestFinished(() => void process.off('warning', note));
    expect(errorCodeOf(await failure('?sslmode=require'))).toBe('destination_unavailable');
    expect(warnings).toEqual([]);
  });

  it.each([
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'sslrootcert=FILE'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'sslrootcert=FILE'],
    ['CERT_HAS_EXPIRED', 'has to renew it'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'the host that it is for'],
    ['ECONNREFUSED', 'feed-sync doctor'],
  ])('says what to do about %s', (code, hint) => {
    const error = destinationError(diagnose(Object.assign(new Error('broken'), { code })), 'db');
    expect(errorCodeOf(error)).toBe('destination_unavailable');
    expect(error).toMatchObject({ hint: expect.stringContaining(hint) });
    expect(error.message.includes('certificate of the server is not trusted')).toBe(code !== 'ECONNREFUSED');
  });
});
