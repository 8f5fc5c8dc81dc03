/** Precedence of values, the defaults, and the loaded configuration. */

import { describe, expect, it } from 'vitest';
import type { Configuration, LocalConfiguration } from '../../src/configuration/configuration.ts';
import { NO_LIMITS } from '../../src/model/gate.ts';
import {
  API_KEY,
  errorOf,
  load,
  loadFile,
  loadLocal,
  problemsOf,
  REQUIRED,
} from '../support/configuration.ts';

const FILE = '/home/ann/feed-sync.yaml';

/** The defaults of the settings that need no service. */
const LOCAL: LocalConfiguration = {
  datasets: { include: ['*'], exclude: [] },
  dataDirectory: '/home/ann/data',
  destination: {
    path: '/home/ann/data/mirror.duckdb',
    place: '/home/ann/data/mirror.duckdb',
    postgres: null,
    publish: null,
  },
  checkpoint: { path: '/home/ann/data/checkpoint.sqlite' },
  disk: { reserveBytes: 1e9 },
  lock: { waitMs: 60_000 },
  duckdb: { memoryLimitBytes: 8e9, threads: 4 },
  gates: { limits: NO_LIMITS, rules: [], keepCandidatesBytes: 10_000_000_000 },
  history: { datasets: [], everyVersion: false, keepMs: 7_776_000_000 },
  unions: [],
  export: null,
  hooks: { afterCommit: null, timeoutMs: 300_000 },
  webhook: { secretFile: null },
  notify: { url: null, format: 'json' },
  log: { level: 'info', format: 'json' },
};

describe('the defaults', () => {
  it('has these defaults where only the two required values are given', () => {
    const { configuration, filePath } = load({});
    expect(configuration).toEqual({
      ...LOCAL,
      service: {
        baseUrl: 'https://feed.example.com',
        apiKey: expect.anything(),
        contract: { manifestPath: null, newerThanParameter: null, manifestLagMs: 900_000 },
      },
      subscriptions: null,
      poll: { kind: 'every', everyMs: 60_000 },
      audit: { everyMs: 3_600_000 },
      scrub: { everyMs: 30 * 86_400_000 },
      schemaChanges: 'reload',
      removedDatasets: 'archive',
      downloads: { allowedOrigins: [] },
      changes: { maxStagedBytes: 8e9 },
      http: { timeoutMs: 30_000, connections: 8, maxJsonBytes: 64e6, maxRetryAfterMs: 900_000 },
      retry: { maxAttempts: 6, baseDelayMs: 500, maxDelayMs: 30_000 },
      status: { listen: { host: '127.0.0.1', port: 9464 }, tokenFile: null },
      placeOptions: ['--data-dir', '/home/ann/data'],
    } satisfies Configuration);
    expect(configuration.service.apiKey.reveal()).toBe(API_KEY);
    expect(filePath).toBeNull();
  });

  it.each([
    { memoryBytes: 16e9, constrainedMemoryBytes: 2e9, expected: 1e9 },
    { memoryBytes: 16e9, constrainedMemoryBytes: 18_446_744_073_709_552_000, expected: 8e9 },
    { memoryBytes: 100e6, constrainedMemoryBytes: 0, expected: 64e6 },
  ])(
    'gives DuckDB half of what container or machine has by default: $expected',
    ({ expected, ...memory }) => {
      const { configuration } = loadLocal({ machine: { cores: 1, heapBytes: 2e9, ...memory } });
      expect(configuration.duckdb.memoryLimitBytes).toBe(expected);
    },
  );

  it('logs text on a terminal by default', () => {
    expect(load({ stderrIsTerminal: true }).configuration.log.format).toBe('text');
  });

  it('puts data into the folder of the service manager by default, the first of several', () => {
    const environment = { ...REQUIRED, STATE_DIRECTORY: '/var/lib/feed-sync:/var/lib/other' };
    const { configuration, sources } = load({ environment });
    expect(configuration.destination.path).toBe('/var/lib/feed-sync/mirror.duckdb');
    expect(sources.get('dataDir')).toEqual({
      value: '/var/lib/feed-sync',
      source: 'environment STATE_DIRECTORY',
    });
  });

  it('puts default files into a chosen data folder', () => {
    const { configuration } = load({ flags: { '--data-dir': 'kept' } });
    expect(configuration.checkpoint.path).toBe('/home/ann/kept/checkpoint.sqlite');
  });
});

describe('the options by which a command finds the instance from any folder', () => {
  const optionsOf = (input: Parameters<typeof load>[0]) => load(input).configuration.placeOptions;

  it('names the folder of data where no file states it', () => {
    const environment = { ...REQUIRED, FEED_SYNC_DATA_DIR: 'kept' };
    expect(optionsOf({ environment })).toEqual(['--data-dir', '/home/ann/kept']);
    const file = { environment: REQUIRED, files: { [FILE]: 'log: { level: warn }' } };
    expect(optionsOf(file)).toEqual(['--config', FILE, '--data-dir', '/home/ann/data']);
  });

  it('names the file alone where the file states the folder of data', () => {
    const files = { [FILE]: 'dataDir: kept' };
    expect(optionsOf({ environment: REQUIRED, files })).toEqual(['--config', FILE]);
  });

  it('names nothing that every command finds on the machine and under the service manager', () => {
    const files = { '/etc/feed-sync/feed-sync.yaml': 'log: { level: warn }' };
    const environment = { ...REQUIRED, STATE_DIRECTORY: '/var/lib/feed-sync' };
    expect(optionsOf({ environment, files })).toEqual([]);
  });
});

describe('the time of polls', () => {
  const polled = (input: Parameters<typeof load>[0]) => load(input).configuration.poll;

  it('reads an interval or a schedule of polls', () => {
    expect(polled({ environment: { ...REQUIRED, FEED_SYNC_POLL_EVERY: '10s' } })).toEqual({
      kind: 'every',
      everyMs: 10_000,
    });
    const environment = { ...REQUIRED, FEED_SYNC_POLL_SCHEDULE: '*/5 * * * *' };
    expect(polled({ environment })).toEqual({ kind: 'schedule', schedule: '*/5 * * * *' });
    expect(polled({ environment, flags: { '--poll-every': '1s' } })).toEqual({
      kind: 'every',
      everyMs: 1_000,
    });
  });

  it('refuses an interval and a schedule of polls at one level', () => {
    const environment = { ...REQUIRED, FEED_SYNC_POLL_SCHEDULE: '0 6 * * *', FEED_SYNC_POLL_EVERY: '1m' };
    expect(() => load({ environment })).toThrow('poll.every and poll.schedule are both set; keep one');
  });

  it.each(['every day', '0 6 30 2 *', '61 * * * *'])(
    'refuses a schedule that never occurs: %s',
    (schedule) => {
      const environment = { ...REQUIRED, FEED_SYNC_POLL_SCHEDULE: schedule };
      expect(() => load({ environment })).toThrow(`poll.schedule is '${schedule}'`);
    },
  );
});

describe('precedence', () => {
  const flags = { '--http-timeout': '1s' };
  const environment = { ...REQUIRED, FEED_SYNC_HTTP_TIMEOUT: '2s' };
  const files = { [FILE]: '# first line\nhttp:\n  timeout: 3s\n' };

  it.each([
    { from: 'flag --http-timeout', machine: { flags, environment, files }, value: '1s', timeoutMs: 1_000 },
    {
      from: 'environment FEED_SYNC_HTTP_TIMEOUT',
      machine: { environment, files },
      value: '2s',
      timeoutMs: 2_000,
    },
    { from: `file ${FILE}:3`, machine: { files }, value: '3s', timeoutMs: 3_000 },
    { from: 'default', machine: {}, value: '30s', timeoutMs: 30_000 },
  ])('takes the value of the strongest source: $from', ({ from, machine, value, timeoutMs }) => {
    const { configuration, sources } = load(machine);
    expect(configuration.http.timeoutMs).toBe(timeoutMs);
    expect(sources.get('http.timeout')).toEqual({ value, source: from });
  });

  it('judges only the value that counts', () => {
    const wrong = { ...REQUIRED, FEED_SYNC_HTTP_TIMEOUT: 'soon' };
    expect(load({ flags, environment: wrong }).configuration.http.timeoutMs).toBe(1_000);
  });

  it('takes an empty variable and an empty key as not set', () => {
    const { configuration } = load({
      environment: { ...REQUIRED, FEED_SYNC_HTTP_TIMEOUT: ' ', FEED_SYNC_CONFIG: '' },
      files: { [FILE]: 'http:\n  timeout:\nretry:\n' },
    });
    expect(configuration.http.timeoutMs).toBe(30_000);
  });

  it('refuses an empty flag', () => {
    const problems = problemsOf(() => load({ flags: { '--data-dir': '' } }));
    expect(problems).toEqual(['dataDir is empty (flag --data-dir)']);
  });
});

describe('sources of settings', () => {
  it('names the source of each setting, with its value as an operator would write it', () => {
    const { sources } = load({
      flags: { '--destination-path': 'out/a.duckdb' },
      environment: { ...REQUIRED, FEED_SYNC_SUBSCRIPTIONS: ' sub_1 , sub_2,' },
      files: { [FILE]: 'http:\n  connections: 4\ndatasets:\n  exclude: []\n' },
    });
    expect(Object.fromEntries(sources)).toMatchObject({
      'service.apiKey': { value: '[secret]', source: 'environment FEED_SYNC_API_KEY' },
      'destination.path': { value: '/home/ann/out/a.duckdb', source: 'flag --destination-path' },
      subscriptions: { value: 'sub_1, sub_2', source: 'environment FEED_SYNC_SUBSCRIPTIONS' },
      'http.connections': { value: '4', source: `file ${FILE}:2` },
      'datasets.exclude': { value: 'none', source: `file ${FILE}:4` },
      'service.contract.manifestPath': { value: 'discovered', source: 'default' },
      'service.contract.manifestLag': { value: '15m', source: 'default' },
    });
  });

  it('resolves relative paths from the folder of their source', () => {
    const files = { '/etc/feed-sync/feed-sync.yaml': 'dataDir: kept\n' };
    expect(load({ files }).configuration.dataDirectory).toBe('/etc/feed-sync/kept');
    const environment = { ...REQUIRED, FEED_SYNC_DATA_DIR: 'kept' };
    expect(load({ files, environment }).configuration.dataDirectory).toBe('/home/ann/kept');
  });

  it('reads lists: with commas in a variable, as a list in the file', () => {
    const environment = { ...REQUIRED, FEED_SYNC_DATASETS_INCLUDE: 'us-tx-*,us-ok-*' };
    expect(load({ environment }).configuration.datasets.include).toEqual(['us-tx-*', 'us-ok-*']);
    const { configuration } = loadFile('subscriptions:\n  - sub_1\n  - "Travis, TX"\n');
    expect(configuration.subscriptions).toEqual(['sub_1', 'Travis, TX']);
  });
});

describe('the loaded configuration', () => {
  it('a loaded configuration cannot be changed, at any depth', () => {
    const { configuration } = loadFile('subscriptions: [sub_1]\n');
    const parts = [
      configuration,
      configuration.service,
      configuration.service.contract,
      configuration.subscriptions,
      configuration.datasets.include,
      configuration.http,
    ];
    expect(parts.map((part) => Object.isFrozen(part))).toEqual(parts.map(() => true));
    expect(() => Object.assign(configuration.http, { timeoutMs: 0 })).toThrow(TypeError);
  });
});

describe('the local configuration', () => {
  it('the local configuration needs neither address nor key, and contains nothing of the service', () => {
    const { configuration, sources } = loadLocal({ environment: {} });
    expect(configuration).toEqual(LOCAL);
    expect([...sources.keys()].filter((key) => key.startsWith('service.'))).toEqual([]);
    expect(Object.isFrozen(configuration.duckdb)).toBe(true);
  });

  it('the local configuration does not judge the settings of the service, but refuses unknown keys', () => {
    const text = 'service:\n  baseUrl: nonsense\n  apiKeyFile: /not/there\n';
    expect(loadLocal({ files: { [FILE]: text } }).filePath).toBe(FILE);
    const problems = problemsOf(() => loadLocal({ files: { [FILE]: 'dataDri: kept\n' } }));
    expect(problems).toEqual([`dataDri is not a known key; the nearest is dataDir (file ${FILE}:1)`]);
  });
});

describe('the error of a wrong configuration', () => {
  it('one error contains all problems of a configuration, and what to do', () => {
    const error = errorOf(() =>
      load({
        flags: { '--log-level': 'loud' },
        environment: { FEED_SYNC_HTTP_TIMEOUT: 'soon', FEED_SYNC_HTTP_TIMEOUTS: '5s' },
        files: { [FILE]: 'lock:\n  wiat: 5s\nretry:\n  maxAttempts: 0\n' },
      }),
    );
    expect(error.message).toBe(
      [
        'The configuration has 7 problems:',
        `  lock.wiat is not a known key; the nearest is lock.wait (file ${FILE}:2)`,
        '  FEED_SYNC_HTTP_TIMEOUTS is not a known variable; the nearest is FEED_SYNC_HTTP_TIMEOUT (environment)',
        '  service.baseUrl is not set; set FEED_SYNC_BASE_URL, or service.baseUrl in the file',
        '  service.apiKey is not set; set FEED_SYNC_API_KEY or FEED_SYNC_API_KEY_FILE, or service.apiKeyFile in the file',
        "  http.timeout is 'soon', which is not a duration; write for example 30s or 5m (environment FEED_SYNC_HTTP_TIMEOUT)",
        `  retry.maxAttempts is '0', and the least is 1 (file ${FILE}:4)`,
        "  log.level is 'loud'; write one of trace, debug, info, warn, error, silent (flag --log-level)",
      ].join('\n'),
    );
    expect(error.hint).toBe(
      'feed-sync settings explains every key; feed-sync init writes a commented file of them.',
    );
    expect(error.code).toBe('configuration_invalid');
  });

  it('refuses values that contradict each other', () => {
    const files = { [FILE]: 'destination:\n  path: x.db\nretry:\n  baseDelay: 1m\n' };
    const flags = { '--checkpoint-path': './x.db' };
    expect(problemsOf(() => load({ files, flags }))).toEqual([
      `retry.baseDelay is '1m', longer than retry.maxDelay, 30s (file ${FILE}:4)`,
      'checkpoint.path is the same file as destination.path; give each its own (flag --checkpoint-path)',
    ]);
  });

  it('refuses a published copy in the file of the mirror', () => {
    const flags = { '--destination-path': 'x.db', '--destination-publish': './x.db' };
    expect(problemsOf(() => load({ flags }))).toEqual([
      'destination.publish is the same file as destination.path; a copy needs a file of its own (flag --destination-publish)',
    ]);
  });

  it('refuses an export into the data folder', () => {
    const flags = { '--data-dir': 'data', '--export-path': './data/' };
    expect(problemsOf(() => load({ flags }))).toEqual([
      'export.path is the same folder as dataDir; an export needs a folder of its own (flag --export-path)',
    ]);
  });

  it('ignores the variables that Kubernetes sets for a Service called feed-sync', () => {
    const environment = {
      ...REQUIRED,
      FEED_SYNC_SERVICE_HOST: '10.0.0.1',
      FEED_SYNC_SERVICE_PORT_HTTP: '80',
      FEED_SYNC_PORT: 'tcp://10.0.0.1:80',
      FEED_SYNC_STATUS_PORT_9464_TCP_ADDR: '10.0.0.1',
    };
    expect(load({ environment }).filePath).toBeNull();
  });

  it.each([
    ['FEED_SYNC_SERVICE_BASE_URL', 'FEED_SYNC_BASE_URL'],
    ['FEED_SYNC_APIKEY', 'FEED_SYNC_API_KEY'],
    ['FEED_SYNC_TIMEOUT', 'FEED_SYNC_HTTP_TIMEOUT'],
    ['FEED_SYNC_CONFIG_FILE', 'FEED_SYNC_CONFIG'],
    ['feed_sync_DATA_DIR', null],
  ])('names the nearest known variable for %s: %s', (name, nearest) => {
    const attempt = () => load({ environment: { ...REQUIRED, [name]: 'x' } });
    if (nearest === null) expect(attempt().configuration.dataDirectory).toBe('/home/ann/data');
    else
      expect(problemsOf(attempt)).toEqual([
        `${name} is not a known variable; the nearest is ${nearest} (environment)`,
      ]);
  });
});
