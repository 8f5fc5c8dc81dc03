/** Where the API key may stand, and that nothing shows it. */

import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { settingOf } from '../../src/configuration/schema.ts';
import { Secret } from '../../src/lib/secret.ts';
import { API_KEY, errorOf, load, problemsOf, REQUIRED } from '../support/configuration.ts';

const FILE = '/home/ann/feed-sync.yaml';
const { FEED_SYNC_BASE_URL } = REQUIRED;
const withoutKey = { FEED_SYNC_BASE_URL };

describe('the API key', () => {
  it.each([
    {
      where: 'in the variable',
      machine: { environment: { ...withoutKey, FEED_SYNC_API_KEY: `  ${API_KEY}\n` } },
      sources: { key: 'environment FEED_SYNC_API_KEY', file: undefined },
    },
    {
      where: 'in the file that the variable names',
      machine: {
        environment: { ...withoutKey, FEED_SYNC_API_KEY_FILE: './key' },
        files: { '/home/ann/key': `${API_KEY}\r\n` },
      },
      sources: {
        key: 'file /home/ann/key',
        file: { value: '/home/ann/key', source: 'environment FEED_SYNC_API_KEY_FILE' },
      },
    },
    {
      where: 'in the settings file',
      machine: { environment: withoutKey, files: { [FILE]: `service:\n  apiKey: ${API_KEY}\n` } },
      sources: { key: `file ${FILE}:2`, file: undefined },
    },
    {
      where: 'in the file that the settings file names, from its own folder',
      machine: {
        flags: { '--config': '/etc/fs/a.yaml' },
        environment: withoutKey,
        files: { '/etc/fs/a.yaml': 'service:\n  apiKeyFile: key\n', '/etc/fs/key': API_KEY },
      },
      sources: {
        key: 'file /etc/fs/key',
        file: { value: '/etc/fs/key', source: 'file /etc/fs/a.yaml:2' },
      },
    },
    {
      where: 'with the credentials of the service manager',
      machine: {
        environment: { ...withoutKey, CREDENTIALS_DIRECTORY: '/run/credentials/fs' },
        files: { '/run/credentials/fs/api-key': `${API_KEY}\n` },
      },
      sources: {
        key: 'file /run/credentials/fs/api-key',
        file: { value: '/run/credentials/fs/api-key', source: 'environment CREDENTIALS_DIRECTORY' },
      },
    },
  ])('reads the API key $where', ({ machine, sources: expected }) => {
    const { configuration, sources } = load(machine);
    expect(configuration.service.apiKey.reveal()).toBe(API_KEY);
    expect(sources.get('service.apiKey')).toEqual({ value: '[secret]', source: expected.key });
    expect(sources.get('service.apiKeyFile')).toEqual(expected.file);
  });

  it('an API key of a stronger level replaces both ways of a weaker one', () => {
    const { configuration } = load({
      environment: { ...withoutKey, FEED_SYNC_API_KEY_FILE: './key', CREDENTIALS_DIRECTORY: '/run/c' },
      files: {
        '/home/ann/key': API_KEY,
        [FILE]: 'service:\n  apiKey: weaker\n',
        '/run/c/api-key': 'weakest',
      },
    });
    expect(configuration.service.apiKey.reveal()).toBe(API_KEY);
  });

  it('refuses the API key as a flag', () => {
    const attempt = () =>
      load({ environment: withoutKey, flags: { '--api-key': API_KEY, '--api-key-file': './key' } });
    expect(problemsOf(attempt)).toEqual([
      'service.apiKey is not set; set FEED_SYNC_API_KEY or FEED_SYNC_API_KEY_FILE, or service.apiKeyFile in the file',
    ]);
  });

  it('refuses an API key that is given twice at one level', () => {
    const twice = { ...REQUIRED, FEED_SYNC_API_KEY_FILE: './key' };
    expect(problemsOf(() => load({ environment: twice, files: { '/home/ann/key': API_KEY } }))).toEqual([
      'service.apiKey and service.apiKeyFile are both set; keep one (environment FEED_SYNC_API_KEY and environment FEED_SYNC_API_KEY_FILE)',
    ]);
    const files = { [FILE]: `service:\n  apiKeyFile: ./key\n  apiKey: ${API_KEY}\n` };
    expect(problemsOf(() => load({ environment: withoutKey, files }))).toEqual([
      `service.apiKey and service.apiKeyFile are both set; keep one (file ${FILE}:3 and file ${FILE}:2)`,
    ]);
  });

  it.each([
    [
      `${API_KEY}\n${API_KEY}`,
      'contains white space, a control character or a letter outside ASCII, which no key does',
    ],
    [
      `${API_KEY} x`,
      'contains white space, a control character or a letter outside ASCII, which no key does',
    ],
    [
      `${API_KEY}\u0007`,
      'contains white space, a control character or a letter outside ASCII, which no key does',
    ],
    [`${API_KEY}ü`, 'contains white space, a control character or a letter outside ASCII, which no key does'],
    [API_KEY.repeat(200), 'is longer than 4096 characters; is it the key alone?'],
  ])('refuses an API key that is not one word: %#', (key, problem) => {
    const inline = { environment: { ...withoutKey, FEED_SYNC_API_KEY: key } };
    expect(problemsOf(() => load(inline))).toEqual([
      `service.apiKey ${problem} (environment FEED_SYNC_API_KEY)`,
    ]);
    const inFile = {
      environment: { ...withoutKey, FEED_SYNC_API_KEY_FILE: '/k/key' },
      files: { '/k/key': key },
    };
    expect(problemsOf(() => load(inFile))).toEqual([
      `service.apiKeyFile is '/k/key', which ${problem} (environment FEED_SYNC_API_KEY_FILE)`,
    ]);
  });

  it('refuses an API key in the settings file that is not text', () => {
    const files = { [FILE]: 'service:\n  apiKey: 12345678\n' };
    const [problem = ''] = problemsOf(() => load({ environment: withoutKey, files }));
    expect(problem).toBe(`service.apiKey is not text; put it in quotes (file ${FILE}:2)`);
  });
});

describe('the file of the API key', () => {
  const problemsWith = (path: string, files: Readonly<Record<string, string>> = {}) =>
    problemsOf(() => load({ environment: { ...withoutKey, FEED_SYNC_API_KEY_FILE: path }, files }));

  it('refuses a file of the API key that is not there', () => {
    expect(problemsWith('/k/key')).toEqual([
      "service.apiKeyFile is '/k/key', which cannot be read: no such file or directory (ENOENT) (environment FEED_SYNC_API_KEY_FILE)",
    ]);
  });

  it('refuses an empty file of the API key', () => {
    expect(problemsWith('/k/key', { '/k/key': ' \n' })).toEqual([
      "service.apiKeyFile is '/k/key', which is empty (environment FEED_SYNC_API_KEY_FILE)",
    ]);
  });

  it('does not show a path that may be the API key itself', () => {
    expect(problemsWith(API_KEY)).toEqual([
      'service.apiKeyFile cannot be read: no such file or directory (ENOENT); it is not shown, for it may be the key itself; write a path with a slash (environment FEED_SYNC_API_KEY_FILE)',
    ]);
    expect(problemsWith(`~${API_KEY}`)).toEqual([
      'service.apiKeyFile names no file (environment FEED_SYNC_API_KEY_FILE)',
    ]);
  });

  it('a file of the API key among the credentials may be missing, but not unreadable', () => {
    const environment = { ...withoutKey, CREDENTIALS_DIRECTORY: '/run/c' };
    expect(problemsOf(() => load({ environment }))).toEqual([
      'service.apiKey is not set; set FEED_SYNC_API_KEY or FEED_SYNC_API_KEY_FILE, or service.apiKeyFile in the file',
    ]);
    const readFile = (path: string) => {
      const code = path === '/run/c/api-key' ? 'EACCES' : 'ENOENT';
      throw Object.assign(new Error(code), { code });
    };
    expect(problemsOf(() => load({ environment, readFile }))).toEqual([
      "service.apiKeyFile is '/run/c/api-key', which cannot be read: EACCES (environment CREDENTIALS_DIRECTORY)",
    ]);
  });
});

describe('the secrecy of the API key', () => {
  it('no print of a loaded configuration shows the API key', () => {
    const loaded = load({});
    expect(loaded.configuration.service.apiKey).toBeInstanceOf(Secret);
    const prints = [
      inspect(loaded, { depth: 10, showHidden: true }),
      JSON.stringify(loaded),
      JSON.stringify([...loaded.sources]),
      `${loaded.configuration.service.apiKey}`,
    ];
    for (const print of prints) expect(print).not.toContain(API_KEY);
  });

  it('no print of an error shows the API key', () => {
    const environment = {
      ...withoutKey,
      FEED_SYNC_API_KEY: `${API_KEY} ${API_KEY}`,
      FEED_SYNC_HTTP_TIMEOUT: 'x',
    };
    const error = errorOf(() => load({ environment }));
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(API_KEY);
  });
});

describe('the address for notifications', () => {
  const ADDRESS = 'https://hooks.example.com/services/T0/B0/secret';
  const URL_FILE = '/etc/fs/notify-url';

  it.each([
    { where: 'in the variable', machine: { environment: { ...REQUIRED, FEED_SYNC_NOTIFY_URL: ADDRESS } } },
    {
      where: 'in the file that a setting names',
      machine: {
        environment: { ...REQUIRED, FEED_SYNC_NOTIFY_URL_FILE: URL_FILE },
        files: { [URL_FILE]: `${ADDRESS}\n` },
      },
    },
    {
      where: 'with the credentials of the service manager',
      machine: {
        environment: { ...REQUIRED, CREDENTIALS_DIRECTORY: '/etc/fs' },
        files: { [URL_FILE]: ADDRESS },
      },
    },
  ])('reads the address for notifications $where, and shows it nowhere', ({ machine }) => {
    const loaded = load(machine);
    expect(loaded.configuration.notify.url?.reveal()).toBe(ADDRESS);
    expect(inspect(loaded, { depth: 9 }) + JSON.stringify(loaded)).not.toContain('hooks.example.com');
  });

  it.each([
    'hooks.example.com/services/T0',
    'ftp://hooks.example.com/T0',
    'https://ann:T0@hooks.example.com/',
  ])('refuses an address for notifications without showing it: %s', (address) => {
    const error = errorOf(() => load({ environment: { ...REQUIRED, FEED_SYNC_NOTIFY_URL: address } }));
    expect(error.message).toContain('notify.url ');
    expect(error.message).not.toMatch(/hooks|T0/);
  });

  it('the address for notifications has no flag, which everybody on the machine could read', () => {
    expect(settingOf('notify.url').flag).toBeNull();
  });
});

describe('the address of a database', () => {
  it.each([
    ['?sslmode=verify_full', 'has another sslmode than disable'],
    ['?sslmode=allow', 'has another sslmode than disable'],
    ['?user=b%E9', 'encode user and password in UTF-8'],
  ])('refuses an address with %s, and does not show the address', (rest, message) => {
    const address = `postgres://a:canary@db.example.com/county${rest}`;
    const error = errorOf(() => load({ environment: { ...REQUIRED, FEED_SYNC_DESTINATION_URL: address } }));
    expect(error.message).toContain('destination.url ');
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('canary');
  });

  it.each(['?sslmode=no-verify', '?sslmode=verify-full&sslrootcert=/etc/ca.pem', '?user=50%-b'])(
    'takes an address with %s',
    (rest) => {
      const address = `postgres://a:canary@db.example.com/county${rest}`;
      const { configuration } = load({ environment: { ...REQUIRED, FEED_SYNC_DESTINATION_URL: address } });
      expect(configuration.destination.postgres?.url.reveal()).toBe(address);
    },
  );
});
