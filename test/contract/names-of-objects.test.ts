/** F38 datasets and views that are called like what every JavaScript object has, through every part that lists them by name. */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parseManifest } from '../../src/post-commit/export/generation.ts';
import { localInstallation } from '../support/local-installation.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const IDS = ['__proto__', 'constructor', 'toString'];

it('F38 treats datasets called __proto__, constructor and toString, and views of that name, like all others', async () => {
  const feed = await startedFeed();
  publishSmall(feed, [...IDS, 'parcels']);
  const here = localInstallation({ feed });
  const folder = join(here.home, 'export');
  const config = join(here.home, 'feed-sync.yaml');
  writeFileSync(
    config,
    `datasets: { include: ["__proto__", "constructor", "toString", "parcels"] }
history: { datasets: ["__proto__", "toString"] }
gates: { rules: [{ datasets: ["__proto__", "constructor"], removedRows: 1 }] }
unions: { __proto__: ["__proto__", "constructor"], constructor: "*" }
export: { path: ${folder} }
`,
  );
  const run = async (...words: readonly string[]) => {
    const { exitCode, stdout, stderr } = await here.run(...words);
    expect(exitCode, stdout + stderr).toBe(0);
    return stdout;
  };
  expect(await run('once')).toContain('4 loaded');
  const all = [...IDS, 'parcels'].toSorted();

  const status = JSON.parse(await run('status', '--json'));
  expect(status.datasets.map(({ id }: { id: string }) => id).toSorted()).toEqual(all);
  expect(status.unions.map((one: { name: string; tables: number }) => [one.name, one.tables])).toEqual([
    ['__proto__', 2],
    ['constructor', 4],
  ]);
  const text = await run('status');
  for (const id of IDS) expect(text).toContain(id);

  // The views come first, so the tables of that name have others.
  const rows = await run(
    'query',
    '--format',
    'json',
    'SELECT DISTINCT dataset_id FROM main."constructor" ORDER BY 1',
  );
  expect(linesOf(rows)).toEqual(all.map((dataset_id) => ({ dataset_id })));
  const two = await run(
    'query',
    '--format',
    'csv',
    'SELECT dataset_id, count(*) AS n FROM "__proto__" GROUP BY ALL ORDER BY 1',
  );
  expect(two).toBe('dataset_id,n\n__proto__,2\nconstructor,2\n');

  const manifest = parseManifest(readFileSync(join(folder, 'manifest.json'), 'utf8'));
  expect(manifest?.files.map(({ dataset, rows }) => [dataset, rows])).toEqual(all.map((id) => [id, 2]));

  expect(await run('verify', '__proto__', 'toString')).toContain('2');
  expect(
    linesOf(await run('query', '--format', 'json', `SELECT '1' AS "__proto__", 2 AS "constructor"`)),
  ).toEqual([JSON.parse('{"__proto__":"1","constructor":2}')]);
  const sources = await run('dbt-sources');
  for (const id of IDS) expect(sources).toContain(id);
  expect(await run('once', '__proto__')).toContain('already up to date');
});

/** The rows of `query --format json`, one a line. */
function linesOf(text: string): readonly unknown[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line): unknown => JSON.parse(line));
}
