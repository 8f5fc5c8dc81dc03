/** `feed-sync dbt-sources`: dbt reads the file, tests the mirror and checks its freshness, where dbt is installed. */

import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { expect, it, onTestFinished } from 'vitest';
import { EMBEDDED } from '../../fixtures/postgres-server.ts';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';
import { postgresOfTest } from '../support/postgres-of-tests.ts';

const version = spawnSync('dbt', ['--version'], { encoding: 'utf8' });
const adapters = `${version.stdout ?? ''}${version.stderr ?? ''}`;
const isInstalled = /duckdb/i.test(adapters);
if (!isInstalled) {
  process.stderr.write('The sources are not read by dbt: there is no dbt. pip install dbt-core dbt-duckdb\n');
}
const hasPostgres = /postgres/i.test(adapters) && EMBEDDED.folder !== null;
if (isInstalled && !hasPostgres) {
  process.stderr.write(
    'The sources of PostgreSQL are not read by dbt: there is no adapter. pip install dbt-postgres\n',
  );
}

/** dbt in a project that has nothing but the sources. */
function projectOf(sources: string, profile: object) {
  const project = mkdtempSync(join(tmpdir(), 'feed-sync-dbt-'));
  onTestFinished(() => rmSync(project, { recursive: true, force: true }));
  mkdirSync(join(project, 'models'));
  writeFileSync(join(project, 'models', 'sources.yml'), sources);
  writeFileSync(
    join(project, 'dbt_project.yml'),
    'name: counties\nprofile: counties\nmodel-paths: [models]\nflags: { send_anonymous_usage_stats: false }\n',
  );
  const profiles = { counties: { target: 'here', outputs: { here: profile } } };
  writeFileSync(join(project, 'profiles.yml'), JSON.stringify(profiles));
  return (...words: readonly string[]) => {
    const { status, stdout } = spawnSync(
      'dbt',
      ['--no-use-colors', '--no-version-check', ...words, '--profiles-dir', project],
      { cwd: project, encoding: 'utf8' },
    );
    return { status, stdout };
  };
}

/** dbt has to put quotes around this name. */
const UNIONS = 'unions: {order: ["*-parcels", "*-permits"]}\n';
const COUNT_UNION =
  "select dataset_id, count(*) as n from {{ source('feed', 'order') }} group by 1 order by 1";

async function installedWith(environment: Readonly<Record<string, string>> = {}) {
  const { feed } = await countyFeed({ kinds: ['parcels', 'permits', 'zoning'], rowsPerDataset: 10 });
  const installed = commandLine({ feed, now: () => new Date(), environment });
  onTestFinished(() => installed.remove());
  writeFileSync(join(installed.dataDirectory, '..', 'feed-sync.yaml'), UNIONS);
  const ended = await installed.run('once');
  expect(ended.exitCode, ended.stderr).toBe(0);
  const written = await installed.run('dbt-sources', '--warn-after', '1d', '--error-after', '2d');
  expect(written.exitCode, written.stderr).toBe(0);
  return { ...installed, sources: written.stdout };
}

function expectUnionShown({ status, stdout }: { readonly status: number | null; readonly stdout: string }) {
  expect(status, stdout).toBe(0);
  expect(stdout.match(/"dataset_id": "[^"]+"/g)).toHaveLength(2);
}

it.skipIf(!isInstalled)(
  'dbt parses the sources, reads a union, passes its tests of keys, and finds every table fresh',
  async () => {
    const { dataDirectory, sources } = await installedWith();
    const path = join(dataDirectory, 'mirror.duckdb');
    const dbt = projectOf(sources, { type: 'duckdb', path, config_options: { access_mode: 'READ_ONLY' } });
    const parsed = dbt('parse', '--show-all-deprecations');
    expect(parsed.status, parsed.stdout).toBe(0);
    expect(parsed.stdout).not.toMatch(/deprecat/i);
    const tested = dbt('test');
    expect(tested.status, tested.stdout).toBe(0);
    expect(tested.stdout).toMatch(/PASS=([5-9]|\d\d)\b.*ERROR=0/);
    expectUnionShown(dbt('show', '--output', 'json', '--inline', COUNT_UNION));
    const fresh = dbt('source', 'freshness');
    expect(fresh.status, fresh.stdout).toBe(0);
    expect(fresh.stdout.match(/ PASS freshness of /g)).toHaveLength(3);
  },
);

it.skipIf(!hasPostgres)('dbt parses the sources of a mirror in PostgreSQL, and reads a union', async () => {
  const server = await postgresOfTest(EMBEDDED);
  const address = await server.database();
  const { sources } = await installedWith({
    FEED_SYNC_DESTINATION_URL: address,
    PATH: process.env['PATH'] ?? '',
  });
  // The folder of a socket stands where a host does.
  const [, user, password, dbname, host] = /:\/\/(.*?):(.*)@\/(.*)\?host=(.*)$/.exec(address) ?? [];
  const login = { user, password, dbname, host: decodeURIComponent(host ?? '') };
  const dbt = projectOf(sources, { type: 'postgres', ...login, port: 5_432, schema: 'public' });
  expectUnionShown(dbt('show', '--output', 'json', '--inline', COUNT_UNION));
});
