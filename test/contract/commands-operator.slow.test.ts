/** The value of a header, as it comes to a real process on its standard input. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { expect, it, onTestFinished } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { startedFeed } from '../support/started-feed.ts';

const VALUE = 'header-value-that-must-stay-secret';
const MORE_THAN_A_VALUE = 10_000;

it.each([
  ['a line', `${VALUE}\n`, 0],
  ['nothing', '', 64],
  ['more than a value', 'x'.repeat(MORE_THAN_A_VALUE), 64],
])('webhook add reads %s from standard input as the value of the header', async (_, input, exitCode) => {
  const feed = await startedFeed();
  const home = mkdtempSync(join(tmpdir(), 'feed-sync-standard-input-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const words = ['https://receiver.example/', '--header-name', 'X-Receiver', '--header-value-file', '-'];
  const child = spawn(process.execPath, [builtProgram(), 'webhook', 'add', ...words], {
    cwd: home,
    env: {
      FEED_SYNC_BASE_URL: feed.baseUrl,
      FEED_SYNC_API_KEY: feed.apiKey,
      FEED_SYNC_WEBHOOK_SECRET_FILE: 'secrets',
    },
  });
  child.stdin.on('error', () => {}).end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  expect(code, stderr).toBe(exitCode);
  expect(stdout + stderr).not.toContain(VALUE);
  if (exitCode !== 0) {
    expect(feed.webhooks.list()).toEqual([]);
    return;
  }
  const [webhook] = feed.webhooks.list();
  expect(webhook?.header).toEqual({ name: 'X-Receiver', value: VALUE });
  expect(readFileSync(join(home, 'secrets'), 'utf8')).toBe(`${webhook?.secrets[0]}\n`);
  expect(statSync(join(home, 'secrets')).mode & 0o777).toBe(0o600);
});
