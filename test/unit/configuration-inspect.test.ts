/** A configuration that may be wrong: which problems are reported, which values count all the same, and that no key is shown. */

import { describe, expect, it } from 'vitest';
import { inspectConfiguration } from '../../src/configuration/configuration.ts';
import { API_KEY, type FakeMachine, inputOf, load, REQUIRED } from '../support/configuration.ts';

function inspect(machine: FakeMachine) {
  const inspection = inspectConfiguration(inputOf(machine));
  expect(JSON.stringify(inspection)).not.toContain(API_KEY);
  const reported = new Map(inspection.settings.map((setting) => [setting.key, setting]));
  const subjects = inspection.problems.map(({ subject }) => subject);
  return { ...inspection, reported, subjects };
}

const FILE = '/home/ann/feed-sync.yaml';

describe('a configuration that is right', () => {
  it('inspects the configuration as it is loaded, with the value and source of every setting', () => {
    const machine = {
      files: { [FILE]: 'http:\n  timeout: 5s\n' },
      flags: { '--lock-wait': '1s' },
      environment: { ...REQUIRED, STATE_DIRECTORY: '/var/lib/feed-sync' },
    };
    const { configuration, problems, filePath, reported, known } = inspect(machine);
    expect(problems).toEqual([]);
    expect(JSON.stringify(configuration)).toBe(JSON.stringify(load(machine).configuration));
    expect(configuration?.service.apiKey.reveal()).toBe(API_KEY);
    expect(filePath).toBe(FILE);
    expect(known('http.timeout')).toBe(5_000);
    expect([...reported.values()].filter(({ value }) => value === null).map(({ key }) => key)).toEqual([
      'service.apiKeyFile',
      'destination.urlFile',
      'notify.urlFile',
    ]);
    expect(reported.get('http.timeout')).toMatchObject({ value: '5s', source: `file ${FILE}:2` });
    expect(reported.get('lock.wait')).toMatchObject({ value: '1s', source: 'flag --lock-wait' });
    expect(reported.get('dataDir')).toMatchObject({
      value: '/var/lib/feed-sync',
      source: 'environment STATE_DIRECTORY',
    });
    expect(reported.get('service.apiKey')).toMatchObject({
      value: '[secret]',
      source: 'environment FEED_SYNC_API_KEY',
    });
  });

  it('names the file of the API key', () => {
    const { FEED_SYNC_API_KEY: _, ...rest } = REQUIRED;
    const environment = { ...rest, FEED_SYNC_API_KEY_FILE: '/run/key' };
    const { reported } = inspect({ environment, files: { '/run/key': `${API_KEY}\n` } });
    expect(reported.get('service.apiKeyFile')).toMatchObject({
      value: '/run/key',
      source: 'environment FEED_SYNC_API_KEY_FILE',
    });
    expect(reported.get('service.apiKey')).toMatchObject({ value: '[secret]', source: 'file /run/key' });
  });
});

describe('a configuration that is wrong', () => {
  it('goes on with the default of a wrong setting where that does no harm', () => {
    const { subjects, reported, known, configuration } = inspect({
      files: { [FILE]: 'lock:\n  wait: long\nhttp:\n  timeout: 5\n  retires: 3\n' },
    });
    expect(subjects).toEqual(['http.retires', 'http.timeout', 'lock.wait']);
    expect(reported.get('lock.wait')).toMatchObject({ value: null, source: `file ${FILE}:2` });
    expect(reported.get('lock.wait')?.problem).toContain("is 'long'");
    expect([known('lock.wait'), known('http.timeout')]).toEqual([60_000, 30_000]);
    expect(configuration?.lock.waitMs).toBe(60_000);
  });

  it.each([
    ['dataDir: ~/data', ['dataDir', 'destination.path', 'checkpoint.path']],
    ['destination:\n  path: data/', ['destination.path']],
    ['subscriptions: []', ['subscriptions']],
    ['service:\n  contract:\n    manifestPath: nowhere', ['service.contract.manifestPath']],
  ] as const)('makes up nothing about places and choices: %s', (text, unknown) => {
    const { known, configuration } = inspect({ files: { [FILE]: text } });
    expect(unknown.map(known)).toEqual(unknown.map(() => null));
    expect(configuration).toBe(null);
    expect(known('log.level')).toBe('info');
  });

  it('reports the address without a key, and the key without an address', () => {
    const keyless = inspect({ environment: { FEED_SYNC_BASE_URL: REQUIRED.FEED_SYNC_BASE_URL } });
    expect(keyless.subjects).toEqual(['service.apiKey']);
    expect(keyless.known('service.baseUrl')).toBe(REQUIRED.FEED_SYNC_BASE_URL);
    expect(keyless.configuration).toBe(null);
    const homeless = inspect({ environment: { FEED_SYNC_API_KEY: API_KEY } });
    expect(homeless.subjects).toEqual(['service.baseUrl']);
    expect(homeless.reported.get('service.apiKey')?.value).toBe('[secret]');
  });

  it('reports both of two values that contradict each other', () => {
    const environment = {
      ...REQUIRED,
      FEED_SYNC_DESTINATION_PATH: '/data/one',
      FEED_SYNC_CHECKPOINT_PATH: '/data/one',
    };
    const { subjects, reported, known } = inspect({ environment });
    expect(subjects).toEqual(['checkpoint.path']);
    expect(reported.get('checkpoint.path')).toMatchObject({ value: '/data/one' });
    expect([known('destination.path'), known('checkpoint.path')]).toEqual(['/data/one', null]);
  });
});

describe('a file that cannot be read', () => {
  it.each([
    ['is no YAML', { files: { [FILE]: 'http: [' } }],
    ['is missing where it was named', { flags: { '--config': FILE } }],
  ])('leaves open what a file that %s may set, and not what is set elsewhere', (_, machine) => {
    const environment = { FEED_SYNC_API_KEY: API_KEY, FEED_SYNC_DATA_DIR: '/data' };
    const { filePath, problems, reported, known } = inspect({ ...machine, environment });
    expect(filePath).toBe(FILE);
    expect(problems).toHaveLength(1);
    expect(problems[0]?.subject).toContain('The file');
    const open = { value: null, source: 'not known, for the file cannot be read', problem: null };
    expect(reported.get('service.baseUrl')).toMatchObject(open);
    expect(reported.get('lock.wait')).toMatchObject(open);
    expect(reported.get('dataDir')).toMatchObject({ value: '/data' });
    expect(reported.get('service.apiKey')).toMatchObject({ value: '[secret]' });
    // The file may name another place than the default one.
    expect([known('dataDir'), known('destination.path')]).toEqual(['/data', null]);
    expect(known('lock.wait')).toBe(60_000);
  });
});
