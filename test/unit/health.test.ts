/** Whether the daemon is alive, ready and well, and why not: every state that decides, and the states that decide nothing. */

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
  incident,
  secondsAgo,
  subscriptionState,
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

/** The reasons, as `kind of`, for which each state fails livez, readyz and healthz. */
const CASES: readonly (readonly [string, Partial<DaemonState>, string, string, string])[] = [
  ['a daemon without incidents', {}, '', '', ''],
  ['a loop that is late', { loopSilentMs: LOOP_STUCK_AFTER_MS }, '', '', ''],
  ['a stuck loop', { loopSilentMs: LOOP_STUCK_AFTER_MS + 1 }, 'stuck loop', '', 'stuck loop'],
  ['a running first audit', { phase: 'starting', caughtUpAt: null }, '', 'starting mirror', ''],
  ['a running first load', { caughtUpAt: null }, '', 'starting mirror', ''],
  ['a daemon that stops', { phase: 'draining' }, '', 'draining process', ''],
  [
    'a daemon that stops before it was ready',
    { phase: 'draining', caughtUpAt: null },
    '',
    'draining process',
    '',
  ],
  ['an unreachable service', { incidents: [incident('service')], ...subscriptions('failing') }, '', '', ''],
  [
    'a service that is unreachable for long',
    { incidents: [incident('service', { isStall: true })] },
    '',
    '',
    'stalled service',
  ],
  ['a subscription that is behind', subscriptions('behind'), '', '', ''],
  ['a stalled subscription', subscriptions('stalled'), '', '', 'stalled subscription sub_1'],
  ['a failing subscription', { incidents: [incident('subscription sub_1')] }, '', '', ''],
  [
    'a subscription that fails for long',
    { incidents: [incident('subscription sub_1', { isStall: true })] },
    '',
    '',
    'stalled subscription sub_1',
  ],
  ['a mirror that a reader has open', { incidents: [incident('run', { error: 'mirror_busy' })] }, '', '', ''],
  [
    'a mirror that a reader has open for long',
    { incidents: [incident('run', { error: 'mirror_busy', isStall: true })] },
    '',
    'storage run',
    'storage run',
  ],
  [
    'a mirror that cannot be written',
    { incidents: [incident('mirror', { error: 'storage_failed' })] },
    '',
    'storage mirror',
    'storage mirror',
  ],
  [
    'a checkpoint that cannot be written',
    { incidents: [incident('loop', { error: 'storage_failed' })] },
    '',
    'storage loop',
    'storage loop',
  ],
  [
    'a full disk',
    { incidents: [incident('run', { error: 'disk_full', isStall: true })] },
    '',
    'storage run',
    'storage run',
  ],
  [
    'a copy that cannot be published',
    { incidents: [incident('published copy', { error: 'copy_failed' })] },
    '',
    '',
    '',
  ],
  [
    'a copy and a command after commits that fail for long',
    {
      incidents: [
        incident('published copy', { error: 'copy_failed', isStall: true }),
        incident('command after commits', { error: 'hook_failed', isStall: true }),
      ],
    },
    '',
    '',
    'stalled published copy, stalled command after commits',
  ],
  [
    'a suspended workspace',
    { suspensions: [suspension(WORKSPACE)], ...subscriptions('suspended') },
    '',
    '',
    'suspended workspace',
  ],
  [
    'a suspended subscription',
    { suspensions: [suspension({ kind: 'subscription', subscriptionId: 'sub_1' })] },
    '',
    '',
    '',
  ],
  ['a suspended dataset', { suspensions: [suspension()] }, '', '', ''],
  ['suspended retirements', { suspensions: [suspension({ kind: 'retirement' })] }, '', '', ''],
  ['a dataset that fails for a day', { datasets: new Map([['parcels', FAILED]]) }, '', '', ''],
  [
    'several conditions at once',
    {
      loopSilentMs: 1e9,
      incidents: [incident('run', { error: 'storage_failed' })],
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

describe('livez, readyz and healthz', () => {
  it.each(CASES)(
    'gives livez, readyz and healthz their reasons: %s',
    (_, changed, notLive, notReady, notWell) => {
      const state = daemonState(changed);
      expect({
        livez: reported(reasonsNotLive(state)),
        readyz: reported(reasonsNotReady(state)),
        healthz: reported(reasonsNotWell(state)),
      }).toEqual({ livez: notLive, readyz: notReady, healthz: notWell });
    },
  );
});

it('states each reason in words, and since when it applies', () => {
  const state = daemonState({
    loopSilentMs: 600_000,
    suspensions: [suspension(WORKSPACE)],
    ...subscriptions('stalled'),
    incidents: [incident('mirror', { error: 'storage_failed', message: 'The disk is full.' })],
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
