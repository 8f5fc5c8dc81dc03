/**
 * F45 the API key and every other secret are in nothing that the program prints, logs, stores, publishes, answers or hands
 * on, while a service that repeats what it was sent, in every place of every answer, is followed by the real program
 * with a log at its most verbose level.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { Act } from '../../fixtures/feed/faults.ts';
import type { Operation } from '../../fixtures/feed/operations.ts';
import { caughtUp } from '../support/caught-up.ts';
import { dumpOf } from '../support/checkpoint-dump.ts';
import { commandLine } from '../support/command-line.ts';
import { type CountyFeed, countyFeed } from '../support/county-feed.ts';
import { expectMirrored } from '../support/expect-mirrored.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { logged } from '../support/logged.ts';
import { mirrorDump } from '../support/mirror-dump.ts';
import { program } from '../support/program.ts';
import { recordingSystemdNotify } from '../support/recording-systemd-notify.ts';
import { refuseSecret, secretsInText } from '../support/secret-search.ts';
import { ask } from '../support/status-server.ts';
import { lastingEchoes, passingEchoes } from './echoes.ts';
import { READ_OPERATIONS } from './read-operations.ts';

const PROXY_PASSWORD = 'proxy/password+that=stays';
const HEADER_VALUE = 'header-value+that/stays=secret';
/** A secret that the command after commits prints. The configuration of the command contains it backwards. */
const HOOK_SECRET = 'command+s/output=secret';
const HOOK_SECRET_BACKWARDS = [...HOOK_SECRET].reverse().join('');
const FEED_OPERATIONS: readonly Operation[] = [...READ_OPERATIONS, 'file'];
const LOUD = {
  FEED_SYNC_LOG_LEVEL: 'trace',
  FEED_SYNC_DISK_RESERVE: '0MB',
  FEED_SYNC_RETRY_BASE_DELAY: '1ms',
  FEED_SYNC_RETRY_MAX_DELAY: '1ms',
  FEED_SYNC_RETRY_MAX_ATTEMPTS: '20',
};

/** Searches the texts in the stores, however their files encode them. The files themselves are searched when a test has finished. */
async function refuseInStores(mirrorPath: string, ...secrets: readonly string[]): Promise<void> {
  const texts = [
    JSON.stringify(await mirrorDump(mirrorPath)),
    dumpOf(join(dirname(mirrorPath), 'checkpoint.sqlite')),
  ];
  for (const secret of secrets) refuseSecret(secret, { texts, folders: [] });
}

type Run = (...words: readonly string[]) => Promise<{ readonly stdout: string; readonly stderr: string }>;

/** One catch-up for each act, of which the calls of that operation meet it, and passing ones before the first. */
async function echoed(
  { feed, publishNext, datasetOf }: CountyFeed,
  operation: Operation,
  lasting: readonly Act[],
  run: Run,
): Promise<readonly string[]> {
  const reported: string[] = [];
  for (const [index, last] of lasting.entries()) {
    publishNext(datasetOf('permits'));
    const acts = index === 0 ? passingEchoes(CANARY_KEY) : [];
    for (const [before, act] of acts.entries())
      feed.faults.add({ match: { operation, nth: before + 1 }, act });
    feed.faults.add({ match: { operation, nth: acts.length + 1, times: 'always' }, act: last });
    const { stdout, stderr } = await run('once');
    reported.push(stdout, stderr);
    feed.faults.clear();
    if (stdout.includes('feed-sync resume')) await run('resume', '--all');
  }
  return reported;
}

it('F45 prints and stores nothing of a key that any answer repeats, in any command', async () => {
  const made = await countyFeed({ files: { urls: 'relative', sha256: false } });
  const { feed, datasetOf } = made;
  const installed = commandLine({ feed, now: () => new Date(), environment: LOUD });
  onTestFinished(() => installed.remove());
  const run: Run = (...words) => {
    const { environment } = installed;
    environment['FEED_SYNC_LOG_FORMAT'] = environment['FEED_SYNC_LOG_FORMAT'] === 'json' ? 'text' : 'json';
    return installed.run(...words);
  };
  const reported: string[] = [];
  for (const operation of FEED_OPERATIONS) {
    reported.push(...(await echoed(made, operation, lastingEchoes(CANARY_KEY), run)));
  }
  // The key was really repeated, and the commands reported that.
  expect(reported.join('')).toContain('repeats the API key');
  expect(reported.join('')).toContain('It says: Bearer [secret] as');
  const permits = datasetOf('permits');
  for (const lasting of lastingEchoes(CANARY_KEY)) {
    feed.faults.add({ match: { times: 'always' }, act: lasting });
    for (const words of [['subscriptions'], ['doctor'], ['coverage'], ['watches'], ['verify']]) {
      await run(...words);
      await run(...words, '--json');
    }
    await run('watch', permits);
    feed.faults.clear();
  }
  await run('resync', permits);
  expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
  await refuseInStores(join(installed.dataDirectory, 'mirror.duckdb'), CANARY_KEY);
});

it('F45 prints and stores nothing of a key that an answer repeats, as a process', async () => {
  const made = await countyFeed({ files: { urls: 'relative', sha256: false } });
  const { feed, datasetOf } = made;
  const installed = await program({ feed, environment: LOUD });
  for (const [index, operation] of FEED_OPERATIONS.entries()) {
    const lasting = lastingEchoes(CANARY_KEY).slice(index, index + 1);
    await echoed(made, operation, lasting, (...words) =>
      installed.runWith({ FEED_SYNC_LOG_FORMAT: index % 2 === 0 ? 'json' : 'text' }, ...words),
    );
  }
  for (const words of [
    ['once'],
    ['once', '--dry-run', '--json'],
    ['status'],
    ['status', '--json'],
    ['settings'],
    ['init'],
    ['doctor', '--json'],
    ['query', 'FROM feed_sync.datasets'],
    ['resync', datasetOf('permits')],
  ]) {
    expect(await installed.run(...words), words.join(' ')).toMatchObject({ exitCode: 0 });
  }
  await expectMirrored(installed, feed);
  await refuseInStores(installed.mirrorPath, CANARY_KEY);
});

it('F45 F61 keeps every secret out of the log, the children, status server, webhooks and copy of run', async () => {
  const { feed, datasetIds, datasetOf, publishNext } = await countyFeed();
  const systemd = recordingSystemdNotify();
  const installed = await program({
    feed,
    secrets: [PROXY_PASSWORD, HEADER_VALUE],
    environment: {
      ...LOUD,
      PATH: systemd.path,
      NOTIFY_SOCKET: '/nowhere',
      FEED_SYNC_POLL_EVERY: '1s',
      FEED_SYNC_DESTINATION_PUBLISH_EVERY: '1s',
      // Nothing on loopback goes through it.
      HTTPS_PROXY: `http://user:${encodeURIComponent(PROXY_PASSWORD)}@proxy.example:3128`,
    },
  });
  const { home } = installed;
  // Files that may contain a secret, and the environment of a child, are outside its home.
  const elsewhere = mkdtempSync(join(tmpdir(), 'feed-sync-canary-'));
  onTestFinished(() => rmSync(elsewhere, { recursive: true }));
  const [keyFile, secretFile, valueFile, noted] = ['key', 'webhooks', 'value', 'noted'].map((name) =>
    join(elsewhere, name),
  ) as [string, string, string, string];
  for (const [path, text] of [
    [keyFile, CANARY_KEY],
    [secretFile, ''],
    [valueFile, HEADER_VALUE],
  ] as const) {
    writeFileSync(path, text, { mode: 0o600 });
  }
  const script = `
    const fs = require('node:fs');
    const about = ['environ', 'cmdline'].map((name) => fs.readFileSync('/proc/self/' + name));
    const parent = fs.readFileSync('/proc/' + process.ppid + '/cmdline');
    require('node:stream/consumers').buffer(process.stdin).then((input) => {
      const isFirst = !fs.existsSync(${JSON.stringify(noted)});
      fs.appendFileSync(${JSON.stringify(noted)}, Buffer.concat([...about, parent, input]));
      if (isFirst) { console.error(${JSON.stringify(HOOK_SECRET_BACKWARDS)}.split('').reverse().join('')); process.exit(1); }
    });`;
  writeFileSync(
    join(home, 'work', 'feed-sync.yaml'),
    JSON.stringify({
      service: { apiKeyFile: keyFile },
      webhook: { secretFile },
      destination: { publish: join(home, 'out', 'copy.duckdb') },
      hooks: { afterCommit: [process.execPath, '--eval', script] },
    }),
  );
  const daemon = installed.startWith({ FEED_SYNC_API_KEY: '' }, 'run');
  const { url } = JSON.parse(await logged(daemon, 'The status server listens.')) as { readonly url: string };
  expect(secretsInText(CANARY_KEY, readFileSync(`/proc/${daemon.pid}/environ`, 'latin1'))).toEqual([]);
  await logged(daemon, 'Notified the command after commits.');

  const header = ['--header-name', 'X-Receiver', '--header-value-file', valueFile];
  const added = await installed.run('webhook', 'add', `${url}/webhook`, ...header);
  expect(added).toMatchObject({ exitCode: 0 });
  const [secret = ''] = readFileSync(secretFile, 'utf8').split('\n');
  expect(secret).toMatch(/^whsec_/);
  expect(await installed.run('webhook', 'test')).toMatchObject({ exitCode: 0 });

  const answers: string[] = [];
  for (const act of [...passingEchoes(CANARY_KEY), ...lastingEchoes(CANARY_KEY).slice(4)]) {
    for (const operation of FEED_OPERATIONS) feed.faults.add({ match: { operation }, act });
    publishNext(datasetOf('permits'));
    await ask(`${url}/webhook`, { method: 'POST', body: CANARY_KEY, headers: { 'webhook-id': CANARY_KEY } });
    for (const path of ['/healthz', '/status', '/metrics', '/livez', '/readyz', `/${CANARY_KEY}`]) {
      answers.push((await ask(`${url}${path}`)).text);
    }
  }
  feed.faults.clear();
  await installed.run('resume', '--all');
  await caughtUp(daemon, feed);
  daemon.kill('SIGTERM');
  const ended = await daemon.ended;
  expect(ended).toMatchObject({ exitCode: 0 });
  await expectMirrored(installed, feed);
  expect(ended.stderr, 'the signatures of links').not.toContain('X-Signature');
  expect(ended.stderr).toContain('"operation":"download a file"');

  const children = readFileSync(noted, 'latin1');
  expect(children).toContain(datasetIds[0]);
  expect(children).toContain('main.js');
  const texts = [...answers, systemd.reported().join('\n'), ended.stderr, added.stdout, added.stderr];
  for (const hidden of [CANARY_KEY, secret, secret.slice('whsec_'.length), HEADER_VALUE]) {
    refuseSecret(hidden, { texts: [...texts, children], folders: [home] });
  }
  expect(ended.stderr).toContain(HOOK_SECRET);
  refuseSecret(HOOK_SECRET, { texts: [...answers, systemd.reported().join('\n')], folders: [home] });
  // A command may need the way through the proxy as much as we do.
  refuseSecret(PROXY_PASSWORD, { texts, folders: [] });
  await refuseInStores(installed.mirrorPath, CANARY_KEY, secret, PROXY_PASSWORD, HEADER_VALUE, HOOK_SECRET);
});
