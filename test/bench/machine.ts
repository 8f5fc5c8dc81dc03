/** What was measured on. */

import { availableParallelism, totalmem } from 'node:os';
import { version as duckdbVersion } from '@duckdb/node-api';
import type { Machine } from './report.ts';

const BYTES_PER_MEGABYTE = 1024 * 1024;

export function machine(): Machine {
  return {
    cores: availableParallelism(),
    memoryMegabytes: Math.round(totalmem() / BYTES_PER_MEGABYTE),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    duckdb: duckdbVersion(),
  };
}
