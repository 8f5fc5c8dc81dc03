/** The end of a pin that a rollback left: the pin is in the destination, whatever the checkpoint contains (F69). */

import { expect, it } from 'vitest';
import type { Reload } from '../../src/model/desired-state.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { performRollback, performUnpin } from '../../src/sync/rollback.ts';
import { followedAt } from '../support/checkpoint-files.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import { smallWorld } from '../support/small-world.ts';
import { desired, NOW, table } from '../support/sync-values.ts';

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

it.each([
  ['the log that is followed', 1, [['sub_1', 7n]]],
  ['a log that has restarted since, which is void', 2, []],
])(
  'F69 a rollback notes beforehand what an older table would owe: of %s',
  async (_what, followedLog, owed) => {
    const { parts } = await smallWorld();
    const { checkpoint } = parts;
    const noted: (readonly [string, bigint])[] = [];
    const asked = {
      ...checkpoint,
      followed: () => new Map([['sub_1', followedAt(null, { logNumber: followedLog })]]),
      oweAgain: (_datasetId: string, reloads: readonly Reload[]) => {
        for (const { subscriptionId, eventNumber } of reloads) noted.push([subscriptionId, eventNumber]);
      },
    };
    const observed = table(3, { reloads: reloadMarks([['sub_1', 7n]]) });
    const known = { desired: desired(), observed, suspension: null, failure: null };
    const commit = async () => ({ kind: 'stale-plan', datasetId: 'parcels' }) as const;
    const request = {
      requestId: '1',
      datasetId: 'parcels',
      command: 'rollback',
      parameters: { commitNumber: 1, version: 1 },
    };
    const performing = { parts: { ...parts, checkpoint: asked }, known, commit };
    await expect(performRollback(request, performing)).rejects.toMatchObject({ name: 'BusyError' });
    expect(noted).toEqual(owed);
  },
);
