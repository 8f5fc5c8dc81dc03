/** The choice of the settings file, and problems of a file as a whole. Real files. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { API_KEY, type FakeMachine, load, loadFile, problemsOf, REQUIRED } from '../support/configuration.ts';

const FILE = '/home/ann/feed-sync.yaml';
const readFile = (path: string) => readFileSync(path, 'utf8');

describe('the choice of the settings file', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'feed-sync-configuration-'));
    writeFileSync(join(folder, 'feed-sync.yaml'), 'retry: { maxAttempts: 1 }\n');
    writeFileSync(join(folder, 'two.yaml'), 'retry: { maxAttempts: 2 }\n');
    writeFileSync(join(folder, 'three.yaml'), 'retry: { maxAttempts: 3 }\n');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const loadIn = (machine: FakeMachine) => load({ ...machine, workingDirectory: folder, readFile });

  it('reads the file of the flag, else of the variable, else the one in the working folder', () => {
    const environment = { ...REQUIRED, FEED_SYNC_CONFIG: './two.yaml' };
    const flags = { '--config': 'three.yaml' };
    const loaded = [loadIn({ flags, environment }), loadIn({ environment }), loadIn({})];
    expect(loaded.map(({ configuration }) => configuration.retry.maxAttempts)).toEqual([3, 2, 1]);
    expect(loaded.map(({ filePath }) => filePath)).toEqual([
      join(folder, 'three.yaml'),
      join(folder, 'two.yaml'),
      join(folder, 'feed-sync.yaml'),
    ]);
  });

  it('reads the file of the machine where the working folder has none', () => {
    const files = { '/etc/feed-sync/feed-sync.yaml': 'retry: { maxAttempts: 4 }\n' };
    const { configuration, filePath } = load({ files });
    expect(configuration.retry.maxAttempts).toBe(4);
    expect(filePath).toBe('/etc/feed-sync/feed-sync.yaml');
  });

  it('refuses a named file that is missing or a folder', () => {
    const environment = { FEED_SYNC_CONFIG: 'four.yaml' };
    expect(problemsOf(() => loadIn({ environment }))).toEqual([
      `The file '${join(folder, 'four.yaml')}' cannot be read: no such file or directory (ENOENT) (environment FEED_SYNC_CONFIG)`,
    ]);
    expect(problemsOf(() => loadIn({ flags: { '--config': '.' } }))).toEqual([
      `The file '${folder}' cannot be read: it is a folder (EISDIR) (flag --config)`,
    ]);
  });

  it('refuses a file in the working folder that cannot be read', () => {
    rmSync(join(folder, 'feed-sync.yaml'));
    mkdirSync(join(folder, 'feed-sync.yaml'));
    expect(problemsOf(() => loadIn({}))).toEqual([
      `The file '${join(folder, 'feed-sync.yaml')}' cannot be read: it is a folder (EISDIR) (looked for where no file is named)`,
    ]);
  });

  it('refuses a file that is too large', () => {
    expect(problemsOf(() => loadFile(' '.repeat(1_000_001)))).toEqual([
      `The file '${FILE}' is too large to be a configuration (looked for where no file is named)`,
    ]);
  });
});

describe('the keys of a file', () => {
  it.each([
    '',
    '# only words\n',
    'http:\n',
    '---\n',
    '\uFEFFhttp:\r\n  timeout: 30s\r\n',
    '{"http": {"timeout": "30s"}}',
  ])('accepts a file with few keys or none: %j', (text) => {
    expect(loadFile(text).configuration.http.timeoutMs).toBe(30_000);
  });

  it.each([
    ['baseUrl: x', 'baseUrl is not a known key; the nearest is service.baseUrl', 1],
    ['http:\n  timout: 5s', 'http.timout is not a known key; the nearest is http.timeout', 2],
    ['htpp:\n  timeout: 5s', 'htpp is not a known key; the nearest is http', 1],
    ['service:\n  apikey: x', 'service.apikey is not a known key; the nearest is service.apiKey', 2],
    ['union:\n  parcels: "us-*"', 'union is not a known key; the nearest is unions', 1],
    ['pol: 5m', 'pol is not a known key; the nearest is poll', 1],
    [
      'FEED_SYNC_BASE_URL: https://feed.example.com',
      'FEED_SYNC_BASE_URL is a variable of the environment; in the file it is service: and, indented below it, baseUrl:',
      1,
    ],
    ['datadir:', 'datadir is not a known key; the nearest is dataDir', 1],
    ['__proto__: x', '__proto__ is not a known key', 1],
    ['"a\\nb": x', "'a\\u000ab' is not a known key", 1],
    [
      '\nhttp.timeout: 5s',
      'http.timeout is several keys in one; write http: and, indented below it, timeout:',
      2,
    ],
    [
      'http: 5s',
      'http is a group, not a value; its keys are http.timeout, http.connections, http.maxJsonBytes, http.maxRetryAfter',
      1,
    ],
    ['just words', 'The file holds no keys; write for example dataDir: ./data', 1],
    ['- a\n- list', 'The file holds no keys; write for example dataDir: ./data', 1],
  ])('refuses an unknown or misplaced key, and names the nearest: %j', (text, problem, line) => {
    const [found] = problemsOf(() => loadFile(text));
    expect(found).toBe(`${problem} (file ${FILE}:${line})`);
  });

  it.each(['utf16le', 'latin1'] as const)(
    'refuses a file in %s with zero bytes in place of UTF-8',
    (encoding) => {
      const written = encoding === 'latin1' ? 'h\0t\0t\0p\0:\0' : '\uFEFFhttp:\r\n  timeout: 30s\r\n';
      const text = Buffer.from(written, encoding).toString('utf8');
      expect(problemsOf(() => loadFile(text))).toEqual([
        `The file is not text in UTF-8; save it as UTF-8 (file ${FILE})`,
      ]);
    },
  );
});

const LIST_OPEN = 'opens a list with [ and does not close it; put ] at its end, indented below its key';
const GROUP_OPEN = 'opens a group with { and does not close it; put } at its end, indented below its key';

describe('a file that is no YAML', () => {
  it.each([
    ['http:\n\ttimeout: 5s', 'is indented with a tab; use spaces', 2],
    ['dataDir: a\ndataDir: b', 'has the same key twice; keep one', 2],
    [
      'datasets:\n  include: [*-parcels]',
      'uses *, which stands for another place of the file; put text that starts with * in quotes',
      2,
    ],
    [
      'dataDir: &x a\ncheckpoint:\n  path: *x',
      'uses *, which stands for another place of the file; put text that starts with * in quotes',
      3,
    ],
    [
      'datasets:\n  exclude: [!us-tx]',
      'uses !, which names a type; put text that starts with ! in quotes',
      2,
    ],
    [
      'dataDir: @home',
      'has text that starts with a character that YAML keeps for itself; put it in quotes',
      1,
    ],
    ['dataDir: "C:\\data"', 'has a \\ in double quotes that means nothing there; use single quotes', 1],
    ['dataDir: a\n---\ndataDir: b', 'holds a second document after ---; keep one', 2],
    ['dataDir: "a', 'opens a quote with " and does not close it; put " at its end', 1],
    [
      "http:\n  timeout: '5s\ndataDir: b\n",
      "opens a quote with ' and does not close it; put ' at its end",
      2,
    ],
    [
      'http:\n  timeout: 5s\n    connections: 4',
      'is not indented as YAML requires; put the keys of a group one below the other',
      2,
    ],
    ['dataDir: a\nsubscriptions: [sub_1, sub_2\nhttp:\n  timeout: 5s', LIST_OPEN, 2],
    ['datasets:\n  include: [\n    a,\n    b\nhttp:\n  timeout: 5s', LIST_OPEN, 2],
    ['datasets:\n  include: [a', LIST_OPEN, 2],
    ['datasets:\n  include: [a, b\n  exclude: [c, d', LIST_OPEN, 2],
    ['subscriptions: [a\ndatasets:\n  include: [b', LIST_OPEN, 1],
    ['datasets:\n  include: [a\n    exclude: [b]\nhttp:\n  timeout: 5s', LIST_OPEN, 2],
    ['datasets:\n  include: [a\n]\nhttp:\n  timeout: 5s', LIST_OPEN, 2],
    ['dataDir: a\nhttp: {timeout: 5s\ndatasets:\n  include: [a]', GROUP_OPEN, 2],
    ['subscriptions: [a]\nhttp: {x: [a}\ndataDir: b', LIST_OPEN, 2],
    [
      'subscriptions: [a]\nhttp:\n  timeout: 5s\n    connections: 4',
      'is not indented as YAML requires; put the keys of a group one below the other',
      3,
    ],
  ])('refuses a file that is no YAML with a sentence and the line: %j', (text, problem, line) => {
    expect(problemsOf(() => loadFile(text))).toEqual([`The file ${problem} (file ${FILE}:${line})`]);
  });

  it.each([
    `service:\n  apiKey: *${API_KEY}`,
    `service:\n  apiKey: !${API_KEY}`,
    `service:\n  apiKey: "\\q${API_KEY}"`,
    `service:\n  apiKey: "${API_KEY}`,
    `service:\n  apiKey:${API_KEY}`,
    `service:\n  apiKey: x: ${API_KEY}`,
    `service:\n  apiKey: [${API_KEY}`,
    `service:\n  apiKey: ]${API_KEY}`,
    `service:\n  apiKey: {${API_KEY}}`,
    `service:\n  apiKey: [${API_KEY}]`,
    `service: ${API_KEY}`,
    `subscription: ${API_KEY}`,
    `service:\n  apikey: ${API_KEY}`,
    `%${API_KEY}\n---\nx`,
  ])('never shows the API key of a wrong file: %#', (text) => {
    const environment = { FEED_SYNC_BASE_URL: REQUIRED.FEED_SYNC_BASE_URL };
    expect(problemsOf(() => load({ environment, files: { [FILE]: text } })).length).toBeGreaterThan(0);
  });
});
