/** How often a manifest is read again when links in it expire. */

import { describe, expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import type { Manifest } from '../../src/model/manifest.ts';
import { readingOfManifest } from '../../src/sync/manifest-cache.ts';
import { smallWorld } from '../support/small-world.ts';
import { entry, id, NOW } from '../support/sync-values.ts';

const IDS = Array.from({ length: 40 }, (_, index) => `dataset-${index}`);

/** Entries of a manifest whose every reading signs all links again. */
async function listedEntries() {
  const { parts } = await smallWorld();
  let readings = 0;
  const read = (): Manifest => ({
    subscriptionId: 'sub_1',
    lastEventId: id(100),
    datasets: IDS.map((datasetId) => entry(datasetId, 1)),
    readAt: NOW,
  });
  const manifest = async (): Promise<Manifest> => {
    readings += 1;
    return read();
  };
  const watermark = { kind: 'number', through: 100n } as const;
  const reading = { manifest: read(), logNumber: 1, watermark, listedAfter: null };
  const made = readingOfManifest(reading, { ...parts, feed: { ...parts.feed, manifest } });
  const entryOf = (datasetId: string) => present(made.of(datasetId), 'it is listed').entry;
  return { made, entryOf, readings: () => readings };
}

describe('refreshing expired links', () => {
  const { signal } = new AbortController();

  it('reads a manifest again once where all of its links expire together, however late each download notices', async () => {
    const { made, entryOf, readings } = await listedEntries();
    const begun = IDS.map(entryOf);
    for (const expired of begun) {
      const fresh = await made.refresh(expired, signal);
      expect(fresh).toEqual(expired);
      expect(fresh).not.toBe(expired);
    }
    expect(readings()).toBe(1);
  });

  it('reads a manifest again once where all downloads ask at the same time', async () => {
    const { made, entryOf, readings } = await listedEntries();
    await Promise.all(IDS.map(entryOf).map((expired) => made.refresh(expired, signal)));
    expect(readings()).toBe(1);
  });

  it('reads a manifest once more where a link of the second reading has expired too', async () => {
    const { made, entryOf, readings } = await listedEntries();
    const fresh = present(await made.refresh(entryOf('dataset-0'), signal), 'it is listed');
    await made.refresh(fresh, signal);
    expect(readings()).toBe(2);
  });
});
