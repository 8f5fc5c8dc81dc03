/** How each kind of value is read, and the sentence for each problem with it. */

import { describe, expect, it } from 'vitest';
import type { Configuration } from '../../src/configuration/configuration.ts';
import { load, loadFile, problemsOf, REQUIRED } from '../support/configuration.ts';

const FILE = '/home/ann/feed-sync.yaml';

/** The one problem of a flag, without its source. */
function problemOfFlag(flag: string, text: string): string {
  const [problem = '', ...rest] = problemsOf(() => load({ flags: { [flag]: text } }));
  expect(rest).toEqual([]);
  expect(problem.endsWith(` (flag ${flag})`)).toBe(true);
  return problem.slice(0, -` (flag ${flag})`.length);
}

/** The one problem of a file, without its source; the file's last line is at fault. */
function problemInFile(text: string): string {
  const [problem = '', ...rest] = problemsOf(() => loadFile(text));
  expect(rest).toEqual([]);
  const source = ` (file ${FILE}:${text.trimEnd().split('\n').length})`;
  expect(problem).toContain(source);
  return problem.replace(source, '');
}

function read<Value>(flag: string, text: string, pick: (configuration: Configuration) => Value): Value {
  return pick(load({ flags: { [flag]: text } }).configuration);
}

describe('durations, sizes and counts', () => {
  it.each([
    ['250ms', 250],
    [' 5m ', 300_000],
    ['10m', 600_000],
    ['100ms', 100],
  ])('reads the duration %s', (text, timeoutMs) => {
    expect(read('--http-timeout', text, ({ http }) => http.timeoutMs)).toBe(timeoutMs);
  });

  it.each([
    ['0s', 0],
    ['90s', 90_000],
    ['1d', 86_400_000],
  ])('reads a manifest lag from none to a day: %s', (text, lagMs) => {
    expect(read('--manifest-lag', text, ({ service }) => service.contract.manifestLagMs)).toBe(lagMs);
  });

  it.each([
    ['64KB', 64_000],
    ['1.5mb', 1_500_000],
  ])('reads the size %s', (text, bytes) => {
    expect(read('--http-max-json-bytes', text, ({ http }) => http.maxJsonBytes)).toBe(bytes);
  });

  it.each([
    ['--http-timeout', 'abc', "http.timeout is 'abc', which is not a duration; write for example 30s or 5m"],
    ['--http-timeout', '30', "http.timeout is '30', which has no unit; write for example 30s or 5m"],
    ['--http-timeout', '99ms', "http.timeout is '99ms', and the least is 100ms"],
    ['--http-timeout', '1h', "http.timeout is '1h', and the most is 10m"],
    ['--manifest-lag', '2d', "service.contract.manifestLag is '2d', and the most is 1d"],
    [
      '--manifest-lag',
      '15',
      "service.contract.manifestLag is '15', which has no unit; write for example 30s or 5m",
    ],
    [
      '--disk-reserve',
      '5 apples',
      "disk.reserve is '5 apples', which is not a size; write for example 64MB or 4GB",
    ],
    ['--disk-reserve', '1000', "disk.reserve is '1000', which has no unit; write for example 64MB or 4GB"],
    ['--duckdb-memory-limit', '1MB', "duckdb.memoryLimit is '1MB', and the least is 64MB"],
    [
      '--duckdb-threads',
      '1.5',
      "duckdb.threads is '1.5', which is not a whole number; write a number from 1 to 1024",
    ],
    [
      '--http-connections',
      '1',
      "http.connections is '1', and the least is 2: one is kept for polls while files are downloaded from the service",
    ],
    ['--http-connections', '65', "http.connections is '65', and the most is 64"],
    [
      '--http-connections',
      '-1',
      "http.connections is '-1', which is not a whole number; write a number from 2 to 64",
    ],
  ])('refuses the setting %s %s', (flag, text, problem) => {
    expect(problemOfFlag(flag, text)).toBe(problem);
  });

  it('shows a strange value on one line and cut', () => {
    const problem = problemOfFlag('--http-timeout', `a\u001b[31m\n${'x'.repeat(500)}`);
    expect(problem).toBe(
      `http.timeout is 'a\\u001b[31m\\u000a${'x'.repeat(73)}…', which is not a duration; write for example 30s or 5m`,
    );
  });
});

describe('wrong types in the file', () => {
  it.each([
    ['http:\n  timeout: 30', 'http.timeout is the number 30; write for example 30s or 5m'],
    ['http:\n  timeout: true', 'http.timeout is true; write for example 30s or 5m'],
    ['http:\n  timeout: [30s]', 'http.timeout is a list; write for example 30s or 5m'],
    ['http:\n  timeout: { of: 30s }', 'http.timeout is a group of keys; write for example 30s or 5m'],
    ['http:\n  timeout: ""', 'http.timeout is empty'],
    ['disk:\n  reserve: 1000000', 'disk.reserve is the number 1000000; write for example 64MB or 4GB'],
    [
      'http:\n  connections: 4.5',
      "http.connections is '4.5', which is not a whole number; write a number from 2 to 64",
    ],
    ['http:\n  connections: false', 'http.connections is false; write a number from 2 to 64'],
    ['log:\n  level: 3', 'log.level is the number 3; write one of trace, debug, info, warn, error, silent'],
    ['dataDir: 7', 'dataDir is the number 7; write the path of a folder, in quotes'],
    ['subscriptions: sub_1', 'subscriptions is the text \'sub_1\'; write a list, for example ["one", "two"]'],
    ['subscriptions: 12', 'subscriptions is the number 12; write a list, for example ["one", "two"]'],
    ['subscriptions: [sub_1, 12]', 'subscriptions item 2 is the number 12; write it in quotes'],
    [
      'subscriptions: [sub_1, ]\nlog: loud',
      'log is a group, not a value; its keys are log.level, log.format',
    ],
    ['subscriptions: [ , ]', 'The file is not YAML'],
    ['subscriptions: []', 'subscriptions is an empty list; name at least one, or leave it out for all'],
  ])('refuses %j in the settings file', (text, problem) => {
    expect(problemInFile(text)).toBe(problem);
  });

  it('takes a count with and without quotes', () => {
    expect(loadFile('http:\n  connections: 4').configuration.http.connections).toBe(4);
    expect(loadFile('http:\n  connections: "4"').configuration.http.connections).toBe(4);
  });
});

describe('the command after commits', () => {
  const ofFlag = (text: string) => read('--hooks-after-commit', text, ({ hooks }) => hooks.afterCommit);
  const ofFile = (value: string) =>
    loadFile(`hooks:\n  afterCommit: ${value}`).configuration.hooks.afterCommit;

  it('reads the command after commits as words, separated by white space or a list in the file', () => {
    expect(ofFlag(' dbt  run --select\tparcels')).toEqual(['dbt', 'run', '--select', 'parcels']);
    expect(ofFile('["dbt", "run with", "$HOME;"]')).toEqual(['dbt', 'run with', '$HOME;']);
    expect(ofFile('dbt run')).toEqual(['dbt', 'run']);
  });

  it('finds the command after commits from where paths start, and in PATH where it has no slash', () => {
    expect(ofFlag('./refresh.sh ./x')).toEqual(['/home/ann/refresh.sh', './x']);
    expect(ofFile('["bin/refresh"]')).toEqual(['/home/ann/bin/refresh']);
  });

  it.each([
    [
      '[]',
      'hooks.afterCommit names no program; write a list of words, for example ["./refresh.sh", "--all"]',
    ],
    ['7', 'hooks.afterCommit is not a command; write a list of words, for example ["./refresh.sh", "--all"]'],
    ['["a", 7]', 'hooks.afterCommit item 2 is not text; write it in quotes'],
    ['["~/a"]', "hooks.afterCommit is '~/a', and ~ has no meaning here; write the whole path"],
    ['["a", "\\0"]', "hooks.afterCommit item 2 is '\\u0000', which no command can contain"],
  ])('refuses %s as the command after commits', (value, problem) => {
    expect(problemInFile(`hooks:\n  afterCommit: ${value}`)).toBe(problem);
  });
});

describe('where the status server listens', () => {
  it.each([
    ['off', null],
    ['127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
    ['[::1]:9464', { host: '::1', port: 9464 }],
    ['unix:/run/feed-sync/status.sock', { path: '/run/feed-sync/status.sock' }],
    ['0.0.0.0:65535', { host: '0.0.0.0', port: 65_535 }],
    ['status.internal:80', { host: 'status.internal', port: 80 }],
  ])('reads %s as the address of the status server', (text, listen) => {
    expect(read('--status-listen', text, ({ status }) => status.listen)).toEqual(listen);
  });

  it.each([
    '9464',
    ':9464',
    '::1:9464',
    '[127.0.0.1]:9464',
    'localhost',
    'localhost:65536',
    'localhost:',
    'http://localhost:80',
    '/run/status.sock',
    'no',
  ])('refuses %s as the address of the status server', (text) => {
    expect(problemOfFlag('--status-listen', text)).toBe(
      `status.listen is '${text}', which is not a host and a port; write for example 127.0.0.1:9464, unix:PATH, or off`,
    );
  });
});

describe('choices', () => {
  it.each(['reload', 'alter'] as const)('lets schema changes be %s', (word) => {
    expect(read('--schema-changes', word, ({ schemaChanges }) => schemaChanges)).toBe(word);
    expect(loadFile(`schemaChanges: ${word}`).configuration.schemaChanges).toBe(word);
  });

  it.each(['archive', 'drop', 'keep'] as const)('lets removed datasets be %s', (word) => {
    const environment = { ...REQUIRED, FEED_SYNC_REMOVED_DATASETS: word };
    expect(load({ environment }).configuration.removedDatasets).toBe(word);
    expect(loadFile(`removedDatasets: ${word}`).configuration.removedDatasets).toBe(word);
  });

  it.each([
    ['--schema-changes', 'add', "schemaChanges is 'add'; write one of reload, alter"],
    ['--removed-datasets', 'Drop', "removedDatasets is 'Drop'; write one of archive, drop, keep"],
  ])('refuses the choice %s %s', (flag, text, problem) => {
    expect(problemOfFlag(flag, text)).toBe(problem);
  });
});

describe('paths', () => {
  it.each([
    ['--data-dir', '~/data', "dataDir is '~/data', and ~ has no meaning here; write the whole path"],
    ['--data-dir', 'a\0b', "dataDir is 'a\\u0000b', which no path can contain"],
    ['--destination-path', 'out/', "destination.path is 'out/', which is a folder; name the file in it"],
  ])('refuses the path %s %s', (flag, text, problem) => {
    expect(problemOfFlag(flag, text)).toBe(problem);
  });

  it('takes absolute paths as they are', () => {
    expect(read('--data-dir', '/var/lib/x/', ({ dataDirectory }) => dataDirectory)).toBe('/var/lib/x');
  });
});

describe('the address of the service', () => {
  const baseUrl = (text: string) => {
    return load({ environment: { ...REQUIRED, FEED_SYNC_BASE_URL: text } }).configuration.service.baseUrl;
  };
  const problem = (text: string) => {
    const [problem = ''] = problemsOf(() => baseUrl(text));
    return problem.replace(' (environment FEED_SYNC_BASE_URL)', '').replace('service.baseUrl is ', '');
  };

  it.each([
    ['https://feed.example.com', 'https://feed.example.com'],
    ['https://FEED.example.com:443/data//', 'https://feed.example.com/data'],
    ['http://localhost:8080/', 'http://localhost:8080'],
    ['http://127.8.9.1:8080', 'http://127.8.9.1:8080'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
  ])('reads the base URL %s', (text, expected) => {
    expect(baseUrl(text)).toBe(expected);
  });

  it.each([
    [
      'feed.example.com',
      "'feed.example.com', which is not an address; write for example https://feed.example.com",
    ],
    [
      'http://feed.example.com',
      "'http://feed.example.com', which is not https; http is for a loopback address only",
    ],
    [
      'http://localhost.example',
      "'http://localhost.example', which is not https; http is for a loopback address only",
    ],
    ['http://10.0.0.1', "'http://10.0.0.1', which is not https; http is for a loopback address only"],
    ['ftp://127.0.0.1', "'ftp://127.0.0.1', which is not https; http is for a loopback address only"],
    [
      'https://feed.example.com/v1/',
      "'https://feed.example.com/v1/', which ends in /v1; leave that out, it is part of every path",
    ],
    [
      'https://ann:pass@feed.example.com',
      "'https://…@feed.example.com', which carries a user or password; leave them out",
    ],
    [
      'https://feed.example.com?key=hidden',
      "'https://feed.example.com?…', which has a query or fragment; leave it out",
    ],
    [
      'https://feed.example.com/#hidden',
      "'https://feed.example.com/#…', which has a query or fragment; leave it out",
    ],
    [
      'ann:pa/ss@feed.example.com',
      "'…@feed.example.com', which is not https; http is for a loopback address only",
    ],
  ])('refuses the base URL %s', (text, expected) => {
    expect(problem(text)).toBe(expected);
  });
});

describe('origins of downloads', () => {
  it('writes origins of downloads as browsers do', () => {
    const text = 'https://Files.example.com:443/,http://10.0.0.1:8080';
    const origins = read('--downloads-allowed-origins', text, ({ downloads }) => downloads.allowedOrigins);
    expect(origins).toEqual(['https://files.example.com', 'http://10.0.0.1:8080']);
  });

  it('refuses origins of downloads one by one', () => {
    const text = 'files.example.com,https://a.example/b,file:///etc,https://u:secretpart@a.example';
    expect(problemOfFlag('--downloads-allowed-origins', text)).toBe(
      [
        "downloads.allowedOrigins item 1 is 'files.example.com', which is not an origin; write for example https://files.example.com",
        "item 2 is 'https://a.example/b', which has a path; write the origin alone",
        "item 3 is 'file:///etc', which is not an origin; write for example https://files.example.com",
        "item 4 is 'https://…@a.example', which carries a user or password; leave them out",
      ].join('; '),
    );
  });
});

describe('the open names of the interface', () => {
  it.each(['/v1/subscriptions/{subscriptionId}/manifest', '/feeds/{datasetId}/manifest.json'])(
    'reads the manifest path %s',
    (text) => {
      expect(read('--manifest-path', text, ({ service }) => service.contract.manifestPath)).toBe(text);
    },
  );

  it.each([
    ['v1/{datasetId}', 'which does not start with /'],
    ['/v1/manifest', 'which must contain either {subscriptionId} or {datasetId}, once'],
    ['/v1/{subscriptionId}/{datasetId}', 'which must contain either {subscriptionId} or {datasetId}, once'],
    ['/v1/{id}', 'which must contain either {subscriptionId} or {datasetId}, once'],
    ['//other.example/{datasetId}', 'which is not a path; write it without host, query and white space'],
    ['/\\other.example/{datasetId}', 'which is not a path; write it without host, query and white space'],
    ['/v1/{datasetId}?x=1', 'which is not a path; write it without host, query and white space'],
  ])('refuses the manifest path %s', (text, problem) => {
    expect(problemOfFlag('--manifest-path', text)).toBe(
      `service.contract.manifestPath is '${text}', ${problem}`,
    );
  });

  it.each([
    ['a b', "which is not a parameter's name"],
    ['cursor', 'which is reserved for paging'],
  ])('refuses the parameter name %s', (text, problem) => {
    expect(problemOfFlag('--newer-than-parameter', text)).toBe(
      `service.contract.newerThanParameter is '${text}', ${problem}`,
    );
  });

  it('refuses an included pattern of datasets that excludes some', () => {
    expect(problemOfFlag('--datasets-include', '!us-tx-*')).toBe(
      "datasets.include item 1 is '!us-tx-*'; name datasets to leave out in datasets.exclude, without the !",
    );
  });

  it('refuses an empty list of subscriptions', () => {
    expect(problemOfFlag('--subscriptions', ' , ')).toBe(
      'subscriptions is an empty list; name at least one, or leave it out for all',
    );
  });
});
