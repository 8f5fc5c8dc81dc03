/**
 * The operator's commands, in this process against the fixture feed: what they say, to whom, and with which exit code.
 * After each test the key, the header's value and every webhook's secret are searched for in everything that was printed.
 */

import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { acquireInstanceLock } from '../../src/checkpoint/instance-lock.ts';
import { openCheckpointReader } from '../../src/checkpoint/sqlite/open.ts';
import { openAt } from '../support/checkpoint-files.ts';
import { type CommandLine, commandLine, type Said } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { secretsInFiles, secretsInText } from '../support/secret-search.ts';
import { addOfAdams, publishSmall } from '../support/started-feed.ts';
import { webhookReceiver } from '../support/webhook-receiver.ts';

const HEADER_VALUE = 'header-value-that-must-stay-secret';
const URL_OF_RECEIVER = 'https://receiver.example/webhook';
const NOW = '2026-03-01T12:00:00.000Z';

interface Installed {
  readonly feed: FixtureFeed;
  readonly line: CommandLine;
  /** Where commands are run. */
  readonly home: string;
  run(...words: readonly string[]): Promise<Said>;
}

/** A feed that sends each webhook once, whatever the answer. */
async function feedThatSendsOnce(): Promise<FixtureFeed> {
  const webhooks = { maxAttempts: 1 };
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock: stillClock(NOW), webhooks });
  onTestFinished(feed.close);
  return feed;
}

/** `parcels` and `permits` are in the subscription, `elsewhere` is in none. */
async function installed(environment: Readonly<Record<string, string>> = {}): Promise<Installed> {
  const feed = await feedThatSendsOnce();
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels', 'permits'] });
  publishSmall(feed, ['parcels', 'permits', 'elsewhere']);
  feed.requests.clear();
  const line = commandLine({
    feed,
    now: () => feed.clock.now(),
    environment: { FEED_SYNC_LOG_LEVEL: 'trace', FEED_SYNC_RETRY_MAX_ATTEMPTS: '2', ...environment },
    standardInput: `${HEADER_VALUE}\n`,
  });
  let printed = '';
  onTestFinished(() => {
    const secrets = [HEADER_VALUE, ...feed.webhooks.list().flatMap((webhook) => webhook.secrets)];
    const found = secrets.flatMap((secret) => [
      ...secretsInText(secret, printed),
      ...secretsInFiles(secret, line.dataDirectory),
    ]);
    line.remove();
    expect(found).toEqual([]);
  });
  mkdirSync(line.dataDirectory);
  const run = async (...words: readonly string[]): Promise<Said> => {
    const said = await line.run(...words);
    printed += said.stdout + said.stderr;
    // At this level of the log the lines of the log are most of what is on standard error.
    const isLog = (text: string): boolean => text.startsWith('{"');
    const reported = said.stderr.split('\n').filter((text) => !isLog(text));
    return { ...said, stderr: reported.join('\n') };
  };
  return { feed, line, home: join(line.dataDirectory, '..'), run };
}

function kept({ line }: Installed) {
  const reader = openCheckpointReader({ path: join(line.dataDirectory, 'checkpoint.sqlite'), uid: null });
  const content = reader === null ? null : { webhooks: reader.webhooks(), suspensions: reader.suspensions() };
  reader?.close();
  return content;
}

/** Does something once, while a command waits for the service to add a webhook. */
function whileAdding({ feed }: Installed, until: () => Promise<void>): void {
  feed.faults.add({ match: { operation: 'addWebhook' }, act: { kind: 'wait', until } });
}

function secretsOf(feed: FixtureFeed): readonly string[] {
  return feed.webhooks.list().flatMap(({ secrets }) => secrets);
}

describe('coverage', () => {
  it('coverage lists the counties over all pages, with every field the service gives', async () => {
    const { feed, run } = await installed();
    feed.settings.defaultLimit = 1;
    addOfAdams(feed);
    const further = {
      since: '2026-01-01',
      areas: { km2: 1_100 },
      note: 'a\u001b[31m'.repeat(30),
      a: 1,
      b: 2,
      c: 3,
      d: 4,
    };
    feed.faults.add({
      match: { operation: 'coverage', times: 'always' },
      act: {
        kind: 'rewrite',
        rewrite: (body) => {
          const page = Object(body);
          return {
            ...page,
            counties: page.counties.map((county: object, at: number) =>
              at === 0 ? { ...county, ...further } : county,
            ),
          };
        },
      },
    });
    const { exitCode, stdout } = await run('coverage');
    expect(exitCode).toBe(0);
    const [head, , ...rows] = stdout.split('\n');
    expect(head?.split(/ +/)).toEqual(['county', 'name', 'state', 'since', 'areas', 'note', 'a', 'b', 'c']);
    expect(rows[0]).toMatch(
      /^us-ia-adams +Adams County +IA +2026-01-01 +{"km2":1100} +a\\u001b.*… +1 +2 +3$/,
    );
    expect(rows[1]).toMatch(/^us-tx-travis +us-tx-travis$/);
    expect(stdout).toContain('The service gives 1 field more: see --json.');
    const json = await run('coverage', '--json');
    expect(JSON.parse(json.stdout)).toEqual({
      counties: [
        { id: 'us-ia-adams', name: 'Adams County', state: 'IA', ...further },
        { id: 'us-tx-travis', name: 'us-tx-travis', state: '' },
      ],
    });
  });

  it('coverage of no county says what that means', async () => {
    const { feed, run } = await installed();
    feed.store.counties.clear();
    expect(await run('coverage')).toEqual({
      exitCode: 0,
      stdout:
        'The workspace covers no county: nothing can be subscribed to yet. Counties are added in the web application of the service.\n',
      stderr: '',
    });
    expect(JSON.parse((await run('coverage', '--json')).stdout)).toEqual({ counties: [] });
  });

  it('coverage ends with 75 when the service does not answer', async () => {
    const { feed, run } = await installed();
    feed.faults.add({
      match: { operation: 'coverage', times: 'always' },
      act: { kind: 'respond', status: 503 },
    });
    const said = await run('coverage');
    expect(said).toMatchObject({ exitCode: 75, stdout: '' });
    expect(said.stderr).toContain(
      'Could not list what the workspace covers: the service answered 503 after 2 attempts',
    );
  });
});

describe('watches', () => {
  it('watch, watches and unwatch begin, list and end watches, a line for each; again changes nothing', async () => {
    const { run } = await installed();
    expect((await run('watches')).stdout).toBe(
      'No dataset is watched. Watch one with: feed-sync watch DATASET\n',
    );
    expect(await run('watch', 'parcels', 'permits', 'parcels')).toEqual({
      exitCode: 0,
      stdout:
        'Watching parcels: each new version is sent to your webhooks.\n' +
        'Watching permits: each new version is sent to your webhooks.\n',
      stderr: '',
    });
    expect(await run('watch', 'parcels')).toMatchObject({ exitCode: 0 });
    expect((await run('watches')).stdout).toBe(
      [
        'dataset  watched since (UTC)',
        '────────────────────────────',
        'parcels  2026-03-01 12:00',
        'permits  2026-03-01 12:00',
        '',
      ].join('\n'),
    );
    expect(await run('unwatch', 'permits')).toMatchObject({
      exitCode: 0,
      stdout: 'No longer watching permits.\n',
    });
    expect(JSON.parse((await run('watches', '--json')).stdout)).toEqual({
      watches: [{ datasetId: 'parcels', createdAt: NOW }],
    });
  });

  it('R7 watch relays a refusal with its links, asks for the other datasets, and suspends nothing: 77', async () => {
    const at = await installed();
    const { feed, run } = at;
    feed.access.refuse(
      { kind: 'dataset', datasetId: 'parcels' },
      { code: 'not_distributable', message: 'Ask the county.', links: { help: 'https://app.example/help' } },
    );
    const said = await run('watch', 'parcels', 'elsewhere', 'unknown', 'permits');
    expect(said).toMatchObject({
      exitCode: 77,
      stdout: 'Watching permits: each new version is sent to your webhooks.\n',
    });
    expect(said.stderr).toContain(
      'feed-sync: The service refused to watch dataset parcels (403 not_distributable). [command_refused]\n' +
        '  It says: Ask the county.\n' +
        '  help: https://app.example/help\n',
    );
    expect(said.stderr).toContain('(403 outside_coverage)');
    expect(said.stderr).toContain('(404 not_found)');
    expect(said.stderr).not.toContain('resume');
    expect(feed.requests.entries('watch')).toHaveLength(4);
    expect(kept(at)).toBeNull();
  });

  it.each(['watch', 'unwatch'])(
    'R7 %s relays the answer about an unknown dataset, asks for the others, and ends with 64',
    async (command) => {
      const at = await installed();
      expect(await at.run('watch', 'permits')).toMatchObject({ exitCode: 0 });
      const said = await at.run(command, 'parcles', 'permits');
      expect(said).toMatchObject({ exitCode: 64 });
      expect(said.stdout).toContain('permits');
      expect(said.stderr).toContain(`The service refused to ${command} dataset parcles (404 not_found).`);
      expect(said.stderr).toContain('→ Correct what was given to the command, and give it again.');
      expect(kept(at)).toBeNull();
    },
  );

  it.each([400, 422])(
    'R7 watch ends with 64 for a dataset id that the service calls invalid with %i',
    async (status) => {
      const { feed, run } = await installed();
      const json = { error: { code: 'invalid_request', message: '"p!" is no id of a dataset.' } };
      feed.faults.add({ match: { operation: 'watch' }, act: { kind: 'respond', status, json } });
      const said = await run('watch', 'p!');
      expect(said).toMatchObject({ exitCode: 64, stdout: '' });
      expect(said.stderr).toContain('It says: "p!" is no id of a dataset.');
    },
  );

  it('R7 watch ends with 77 when an operator must act for one dataset, also beside an unknown one', async () => {
    const { feed, run } = await installed();
    feed.access.refuse({ kind: 'dataset', datasetId: 'parcels' }, { code: 'not_distributable' });
    expect(await run('watch', 'unknown', 'parcels')).toMatchObject({ exitCode: 77 });
    expect(await run('watch', 'parcels', 'unknown')).toMatchObject({ exitCode: 77 });
  });

  it.each([
    [401, 77, { revoked: true }],
    [403, 77, { scopes: ['feeds'] as const }],
  ])(
    'watch sends a key that was refused with %i for no further dataset',
    async (status, exitCode, change) => {
      const { feed, run } = await installed();
      Object.assign(feed.keys.get(feed.apiKey), change);
      const said = await run('watch', 'parcels', 'permits', 'elsewhere');
      expect(said).toMatchObject({ exitCode, stdout: '' });
      expect(said.stderr).toContain(`(${status} `);
      expect(said.stderr).toContain('Not requested: 2 more.');
      expect(feed.requests.entries('watch')).toHaveLength(1);
      expect(await run('watches')).toMatchObject({ exitCode, stdout: '' });
    },
  );

  it.each([
    [['watch'], "Missing required argument 'dataset'.", 'watch'],
    [['unwatch'], "Missing required argument 'dataset'.", 'unwatch'],
    [['watch', ''], 'The id of a dataset is empty.', 'watch'],
    [['watches', 'parcels'], 'Too many arguments', 'watches'],
    [['coverage', '--jsn'], "Unknown option '--jsn'", 'coverage'],
    [['coverage', '--jsn=1'], "Unknown option '--jsn'", 'coverage'],
    [['webhook'], 'No command was given.', 'webhook'],
    [['webhook', 'add'], "Missing required argument 'url'.", 'webhook add'],
    [['webhook', 'remove'], "Missing required argument 'id'", 'webhook remove'],
    [['webhook', 'test', ''], 'The id of a webhook is empty.', 'webhook test'],
    [['webhook', 'test'], 'No webhook was added from here.', 'webhook add URL'],
  ])('%j ends with 64 and sends no request', async (words, says, help) => {
    const { feed, run } = await installed();
    const said = await run(...words);
    expect(said).toMatchObject({ exitCode: 64, stdout: '' });
    expect(said.stderr).toContain(says);
    expect(said.stderr).toContain(`feed-sync ${help}`);
    expect(feed.requests.entries()).toEqual([]);
  });
});

it.each([
  [['once', `--api-key=${CANARY_KEY}`], "Unknown option '--api-key'"],
  [['once', CANARY_KEY], 'No subscription contains [secret]'],
  [['status', CANARY_KEY], 'Too many arguments'],
  [['webhook', 'add', URL_OF_RECEIVER, `--header-value=${CANARY_KEY}`], "Unknown option '--header-value'"],
])('shows no secret that was given as a wrong argument: %j', async (words, says) => {
  const { run } = await installed();
  const said = await run(...words);
  expect(said.exitCode).toBe(64);
  expect(said.stderr).toContain(says);
  expect(said.stderr).not.toContain(CANARY_KEY);
});

describe('webhook add', () => {
  it('webhook add puts the secret into the file, newest first and for its owner alone, and stores the id', async () => {
    const at = await installed({ FEED_SYNC_WEBHOOK_SECRET_FILE: 'secrets' });
    const { feed, run, home } = at;
    const file = join(home, 'secrets');
    const said = await run('webhook', 'add', `${URL_OF_RECEIVER}?token=x`);
    const [first] = feed.webhooks.list();
    expect(said).toEqual({
      exitCode: 0,
      stdout:
        `Added the webhook ${first?.webhookId}: the service pushes events to ${URL_OF_RECEIVER}.\n` +
        `The secret that signs them is the first line of ${file}.\n` +
        `Try it: feed-sync webhook test ${first?.webhookId}\n`,
      stderr: '',
    });
    chmodSync(file, 0o644);
    feed.clock.advance(1_000);
    expect(await run('webhook', 'add', URL_OF_RECEIVER)).toMatchObject({ exitCode: 0 });
    const [older, newer] = secretsOf(feed);
    expect(readFileSync(file, 'utf8')).toBe(`${newer}\n${older}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(home, 'data/checkpoint.sqlite')).mode & 0o777).toBe(0o600);
    expect(kept(at)?.webhooks.map(({ webhookId, url }) => [webhookId, url])).toEqual([
      [feed.webhooks.list()[1]?.webhookId, URL_OF_RECEIVER],
      [first?.webhookId, `${URL_OF_RECEIVER}?token=x`],
    ]);
  });

  it('webhook add reads the header from a file or from standard input, never from an argument', async () => {
    const { feed, run, home } = await installed();
    writeFileSync(join(home, 'value'), `  ${HEADER_VALUE}\n`);
    const words = [
      'webhook',
      'add',
      URL_OF_RECEIVER,
      '--secret-file',
      'elsewhere',
      '--header-name',
      'X-Receiver',
    ];
    const said = await run(...words, '--header-value-file', 'value');
    expect(said).toMatchObject({ exitCode: 0 });
    expect(said.stdout).toContain('set webhook.secretFile to that file.');
    expect(await run(...words, '--header-value-file', '-', '--yes')).toMatchObject({ exitCode: 0 });
    const header = { name: 'X-Receiver', value: HEADER_VALUE };
    expect(feed.webhooks.list().map((webhook) => webhook.header)).toEqual([header, header]);
    expect(await run('webhook', 'add', URL_OF_RECEIVER, '--header-value', 'x')).toMatchObject({
      exitCode: 64,
    });
  });

  it('webhook add follows a link to the file, and leaves the link', async () => {
    const { feed, run, home } = await installed();
    mkdirSync(join(home, 'real'));
    writeFileSync(join(home, 'real/secrets'), '');
    symlinkSync('real/secrets', join(home, 'link'));
    expect(await run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 'link')).toMatchObject({
      exitCode: 0,
    });
    expect(readFileSync(join(home, 'real/secrets'), 'utf8')).toBe(`${secretsOf(feed)[0]}\n`);
  });

  it.each([
    [['nonsense'], 64, 'must be a whole one'],
    [['http://receiver.example/'], 64, 'must be https; http is for this machine only'],
    [['file:///etc/passwd'], 64, 'must be https'],
    [['https://a:b@receiver.example/'], 64, 'must not hold a user or a password'],
    [[`https://receiver.example/${'x'.repeat(1_000)}`], 64, 'has at most 1000 characters'],
    [[URL_OF_RECEIVER, '--header-name', 'X'], 64, '--header-name and --header-value-file go together.'],
    [
      [URL_OF_RECEIVER, '--header-name', 'a b', '--header-value-file', '-'],
      64,
      'a b is no name of a header.',
    ],
    [
      [URL_OF_RECEIVER, '--header-name', 'X', '--header-value-file', 'none'],
      64,
      'none cannot be read (ENOENT).',
    ],
    [
      [URL_OF_RECEIVER, '--header-name', 'X', '--header-value-file', 'two-lines'],
      64,
      'must hold the value of the header',
    ],
    [[URL_OF_RECEIVER], 64, "There is no file for the webhook's secret"],
    [[URL_OF_RECEIVER, '--secret-file', 'two-lines'], 64, 'holds something else than webhook secrets'],
    [[URL_OF_RECEIVER, '--secret-file', 'full'], 64, 'full holds 16 secrets, the most that are tried.'],
    [[URL_OF_RECEIVER, '--secret-file', 'nowhere/secrets'], 74, 'cannot be read and written (ENOENT)'],
    [[URL_OF_RECEIVER, '--secret-file', 'data'], 74, 'cannot be read and written (EISDIR)'],
  ])('webhook add %j ends with %i before any request', async (words, exitCode, says) => {
    const at = await installed();
    writeFileSync(join(at.home, 'two-lines'), 'one\ntwo\n');
    writeFileSync(join(at.home, 'full'), 'whsec_c2VjcmV0\n'.repeat(16));
    const said = await at.run('webhook', 'add', ...words);
    expect(said).toMatchObject({ exitCode, stdout: '' });
    expect(said.stderr).toContain(says);
    expect(readFileSync(join(at.home, 'two-lines'), 'utf8')).toBe('one\ntwo\n');
    expect(at.feed.requests.entries()).toEqual([]);
  });

  it('webhook add that is refused leaves the existing secrets, now for their owner alone', async () => {
    const { feed, run, home } = await installed();
    writeFileSync(join(home, 'secrets'), 'whsec_c2VjcmV0\n');
    chmodSync(join(home, 'secrets'), 0o644);
    feed.keys.get(feed.apiKey).scopes = ['feeds'];
    expect(await run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 'secrets')).toMatchObject({
      exitCode: 77,
    });
    expect(readFileSync(join(home, 'secrets'), 'utf8')).toBe('whsec_c2VjcmV0\n');
    expect(statSync(join(home, 'secrets')).mode & 0o777).toBe(0o600);
    expect(readdirSync(home).filter((name) => name.startsWith('secrets'))).toEqual(['secrets']);
  });

  it('webhook add that is refused leaves no file, no id and no suspension: 77', async () => {
    const at = await installed();
    at.feed.keys.get(at.feed.apiKey).scopes = ['feeds'];
    const said = await at.run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 'secrets');
    expect(said).toMatchObject({ exitCode: 77, stdout: '' });
    expect(said.stderr).toContain('The service refused to add a webhook (403 insufficient_scope).');
    expect(said.stderr).toContain('apiKeys: https://');
    expect(() => statSync(join(at.home, 'secrets'))).toThrow('ENOENT');
    expect(kept(at)).toEqual({ webhooks: [], suspensions: [] });
  });

  it.each([
    ['an address that the service does not accept: 64', 400, 'invalid_request', 64],
    ['a path that the service does not have: 77', 404, 'not_found', 77],
  ])('R7 webhook add leaves no file when it is refused for %s', async (_, status, code, exitCode) => {
    const at = await installed();
    const json = { error: { code, message: 'No.' } };
    at.feed.faults.add({ match: { operation: 'addWebhook' }, act: { kind: 'respond', status, json } });
    const said = await at.run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 'secrets');
    expect(said).toMatchObject({ exitCode, stdout: '' });
    expect(said.stderr).toContain(`The service refused to add a webhook (${status} ${code}).`);
    expect(() => statSync(join(at.home, 'secrets'))).toThrow('ENOENT');
  });

  it('webhook add is sent once when no answer comes, and says what that means: 75', async () => {
    const { feed, run } = await installed();
    feed.faults.add({
      match: { operation: 'addWebhook', times: 'always' },
      act: { kind: 'truncate', afterBytes: 20 },
    });
    const said = await run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 'secrets');
    expect(said).toMatchObject({ exitCode: 75, stdout: '' });
    expect(said.stderr).toContain('It is not known whether the service has added the webhook');
    expect(feed.requests.entries('addWebhook')).toHaveLength(1);
  });

  it('webhook add says what to do when its secret can no longer be written: 74', async () => {
    const at = await installed();
    mkdirSync(join(at.home, 'folder'));
    whileAdding(at, async () => rmSync(join(at.home, 'folder'), { recursive: true }));
    const said = await at.run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 'folder/secrets');
    const [webhook] = at.feed.webhooks.list();
    expect(said).toMatchObject({ exitCode: 74, stdout: '' });
    expect(said.stderr).toContain(
      `The service has added the webhook ${webhook?.webhookId}, but its secret could not be kept and is lost:`,
    );
    expect(said.stderr).toContain('mend the file, and add the webhook again.');
    expect(kept(at)?.webhooks).toEqual([]);
  });

  it('webhook add says where the secret is, and how to test it, when the id cannot be stored: 74', async () => {
    const at = await installed();
    whileAdding(at, async () => {
      const database = new Database(join(at.line.dataDirectory, 'checkpoint.sqlite'));
      database.exec('DROP TABLE webhooks');
      database.close();
    });
    const said = await at.run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 'secrets');
    expect(said).toMatchObject({ exitCode: 74, stdout: '' });
    expect(said.stderr).toContain('its secret is in ');
    expect(said.stderr).toContain(`feed-sync webhook test ${at.feed.webhooks.list()[0]?.webhookId}`);
    expect(readFileSync(join(at.home, 'secrets'), 'utf8')).toBe(`${secretsOf(at.feed)[0]}\n`);
  });

  it('webhook add and remove beside another add are refused, and nothing is lost or added twice: 75', async () => {
    const at = await installed({ FEED_SYNC_WEBHOOK_SECRET_FILE: 'secrets' });
    expect((await at.run('webhook', 'add', `${URL_OF_RECEIVER}/first`)).exitCode).toBe(0);
    const first = kept(at)?.webhooks[0]?.webhookId ?? '';
    const meanwhile: Said[] = [];
    whileAdding(at, async () => {
      for (const words of [
        ['add', URL_OF_RECEIVER],
        ['add', `${URL_OF_RECEIVER}/other`],
        ['remove', first],
      ])
        meanwhile.push(await at.run('webhook', ...words, '--yes'));
    });
    expect((await at.run('webhook', 'add', URL_OF_RECEIVER)).exitCode).toBe(0);
    expect(meanwhile.map(({ exitCode }) => exitCode)).toEqual([75, 75, 75]);
    for (const { stdout, stderr } of meanwhile) {
      expect(stdout).toBe('');
      expect(stderr).toContain('Another command adds or forgets a webhook of this data directory');
      expect(stderr).toContain('→ Wait until that command ends, then run this one again.');
    }
    expect(at.feed.webhooks.list().map(({ url }) => url)).toEqual([
      `${URL_OF_RECEIVER}/first`,
      URL_OF_RECEIVER,
    ]);
    expect(kept(at)?.webhooks).toHaveLength(2);
    expect(readFileSync(join(at.home, 'secrets'), 'utf8').trim().split('\n')).toEqual(
      secretsOf(at.feed).toReversed(),
    );
    // The one after it finds what was added.
    const later = await at.run('webhook', 'add', URL_OF_RECEIVER);
    expect(later).toMatchObject({ exitCode: 64, stderr: expect.stringContaining('was added from here at') });
  });

  it('webhook add works beside an instance', async () => {
    const at = await installed();
    const { dataDirectory } = at.line;
    await openAt(join(dataDirectory, 'checkpoint.sqlite'));
    const holder = { pid: 1, host: 'here', startedAt: new Date(NOW), command: 'run' };
    const lock = await acquireInstanceLock({ path: join(dataDirectory, 'lock.sqlite'), uid: null, holder });
    onTestFinished(() => lock.release());
    expect(await at.run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 's')).toMatchObject({
      exitCode: 0,
    });
    expect(kept(at)?.webhooks).toHaveLength(1);
  });
});

describe('webhook test', () => {
  it('webhook test pings every webhook that was added from here, or the one that is named', async () => {
    const { feed, run } = await installed();
    const receiver = await webhookReceiver();
    for (const path of ['', '?again']) {
      expect(await run('webhook', 'add', `${receiver.url}${path}`, '--secret-file', 's')).toMatchObject({
        exitCode: 0,
      });
      feed.clock.advance(1_000);
    }
    const [first, second] = feed.webhooks.list().map(({ webhookId }) => webhookId);
    expect(await run('webhook', 'test')).toEqual({
      exitCode: 0,
      stdout:
        `The service accepted the test of ${receiver.url} (webhook ${second}): it says that it sends a ping.\n` +
        `The service accepted the test of ${receiver.url} (webhook ${first}): it says that it sends a ping.\n`,
      stderr: '',
    });
    const { webhookId } = feed.webhooks.add(receiver.url, null);
    expect((await run('webhook', 'test', webhookId)).stdout).toBe(
      `The service accepted the test of webhook ${webhookId}: it says that it sends a ping.\n`,
    );
    await feed.webhooks.idle();
    expect(receiver.received).toHaveLength(3);
  });

  it('R7 webhook test ends with 64 for a typed id that the service does not know', async () => {
    const { run } = await installed();
    const said = await run('webhook', 'test', 'wh_typed');
    expect(said).toMatchObject({ exitCode: 64, stdout: '' });
    expect(said.stderr).toContain('The service refused to test webhook wh_typed (404 not_found).');
    expect(said.stderr).toContain('→ Correct what was given to the command, and give it again.');
  });

  it('R7 webhook test ends with 77 for a stored webhook that the service does not know, and pings the others', async () => {
    const at = await installed();
    await at.run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 's');
    const checkpoint = await openAt(join(at.line.dataDirectory, 'checkpoint.sqlite'));
    checkpoint.keepWebhook({
      webhookId: 'wh_gone',
      url: URL_OF_RECEIVER,
      createdAt: new Date('2027-01-01'),
      secret: null,
    });
    const said = await at.run('webhook', 'test');
    expect(said).toMatchObject({ exitCode: 77 });
    expect(said.stdout.split('\n')).toHaveLength(2);
    expect(said.stderr).toContain('The service refused to test webhook wh_gone (404 not_found).');
    expect(said.stderr).toContain('→ Once you have acted on it, give the command again.');
  });
});

describe('mistyped names', () => {
  it('a mistyped name is answered with the nearest known one, and those that are known', async () => {
    const { run } = await installed();
    const early = await run('watch', 'parcel');
    expect(early.stderr).toContain('→ No dataset is known yet. Catch up first: feed-sync once\n');
    await run('once');
    const unwatched = await run('unwatch', 'parcels');
    expect(unwatched).toMatchObject({ exitCode: 64 });
    expect(unwatched.stderr).toContain('→ No dataset is watched.\n');
    const watched = await run('watch', 'parcel');
    expect(watched).toMatchObject({ exitCode: 64 });
    expect(watched.stderr).toContain('→ The nearest is parcels. Known: parcels, permits.\n');
    await run('watch', 'parcels', 'permits');
    expect(await run('unwatch', 'parcels')).toMatchObject({ exitCode: 0 });
    const again = await run('unwatch', 'parcels');
    expect(again).toMatchObject({ exitCode: 64, stderr: expect.stringContaining('Known: permits.') });
    await run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 's');
    const tested = await run('webhook', 'test', 'wh_typed');
    expect(tested).toMatchObject({ exitCode: 64, stderr: expect.stringContaining('Known: wh_') });
  });
});

describe('webhooks that were added from here', () => {
  it('webhook add refuses an address that was added from here, unless --yes is given', async () => {
    const { feed, run } = await installed();
    const add = (...words: string[]) =>
      run('webhook', 'add', URL_OF_RECEIVER, '--secret-file', 's', ...words);
    expect(await add()).toMatchObject({ exitCode: 0 });
    const again = await add();
    expect(again).toMatchObject({
      exitCode: 64,
      stderr: expect.stringContaining('was added from here at 2026-03-01'),
    });
    expect(feed.webhooks.list()).toHaveLength(1);
    expect(await add('--yes')).toMatchObject({ exitCode: 0 });
    expect(feed.webhooks.list()).toHaveLength(2);
  });

  it('webhook list shows the webhooks that were added, and webhook remove forgets one with its own secret', async () => {
    const at = await installed();
    const { feed, run, home } = at;
    expect((await run('webhook', 'list')).stdout).toContain('No webhook was added from here.');
    for (const path of ['a', 'b']) {
      await run('webhook', 'add', `${URL_OF_RECEIVER}/${path}`, '--secret-file', 's');
      feed.clock.advance(1_000);
    }
    const [first, second] = feed.webhooks.list();
    const { stdout } = await run('webhook', 'list');
    expect(stdout).toMatch(
      new RegExp(`${second?.webhookId} .*/webhook/b.*\\n${first?.webhookId} .*/webhook/a`),
    );
    const unasked = await run('webhook', 'remove', first?.webhookId ?? '');
    expect(unasked).toMatchObject({
      exitCode: 64,
      stderr: expect.stringContaining('The service has no call'),
    });
    const removed = await run('webhook', 'remove', first?.webhookId ?? '', '--yes');
    expect(removed).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('Its secret is taken out.'),
    });
    expect(readFileSync(join(home, 's'), 'utf8')).toBe(`${second?.secrets[0]}\n`);
    expect(kept(at)?.webhooks.map(({ webhookId }) => webhookId)).toEqual([second?.webhookId]);
    const typed = await run('webhook', 'remove', 'wh_typed');
    expect(typed).toMatchObject({
      exitCode: 64,
      stderr: expect.stringContaining(`Known: ${second?.webhookId}.`),
    });
  });
});

describe('a ping to the running instance here', () => {
  /** The instance stores a delivery once the test has waited so long; never where it is null. */
  async function tested(arrivesAfterMs: number | null): Promise<Said> {
    const feed = await feedThatSendsOnce();
    let waitedMs = 0;
    let arrive = (): void => {};
    const line = commandLine({
      feed,
      now: () => feed.clock.now(),
      environment: { FEED_SYNC_WEBHOOK_SECRET_FILE: 'secrets' },
      onWait(durationMs) {
        waitedMs += durationMs;
        if (arrivesAfterMs !== null && waitedMs >= arrivesAfterMs) arrive();
      },
    });
    onTestFinished(() => line.remove());
    await line.run('webhook', 'add', 'http://127.0.0.1:1/webhook');
    const lock = await acquireInstanceLock({
      path: join(line.dataDirectory, 'lock.sqlite'),
      uid: null,
      holder: { pid: 7, host: 'here', startedAt: feed.clock.now(), command: 'run' },
    });
    onTestFinished(() => lock.release());
    const checkpoint = await openAt(join(line.dataDirectory, 'checkpoint.sqlite'));
    onTestFinished(() => checkpoint.close());
    arrive = () => void checkpoint.rememberDelivery('msg_1', feed.clock.now());
    return line.run('webhook', 'test');
  }

  it('webhook test waits for the ping to arrive at the running instance', async () => {
    const said = await tested(1_000);
    expect(said).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('arrived here after 1') });
  });

  it('webhook test ends with 75 when no ping arrives within 30 s', async () => {
    const said = await tested(null);
    expect(said).toMatchObject({
      exitCode: 75,
      stderr: expect.stringContaining('nothing arrived here within 30'),
    });
  });
});
