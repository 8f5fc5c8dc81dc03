/** `feed-sync once` where the service is reached through a proxy and vouched for by a private authority. */

import { describe, expect, it } from 'vitest';
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

describe('a company network', () => {
  it('HTTPS_PROXY and NODE_EXTRA_CA_CERTS are enough', async () => {
    const { feed, front, installed } = await behindProxy();
    const environment = { HTTPS_PROXY: front.proxyUrl, NODE_EXTRA_CA_CERTS: AUTHORITY_PATH };
    const { exitCode, stdout, stderr } = await installed.runWith(environment, 'once');
    expect(exitCode, `${stdout}${stderr}`).toBe(0);
    expect(new Set(front.tunnels)).toEqual(new Set(['feed.test:443']));
    const published = { ...everythingPublished(feed), origin: FRONT_ORIGIN };
    expect(await mirrorDifferences(installed.mirrorPath, published)).toEqual([]);
  });

  it('F20 a redirect from https to http is not followed', async () => {
    const { feed, front, installed } = await behindProxy();
    const act = { kind: 'redirect', location: 'http://feed.test/elsewhere' } as const;
    feed.faults.add({ match: { operation: 'file', times: 'always' }, act });
    const environment = { HTTPS_PROXY: front.proxyUrl, NODE_EXTRA_CA_CERTS: AUTHORITY_PATH };
    const { exitCode, stdout } = await installed.runWith(environment, 'once');
    expect(exitCode).toBe(65);
    expect(stdout).toContain('by a redirect from https to http');
    expect(new Set(front.tunnels)).toEqual(new Set(['feed.test:443']));
  });

  it('an authority that is not known is refused, with what to do', async () => {
    const { front, installed } = await behindProxy();
    const { exitCode, stdout } = await installed.runWith({ HTTPS_PROXY: front.proxyUrl }, 'once');
    expect(exitCode).toBe(75);
    expect(stdout).toContain('NODE_EXTRA_CA_CERTS');
  });

  it('NO_PROXY goes past the proxy', async () => {
    const { front, installed } = await behindProxy();
    const environment = { HTTPS_PROXY: front.proxyUrl, NO_PROXY: 'feed.test' };
    const { exitCode, stdout } = await installed.runWith(environment, 'once');
    expect(exitCode).toBe(75);
    expect(stdout).toContain('feed.test');
    expect(front.tunnels).toEqual([]);
  });
});
