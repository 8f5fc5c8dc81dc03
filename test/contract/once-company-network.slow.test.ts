/** `feed-sync once` where the service is reached through a proxy and vouched for by a private authority. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { program } from '../support/program.ts';
import { everythingPublished } from '../support/published.ts';
import { AUTHORITY_PATH, FRONT_ORIGIN, tlsFront } from '../support/tls-front.ts';

async function behindProxy() {
  const { feed } = await countyFeed({ counties: 1, rowsPerDataset: 20, files: { urls: 'relative' } });
  const front = await tlsFront(feed.baseUrl);
  const installed = await program({
    feed: { baseUrl: FRONT_ORIGIN, apiKey: feed.apiKey },
    environment: { FEED_SYNC_RETRY_MAX_ATTEMPTS: '1' },
  });
  return { feed, front, installed };
}

/** A proxy that connects to nothing. Closed when the test has finished. */
async function refusingProxy(status: string): Promise<string> {
  const proxy = createServer();
  proxy.on('connect', (_, client: Socket) => void client.end(`HTTP/1.1 ${status} No\r\n\r\n`));
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  onTestFinished(() => void proxy.close());
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}

describe('a company network', () => {
  it('once works with HTTPS_PROXY and NODE_EXTRA_CA_CERTS alone', async () => {
    const { feed, front, installed } = await behindProxy();
    const environment = { HTTPS_PROXY: front.proxyUrl, NODE_EXTRA_CA_CERTS: AUTHORITY_PATH };
    const { exitCode, stdout, stderr } = await installed.runWith(environment, 'once');
    expect(exitCode, `${stdout}${stderr}`).toBe(0);
    expect(new Set(front.tunnels)).toEqual(new Set(['feed.test:443']));
    const published = { ...everythingPublished(feed), origin: FRONT_ORIGIN };
    expect(await mirrorDifferences(installed.mirrorPath, published)).toEqual([]);
  });

  it('F20 once follows no redirect from https to http', async () => {
    const { feed, front, installed } = await behindProxy();
    const act = { kind: 'redirect', location: 'http://feed.test/elsewhere' } as const;
    feed.faults.add({ match: { operation: 'file', times: 'always' }, act });
    const environment = { HTTPS_PROXY: front.proxyUrl, NODE_EXTRA_CA_CERTS: AUTHORITY_PATH };
    const { exitCode, stdout } = await installed.runWith(environment, 'once');
    expect(exitCode).toBe(65);
    expect(stdout).toContain('by a redirect from https to http');
    expect(new Set(front.tunnels)).toEqual(new Set(['feed.test:443']));
  });

  it('once refuses an unknown authority, with what to do', async () => {
    const { front, installed } = await behindProxy();
    const { exitCode, stdout } = await installed.runWith({ HTTPS_PROXY: front.proxyUrl }, 'once');
    expect(exitCode).toBe(75);
    expect(stdout).toContain('NODE_EXTRA_CA_CERTS');
  });

  it.each([
    ['403', 'NO_PROXY'],
    ['407', 'USER:PASSWORD'],
  ])(
    'once and doctor name a proxy that answers %s as what refuses, with what to do',
    async (status, hint) => {
      const { installed } = await behindProxy();
      const proxyUrl = await refusingProxy(status);
      for (const command of ['once', 'doctor']) {
        const { exitCode, stdout, stderr } = await installed.runWith({ HTTPS_PROXY: proxyUrl }, command);
        expect(exitCode, `${stdout}${stderr}`).toBe(75);
        expect(stdout).toContain(`the proxy refused the connection with ${status}`);
        expect(stdout).toContain(hint);
        expect(stdout).not.toContain('connection refused');
      }
    },
  );

  it('once goes past the proxy with NO_PROXY', async () => {
    const { front, installed } = await behindProxy();
    const environment = { HTTPS_PROXY: front.proxyUrl, NO_PROXY: 'feed.test' };
    const { exitCode, stdout } = await installed.runWith(environment, 'once');
    expect(exitCode).toBe(75);
    expect(stdout).toContain('feed.test');
    expect(front.tunnels).toEqual([]);
  });
});
