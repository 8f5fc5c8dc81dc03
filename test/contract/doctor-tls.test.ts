/** `feed-sync doctor` and TLS: certificates that are not trusted, proxies, and what a company network takes. */

import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { localInstallation } from '../support/local-installation.ts';
import { listenOnLoopback } from '../support/own-server.ts';
import { program } from '../support/program.ts';
import { AUTHORITY_PATH, FRONT_ORIGIN, tlsFront } from '../support/tls-front.ts';

const TLS_DIRECTORY = join(import.meta.dirname, '../support/tls');
const PROXY_PASSWORD = 'proxy+pass/word';

/** A server that has a certificate that was good for 2020 only, and says nothing. What it was sent is counted. */
async function expiredServer(): Promise<{ readonly origin: string; readonly keysSeen: () => number }> {
  let keysSeen = 0;
  const server = createServer(
    {
      key: readFileSync(join(TLS_DIRECTORY, 'expired-key.pem')),
      cert: readFileSync(join(TLS_DIRECTORY, 'expired.pem')),
    },
    (request, response) => {
      keysSeen += request.headers.authorization === undefined ? 0 : 1;
      response.end();
    },
  );
  return { origin: `https://127.0.0.1:${await listenOnLoopback(server)}`, keysSeen: () => keysSeen };
}

describe('a certificate', () => {
  it('doctor shows a certificate that has expired, and does not send the key', async () => {
    const { origin, keysSeen } = await expiredServer();
    const diagnosis = await localInstallation({ feed: { baseUrl: origin, apiKey: CANARY_KEY } }).diagnose();
    expect(diagnosis.exitCode).toBe(75);
    expect(diagnosis.of('connection').find(({ about }) => about === 'certificate')).toMatchObject({
      state: 'problem',
      found: expect.stringMatching(
        /^Not trusted \(.+\): CN=localhost by CN=localhost, valid until 2021-01-01; TLSv1/,
      ),
      hints: [expect.stringContaining('clock of this machine')],
    });
    expect(diagnosis.of('clock')[0]?.state).toBe('ok');
    expect(diagnosis.of('key')[0]).toMatchObject({
      state: 'skipped',
      found: expect.stringContaining('no trusted connection'),
    });
    expect(keysSeen()).toBe(0);
  });

  it('doctor says how to name a private authority, and shows the proxy without its password', async () => {
    const { feed } = await countyFeed();
    const front = await tlsFront(feed.baseUrl);
    const { host } = new URL(front.proxyUrl);
    const proxy = `http://ann:${encodeURIComponent(PROXY_PASSWORD)}@${host}`;
    const one = localInstallation({
      feed: { baseUrl: FRONT_ORIGIN, apiKey: CANARY_KEY },
      environment: { HTTPS_PROXY: proxy },
      secrets: [PROXY_PASSWORD, Buffer.from(`ann:${PROXY_PASSWORD}`).toString('base64')],
    });
    const found = (await one.diagnose()).of('connection');
    expect(found.map(({ about, state }) => [about, state])).toEqual([
      ['proxy', 'ok'],
      ['certificate', 'problem'],
      ['service', 'ok'],
    ]);
    expect(found[0]?.found).toBe(`${host} (from HTTPS_PROXY or HTTP_PROXY)`);
    expect(found[1]).toMatchObject({
      found: expect.stringContaining('CN=feed.test by CN=feed-sync test authority'),
      hints: [expect.stringContaining('NODE_EXTRA_CA_CERTS')],
    });
    expect(await one.reported()).toContain('NODE_EXTRA_CA_CERTS');
    expect(feed.requests.entries().filter(({ hasAuthorization }) => hasAuthorization)).toEqual([]);
  });
});

describe('a proxy', () => {
  it('doctor names a proxy that is not there, without its password', async () => {
    const one = localInstallation({
      feed: { baseUrl: FRONT_ORIGIN, apiKey: CANARY_KEY },
      environment: { HTTPS_PROXY: `http://ann:${PROXY_PASSWORD.replace('/', '%2F')}@127.0.0.1:1` },
      secrets: [PROXY_PASSWORD],
    });
    expect((await one.diagnose()).of('connection')).toMatchObject([
      { about: 'proxy', state: 'ok' },
      {
        about: 'service',
        state: 'problem',
        found: expect.stringContaining('connection refused at 127.0.0.1:1'),
      },
    ]);
  });
});

describe('the program', () => {
  it('doctor with HTTPS_PROXY and NODE_EXTRA_CA_CERTS finds everything as it should be', async () => {
    const { feed } = await countyFeed({ files: { urls: 'relative' } });
    const front = await tlsFront(feed.baseUrl);
    const installed = await program({ feed: { baseUrl: FRONT_ORIGIN, apiKey: feed.apiKey } });
    const environment = { HTTPS_PROXY: front.proxyUrl, NODE_EXTRA_CA_CERTS: AUTHORITY_PATH };
    const { exitCode, stdout, stderr } = await installed.runWith(environment, 'doctor');
    expect(exitCode, `${stdout}${stderr}`).toBe(0);
    expect(stdout).toMatch(
      /ok +certificate +CN=feed\.test by CN=feed-sync test authority, valid until 2126-10-27; TLSv1\.3\n/,
    );
    expect(stdout).toMatch(/ok +feed-sync +\d+\.\d+\.\d+ on Node 24\./);
  });
});
