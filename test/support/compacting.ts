/** A mirror compacted in this process. */

import { dirname } from 'node:path';
import {
  type Compaction,
  type CompactOptions,
  compactMirror,
} from '../../src/destination/duckdb/copies/compact.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { fullJitter } from './duckdb-mirror.ts';

/** Waits for nobody, and needs no room that is kept free. What `compactMirror` throws is thrown. */
export function compactAt(path: string, options: Partial<CompactOptions> = {}): Promise<Compaction> {
  return compactMirror({
    path,
    compresses: false,
    dataDirectory: dirname(path),
    memoryLimitBytes: 500_000_000,
    threads: 2,
    lockWaitMs: 0,
    reserveBytes: 0,
    uid: null,
    clock: systemClock,
    random: fullJitter,
    signal: new AbortController().signal,
    onProgress() {},
    ...options,
  });
}
