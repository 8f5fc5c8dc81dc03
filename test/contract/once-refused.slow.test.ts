/** `feed-sync once` where the service refuses: one call, then none until an operator has acted; others go on. */

import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const KEYS_LINK = 'https://app.feed.example/settings/api-keys';

describe('a key that the service refuses', () => {
  it('R3 R13 R14 R16 F23 a refused key costs one request, then none until the operator has acted', async () => {
    const { feed } = await countyFeed();
    feed.keys.get(feed.apiKey).revoked = true;
    const installed = await program({ feed });
    const first = await once(installed, 77);
    expect(first.stdout).toContain('It says: This API key was revoked.');
    expect(first.stdout).toContain(`apiKeys: ${KEYS_LINK}`);
    expect(first.stdout).toContain('feed-sync resume --workspace (or give another key)');
    const refusedCalls = feed.requests.entries().filter(({ status }) => status === 401);
    expect(refusedCalls).toHaveLength(1);

    feed.keys.get(feed.apiKey).revoked = false;
    feed.requests.clear();
    const again = await once(installed, 77);
    expect(again.stdout).toContain('It says: This API key was revoked.');
    expect(again.stdout).toContain(KEYS_LINK);
    expect(feed.requests.entries()).toEqual([]);
    const status = await installed.run('status');
    expect(status.stdout).toContain(`apiKeys: ${KEYS_LINK}`);
    expect(status.stdout).toContain('feed-sync resume --workspace');

    expect(await installed.run('resume', '--workspace')).toMatchObject({
      exitCode: 0,
      stdout: 'Lifted the suspension of this API key. The next catch-up asks the service again.\n',
    });
    await once(installed);
    await expectMirrored(installed, feed);
  });

  it('R14 another key ends the suspension of a refused one', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    feed.keys.get(feed.apiKey).revoked = true;
    const installed = await program({ feed });
    await once(installed, 77);
    feed.keys.add('another-key-of-the-canary');
    expect(await installed.runWith({ FEED_SYNC_API_KEY: 'another-key-of-the-canary' }, 'once')).toMatchObject(
      {
        exitCode: 0,
      },
    );
    await expectMirrored(installed, feed);
  });

  it('F23 a key without the scope suspends the workspace, with the words of the service', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    feed.keys.get(feed.apiKey).scopes = [];
    const installed = await program({ feed });
    const { stdout } = await once(installed, 77);
    expect(stdout).toContain('403 insufficient_scope');
    expect(stdout).toContain('It says: This key lacks the scope "feeds". Create a key that has it.');
    feed.requests.clear();
    await once(installed, 77);
    expect(feed.requests.entries()).toEqual([]);
    expect(await installed.run('resume', '--all')).toMatchObject({ exitCode: 0 });
    await once(installed, 77);
    expect(feed.requests.entries().filter(({ status }) => status === 403)).toHaveLength(1);
  });

  it('F23 a key that is refused in the middle of the work: commits stay, and nothing more is asked', async () => {
    const { feed, datasetIds, publishNext } = await countyFeed();
    const installed = await program({ feed });
    await once(installed);
    for (const datasetId of datasetIds) publishNext(datasetId);
    feed.faults.add({
      match: { operation: 'versions', nth: 2, times: 'always' },
      act: { kind: 'respond', status: 401, json: { error: { code: 'expired', message: 'Expired.' } } },
    });
    feed.requests.clear();
    const { stdout } = await once(installed, 77);
    expect(stdout).toContain('It says: Expired.');
    feed.requests.clear();
    await once(installed, 77);
    expect(feed.requests.entries()).toEqual([]);
    feed.faults.clear();
    await installed.run('resume', '--workspace');
    await once(installed);
    await expectMirrored(installed, feed);
  });
});

describe('refused datasets', () => {
  it('R5 R13 R14 R16 F24 refused datasets wait for an operator; the others load', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed();
    const codes = new Map([
      [datasetOf('permits'), 'outside_coverage'],
      [datasetOf('parcels'), 'not_distributable'],
      [datasetOf('zoning'), 'not_found'],
    ]);
    for (const [datasetId, code] of codes)
      feed.access.refuse({ kind: 'dataset', datasetId }, { code, message: 'Ask\nthe owner.\u001b[2J' });
    const installed = await program({ feed });
    const { stdout } = await once(installed, 77);
    expect(stdout).toContain('2 loaded, 0 already up to date, 3 suspended');
    expect(stdout).toContain('It says: Ask the owner.');
    expect(stdout).not.toContain('\u001b');
    for (const [datasetId, code] of codes) {
      expect(stdout).toContain(code);
      expect(stdout).toContain(`feed-sync resume --dataset ${datasetId}`);
    }
    await expectMirrored(installed, feed, { only: (id) => !codes.has(id) });

    for (const datasetId of codes.keys()) {
      feed.access.lift({ kind: 'dataset', datasetId });
      publishNext(datasetId);
    }
    feed.requests.clear();
    await once(installed, 77);
    const isRefused = (datasetId: string | null): boolean => datasetId !== null && codes.has(datasetId);
    expect(feed.requests.entries().filter(({ datasetId }) => isRefused(datasetId))).toEqual([]);

    const [first = '', ...others] = [...codes.keys()];
    expect(await installed.run('resume', '--dataset', first)).toMatchObject({ exitCode: 0 });
    expect((await once(installed, 77)).stdout).toContain('1 loaded, 2 already up to date, 2 suspended');
    expect(await installed.run('resume', ...others.flatMap((id) => ['--dataset', id]))).toMatchObject({
      exitCode: 0,
    });
    await once(installed);
    await expectMirrored(installed, feed);
  });
});

describe('a refused subscription', () => {
  it('R4 a refused subscription is suspended, and the others go on', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits', 'parcels'] });
    feed.publisher.addDataset({ datasetId: 'elsewhere' });
    feed.publisher.publish('elsewhere', smallContent(numberedRows(2)));
    feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['elsewhere'] });
    const target = { kind: 'subscription', subscriptionId: 'sub_2' } as const;
    feed.access.refuse(target, { code: 'not_found', message: 'Gone.' });
    const installed = await program({ feed });
    const { stdout } = await once(installed, 77);
    expect(stdout).toContain('feed-sync resume --subscription sub_2');
    expect(downloadsOf(feed).toSorted()).toEqual([datasetOf('parcels'), datasetOf('permits')]);
    feed.access.lift(target);
    expect(await installed.run('resume', '--subscription', 'sub_2')).toMatchObject({ exitCode: 0 });
    await once(installed);
    await expectMirrored(installed, feed);
  });
});

describe('resume', () => {
  it('resume names what was not suspended, and demands to know what to resume', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    expect(await installed.run('resume', '--all')).toMatchObject({ exitCode: 64 });
    await once(installed);
    const unknown = await installed.run('resume', '--dataset', 'nobody');
    expect(unknown).toMatchObject({ exitCode: 64 });
    expect(unknown.stderr).toContain('Neither suspended nor failed: dataset nobody.');
    expect(await installed.run('resume')).toMatchObject({ exitCode: 64 });
    expect(await installed.run('resume', '--all')).toMatchObject({
      exitCode: 0,
      stdout: 'Nothing is suspended, and nothing has failed.\n',
    });
  });
});
