/**
 * Every command of the cookbook, as it stands in the page, in the order of the page, in one installation that gets older with it.
 * Comments in the page say what is not run and why, where a command ends with another code than 0, and where it asks. What a
 * block of `text` shows is what the commands before it printed; times, durations and sizes may differ.
 */

import { existsSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import process from 'node:process';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, describe, expect, it } from 'vitest';
import { commandLine } from '../support/command-line.ts';
import { CookbookWorld, isInstalled, pythonWith, type Ran } from '../support/cookbook-world.ts';
import { type Block, type Recipe, recipesOf } from '../support/page-recipes.ts';

const PARCELS = 'us-az-cedarville-parcels';
const PERMITS = 'us-az-cedarville-permits';
const ZONING = 'us-az-cedarville-zoning';
const DAY_MS = 24 * 60 * 60_000;

const recipes = recipesOf('docs/cookbook.md');
const world = new CookbookWorld();
afterAll(() => world.remove());

const missing = ['duckdb', 'jq', 'rclone'].filter((name) => !isInstalled(name));
const python = pythonWith('duckdb');
for (const name of [...missing, ...(python === null ? ['python3 with the package duckdb'] : [])]) {
  process.stderr.write(`Commands of the cookbook are not run: there is no ${name}.\n`);
}

const publish = (datasetId: string, times = 1) => world.admin('publish', { datasetId, times });
const once = () => world.run('feed-sync once');

/** A catch-up of so many days ago. */
async function onceDaysAgo(days: number): Promise<void> {
  const feed = {
    baseUrl: world.environment['FEED_SYNC_BASE_URL'] ?? '',
    apiKey: world.environment['FEED_SYNC_API_KEY'] ?? '',
  };
  const now = new Date(Date.now() - days * DAY_MS);
  const installed = commandLine({ feed, now: () => now, environment: world.environment });
  const said = await installed.run('once');
  installed.remove();
  expect(said.exitCode, said.stderr).toBe(0);
}

/** What has happened before an operator needs the recipe. */
const BEFORE: Readonly<Record<string, () => Promise<unknown>>> = {
  'How do I learn of versions at once instead of within a minute?': async () => {
    // Nothing is sent to strangers.
    world.substitutes.set('https://feeds.example.org/', 'https://127.0.0.1:9/');
  },
  'What has changed since yesterday?': async () => {
    await publish(PARCELS, 10);
    await onceDaysAgo(2);
    await publish(PARCELS);
    await once();
  },
  'How do I run a job after every commit?': async () => {
    await once();
    await publish(ZONING);
  },
  'How do I get a message in Slack when something needs me?': async () => {
    world.substitutes.set('https://hooks.slack.com/services/…', await notifiedAddress());
  },
  'Where are the rows of a dataset that was retired?': async () => {
    await world.admin('remove', { datasetId: 'us-nm-mapleford-zoning', reason: 'source_retired' });
    await once();
  },
  'How do I go on after the service refused something?': async () => {
    const target = { kind: 'dataset', datasetId: PARCELS };
    await world.admin('refuse', { target, code: 'not_distributable' });
    await publish(PARCELS);
    expect((await once()).exitCode).toBe(77);
    await world.admin('lift', { target });
  },
  'How do I give up a subscription that was deleted?': async () => {
    await world.admin('subscribe', { subscriptionId: 'sub_old', datasetIds: [ZONING] });
    await once();
    await world.admin('unsubscribe', { subscriptionId: 'sub_old' });
    await once();
    // It is believed to be gone when it is still missing after ten minutes.
    await world.admin('expire', { days: 0.01 });
    await once();
  },
  'How do I let a large change through that waits?': async () => {
    await once();
    world.environment['FEED_SYNC_GATES_CHANGED_ROWS'] = '1';
    await publish(PERMITS);
    expect((await once()).exitCode).toBe(77);
    const { stdout } = await world.run('feed-sync status --json');
    const { datasets } = JSON.parse(stdout);
    const { awaitingApproval } = datasets.find(({ id }: { readonly id: string }) => id === PERMITS);
    world.substitutes.set('3f9a1c20', /--content (\w+)/.exec(awaitingApproval.command)?.[1] ?? '');
  },
  'How do I use another service address?': async () => {
    const moved = world.environment['FEED_SYNC_BASE_URL']?.replace('127.0.0.1', 'localhost') ?? '';
    world.environment['FEED_SYNC_BASE_URL'] = moved;
    await once();
  },
};

/** What is there afterwards, beyond exit codes and output. */
const AFTERWARDS: Readonly<Record<string, () => unknown>> = {
  'How do I try it without a service?': () => onceDaysAgo(8),
  'How do I open a table in QGIS?': () => expect(existsSync(world.path('parcels.geoparquet'))).toBe(true),
  'How do I feed a map server that keeps its file open?': () =>
    expect(existsSync(world.path('srv/feeds/parcels.duckdb'))).toBe(true),
  'How do I load the tables into a warehouse or a bucket?': () => {
    if (missing.includes('rclone')) return;
    const { files } = JSON.parse(readFileSync(world.path('bucket/feeds/manifest.json'), 'utf8'));
    expect(files.length).toBeGreaterThan(0);
    for (const { file } of files) expect(existsSync(world.path('bucket/feeds', file)), file).toBe(true);
  },
  'How do I run a job after every commit?': () => {
    if (missing.includes('jq')) return;
    expect(world.takeSystemdRequests()).toContain('start --no-block refresh@us_az_cedarville_zoning.service');
  },
  'How do I get a message in Slack when something needs me?': () =>
    expect(notified.join()).toContain('"text"'),
  'How do I let a large change through that waits?': () => {
    delete world.environment['FEED_SYNC_GATES_CHANGED_ROWS'];
  },
  'How do I give space back to the disk?': () =>
    expect(world.takeSystemdRequests()).toEqual(['stop feed-sync.service', 'start feed-sync.service']),
};

const notified: string[] = [];

async function notifiedAddress(): Promise<string> {
  const server = createServer((request, response) => {
    request.setEncoding('utf8').on('data', (text: string) => notified.push(text));
    request.on('end', () => response.writeHead(200).end('ok'));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  afterAll(() => void server.close());
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the receiver has no port');
  return `http://127.0.0.1:${address.port}/`;
}

/** Text without what differs from run to run. */
function comparable(text: string): string {
  return text
    .replaceAll(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?/g, 'TIME')
    .replaceAll(/\b[\d.]+ (?:ms|s|KB|MB)\b/g, 'AMOUNT')
    .replaceAll(/─+/g, '─')
    .replaceAll(/[ \t]+/g, ' ')
    .replaceAll(/ $/gm, '')
    .trim();
}

/** Runs a block. Null: nothing was run. */
async function ranBlock({ language, text, mark }: Block): Promise<Ran | null> {
  if (mark?.startsWith('not run: ')) return null;
  if (language === 'text') return null;
  if (language === 'yaml') {
    world.writeConfiguration(text);
    return await once();
  }
  if (language === 'python')
    return python === null ? null : await world.run(text, { program: [python, '-c'] });
  if (language === 'sql') {
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    const rows = await connection.runAndReadAll(world.here(text));
    connection.closeSync();
    return { exitCode: rows.currentRowCount > 0 ? 0 : 1, stdout: '', stderr: 'no rows' };
  }
  expect(language).toBe('sh');
  if (text.startsWith('npm run fixture-feed')) {
    await world.serveFeed(text);
    return null;
  }
  if (text.startsWith('#!')) return null;
  if (missing.some((name) => new RegExp(`(?:^|\\| *)${name} `, 'm').test(text))) return null;
  return await world.run(text, mark === 'asks' ? { answer: 'yes\n' } : {});
}

async function follow({ heading, blocks }: Recipe): Promise<void> {
  const script = blocks.find(({ text }) => text.startsWith('#!'));
  const settings = blocks.filter(({ language }) => language === 'yaml').map(({ text }) => text);
  rmSync(world.path('feed-sync.yaml'), { force: true });
  if (script !== undefined)
    world.writeScript(/"(\/srv\/[^"]*)"/.exec(settings.join())?.[1] ?? '', script.text);
  await BEFORE[heading]?.();
  let before: Ran | null = null;
  for (const block of blocks) {
    const at = `docs/cookbook.md:${block.line}`;
    if (block.language === 'text') {
      if (before !== null) expect(comparable(before.stdout), at).toBe(comparable(block.text));
      continue;
    }
    before = await ranBlock(block);
    if (before === null) continue;
    const [, code = '0'] = /^ends with (\d+)/.exec(block.mark ?? '') ?? [];
    expect(before.exitCode, `${at}: ${before.stdout}${before.stderr}`).toBe(Number(code));
  }
  await AFTERWARDS[heading]?.();
}

describe('the cookbook', () => {
  it.each(recipes.filter(({ blocks }) => blocks.length > 0))(
    'every command of the recipe runs as the page shows it: $heading',
    follow,
  );

  it('every prepared recipe is in the page', () => {
    const headings = recipes.map(({ heading }) => heading);
    for (const heading of [...Object.keys(BEFORE), ...Object.keys(AFTERWARDS)])
      expect(headings).toContain(heading);
  });
});
