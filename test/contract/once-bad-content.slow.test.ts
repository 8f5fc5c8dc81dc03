/** `feed-sync once` with files that are not what they should be: the dataset fails alone, and its old table serves. */

import { describe, expect, it } from 'vitest';
import type { Act, Fault } from '../../fixtures/feed/faults.ts';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';

const QUICKLY = { FEED_SYNC_RETRY_BASE_DELAY: '5ms', FEED_SYNC_RETRY_MAX_ATTEMPTS: '2' };
const CUT_AT_BYTES = 1_000;

const BAD_BODIES: readonly { readonly what: string; readonly act: Act; readonly withDigest: boolean }[] = [
  {
    what: 'a flipped bit that the digest gives away',
    act: { kind: 'flipBit', atByte: 700 },
    withDigest: true,
  },
  {
    what: 'bytes that only begin and end like Parquet, and no digest',
    act: { kind: 'respond', status: 200, body: `PAR1${'not a column '.repeat(20)}PAR1` },
    withDigest: false,
  },
  {
    what: 'a page of HTML, and no digest',
    act: {
      kind: 'respond',
      status: 200,
      headers: { 'content-type': 'text/html' },
      body: '<!doctype html><h1>Sorry</h1>',
    },
    withDigest: false,
  },
];

describe('F43 files with bad content', () => {
  it.for(BAD_BODIES)(
    'F43 a file with $what: the dataset fails, others load, the old table serves',
    async ({ act, withDigest }) => {
      const files = withDigest ? {} : { sha256: false, bytes: false };
      const { feed, datasetIds, datasetOf, publishNext } = await countyFeed({
        files,
        kinds: ['permits', 'parcels'],
      });
      const parcels = datasetOf('parcels');
      const installed = await program({ feed, environment: QUICKLY });
      await once(installed);
      const before = feed.store.dataset(parcels).versions[0];
      for (const datasetId of datasetIds) publishNext(datasetId, undefined, { notRecordedAs: 'flag' });
      feed.faults.add({ match: { operation: 'file', datasetId: parcels, times: 'always' }, act });
      feed.requests.clear();
      const { stdout } = await once(installed, 65);
      expect(stdout).toContain('1 loaded, 0 already up to date, 1 failed');
      expect(stdout).toMatch(new RegExp(`${parcels}: .{20,}`));
      expect(downloadsOf(feed).filter((id) => id === parcels).length).toBeLessThanOrEqual(3);
      await expectMirrored(installed, feed, { at: before === undefined ? {} : { [parcels]: before } });

      feed.requests.clear();
      const again = await once(installed, 65);
      expect(again.stdout).toContain('1 already up to date, 1 failed');
      expect(downloadsOf(feed)).toEqual([]);

      feed.faults.clear();
      publishNext(parcels);
      await once(installed);
      await expectMirrored(installed, feed);
    },
  );

  it('continues a file that was cut where it was cut', async () => {
    const { feed, datasetOf } = await countyFeed();
    const parcels = datasetOf('parcels');
    feed.faults.add({
      match: { operation: 'file', datasetId: parcels },
      act: { kind: 'truncate', afterBytes: CUT_AT_BYTES },
    });
    const installed = await program({ feed, environment: QUICKLY });
    await once(installed);
    const ranges = feed.requests.entries('file').filter(({ datasetId }) => datasetId === parcels);
    expect(ranges.map(({ range }) => range)).toEqual([null, `bytes=${CUT_AT_BYTES}-`]);
    await expectMirrored(installed, feed);
  });

  it('tries a file that is cut every time again, as no bad content', async () => {
    const { feed, datasetOf } = await countyFeed();
    const parcels = datasetOf('parcels');
    const fault = feed.faults.add({
      match: { operation: 'file', datasetId: parcels, times: 'always' },
      act: { kind: 'truncate', afterBytes: 10 },
    });
    const installed = await program({ feed, environment: QUICKLY });
    const { stdout } = await once(installed, 75);
    expect(stdout).toContain('4 loaded, 0 already up to date, 1 failed');
    feed.faults.remove(fault.id);
    await once(installed);
    await expectMirrored(installed, feed);
  });
});

describe('F31 a false row count', () => {
  it.for([
    ['alone', null],
    ['and in the manifest, which agrees with it,', 1],
  ] as const)('V8 F31 a false row count in the version record %s fails the dataset', async ([, counted]) => {
    const { feed, datasetOf, publishNext } = await countyFeed();
    const installed = await program({ feed, environment: QUICKLY });
    await once(installed);
    const permits = datasetOf('permits');
    const before = feed.store.dataset(permits).versions[0];
    publishNext(permits, undefined, { claims: { rowCount: 1 } });
    feed.faults.add(countingOtherwise(permits, () => counted));
    const { stdout } = await once(installed, 65);
    expect(stdout).toMatch(/The snapshot of \S+ version 2 has \d+ rows, but the version record states 1\./);
    await expectMirrored(installed, feed, { at: before === undefined ? {} : { [permits]: before } });
    feed.requests.clear();
    await once(installed, 65);
    expect(downloadsOf(feed)).toEqual([]);
  });

  it('V8 F31 a false row count in the manifest fails the dataset where the version record states none', async () => {
    const { feed, datasetOf } = await countyFeed({
      kinds: ['permits', 'parcels'],
      answers: { leftOut: { version: ['rowCount'] } },
    });
    const permits = datasetOf('permits');
    feed.faults.add(countingOtherwise(permits, (rowCount) => rowCount + 1));
    const installed = await program({ feed, environment: QUICKLY });
    const { stdout } = await once(installed, 65);
    expect(stdout).toMatch(/has \d+ rows, but the manifest states \d+\./);
    await expectMirrored(installed, feed, { only: (id) => id !== permits });
  });

  it('M21 a dataset waits where version record and manifest differ in the row count: reports both, fetches no file', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed();
    const [permits, parcels] = [datasetOf('permits'), datasetOf('parcels')];
    const installed = await program({ feed, environment: QUICKLY });
    const wrong = feed.faults.add(countingOtherwise(parcels, (rowCount) => rowCount + 1));
    const first = await once(installed, 75);
    expect(first.stdout).toContain('4 loaded, 0 already up to date, 1 waiting');
    expect(first.stdout).toContain(
      `${parcels}: the manifest states a row count of 21 for version 1, the list of versions 20: it is loaded once they agree`,
    );
    expect(downloadsOf(feed)).not.toContain(parcels);
    await expectMirrored(installed, feed, { only: (id) => id !== parcels });
    feed.faults.remove(wrong.id);
    await once(installed);
    await expectMirrored(installed, feed);

    const before = feed.store.dataset(permits).versions[0];
    publishNext(permits, undefined, { claims: { rowCount: 1 } });
    feed.requests.clear();
    const { stdout } = await once(installed, 75);
    expect(stdout).toContain('4 already up to date, 1 waiting');
    expect(stdout).toContain(
      `${permits}: the manifest states a row count of 21 for version 2, the list of versions 1: it is loaded once they agree`,
    );
    expect(downloadsOf(feed)).toEqual([]);
    await expectMirrored(installed, feed, { at: before === undefined ? {} : { [permits]: before } });

    publishNext(permits);
    await once(installed);
    await expectMirrored(installed, feed);
  });
});

/** The manifest states another row count of the dataset than that of its snapshot; null: none. */
function countingOtherwise(datasetId: string, counted: (rowCount: number) => number | null): Fault {
  const rewrite = (body: unknown): unknown => {
    const manifest = body as { datasets: { datasetId: string; rowCount: number | null }[] };
    for (const entry of manifest.datasets) {
      if (entry.datasetId === datasetId && entry.rowCount !== null) entry.rowCount = counted(entry.rowCount);
    }
    return manifest;
  };
  return { match: { operation: 'manifest', times: 'always' }, act: { kind: 'rewrite', rewrite } };
}

describe('F41 bad keys', () => {
  it('F41 a repeated or null key fails the dataset and is named', async () => {
    const { feed, datasetOf, contentOf, publishNext } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const installed = await program({ feed, environment: QUICKLY });
    await once(installed);
    const permits = datasetOf('permits');
    const before = feed.store.dataset(permits).versions[0];
    const rows = [...contentOf(permits).rows()];
    const repeated = [...rows, ...rows.slice(4, 5)];
    publishNext(permits, {
      ...contentOf(permits),
      rowCount: repeated.length,
      rows: () => repeated,
      changes: null,
    });
    const { stdout } = await once(installed, 65);
    expect(stdout).toContain(
      `The key permit_number = ${JSON.stringify(rows[4]?.[0])} of ${permits} is there 2 times`,
    );
    await expectMirrored(installed, feed, { at: before === undefined ? {} : { [permits]: before } });
  });
});
