/** F58: which errors of DuckDB say that a file is damaged, in the words of the version that is installed. */

import { describe, expect, it } from 'vitest';
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
