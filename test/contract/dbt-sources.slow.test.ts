/** `feed-sync dbt-sources`: dbt reads the file, tests the mirror and looks at its freshness, where dbt is installed. */

import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { expect, it, onTestFinished } from 'vitest';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';

const isInstalled = /duckdb/i.test(spawnSync('dbt', ['--version'], { encoding: 'utf8' }).stdout ?? '');
if (!isInstalled) {
  process.stderr.write('The sources are not read by dbt: there is no dbt. pip install dbt-core dbt-duckdb\n');
}

it.skipIf(!isInstalled)(
  'dbt parses the sources, reads a union, its tests of keys hold, and every table is fresh',
  async () => {
    const { feed } = await countyFeed({ kinds: ['parcels', 'permits', 'zoning'], rowsPerDataset: 10 });
    const installed = commandLine({ feed, now: () => new Date() });
    onTestFinished(() => installed.remove());
    // dbt has to put quotes around this name.
    writeFileSync(
      join(installed.dataDirectory, '..', 'feed-sync.yaml'),
      'unions: {order: ["*-parcels", "*-permits"]}\n',
    );
    await installed.run('once');
    const { stdout: sources } = await installed.run(
      'dbt-sources',
      '--warn-after',
      '1d',
      '--error-after',
      '2d',
    );
    const project = mkdtempSync(join(tmpdir(), 'feed-sync-dbt-'));
    onTestFinished(() => rmSync(project, { recursive: true, force: true }));
    mkdirSync(join(project, 'models'));
    writeFileSync(join(project, 'models', 'sources.yml'), sources);
    writeFileSync(
      join(project, 'dbt_project.yml'),
      'name: counties\nprofile: counties\nmodel-paths: [models]\nflags: { send_anonymous_usage_stats: false }\n',
    );
    const mirror = join(installed.dataDirectory, 'mirror.duckdb');
    writeFileSync(
      join(project, 'profiles.yml'),
      `counties: { target: file, outputs: { file: { type: duckdb, path: ${JSON.stringify(mirror)}, config_options: { access_mode: READ_ONLY } } } }\n`,
    );
    const dbt = (...words: readonly string[]) => {
      const options = ['--profiles-dir', project, '--no-use-colors', '--no-version-check'];
      const { status, stdout } = spawnSync('dbt', [...options.slice(2), ...words, ...options.slice(0, 2)], {
        cwd: project,
        encoding: 'utf8',
      });
      return { status, stdout };
    };
    const parsed = dbt('parse', '--show-all-deprecations');
    expect(parsed.status, parsed.stdout).toBe(0);
    expect(parsed.stdout).not.toMatch(/deprecat/i);
    const tested = dbt('test');
    expect(tested.status, tested.stdout).toBe(0);
    expect(tested.stdout).toMatch(/PASS=([5-9]|\d\d)\b.*ERROR=0/);
    const union = `select dataset_id, count(*) as n from {{ source('feed', 'order') }} group by 1 order by 1`;
    const shown = dbt('show', '--output', 'json', '--inline', union);
    expect(shown.status, shown.stdout).toBe(0);
    expect(shown.stdout.match(/"dataset_id": "[^"]+"/g)).toHaveLength(2);
    const fresh = dbt('source', 'freshness');
    expect(fresh.status, fresh.stdout).toBe(0);
    expect(fresh.stdout.match(/ PASS freshness of /g)).toHaveLength(3);
  },
);
