/** `feed-sync once` with every form that the manifest may have, and every way to find it. */

import { describe, expect, it } from 'vitest';
import type { FileSettings } from '../../fixtures/feed/settings.ts';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once, operationsOf } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';

const FORMS: readonly (readonly [string, Partial<FileSettings>])[] = [
  [
    'several files without digests, at addresses relative to base_url',
    { filesPerSnapshot: 3, urls: 'relative', sha256: false },
  ],
  [
    'nothing but addresses, on the origin of base_url',
    { urls: 'base-origin', bytes: false, rowCount: false, sha256: false },
  ],
  ['several files at addresses of another origin', { filesPerSnapshot: 2 }],
];

/** For so long a manifest that does not say which events it reflects may lag: the default of the program. */
const MANIFEST_LAG_MS = 15 * 60_000;
/** The times of answers have whole seconds. */
const SECOND_MS = 1_000;

describe('forms of the manifest', () => {
  it.for(FORMS)('loads from a manifest with %s', async ([, files]) => {
    const kinds = ['permits', 'specimens'] as const;
    const { feed, datasetIds, datasetOf, publishNext } = await countyFeed({ files, kinds, defaultLimit: 1 });
    const installed = await program({ feed });
    await once(installed);
    for (const datasetId of datasetIds) publishNext(datasetId, undefined, { notRecordedAs: 'flag' });
    await once(installed);
    await expectMirrored(installed, feed);
    feed.requests.clear();
    feed.publisher.resync(datasetOf('permits'), 'subscription_changed', {});
    await once(installed);
    expect(new Set(downloadsOf(feed))).toEqual(new Set([datasetOf('permits')]));
  });

  it.for([
    ['of the subscription, without lastEventId', { manifestLastEventId: false }] as const,
    ['of each dataset', { manifest: 'dataset' }] as const,
  ])(
    'loads from a manifest %s, and waits for it until it is surely newer than the event',
    async ([, contract]) => {
      const { feed, datasetIds, datasetOf, contentOf, publishNext } = await countyFeed({
        contract,
        kinds: ['permits', 'zoning'],
      });
      const installed = await program({ feed });
      await once(installed);
      await expectMirrored(installed, feed);
      feed.requests.clear();
      expect((await once(installed)).stdout).toContain('0 loaded, 2 already up to date');
      expect(downloadsOf(feed)).toEqual([]);

      for (const datasetId of datasetIds) publishNext(datasetId);
      await once(installed);
      await expectMirrored(installed, feed);

      const permits = datasetOf('permits');
      const before = feed.store.dataset(permits).versions.at(-1);
      const rows = [...contentOf(permits).rows()].slice(1);
      feed.publisher.resync(permits, 'subscription_changed', {
        content: { ...contentOf(permits), rowCount: rows.length, rows: () => rows, changes: null },
      });
      feed.requests.clear();
      // M17: without a number, only time shows that the manifest is not from before the event.
      const { stdout } = await once(installed, 75);
      expect(stdout).toContain('1 already up to date, 1 waiting');
      expect(stdout).toContain(
        `${permits}: the manifest is older than what the service has announced, or may be`,
      );
      expect(stdout).toMatch(/Running it again helps from .* UTC on, in \d+ m /);
      expect(downloadsOf(feed)).toEqual([]);
      await expectMirrored(installed, feed, { at: before === undefined ? {} : { [permits]: before } });

      feed.clock.advance(MANIFEST_LAG_MS + SECOND_MS);
      await once(installed);
      expect(downloadsOf(feed)).toEqual([permits]);
      await expectMirrored(installed, feed);
    },
  );

  it('M20 F32 waits for a manifest that lags: 75, and the table stays', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const installed = await program({ feed });
    await once(installed);
    const permits = datasetOf('permits');
    const before = feed.store.dataset(permits).versions[0];
    feed.manifest.freeze();
    publishNext(permits, undefined, { notRecordedAs: 'flag' });
    const { stdout } = await once(installed, 75);
    expect(stdout).toContain('1 already up to date, 1 waiting');
    await expectMirrored(installed, feed, { at: before === undefined ? {} : { [permits]: before } });
    feed.manifest.thaw();
    await once(installed);
    await expectMirrored(installed, feed);
  });

  it('F22 reads a manifest again whose addresses expire while they are used', async () => {
    const { feed } = await countyFeed({ files: { filesPerSnapshot: 2 } });
    feed.faults.add({
      match: { operation: 'file', times: 3 },
      act: { kind: 'respond', status: 403, body: 'expired' },
    });
    const installed = await program({ feed });
    await once(installed);
    expect(feed.requests.entries('manifest').length).toBeGreaterThan(2);
    await expectMirrored(installed, feed);
  });
});

describe('discovery', () => {
  const renamed = {
    newerThanParameter: 'afterVersion',
    manifestPath: '/v1/subscriptions/{id}/snapshot/manifest',
  };

  it('discovers a renamed parameter and path in openapi.json, and remembers them when that is gone', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({
      kinds: ['permits', 'parcels'],
      contract: renamed,
    });
    const installed = await program({ feed });
    await once(installed);
    await expectMirrored(installed, feed);
    expect(new Set(feed.requests.entries('manifest').map(({ path }) => path))).toEqual(
      new Set(['/v1/subscriptions/sub_1/snapshot/manifest']),
    );
    expect(queriesOf(feed.requests.entries('versions'))).toEqual(['afterVersion']);

    feed.settings.contract.openapi = false;
    publishNext(datasetOf('permits'));
    feed.requests.clear();
    await once(installed);
    await expectMirrored(installed, feed);
    expect(feed.requests.entries('openapi').map(({ status }) => status)).toEqual([404]);
    expect(queriesOf(feed.requests.entries('versions'))).toEqual(['afterVersion']);
    expect(
      feed.requests
        .entries()
        .map(({ status }) => status)
        .filter((status) => status !== 200),
    ).toEqual([404]);
  });

  it('needs no openapi.json where the service has the assumed names', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'], contract: { openapi: false } });
    const installed = await program({ feed });
    await once(installed);
    await expectMirrored(installed, feed);
    expect(queriesOf(feed.requests.entries('versions'))).toEqual(['since']);
  });

  it('leaves the parameter out where the assumed name is refused', async () => {
    const contract = { openapi: false, newerThanParameter: 'afterVersion' };
    const { feed } = await countyFeed({ kinds: ['permits', 'parcels'], contract });
    const installed = await program({ feed });
    await once(installed);
    await expectMirrored(installed, feed);
    expect(queriesOf(feed.requests.entries('versions'))).toContain('');
  });

  it('ends with 78 and the setting to make where the manifest is not at the assumed path', async () => {
    const { manifestPath } = renamed;
    const { feed } = await countyFeed({ kinds: ['permits'], contract: { openapi: false, manifestPath } });
    const installed = await program({ feed });
    const { stdout, stderr } = await once(installed, 78);
    expect(`${stdout}${stderr}`).toContain('service.contract.manifestPath');
    expect(operationsOf(feed)).not.toContain('file');

    const overridden = { FEED_SYNC_MANIFEST_PATH: '/v1/subscriptions/{subscriptionId}/snapshot/manifest' };
    expect(await installed.runWith(overridden, 'once')).toMatchObject({ exitCode: 0 });
    await expectMirrored(installed, feed);
  });

  it('discovers a manifest for each dataset at a path of its own', async () => {
    const contract = { manifest: 'dataset' as const, manifestPath: '/v1/datasets/{name}/current/manifest' };
    const { feed } = await countyFeed({ contract });
    const installed = await program({ feed });
    await once(installed);
    await expectMirrored(installed, feed);
  });
});

function queriesOf(
  entries: readonly { readonly query: Readonly<Record<string, unknown>> }[],
): readonly string[] {
  const names = entries.map(({ query }) =>
    Object.keys(query)
      .filter((name) => name !== 'limit' && name !== 'cursor')
      .join(),
  );
  return [...new Set(names)];
}
