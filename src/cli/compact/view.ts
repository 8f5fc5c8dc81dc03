/** What `compact` tells, as data. The shape is that of `compact --json`, which programs rely on. Pure. */

import type { Compaction } from '../../destination/duckdb/compact/compact.ts';

export interface CompactionView {
  /** Its path. */
  readonly mirror: string;
  /** `absent`: there is no mirror yet. */
  readonly result: 'compacted' | 'absent';
  /** Those of the file with its log; null where there is none. */
  readonly bytesBefore: number | null;
  readonly bytesAfter: number | null;
  /** That were copied and compared, those of the bookkeeping too; null where there is no mirror. */
  readonly tables: number | null;
}

export function compactionOf(mirror: string, compaction: Compaction): CompactionView {
  if (compaction.kind === 'absent') {
    return { mirror, result: 'absent', bytesBefore: null, bytesAfter: null, tables: null };
  }
  const { bytesBefore, bytesAfter, tables } = compaction;
  return { mirror, result: 'compacted', bytesBefore, bytesAfter, tables };
}
