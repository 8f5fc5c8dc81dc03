/**
 * The API key is in nothing that the program prints or writes. Every test that runs the program searches for it at
 * its end; here the program is tempted to print it, and the search is shown to find it.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { once } from '../support/expect-mirrored.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { program } from '../support/program.ts';
import { secretsInFiles, secretsInText } from '../support/secret-search.ts';

describe('the search for the key', () => {
  it('the search for the key finds it in every form', async () => {
    const base64 = (text: string): string => Buffer.from(text).toString('base64');
    expect(secretsInText(CANARY_KEY, `key: ${CANARY_KEY}.`)).toEqual(['plain']);
    for (const before of ['', 'a', 'ab', 'abc'])
      expect(secretsInText(CANARY_KEY, `{"auth":"${base64(`${before}${CANARY_KEY}:x`)}"}`)).toEqual([
        'base64',
      ]);
    expect(secretsInText(CANARY_KEY, Buffer.from(CANARY_KEY).toString('hex'))).toEqual(['hexadecimal']);
    expect(secretsInText(CANARY_KEY, CANARY_KEY.slice(1))).toEqual([]);
    const installed = await program();
    const path = join(installed.home, 'work', 'leak.bin');
    writeFileSync(path, Buffer.concat([Buffer.from([0, 255]), Buffer.from(CANARY_KEY)]));
    expect(secretsInFiles(CANARY_KEY, installed.home)).toEqual([`${path}: plain`]);
  });
});

describe('the key', () => {
  it('F45 no command prints or writes the key, at any level of the log, whatever goes wrong', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ files: { echoAuthorization: true } });
    const installed = await program({
      feed,
      environment: {
        FEED_SYNC_LOG_LEVEL: 'trace',
        FEED_SYNC_RETRY_BASE_DELAY: '5ms',
        FEED_SYNC_RETRY_MAX_ATTEMPTS: '2',
      },
    });
    const echo = `Bearer ${feed.apiKey} is not welcome here`;
    feed.faults.add({
      match: { operation: 'versions', datasetId: datasetOf('permits') },
      act: { kind: 'respond', status: 500, body: echo },
    });
    feed.faults.add({
      match: { operation: 'schemas', datasetId: datasetOf('parcels'), times: 'always' },
      act: { kind: 'respond', status: 200, body: echo },
    });
    feed.faults.add({
      match: { operation: 'file', datasetId: datasetOf('zoning'), times: 'always' },
      act: { kind: 'respond', status: 400, body: echo },
    });
    feed.access.refuse(
      { kind: 'dataset', datasetId: datasetOf('ordinances') },
      {
        code: 'not_distributable',
        message: echo,
        links: { help: `https://app.feed.example/?key=${feed.apiKey}` },
      },
    );
    const first = await once(installed, 77);
    expect(first.stdout).toContain('1 suspended');
    for (const words of [
      ['status'],
      ['status', '--json'],
      ['subscriptions'],
      ['settings'],
      ['init'],
      ['resume', '--all'],
    ])
      expect(await installed.run(...words)).toMatchObject({ exitCode: 0 });
    feed.faults.clear();
    publishNext(datasetOf('permits'));
    feed.faults.add({
      match: { operation: 'subscriptions' },
      act: { kind: 'respond', status: 401, json: { error: { code: 'x', message: echo } } },
    });
    await once(installed, 77);
    await installed.run('status');
    // Everything that was printed and written is searched for the key when the test has finished.
  });
});
