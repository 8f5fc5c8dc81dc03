/** The exit codes: part of the program's interface. */

import { describe, expect, it } from 'vitest';
import { EXIT_CODES, EXIT_CODES_HELP, exitCodeOf, mostUrgent } from '../../src/cli/exit-codes.ts';
import { AssertionError } from '../../src/lib/assert.ts';
import { ERRORS } from '../../src/model/error-codes.ts';
import * as errors from '../../src/model/errors.ts';
import { refusal } from '../support/sync-values.ts';

const WORDS = {
  operation: 'watch dataset x',
  status: 404,
  code: 'not_found',
  message: 'x',
  links: new Map(),
};

const CODES: readonly (readonly [errors.FeedSyncError, number])[] = [
  [new errors.UsageError('x'), 64],
  [new errors.DataError('x'), 65],
  [new errors.DataError('x', { code: 'content_mismatch' }), 65],
  [new errors.UnknownColumnsError('parcels', ['x'], 'The file'), 65],
  [new errors.BadChangesError('parcels', 2, 'x'), 65],
  [new errors.InapplicableChangesError('parcels', 2, 'x'), 65],
  [new errors.ContractViolationError('x', 'versions.0.version'), 65],
  [new errors.ContractViolationError('x', 'body', { code: 'response_too_large' }), 65],
  [new errors.StorageError('x'), 74],
  [new errors.StorageError('x', { code: 'mirror_damaged' }), 74],
  [new errors.StorageError('x', { code: 'copy_failed' }), 74],
  [new errors.StorageError('x', { code: 'export_failed' }), 74],
  [new errors.StorageError('x', { code: 'dataset_storage_failed' }), 74],
  [new errors.StorageError('x', { code: 'disk_full' }), 74],
  [new errors.StorageError('x', { code: 'mirror_missing' }), 75],
  [new errors.ServiceUnavailableError('x'), 75],
  [new errors.CursorExpiredError('x'), 75],
  [new errors.BusyError('x'), 75],
  [new errors.BusyError('x', { code: 'table_locked' }), 75],
  [new errors.BusyError('x', { code: 'checkpoint_busy' }), 75],
  [new errors.BusyError('x', { code: 'instance_running' }), 75],
  [new errors.DestinationError('x', { code: 'destination_unavailable' }), 75],
  [new errors.DestinationError('x', { code: 'node_unavailable' }), 75],
  [new errors.DestinationError('x', { code: 'destination_refused' }), 77],
  [new errors.DestinationError('x', { code: 'reader_dependency' }), 77],
  [new errors.HookError('x'), 75],
  [new errors.NotificationError('x'), 75],
  [new errors.InterruptedError('x'), 75],
  [new errors.RequestRefusedError('x', { code: 'table_changed' }), 75],
  [refusal({ kind: 'workspace' }), 77],
  [new errors.CommandRefusedError(WORDS), 77],
  [new errors.CommandRefusedError(WORDS, 'input_refused'), 64],
  [new errors.ConfigurationError('x'), 78],
];

describe('exit codes', () => {
  it.each(CODES.map(([error, exitCode]) => [error.code, exitCode, error] as const))(
    'ends with the exit code for %s: %i',
    (_, exitCode, error) => {
      expect(exitCodeOf(error)).toBe(exitCode);
    },
  );

  it.each([
    ['a bug', new TypeError('x')],
    ['a failed assertion', new AssertionError('x')],
    ['a thrown value that is no error', 'x'],
  ])('ends with 70 after %s', (_, error) => {
    expect(exitCodeOf(error)).toBe(70);
  });

  it('has an exit code for every error code', () => {
    const codes = Object.keys(ERRORS).filter((code) => code !== 'bug');
    expect(CODES.map(([error]) => error.code).toSorted()).toEqual(codes.toSorted());
  });

  it('ends with the most urgent exit code where several apply', () => {
    const byUrgency = [70, 74, 78, 77, 64, 75, 65] as const;
    for (const [index, code] of byUrgency.entries()) {
      expect(mostUrgent([0, ...byUrgency.slice(index).toReversed()])).toBe(code);
    }
    expect(mostUrgent([0, 0])).toBe(0);
    expect(mostUrgent([])).toBe(0);
  });

  it('lists every exit code in the help', () => {
    for (const code of Object.values(EXIT_CODES))
      expect(EXIT_CODES_HELP).toMatch(new RegExp(`(^| )${code} `, 'm'));
  });
});

describe('errors', () => {
  it.each([
    [new errors.ServiceUnavailableError('x'), 'retry'],
    [new errors.BusyError('x'), 'retry'],
    [new errors.InterruptedError('x'), 'retry'],
    [new errors.UnknownColumnsError('parcels', ['x'], 'The file'), 'stop'],
    [new errors.BadChangesError('parcels', 2, 'x'), 'stop'],
    [new errors.InapplicableChangesError('parcels', 2, 'x'), 'reload'],
    [new errors.ContractViolationError('x', 'body', { code: 'response_too_large' }), 'retry'],
    [new errors.ContractViolationError('x', 'a.b'), 'retry'],
    [new errors.CursorExpiredError('x'), 'reload'],
    [refusal({ kind: 'workspace' }), 'suspend'],
    [new errors.CommandRefusedError(WORDS), 'stop'],
    [new errors.UsageError('x'), 'stop'],
    [new errors.ConfigurationError('x'), 'stop'],
    [new errors.DataError('x'), 'stop'],
    [new errors.StorageError('x'), 'stop'],
  ])('%s has the disposition that the program acts on', (error, disposition) => {
    expect(errors.errorEntryOf(error).disposition).toBe(disposition);
  });

  it('carry their name, the hint and the cause', () => {
    const cause = new Error('ENOSPC');
    const error = new errors.StorageError('The disk is full.', { hint: 'Free some space.', cause });
    expect(error).toMatchObject({
      name: 'StorageError',
      message: 'The disk is full.',
      hint: 'Free some space.',
      cause,
    });
    expect(new errors.StorageError('x').hint).toBeNull();
    expect('cause' in new errors.StorageError('x')).toBe(false);
    expect(new errors.ServiceUnavailableError('x', { retryAfterMs: 5 }).retryAfterMs).toBe(5);
    expect(new errors.ServiceUnavailableError('x').retryAfterMs).toBeNull();
    expect(new errors.ContractViolationError('x', 'a.b').path).toBe('a.b');
  });

  it('a refusal names what was refused, with status and code', () => {
    expect(refusal({ kind: 'workspace' }).message).toBe(
      'The service refused to list versions (403 outside_coverage): The county is not covered.',
    );
    expect(refusal({ kind: 'workspace' }, { status: 401, code: null }).message).toContain(
      '(401 without a code)',
    );
  });
});
