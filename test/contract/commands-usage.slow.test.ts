/** The command line itself: help, versions, what makes no sense, and configurations that are wrong. */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';
import { projectRoot } from '../support/source-tree.ts';

/** Reports as the process ends whether it has loaded what only some commands need. */
const REPORT_LOADED = `process.on("exit", () => {
  const { sharedObjects } = process.report.getReport();
  const isLoaded = (name) => sharedObjects.some((path) => path.includes(name));
  process.stderr.write(JSON.stringify(["duckdb", "better_sqlite3"].filter(isLoaded)));
})`;

const COMMANDS = 'once status subscriptions verify query resync resume forget settings init'.split(' ');

describe('help', () => {
  it('help of the program names every command and every exit code', async () => {
    const installed = await program();
    const { exitCode, stdout, stderr } = await installed.run('--help');
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    for (const command of COMMANDS) expect(stdout).toMatch(new RegExp(`^  ${command}\\b`, 'm'));
    for (const code of ['0', '64', '65', '70', '74', '75', '77', '78'])
      expect(stdout).toMatch(new RegExp(`\\b${code}  `));
    expect(stdout).toContain('FEED_SYNC_BASE_URL and FEED_SYNC_API_KEY');
  });

  it('help of a command in a group explains that command', async () => {
    const installed = await program();
    const { exitCode, stdout } = await installed.run('help', 'webhook', 'test');
    expect(exitCode).toBe(0);
    expect(stdout).toContain('Usage: feed-sync webhook test');
  });

  it('help of each command explains it', async () => {
    const installed = await program();
    const helps = COMMANDS.map(async (command) => ({ command, ...(await installed.run(command, '--help')) }));
    for (const { command, exitCode, stdout, stderr } of await Promise.all(helps)) {
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
      expect(stdout).toContain(`Usage: feed-sync ${command}`);
      expect(stdout.split('\n').filter((line) => line.length > 120)).toEqual([]);
    }
  });

  it.for(['--version', '-V', 'version'])('%s prints the version', async (word) => {
    const installed = await program();
    const { version } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8'));
    expect(await installed.run(word)).toMatchObject({
      exitCode: 0,
      stdout: `${version}\n`,
      stderr: '',
    });
  });

  it.for([
    { words: ['--help'], loaded: [] },
    { words: ['once', '--help'], loaded: [] },
    { words: ['--version'], loaded: [] },
    { words: ['settings'], loaded: [] },
    { words: ['query', 'SELECT 1'], loaded: ['duckdb'] },
  ])('$words loads no database library but $loaded', async ({ words, loaded }) => {
    const installed = await program();
    const preload = `data:text/javascript,${encodeURIComponent(REPORT_LOADED)}`;
    const { stderr } = await installed.runWith({ NODE_OPTIONS: `--import=${preload}` }, ...words);
    expect(JSON.parse(stderr.split('\n').at(-1) ?? '')).toEqual(loaded);
  });

  it('settings names every setting with its variable', async () => {
    const installed = await program();
    const { exitCode, stdout } = await installed.run('settings');
    expect(exitCode).toBe(0);
    for (const name of [
      'service.baseUrl',
      'FEED_SYNC_API_KEY_FILE',
      '--manifest-path',
      'FEED_SYNC_LOCK_WAIT',
    ])
      expect(stdout).toContain(name);
  });

  it('settings --json-schema prints the JSON Schema that lies beside the example file', async () => {
    const installed = await program();
    const expected = readFileSync(join(projectRoot, 'config/feed-sync.schema.json'), 'utf8');
    expect(await installed.run('settings', '--json-schema')).toMatchObject({
      exitCode: 0,
      stdout: expected,
      stderr: '',
    });
  });
});

describe('command lines that make no sense', () => {
  it.for([
    { words: [], says: /^Usage: feed-sync \[options\] \[command\][\s\S]*Examples:\n {2}feed-sync once/ },
    {
      words: ['help', 'unionz'],
      says: /^feed-sync: Unknown command 'unionz'\. \[usage_invalid\]\n→ feed-sync --help/,
    },
    { words: ['-q'], says: /^feed-sync: No command was given\. \[usage_invalid\]\n→ feed-sync --help/ },
    {
      words: ['nope'],
      says: /^feed-sync: Unknown command 'nope'\. \[usage_invalid\]\n→ feed-sync --help\n$/,
    },
    { words: ['sync'], says: /^feed-sync: Unknown command 'sync'; did you mean once\?/ },
    {
      words: ['status', '-v', '--log-level', 'info'],
      says: /Only one of --verbose, --quiet and --log-level/,
    },
    { words: ['completion', 'csh'], says: /Allowed choices are bash, zsh, fish/ },
    {
      words: ['onec'],
      says: /^feed-sync: Unknown command 'onec'; did you mean once\? \[usage_invalid\]\n→ feed-sync --help\n$/,
    },
    {
      words: ['once', '--data-dirr', 'x'],
      says: /Unknown option '--data-dirr'; did you mean --data-dir\? \[usage_invalid\]\n→ feed-sync once --help/,
    },
    { words: ['status', 'extra'], says: /Too many arguments/ },
    {
      words: ['query'],
      says: /The SQL is empty\. \[usage_invalid\]\n→ feed-sync query --help/,
    },
    { words: ['query', 'SELECT 1', '--format', 'xml'], says: /Allowed choices are table, json, csv/ },
    { words: ['once', '--api-key', 'x'], says: /Unknown option '--api-key'/ },
  ])('refuses the command line $words with 64', async ({ words, says }) => {
    const installed = await program();
    const ended = await installed.run(...words);
    expect(ended).toMatchObject({ exitCode: 64, stdout: '' });
    expect(ended.stderr).toMatch(says);
  });
});

describe('invalid configurations', () => {
  it.for([
    { what: 'nothing', environment: {}, says: /service\.baseUrl.*\n?.*FEED_SYNC_BASE_URL/s },
    { what: 'no key', environment: { FEED_SYNC_BASE_URL: 'http://127.0.0.1:1' }, says: /FEED_SYNC_API_KEY/ },
    {
      what: 'an unknown variable',
      environment: {
        FEED_SYNC_BASE_URL: 'http://127.0.0.1:1',
        FEED_SYNC_API_KEY: 'k',
        FEED_SYNC_LOCKWAIT: '1s',
      },
      says: /FEED_SYNC_LOCKWAIT[\s\S]*FEED_SYNC_LOCK_WAIT/,
    },
    {
      what: 'a value that is no duration',
      environment: {
        FEED_SYNC_BASE_URL: 'http://127.0.0.1:1',
        FEED_SYNC_API_KEY: 'k',
        FEED_SYNC_LOCK_WAIT: 'soon',
      },
      says: /lock\.wait[\s\S]*soon[\s\S]*FEED_SYNC_LOCK_WAIT/,
    },
    {
      what: 'plain http to another machine',
      environment: { FEED_SYNC_BASE_URL: 'http://feeds.example.com', FEED_SYNC_API_KEY: 'k' },
      says: /service\.baseUrl[\s\S]*https/,
    },
  ])('ends with 78 and names the fault of a configuration with $what', async ({ environment, says }) => {
    const installed = await program({ environment });
    const ended = await installed.run('once');
    expect(ended).toMatchObject({ exitCode: 78, stdout: '' });
    expect(ended.stderr).toMatch(says);
  });

  it('ends with 78 for a wrong key in the file, naming the nearest key, the file and the line', async () => {
    const installed = await program();
    const file = join(installed.home, 'work', 'feed-sync.yaml');
    writeFileSync(file, 'service:\n  baseURL: https://feeds.example.com\n');
    const ended = await installed.run('once');
    expect(ended).toMatchObject({ exitCode: 78 });
    expect(ended.stderr).toMatch(/service\.baseURL[\s\S]*service\.baseUrl/);
    expect(ended.stderr).toContain('feed-sync.yaml');
  });
});

describe('init', () => {
  it('init writes a file that loads, and never overwrites one', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    const first = await installed.run('init');
    const path = join(installed.home, 'work', 'feed-sync.yaml');
    expect(first).toMatchObject({ exitCode: 0 });
    expect(first.stdout).toContain(`Wrote ${path}.`);
    const written = readFileSync(path, 'utf8');
    expect(await installed.run('once', '--config', path)).toMatchObject({ exitCode: 0 });
    await expectMirrored(installed, feed);

    const again = await installed.run('init');
    expect(again).toMatchObject({ exitCode: 64 });
    expect(again.stderr).toContain('init never overwrites a file');
    expect(readFileSync(path, 'utf8')).toBe(written);
    expect(await installed.run('init', 'no/such/folder/a.yaml')).toMatchObject({ exitCode: 74 });
  });
});
