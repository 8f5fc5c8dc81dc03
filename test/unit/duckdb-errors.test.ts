/** What errors of DuckDB say, in the words of the version that is installed: of a damaged file (F58), and of a table. */

import { describe, expect, it } from 'vitest';
import { IncomparableError, whyIncomparable } from '../../src/destination/duckdb/difference.ts';
import { diagnose } from '../../src/staging/engine/errors.ts';

function said(kind: string, message: string): Error {
  return new Error(JSON.stringify({ exception_type: kind, exception_message: message }));
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
  ])('%s: %s, says that the file is damaged', (kind, message) => {
    expect(diagnose(said(kind, message)).fault).toBe('unreadable');
  });

  it.each([
    ['Invalid Input', 'Parquet file "a.parquet": corrupt file?'],
    ['Conversion', "Could not convert string 'corrupt' to INT32"],
    ['Catalog', 'Table with name parcels does not exist!'],
  ])('%s: %s, says nothing of the file', (kind, message) => {
    expect(diagnose(said(kind, message)).fault).toBe('statement');
  });
});

describe('F05 a log that could not be replayed', () => {
  const replay = 'Failure while replaying WAL file "/data/mirror.duckdb.wal": ';

  it.each([
    ['Out of Memory', 'failed to allocate data of size 16.0 MiB (56.7 MiB/57.2 MiB used)', 'out-of-memory'],
    ['Out of Memory', 'failed to offload data block (the "max_temp_directory_size" setting)', 'disk-full'],
    ['INTERRUPT', 'Interrupted!', 'interrupted'],
    ['IO', 'Corrupt WAL file: entry at byte position 56 computed checksum 1 does not match', 'unreadable'],
  ])('for %s: %s, is sound unless the cause says otherwise', (kind, message, fault) => {
    expect(diagnose(said(kind, replay + message)).fault).toBe(fault);
  });
});

describe('a table that could not be compared', () => {
  const reason = (kind: string, message: string) =>
    whyIncomparable(new IncomparableError('parcels', 'rows', diagnose(said(kind, message))));

  it('for lack of memory names the setting, which its closed undo log repeats', () => {
    const message =
      'failed to allocate data of size 32.0 MiB (121.9 MiB/122.0 MiB used)\nPossible solutions:';
    expect(reason('Out of Memory', message)).toBe(
      'comparing the rows of the table needed more memory than duckdb.memoryLimit allows',
    );
  });

  it('for another cause says what DuckDB said', () => {
    expect(reason('Catalog', 'Table with name parcels does not exist!\nDid you mean zones?')).toBe(
      'Table with name parcels does not exist!',
    );
  });
});
