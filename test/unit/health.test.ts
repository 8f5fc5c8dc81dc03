/** Whether the daemon is alive, ready and well, and why not: every state that decides, and those that must not. */

import { describe, expect, it } from 'vitest';
import {
  type Reason,
  reasonsNotLive,
  reasonsNotReady,
  reasonsNotWell,
} from '../../src/daemon/server/health.ts';
import { LOOP_STUCK_AFTER_MS } from '../../src/daemon/server/limits.ts';
import type { DaemonState } from '../../src/daemon/state.ts';
import {
  daemonState,
  datasetState,
  secondsAgo,
  subscriptionState,
  trouble,
} from '../support/daemon-state.ts';
import { failure, suspension } from '../support/sync-values.ts';

const WORKSPACE = { kind: 'workspace' } as const;

function subscriptions(condition: 'suspended' | 'failing' | 'stalled' | 'behind' | 'idle') {
  return { subscriptions: new Map([['sub_1', subscriptionState('sub_1', { condition })]]) };
}

const FAILED = datasetState('parcels', {
  version: null,
  behindSince: secondsAgo(86_400),
  failure: failure(),
});

/** What each state fails of livez, readyz and healthz, as `kind of`. */
const CASES: readonly (readonly [string, Partial<DaemonState>, string, string, string])[] = [
  ['all is well', {}, '', '', ''],
  ['a loop that is late', { loopSilentMs: LOOP_STUCK_AFTER_MS }, '', '', ''],
  ['a stuck loop', { loopSilentMs: LOOP_STUCK_AFTER_MS + 1 }, 'stuck loop', '', 'stuck loop'],
  ['the first audit goes on', { phase: 'starting', caughtUpAt: null }, '', 'starting mirror', ''],
  ['the first load goes on', { caughtUpAt: null }, '', 'starting mirror', ''],
  ['it ends', { phase: 'draining' }, '', 'draining process', ''],
  ['it ends before it began', { phase: 'draining', caughtUpAt: null }, '', 'draining process', ''],
  ['the service is away', { incidents: [trouble('service')], ...subscriptions('failing') }, '', '', ''],
  ['it is away for long', { incidents: [trouble('service', { isStall: true })] }, '', '', 'stalled service'],
  ['a subscription is behind', subscriptions('behind'), '', '', ''],
  ['a subscription stalls', subscriptions('stalled'), '', '', 'stalled subscription sub_1'],
  ['a subscription fails', { incidents: [trouble('subscription sub_1')] }, '', '', ''],
  [
    'a subscription fails for long',
    { incidents: [trouble('subscription sub_1', { isStall: true })] },
    '',
    '',
    'stalled subscription sub_1',
  ],
  ['a reader holds the mirror', { incidents: [trouble('run', { error: 'mirror_busy' })] }, '', '', ''],
  [
    'a reader holds it for long',
    { incidents: [trouble('run', { error: 'mirror_busy', isStall: true })] },
    '',
    'storage run',
    'storage run',
  ],
  [
    'the mirror cannot be written',
    { incidents: [trouble('mirror', { error: 'storage_failed' })] },
    '',
    'storage mirror',
    'storage mirror',
  ],
  [
    'the checkpoint cannot be written',
    { incidents: [trouble('loop', { error: 'storage_failed' })] },
    '',
    'storage loop',
    'storage loop',
  ],
  [
    'the disk is full',
    { incidents: [trouble('run', { error: 'disk_full', isStall: true })] },
    '',
    'storage run',
    'storage run',
  ],
  [
    'no copy can be published',
    { incidents: [trouble('published copy', { error: 'copy_failed' })] },
    '',
    '',
    '',
  ],
  [
    'none can be published for long, and the command after commits fails',
    {
      incidents: [
        trouble('published copy', { error: 'copy_failed', isStall: true }),
        trouble('command after commits', { error: 'hook_failed', isStall: true }),
      ],
    },
    '',
    '',
    'stalled published copy, stalled command after commits',
  ],
  [
    'the workspace is held',
    { suspensions: [suspension(WORKSPACE)], ...subscriptions('suspended') },
    '',
    '',
    'suspended workspace',
  ],
  [
    'a subscription is held',
    { suspensions: [suspension({ kind: 'subscription', subscriptionId: 'sub_1' })] },
    '',
    '',
    '',
  ],
  ['a dataset is held', { suspensions: [suspension()] }, '', '', ''],
  ['retirements are held', { suspensions: [suspension({ kind: 'retirement' })] }, '', '', ''],
  ['a dataset fails for a day', { datasets: new Map([['parcels', FAILED]]) }, '', '', ''],
  [
    'much at once',
    {
      loopSilentMs: 1e9,
      incidents: [trouble('run', { error: 'storage_failed' })],
      suspensions: [suspension(WORKSPACE)],
      ...subscriptions('stalled'),
    },
    'stuck loop',
    'storage run',
    'stuck loop, storage run, stalled subscription sub_1, suspended workspace',
  ],
];

function reported(reasons: readonly Reason[]): string {
  return reasons.map(({ kind, of }) => `${kind} ${of}`).join(', ');
}

describe('where', () => {
  it.each(CASES)('%s', (_, changed, notLive, notReady, notWell) => {
    const state = daemonState(changed);
    expect({
      livez: reported(reasonsNotLive(state)),
      readyz: reported(reasonsNotReady(state)),
      healthz: reported(reasonsNotWell(state)),
    }).toEqual({ livez: notLive, readyz: notReady, healthz: notWell });
  });
});

it('says in words what is wrong, and since when', () => {
  const state = daemonState({
    loopSilentMs: 600_000,
    suspensions: [suspension(WORKSPACE)],
    ...subscriptions('stalled'),
    incidents: [trouble('mirror', { error: 'storage_failed', message: 'The disk is full.' })],
  });
  expect(reasonsNotWell(state)).toEqual([
    { kind: 'stuck', of: 'loop', message: 'The loop has not gone round for 10 m 0 s.', since: null },
    { kind: 'storage', of: 'mirror', message: 'The disk is full.', since: secondsAgo(60) },
    {
      kind: 'stalled',
      of: 'subscription sub_1',
      message: 'It is behind, and nothing has moved for a long time.',
      since: secondsAgo(3_000),
    },
    {
      kind: 'suspended',
      of: 'workspace',
      message: 'The county is not covered.',
      since: suspension(WORKSPACE).suspendedAt,
    },
  ]);
});
