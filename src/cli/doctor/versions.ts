/** Which versions are at work: what to say first when asking somebody for help. */

import { CHECKPOINT_FORMAT, sqliteVersion } from '../../checkpoint/sqlite/examine.ts';
import { duckDbVersion } from '../../destination/duckdb/engine.ts';
import { FORMAT_VERSION } from '../../destination/duckdb/mirror-schema.ts';
import type { Check, Checked, Patient } from './check.ts';
import { ok } from './findings.ts';

const LIMIT_MS = 5_000;

export const versionsCheck: Check = { name: 'versions', limitMs: LIMIT_MS, run: checkVersions };

function checkVersions({ version, context }: Patient): Checked {
  const { nodeVersion, operatingSystem } = context.runtime;
  const formats = `checkpoint ${CHECKPOINT_FORMAT}, mirror ${FORMAT_VERSION}`;
  return {
    findings: [
      ok('feed-sync', `${version} on Node ${nodeVersion}, ${operatingSystem}`),
      ok('databases', `DuckDB ${duckDbVersion()}, SQLite ${sqliteVersion()}; formats: ${formats}`),
    ],
  };
}
