/** `feed-sync once` on a feed of everything: what is in the mirror afterwards is what was published. */

import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { program } from '../support/program.ts';
import { everythingPublished } from '../support/published.ts';

describe('a first once', () => {
  it.for([['UTC'], ['America/Chicago'], ['Asia/Kathmandu']])(
    'loads every kind of dataset exactly, with TZ=%s',
    async ([zone = '']) => {
      const { feed } = await countyFeed({ counties: 4, rowsPerDataset: 120 });
      const installed = await program({ feed, environment: { TZ: zone } });
      const first = await installed.run('once');
      expect(first).toMatchObject({ exitCode: 0 });
      expect(await mirrorDifferences(installed.mirrorPath, everythingPublished(feed))).toEqual([]);
    },
  );
});
