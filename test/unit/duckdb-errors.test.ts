/** The diagnosis of errors of DuckDB, in the words of the installed version: damaged files (F58), and tables. */

import { constants } from 'node:os';
import { describe, expect, it } from 'vitest';
import { IncomparableError, whyIncomparable } from '../../src/destination/duckdb/difference.ts';
import { diagnose } from '../../src/staging/engine/errors.ts';

function errorOf(kind: string, message: string, systemError: { readonly errno?: string } = {}): Error {
  return new Error(JSON.stringify({ exception_type: kind, exception_message: message, ...systemError }));
}

describe('F58 an error of DuckDB', () => {
  it.each([
    [
      'IO',
      'Corrupt database file: computed checksum 1 does not match stored checksum 2 in block at location 3',
    ],
    ['Internal', 'Bitpacking offset is out of range at block "7" - corrupt database file'],
    ['IO', 'Corrupted database - loaded column with index 1, count 2 did not match count of row group 3'],
    ['IO', 'Corrupted ALP segment: encoded payload too large'],
    ['IO', 'Corrupted ALPRD segment: metadata_offset value is corrupted'],
    ['IO', 'Corrupted Patas segment: invalid backward reference'],
    ['IO', 'Corrupted RLE segment: rle_count_offset exceeds the block size.'],
    ['Invalid Input', 'Invalid bitpacking mode'],
    ['Invalid Input', 'Invalid bit width for bitpacking'],
    ['IO', 'invalid fsst_symbol_table_offset in FSSTStorage::ParseFSSTSegmentHeader'],
    ['IO', 'invalid segment_block_offset in RoaringScanState constructor'],
  ])('diagnoses a damaged file by the error %s: %s', (kind, message) => {
    expect(diagnose(errorOf(kind, message)).fault).toBe('unreadable');
  });

  it.each([
    ['read from', constants.errno.EINVAL, 'unreadable'],
    ['read from', constants.errno.EIO, 'statement'],
    ['write', constants.errno.EINVAL, 'statement'],
  ])(
    'diagnoses that DuckDB could not %s a file (%i) as %s: only an impossible place is damage',
    (verb, errno, fault) => {
      const error = errorOf('IO', `Could not ${verb} file "/data/mirror.duckdb": as it is`, {
        errno: String(errno),
      });
      expect(diagnose(error).fault).toBe(fault);
    },
  );

  it.each([
    ['Invalid Input', 'Parquet file "a.parquet": corrupt file?'],
    ['Conversion', "Could not convert string 'corrupt' to INT32"],
    ['Catalog', 'Table with name parcels does not exist!'],
  ])('diagnoses no damage by the error %s: %s', (kind, message) => {
    expect(diagnose(errorOf(kind, message)).fault).toBe('statement');
  });
});

describe('F05 a log that could not be replayed', () => {
  const replay = 'Failure while replaying WAL file "/data/mirror.duckdb.wal": ';

  it.each([
    ['Out of Memory', 'failed to allocate data of size 16.0 MiB (56.7 MiB/57.2 MiB used)', 'out-of-memory'],
    ['Out of Memory', 'failed to offload data block (the "max_temp_directory_size" setting)', 'disk-full'],
    ['INTERRUPT', 'Interrupted!', 'interrupted'],
    ['IO', 'Corrupt WAL file: entry at byte position 56 computed checksum 1 does not match', 'unreadable'],
  ])('diagnoses a failed replay by its cause %s: %s', (kind, message, fault) => {
    expect(diagnose(errorOf(kind, replay + message)).fault).toBe(fault);
  });
});

describe('a table that could not be compared', () => {
  const reason = (kind: string, message: string) =>
    whyIncomparable(new IncomparableError('parcels', 'rows', diagnose(errorOf(kind, message))));

  it('names the memory setting as the reason of a comparison that ran out of memory', () => {
    const message =
      'failed to allocate data of size 32.0 MiB (121.9 MiB/122.0 MiB used)\nPossible solutions:';
    expect(reason('Out of Memory', message)).toBe(
      'comparing the rows of the table needed more memory than duckdb.memoryLimit allows',
    );
  });

  it('gives the message of DuckDB as the reason of a comparison that failed for another cause', () => {
    expect(reason('Catalog', 'Table with name parcels does not exist!\nDid you mean zones?')).toBe(
      'Table with name parcels does not exist!',
    );
  });
});
