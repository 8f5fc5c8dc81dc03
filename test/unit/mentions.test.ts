/** Mentions: datasets in subscription records that no subscription is known to contain (W16, F55). */

import { describe, expect, it } from 'vitest';
import type { Mention } from '../../src/checkpoint/checkpoint.ts';
import { present } from '../../src/lib/assert.ts';
import type { DesiredState } from '../../src/model/desired-state.ts';
import type { Subscription } from '../../src/model/records.ts';
import { type RecordReading, readMentions } from '../../src/sync/plan/mentions.ts';
import { desired, formerMember, id, NOW, subscription } from '../support/sync-values.ts';

const D: Mention = { subscriptionId: 'sub_1', datasetId: 'd' };
const NAMING = { datasetIds: ['d'], lastEventId: id(9) };
const LACKING = { datasetIds: [], lastEventId: id(9) };

/** The dataset `d` has a table, and `sub_1` has dropped it in event 7. */
function reading(
  records: readonly Partial<Subscription>[],
  earlier: readonly Mention[] = [],
  state: Partial<DesiredState> = {},
): RecordReading {
  const dropped = {
    members: new Map(),
    formerMembers: new Map([['sub_1', formerMember({ eventNumber: 7n })]]),
  };
  return {
    records: records.map((record) => subscription({ id: 'sub_1', ...record })),
    readAt: NOW,
    manifestLagMs: 900_000,
    desiredStates: new Map([['d', desired({ datasetId: 'd', ...dropped, ...state })]]),
    tables: new Map([['d', {}]]),
    earlier,
  };
}

describe('a dataset that every subscription has dropped', () => {
  const isMember: Partial<DesiredState> = {
    members: new Map([['sub_2', { eventNumber: 3n, since: NOW, announced: null }]]),
  };

  it.each<readonly [string, RecordReading, Partial<ReturnType<typeof readMentions>>]>([
    ['remembers a dropped dataset that a record names', reading([NAMING]), { named: [D], news: [D] }],
    ['remembers a dropped dataset once', reading([NAMING], [D]), { named: [D], news: [], shown: [D] }],
    [
      'misses a dropped dataset that a record named and names no more',
      reading([LACKING], [D]),
      { lacking: [D] },
    ],
    [
      'ignores a record that names the dataset from before its drop',
      reading([{ ...NAMING, lastEventId: id(6) }], [D]),
      { named: [], shown: [], lacking: [], over: [] },
    ],
    [
      'ignores a record that lacks the dataset from before its drop',
      reading([{ ...LACKING, lastEventId: id(6) }], [D]),
      { lacking: [], over: [] },
    ],
    [
      'counts a record without a newest event, which may be later than the drop',
      reading([{ ...NAMING, lastEventId: null }]),
      { named: [D], news: [D] },
    ],
    ['misses no dataset where the subscription was not listed', reading([], [D]), { lacking: [], over: [] }],
    [
      'forgets a mention once a subscription contains the dataset',
      reading([LACKING], [D], isMember),
      { lacking: [], over: [D] },
    ],
    [
      'forgets a mention once the dataset has no table',
      { ...reading([NAMING], [D]), tables: new Map() },
      { news: [], over: [D] },
    ],
  ])('W16 F55 %s', (_, given, expected) => {
    expect(readMentions(given)).toMatchObject(expected);
  });

  it('W16 remembers no mention of a dataset that a subscription contains', () => {
    expect(readMentions(reading([NAMING], [], isMember))).toMatchObject({ named: [D], news: [] });
  });
});

it('W16 reads twice as many mentions with twice the work, and not four times', () => {
  const small = countReads(200);
  expect(small).toBeGreaterThan(0);
  expect(countReads(400)).toBe(2 * small);
});

/** Counts how often the dataset ids of `mentions` earlier mentions are read, half of which the record names again. */
function countReads(mentions: number): number {
  let reads = 0;
  const ids = Array.from({ length: mentions }, (_, index) => `d${index}`);
  const earlier = ids.map(
    (datasetId): Mention => ({
      subscriptionId: 'sub_1',
      get datasetId() {
        reads += 1;
        return datasetId;
      },
    }),
  );
  const given = reading([{ ...LACKING, datasetIds: ids.slice(mentions / 2) }], earlier);
  const state = present(given.desiredStates.get('d'), 'the dataset is known');
  const { lacking, shown } = readMentions({
    ...given,
    desiredStates: new Map(ids.map((datasetId) => [datasetId, { ...state, datasetId }])),
    tables: new Map(ids.map((datasetId) => [datasetId, {}])),
  });
  expect([lacking.length, shown.length]).toEqual([mentions / 2, mentions / 2]);
  return reads;
}
