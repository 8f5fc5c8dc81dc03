/** `feed-sync once` with many small datasets: they share write sessions of the mirror and a few connections. */

import { describe, expect, it, onTestFinished } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { expectMirrored, once } from '../support/expect-mirrored.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { program } from '../support/program.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const DATASETS = 300;

describe('once', () => {
  it(`once loads ${DATASETS} small datasets, and then the one that is new`, async () => {
    const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
    onTestFinished(feed.close);
    feed.publisher.subscribe({ subscriptionId: 'sub_1', places: ['us-tx-travis'] });
    for (let number = 0; number < DATASETS; number += 1) {
      const datasetId = `small-${String(number).padStart(3, '0')}`;
      feed.publisher.addDataset({ datasetId, placeId: 'us-tx-travis' });
      feed.publisher.publish(datasetId, smallContent(numberedRows(number % 40)));
    }
    await feed.prepareSnapshots();
    const installed = await program({ feed });
    expect((await once(installed)).stdout).toContain('300 datasets in 1 subscription: 300 loaded');
    feed.publisher.publish('small-007', smallContent(numberedRows(3)));
    expect((await once(installed)).stdout).toContain('1 loaded, 299 already up to date');
    await expectMirrored(installed, feed);
  });
});
