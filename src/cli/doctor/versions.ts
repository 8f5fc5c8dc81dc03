/** Which versions are at work: what to say first when asking somebody for help. */

import { CHECKPOINT_FORMAT, sqliteVersion } from '../../checkpoint/sqlite/examine.ts';
import { FORMAT_VERSION } from '../../destination/duckdb/books/mirror-schema.ts';
import { duckDbVersion } from '../../destination/duckdb/engine/engine.ts';
import type { Runtime } from '../context.ts';
import type { Check, Checked, Patient } from './check.ts';
import { type Finding, ok, warning } from './findings.ts';

const LIMIT_MS = 5_000;

export const versionsCheck: Check = { name: 'versions', limitMs: LIMIT_MS, run: checkVersions };

function checkVersions({ version, context }: Patient): Checked {
  const formats = `checkpoint ${CHECKPOINT_FORMAT}, mirror ${FORMAT_VERSION}`;
  return {
    findings: [
      judgeRuntime(version, context.runtime),
      ok('databases', `DuckDB ${duckDbVersion()}, SQLite ${sqliteVersion()}; formats: ${formats}`),
    ],
  };
}

export function judgeRuntime(version: string, runtime: Runtime): Finding {
  const { nodeVersion, leastNodeVersion, operatingSystem } = runtime;
  const found = `${version} on Node ${nodeVersion}, ${operatingSystem}`;
  if (!isOlder(nodeVersion, leastNodeVersion)) return ok('feed-sync', found);
  return warning(
    'feed-sync',
    `${found}; it is made for Node ${leastNodeVersion} and later`,
    `Run it on a newer Node: ${leastNodeVersion} or later.`,
  );
}

/** Compared number by number: 24.9 is older than 24.18. */
function isOlder(version: string, least: string): boolean {
  const numbers = version.split('.').map(Number);
  for (const [index, number] of least.split('.').map(Number).entries()) {
    const own = numbers[index] ?? 0;
    if (own !== number) return own < number;
  }
  return false;
}
