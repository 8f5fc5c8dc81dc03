/** Scenarios of datasets that leave, and of the downloads of such a dataset. */

import { once } from '../../support/expect-mirrored.ts';
import type { Scenario } from '../scenario.ts';

const WAYS = {
  archive: 'its table becomes a copy in another schema',
  drop: 'its table is dropped',
  keep: 'its table stays as it is',
} as const;

export const LEAVING: readonly Scenario[] = [
  ...Object.entries(WAYS).map(
    ([way, result]): Scenario => ({
      name: `retire (${way})`,
      summary: `datasets leave; ${result}`,
      environment: { FEED_SYNC_REMOVED_DATASETS: way },
      killedAt: way === 'archive' ? 'every name' : 'its own names',
      async validate({ county, installed }) {
        await once(installed);
        for (const datasetId of county.datasetIds) county.feed.publisher.remove(datasetId, 'left_coverage');
        return {};
      },
    }),
  ),
  {
    name: 'undesired',
    summary: 'datasets leave after a part of them was downloaded',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      const { faults, publisher } = county.feed;
      faults.add({
        match: { operation: 'file', times: 'always' },
        act: { kind: 'truncate', afterBytes: 50 },
      });
      await once(installed, 75);
      faults.clear();
      for (const datasetId of county.datasetIds) publisher.remove(datasetId, 'left_coverage');
      return {};
    },
  },
];
