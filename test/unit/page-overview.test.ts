/** The status page and `status` agree about datasets and subscriptions. */

import { describe, expect, it } from 'vitest';
import { renderStatus } from '../../src/cli/render/status.ts';
import { datasetsOf, overviewOf } from '../../src/daemon/server/page/overview.ts';
import type { OngoingIncident, PollCondition } from '../../src/daemon/state.ts';
import { NEVER_SCRUBBED } from '../../src/model/scrub.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { reportOf } from '../../src/reporting/report.ts';
import type { CheckpointContent } from '../../src/reporting/stores.ts';
import { NO_CHECKPOINT } from '../../src/reporting/stores.ts';
import { followedAt } from '../support/checkpoint-files.ts';
import { daemonState, datasetState, subscriptionState } from '../support/daemon-state.ts';
import { mirrorOf } from '../support/mirror-seen.ts';
import { announcing, desired, failure, id, NOW, suspension, table } from '../support/sync-values.ts';

const SIZES = { mirror: 1, checkpoint: 1, diskFree: 1, diskReserve: 1 };
const HERE = {
  dataDirectory: '/data',
  mirrorFile: { path: '/data/mirror.duckdb', bytes: 1, lockHolders: [] },
};
const NO_SURROUNDINGS = {
  runningInstance: null,
  leaseHolder: null,
  publishedCopy: null,
  export: null,
  hook: null,
};

/** A daemon that was started with a file from another folder. */
const PLACE = ['--config', "/srv/the county's/feed-sync.yaml"];
const IN_PLACE = " --config '/srv/the county'\\''s/feed-sync.yaml'";

interface World {
  readonly tables: readonly ObservedTable[];
  readonly checkpoint?: Partial<CheckpointContent>;
  readonly condition?: PollCondition;
  readonly incidents?: readonly OngoingIncident[];
}

/** Two datasets of one subscription, of which version 4 is published. */
function rendered({ tables, checkpoint = {}, condition = 'idle', incidents = [] }: World) {
  const ids = ['parcels', 'roads'];
  const report = reportOf({
    mirror: { ...mirrorOf(...tables), bytes: 1 },
    checkpoint: {
      ...NO_CHECKPOINT,
      desiredStates: new Map(
        ids.map((datasetId) => [datasetId, desired({ datasetId, ...announcing(4, 'sub_1') })]),
      ),
      followed: new Map([['sub_1', followedAt(id(7), { subscriptionId: 'sub_1' })]]),
      ...checkpoint,
    },
    choices: { include: ['*'], exclude: [] },
    keyHash: null,
  });
  const state = daemonState({
    incidents,
    subscriptions: new Map([['sub_1', subscriptionState('sub_1', { condition })]]),
    datasets: new Map(ids.map((id) => [id, datasetState(id)])),
  });
  const place = { dataDirectory: '/data', placeOptions: PLACE };
  const input = { version: '1.2.3', ...place, state, report, syncRuns: [], sizes: SIZES };
  const status = renderStatus(
    { ...report, ...HERE, ...NO_SURROUNDINGS, scrub: NEVER_SCRUBBED },
    { now: NOW, width: 400 },
  );
  const { headline, subscriptions, actions } = overviewOf(input);
  return {
    headline,
    actions,
    ofSubscription: subscriptions[0]?.state,
    states: Object.fromEntries(datasetsOf(input).datasets.map(([id, is]) => [id, is])),
    status: status.split('\n').filter((line) => /^(sub_1|2 datasets)/.test(line)),
  };
}

const at = (datasetId: string, version: number, changed: Partial<ObservedTable> = {}) =>
  table(version, { datasetId, tableName: datasetId, ...changed });

describe('the status page and status', () => {
  it('both show a subscription as behind where one of its datasets is suspended', () => {
    const { ofSubscription, status, states, headline } = rendered({
      tables: [at('parcels', 3), at('roads', 4)],
      checkpoint: { suspensions: [suspension()] },
    });
    expect(ofSubscription).toBe('1 dataset is behind');
    expect(status[0]).toMatch(/1 dataset is behind$/);
    expect(states).toEqual({ parcels: 'suspended', roads: 'up to date' });
    expect(status[1]).toBe('2 datasets: 1 suspended, 1 up to date.');
    expect(headline.text).toBe('One thing waits for you');
  });

  it('both show a subscription as up to date where all of its datasets are', () => {
    const { ofSubscription, status, headline } = rendered({ tables: [at('parcels', 4), at('roads', 4)] });
    expect(ofSubscription).toBe('up to date');
    expect(status[0]).toMatch(/up to date$/);
    expect(headline.text).toBe('All 2 datasets are up to date');
  });

  it('both show a pinned dataset as pinned, not as up to date', () => {
    const { ofSubscription, status, states, headline } = rendered({
      tables: [at('parcels', 3, { pinnedSince: NOW }), at('roads', 4)],
    });
    expect(ofSubscription).toBe('1 dataset is pinned');
    expect(status[0]).toMatch(/1 dataset is pinned$/);
    expect(states).toEqual({ parcels: 'pinned', roads: 'up to date' });
    expect(status[1]).toBe('2 datasets: 1 pinned, 1 up to date.');
    expect(headline).toEqual({
      level: 'good',
      text: '1 of 2 datasets are up to date',
      detail: 'Of the others: 1 pinned. Nothing waits for you.',
    });
  });

  it('both show a failed dataset as behind while another is on its way', () => {
    const { ofSubscription, status, headline } = rendered({
      tables: [at('parcels', 3), at('roads', 3)],
      checkpoint: { failures: new Map([['parcels', failure({ datasetId: 'parcels' })]]) },
      condition: 'behind',
    });
    expect(ofSubscription).toBe('2 datasets are behind');
    expect(status).toEqual([
      expect.stringMatching(/2 datasets are behind$/),
      '2 datasets: 1 failed, 1 behind.',
    ]);
    expect(headline).toEqual({
      level: 'work',
      text: '0 of 2 datasets are up to date',
      detail: 'Of the others: 1 on the way, 1 failed. Nothing waits for you.',
    });
  });
});

it('shows a subscription as catching up while its log is read and no dataset is known to be behind', () => {
  const { ofSubscription } = rendered({ tables: [at('parcels', 4), at('roads', 4)], condition: 'behind' });
  expect(ofSubscription).toBe('catching up');
});

describe('the actions of the status page', () => {
  const SUSPENDED = {
    tables: [at('parcels', 3), at('roads', 4)],
    checkpoint: { suspensions: [suspension()] },
  };

  it('shows the command that lifts a suspension with the options that name the instance', () => {
    expect(rendered(SUSPENDED).actions).toMatchObject([
      {
        advice: 'Once you have acted on it:',
        command: `feed-sync resume --dataset parcels${IN_PLACE}`,
      },
    ]);
  });

  it('says during an outage that a suspension is lifted once the service answers again', () => {
    const outage: OngoingIncident = {
      of: 'service',
      error: 'service_unavailable',
      message: 'It cannot be reached.',
      hint: null,
      since: NOW,
      attempts: 3,
      isStall: false,
    };
    expect(rendered({ ...SUSPENDED, incidents: [outage] }).actions).toMatchObject([
      {
        advice: 'Once you have acted on it and the service answers again:',
        command: `feed-sync resume --dataset parcels${IN_PLACE}`,
      },
    ]);
  });

  it('names the dataset in the command for a dataset that fails', () => {
    const failures = new Map([['roads', failure({ datasetId: 'roads', error: 'changes_invalid' })]]);
    expect(rendered({ tables: [], checkpoint: { failures } }).actions).toMatchObject([
      { command: `feed-sync resync roads${IN_PLACE}` },
    ]);
  });
});
