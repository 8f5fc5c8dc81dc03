/**
 * Addresses that are wrong, and a service that moves: what the commands say and leave, with a fixture feed on two ports. A
 * wrong address poisons no data directory.
 */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { acquireInstanceLock, instanceLockPath } from '../../src/checkpoint/instance-lock.ts';
import { openCheckpointReader } from '../../src/checkpoint/sqlite/open.ts';
import { keyHashOf } from '../../src/cli/service-client.ts';
import { Secret } from '../../src/lib/secret.ts';
import { openAt, suspensionOf } from '../support/checkpoint-files.ts';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { ownServer } from '../support/own-server.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall } from '../support/started-feed.ts';

const NOW = '2026-03-01T12:00:00.000Z';
const MISSING_PAGE = { error: { code: 'not_found', message: 'There is nothing here.' } };

/** A service with one subscription to parcels, of two rows. */
async function serviceWith(subscriptionId: string): Promise<FixtureFeed> {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock: stillClock(NOW) });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId, datasetIds: ['parcels'] });
  publishSmall(feed, ['parcels']);
  return feed;
}

function installed(feed: { readonly baseUrl: string; readonly apiKey: string }): CommandLine {
  const environment = { FEED_SYNC_LOG_LEVEL: 'silent', FEED_SYNC_RETRY_MAX_ATTEMPTS: '2' };
  const line = commandLine({ feed, now: () => new Date(NOW), environment });
  onTestFinished(() => line.remove());
  return line;
}

function moveTo(line: CommandLine, baseUrl: string): void {
  line.environment['FEED_SYNC_BASE_URL'] = baseUrl;
}

function suspensionsOf({ dataDirectory }: CommandLine) {
  const reader = openCheckpointReader({ path: join(dataDirectory, 'checkpoint.sqlite'), uid: null });
  const suspensions = reader?.suspensions() ?? [];
  reader?.close();
  return suspensions;
}

const rowsOf = ({ dataDirectory }: CommandLine) => inMirror(dataDirectory, 'SELECT count(*) FROM parcels');
const originOf = async ({ dataDirectory }: CommandLine) => {
  const [[origin] = []] = await inMirror(
    dataDirectory,
    "SELECT value FROM feed_sync.meta WHERE key = 'service_origin'",
  );
  return origin;
};

describe('a wrong base URL', () => {
  it.each([
    ['a refusal', JSON.stringify(MISSING_PAGE), 'There is nothing here.'],
    ['a page for people', '<h1>Not Found</h1>', 'The service answered 404.'],
  ])(
    'a wrong base URL that answers 404 with %s is reported as such, and is as if it had never been set',
    async (...row) => {
      const [, body, message] = row;
      const feed = await serviceWith('sub_1');
      const wrong = await ownServer((_, response) => response.writeHead(404).end(body));
      const line = installed({ baseUrl: wrong.url, apiKey: CANARY_KEY });
      for (const words of [['once'], ['once', '--dry-run'], ['subscriptions']]) {
        const said = await line.run(...words);
        expect(said.exitCode).toBe(78);
        expect(said.stdout + said.stderr).toContain('check service.baseUrl');
        expect(said.stdout + said.stderr).toContain(message);
      }
      expect(wrong.seen.map(({ path }) => path.split('?')[0])).toEqual(Array(3).fill('/v1/subscriptions'));
      expect(suspensionsOf(line)).toEqual([]);
      moveTo(line, feed.baseUrl);
      expect((await line.run('once')).exitCode).toBe(0);
      expect(await rowsOf(line)).toEqual([['2']]);
    },
  );

  it('R17 a wrong base URL is reported though another service was mirrored before', async () => {
    const feed = await serviceWith('sub_1');
    const line = installed(feed);
    expect((await line.run('once')).exitCode).toBe(0);
    const wrong = await ownServer((_, response) => response.writeHead(404).end(JSON.stringify(MISSING_PAGE)));
    moveTo(line, wrong.url);
    expect((await line.run('once')).exitCode).toBe(78);
    expect(suspensionsOf(line)).toEqual([]);
    moveTo(line, feed.baseUrl);
    expect((await line.run('once')).exitCode).toBe(0);
  });

  it('a mirrored service that answers 404 by now is suspended, and not reported as a wrong base URL', async () => {
    const feed = await serviceWith('sub_1');
    const line = installed(feed);
    expect((await line.run('once')).exitCode).toBe(0);
    const act = { kind: 'respond', status: 404, json: MISSING_PAGE } as const;
    feed.faults.add({ match: { operation: 'subscriptions', times: 'always' }, act });
    expect((await line.run('once', '--dry-run')).exitCode).toBe(77);
    expect((await line.run('once')).exitCode).toBe(77);
    expect(suspensionsOf(line)).toMatchObject([
      { refusal: { status: 404, message: 'There is nothing here.' } },
    ]);
  });

  it.each([
    ['a refusal', JSON.stringify(MISSING_PAGE), 77],
    ['a page for people', '<h1>Not Found</h1>', 75],
  ])('a wrong path at an origin that answered before is named as what may lead to %s', async (...row) => {
    const [, body, exitCode] = row;
    const feed = await serviceWith('sub_1');
    const line = installed(feed);
    expect((await line.run('once')).exitCode).toBe(0);
    moveTo(line, `${feed.baseUrl}/elsewhere`);
    const act = { kind: 'respond', status: 404, body } as const;
    feed.faults.add({ match: { times: 'always' }, act });
    for (const words of [['once', '--dry-run'], ['doctor'], ['once']]) {
      const said = await line.run(...words);
      expect(said.exitCode).toBe(exitCode);
      expect(said.stdout + said.stderr).toContain(
        'The path of service.baseUrl (FEED_SYNC_BASE_URL) may be wrong',
      );
    }
    feed.faults.clear();
    moveTo(line, feed.baseUrl);
    expect((await line.run('once')).exitCode).toBe(0);
    expect(suspensionsOf(line)).toEqual([]);
  });

  it.each(['once', 'doctor'])(
    '%s reports https for plain HTTP on this machine as such, with the address to try',
    async (command) => {
      const feed = await serviceWith('sub_1');
      const { host } = new URL(feed.baseUrl);
      const line = installed({ baseUrl: `https://${host}`, apiKey: CANARY_KEY });
      const said = await line.run(command);
      expect(said.exitCode).toBe(75);
      expect(said.stdout + said.stderr).toContain(`no TLS is spoken at ${host}`);
      expect(said.stdout + said.stderr).toContain(`http://${host}`);
      expect(said.stdout + said.stderr).not.toContain('NODE_EXTRA_CA_CERTS');
    },
  );

  it('a base URL whose service refuses the key keeps nothing from another base URL', async () => {
    const feed = await serviceWith('sub_1');
    const wrong = await ownServer((_, response) => response.writeHead(401).end());
    const line = installed({ baseUrl: wrong.url, apiKey: CANARY_KEY });
    expect((await line.run('once')).exitCode).toBe(77);
    expect((await line.run('once')).exitCode).toBe(77);
    expect(wrong.seen).toHaveLength(1);
    moveTo(line, feed.baseUrl);
    expect((await line.run('once')).exitCode).toBe(0);
    expect(suspensionsOf(line)).toEqual([]);
  });

  it('a refusal of the key that an earlier version stored without the base URL keeps the key from being used', async () => {
    const feed = await serviceWith('sub_1');
    const line = installed(feed);
    expect((await line.run('once')).exitCode).toBe(0);
    const access = { apiKey: new Secret(CANARY_KEY), baseUrl: feed.baseUrl };
    const [ofKeyAlone = ''] = keyHashOf(access).split('/');
    const checkpoint = await openAt(join(line.dataDirectory, 'checkpoint.sqlite'));
    checkpoint.suspend({ ...suspensionOf({ kind: 'workspace' }), keyHash: ofKeyAlone });
    feed.requests.clear();
    expect((await line.run('once')).exitCode).toBe(77);
    expect(feed.requests.entries()).toEqual([]);
    line.environment['FEED_SYNC_API_KEY'] = `${CANARY_KEY}-another`;
    expect((await line.run('once')).stdout).not.toContain('row');
    expect(feed.requests.entries()).not.toEqual([]);
  });
});

describe('a service that has moved', () => {
  async function mirrored(): Promise<{ readonly feed: FixtureFeed; readonly line: CommandLine }> {
    const feed = await serviceWith('sub_1');
    const line = installed(feed);
    expect((await line.run('once')).exitCode).toBe(0);
    return { feed, line };
  }

  it('a service that has moved is refused until an operator accepts it, and then goes on with what is there', async () => {
    const { feed, line } = await mirrored();
    const moved = await serviceWith('sub_1');
    moved.publisher.publish('parcels', smallContent(numberedRows(3), null));
    moveTo(line, moved.baseUrl);
    for (const command of ['once', 'doctor']) {
      const refused = await line.run(command);
      expect(refused.exitCode).toBe(78);
      expect(refused.stdout + refused.stderr).toContain('feed-sync resume --service-moved');
    }
    expect(await originOf(line)).toBe(feed.baseUrl);
    const accepted = await line.run('resume', '--service-moved');
    expect(accepted).toMatchObject({ exitCode: 0, stderr: '' });
    expect(accepted.stdout).toBe(
      `Accepted: the mirror of the service at ${feed.baseUrl} belongs to ${moved.baseUrl} now, ` +
        'which lists 1 of its 1 subscription.\nThe next catch-up goes on there.\n',
    );
    expect(await originOf(line)).toBe(moved.baseUrl);
    expect((await line.run('once')).exitCode).toBe(0);
    expect(await rowsOf(line)).toEqual([['3']]);
    expect((await line.run('resume', '--service-moved')).stdout).toContain('already');
    moveTo(line, feed.baseUrl);
    expect((await line.run('once')).exitCode).toBe(78);
  });

  it('a moved service is not accepted where it lists none of the subscriptions', async () => {
    const { feed, line } = await mirrored();
    const other = await serviceWith('sub_2');
    moveTo(line, other.baseUrl);
    const refused = await line.run('resume', '--service-moved');
    expect(refused).toMatchObject({ exitCode: 78, stdout: '' });
    expect(refused.stderr).toContain(
      'belongs to the subscriptions sub_1, and this API key sees none of them',
    );
    expect(await originOf(line)).toBe(feed.baseUrl);
    expect((await line.run('once')).exitCode).toBe(78);
  });

  it('a moved service is not accepted at a wrong address, nor with a key that is refused', async () => {
    const { feed, line } = await mirrored();
    const wrong = await ownServer((_, response) => response.writeHead(404).end());
    moveTo(line, wrong.url);
    const refused = await line.run('resume', '--service-moved');
    expect(refused.exitCode).toBe(78);
    expect(refused.stderr).toContain('check service.baseUrl');
    const moved = await serviceWith('sub_1');
    moveTo(line, moved.baseUrl);
    line.environment['FEED_SYNC_API_KEY'] = `${CANARY_KEY}-another`;
    expect((await line.run('resume', '--service-moved')).exitCode).toBe(77);
    expect(await originOf(line)).toBe(feed.baseUrl);
    expect(suspensionsOf(line)).toEqual([]);
    expect((await line.run('once')).exitCode).toBe(77);
    moved.requests.clear();
    expect((await line.run('resume', '--service-moved')).exitCode).toBe(77);
    expect(moved.requests.entries()).toEqual([]);
  });

  it('a moved service is not accepted beside a running instance, with other options, or without a mirror', async () => {
    const { line } = await mirrored();
    const moved = await serviceWith('sub_1');
    moveTo(line, moved.baseUrl);
    expect((await line.run('resume', '--service-moved', '--all')).exitCode).toBe(64);
    const lock = await acquireInstanceLock({
      path: instanceLockPath(line.dataDirectory),
      uid: null,
      holder: { pid: 1, host: 'mirror-1', startedAt: new Date(NOW), command: 'run' },
    });
    expect((await line.run('resume', '--service-moved')).exitCode).toBe(75);
    lock.release();
    const empty = installed(moved);
    expect((await empty.run('resume', '--service-moved')).exitCode).toBe(64);
    expect(existsSync(empty.dataDirectory)).toBe(false);
  });
});
