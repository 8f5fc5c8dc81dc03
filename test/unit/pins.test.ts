/** The end of a pin that a rollback left: the pin is in the destination, whatever the checkpoint contains (F69). */

import { expect, it } from 'vitest';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { performUnpin } from '../../src/sync/rollback.ts';
import { smallWorld } from '../support/small-world.ts';
import { NOW, table } from '../support/sync-values.ts';

const PINNED = table(3, { pinnedSince: NOW });

it.each<[string, ObservedTable | null, string, readonly string[]]>([
  [
    'a pin whose checkpoint was lost since',
    PINNED,
    'Lifted the pin of parcels, which is at version 3.',
    ['parcels'],
  ],
  ['a pin that another request has lifted, without an error', table(3), 'parcels is not pinned.', []],
  ['the pin of a missing table, without an error', null, 'parcels is not pinned.', []],
])('F69 lifts %s', async (_what, observed, text, ended) => {
  const { parts } = await smallWorld();
  const unpinned: string[] = [];
  const destination = {
    ...parts.destination,
    has: async () => ({
      ...(await parts.destination.has()),
      datasets: new Map(observed === null ? [] : [['parcels', observed] as const]),
    }),
    unpin: async (datasetId: string) => void unpinned.push(datasetId),
  };
  const request = { requestId: '1', datasetId: 'parcels', command: 'resume', parameters: {} };
  const performing = { parts: { ...parts, destination } };
  expect(await performUnpin(request, performing)).toEqual({ kind: 'done', text });
  expect(unpinned).toEqual(ended);
});
