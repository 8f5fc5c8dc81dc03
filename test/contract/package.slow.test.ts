/** The package that `npm pack` makes: installed by itself it runs, on a Node without a compiler and without the checkout. */

import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { countyFeed } from '../support/county-feed.ts';
import { projectRoot } from '../support/source-tree.ts';

const run = promisify(execFile);

/** What npm says where it cannot reach a registry. */
const UNREACHABLE = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED/;
/** Nothing but Node and what a shell script needs. */
const BARE_PATH = `${dirname(process.execPath)}:/bin`;

it('the package runs where it is installed alone, and has nothing but the program and its licences', async (context) => {
  builtProgram();
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-package-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const npm = (cwd: string, ...words: string[]) =>
    run('npm', words, { cwd, env: { ...process.env, npm_config_audit: 'false', npm_config_fund: 'false' } });
  const packed = await npm(projectRoot, 'pack', '--ignore-scripts', '--json', '--pack-destination', folder);
  const [{ filename, files }] = JSON.parse(packed.stdout);
  const paths: readonly string[] = files.map(({ path }: { readonly path: string }) => path);
  expect(paths.filter((path) => !/^(?:dist\/|package\.json$|README\.md$)/.test(path))).toEqual([]);
  expect(paths).toContain('dist/THIRD-PARTY-NOTICES.txt');
  const place = join(folder, 'installed');
  mkdirSync(place);
  try {
    await npm(place, 'install', '--prefer-offline', join(folder, filename));
  } catch (error) {
    if (!UNREACHABLE.test(String(error))) throw error;
    process.stderr.write('SKIPPED: the package is not installed, because npm reaches no registry.\n');
    context.skip();
  }
  const { feed, datasetIds } = await countyFeed({ counties: 1, rowsPerDataset: 10 });
  const program = (...words: string[]) =>
    run(process.execPath, [join(place, 'node_modules/feed-sync/dist/main.js'), ...words], {
      cwd: place,
      env: {
        PATH: BARE_PATH,
        HOME: folder,
        FEED_SYNC_BASE_URL: feed.baseUrl,
        FEED_SYNC_API_KEY: feed.apiKey,
      },
    });
  expect((await program('--version')).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect((await program('settings')).stdout).toContain('FEED_SYNC_BASE_URL');
  expect((await program('once')).stdout).toContain(`${datasetIds.length} loaded`);
  expect((await program('query', '--format', 'csv', 'SELECT count(*) FROM feed_sync.datasets')).stdout).toBe(
    `count_star()\n${datasetIds.length}\n`,
  );
});
