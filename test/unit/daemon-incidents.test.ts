/** Log lines about incidents and suspensions, wherever they are raised: one at the start, louder ones later, one at the end. */

import { describe, expect, it } from 'vitest';
import { openCheckpointBeside } from '../../src/checkpoint/sqlite/open.ts';
import {
  BusyError,
  DataError,
  type RefusalScope,
  ServiceUnavailableError,
  StorageError,
} from '../../src/model/errors.ts';
import { NOON_CLOCK } from '../support/checkpoint-files.ts';
import { followingDaemon } from '../support/small-daemon.ts';
import { calm, publish, publishWithSnapshot, throwAt, type World } from '../support/small-world.ts';
import { refusal } from '../support/sync-values.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const STEP_MS = MINUTE_MS;

/** Returns the log lines about incidents: level, subject, message. */
function incidentsOf(world: World): readonly (readonly unknown[])[] {
  return world.logged
    .filter(([, { of }]) => of !== undefined)
    .map(([level, { of }, message]) => [level, of, message]);
}

const BEGAN = 'Failed; will be tried again.';
const LASTS = 'Still failing.';
const OVER = 'Recovered.';
const OUT_OF_REACH = new ServiceUnavailableError('It cannot be reached.', { hint: 'Look at the network.' });

describe('the log lines about an incident', () => {
  it.each<[string, { readonly call: RegExp; readonly error: Error; readonly of: string }]>([
    ['the list of subscriptions', { call: /^subscriptions/, error: OUT_OF_REACH, of: 'service' }],
    ['a log', { call: /^events/, error: OUT_OF_REACH, of: 'subscription sub_1' }],
    ['a dataset', { call: /^versions/, error: OUT_OF_REACH, of: 'dataset parcels' }],
    [
      'a mirror that a reader has open',
      { call: /^commit$/, error: new BusyError('A reader has it.'), of: 'run' },
    ],
    ['the checkpoint', { call: /^suspensions$/, error: new StorageError('It cannot be read.'), of: 'loop' }],
  ])(
    'logs an incident of %s once, louder as it lasts, and once when it is resolved',
    async (_, { call, error, of }) => {
      const { world, daemon, pass } = await followingDaemon('parcels');
      publish(world, 'parcels');
      throwAt(world, call, error);
      await pass(100 * MINUTE_MS, STEP_MS);
      calm(world);
      await pass(70 * MINUTE_MS, STEP_MS);
      const levels = incidentsOf(world)
        .filter(([, about]) => about === of)
        .map(([level, , message]) => [level, message]);
      expect(levels).toEqual([
        [error instanceof StorageError ? 'warn' : 'info', BEGAN],
        ...(error instanceof StorageError ? [] : [['warn', LASTS]]),
        ['error', LASTS],
        ['warn', OVER],
      ]);
      expect(incidentsOf(world).filter(([, about]) => about !== of)).toEqual([]);
      expect(daemon.state().incidents).toEqual([]);
    },
  );

  it('logs with an incident what happened, why, and what to do', async () => {
    const { world, pass } = await followingDaemon('parcels');
    throwAt(world, /^events/, OUT_OF_REACH);
    await pass(2 * MINUTE_MS);
    expect(world.logged.filter(([, , message]) => message === BEGAN)).toEqual([
      [
        'info',
        {
          of: 'subscription sub_1',
          error: 'service_unavailable',
          why: 'It cannot be reached.',
          hint: 'Look at the network.',
        },
        BEGAN,
      ],
    ]);
  });

  it('F64 logs no incident for datasets whose requests the service throttles', async () => {
    const ids = Array.from({ length: 40 }, (_, index) => `parcels-${index}`);
    const { world, daemon, pass } = await followingDaemon(...ids);
    for (const id of ids) publish(world, id);
    throwAt(world, /^versions/, new ServiceUnavailableError('Too many.', { isThrottled: true }));
    await pass(100 * MINUTE_MS, STEP_MS);
    expect(incidentsOf(world)).toEqual([]);
    expect([...daemon.state().datasets.values()].filter(({ failure }) => failure !== null)).toHaveLength(40);
    calm(world);
    await pass(70 * MINUTE_MS, STEP_MS);
    expect(incidentsOf(world)).toEqual([]);
  });

  it('logs a bug at once as an error, with its stack', async () => {
    const { world, pass } = await followingDaemon('parcels');
    publish(world, 'parcels');
    throwAt(world, /^versions/, new TypeError('x is not a function'));
    await pass(60 * MINUTE_MS, STEP_MS);
    const reported = world.logged.filter(([level]) => level === 'error');
    expect(reported).toMatchObject([['error', { of: 'dataset parcels', stack: expect.any(String) }, BEGAN]]);
  });

  it('logs a suspension that follows an incident, and nothing more of the incident', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels');
    publish(world, 'parcels');
    throwAt(world, /^versions/, OUT_OF_REACH);
    await pass(2 * MINUTE_MS, STEP_MS);
    throwAt(world, /^versions/, refusal({ kind: 'dataset', datasetId: 'parcels' }));
    await pass(60 * MINUTE_MS, STEP_MS);
    expect(incidentsOf(world)).toEqual([
      ['info', 'dataset parcels', BEGAN],
      ['warn', 'dataset parcels', 'Suspended: an operator must act. See feed-sync status.'],
    ]);
    expect(daemon.summary()).toMatchObject({ incidents: [], suspensions: 1, waiting: 0 });
  });

  it.each<[string, RegExp, RefusalScope, string]>([
    ['a log', /^events/, { kind: 'subscription', subscriptionId: 'sub_1' }, 'subscription sub_1'],
    ['a log', /^events/, { kind: 'workspace' }, 'workspace'],
    ['the list of subscriptions', /^subscriptions/, { kind: 'workspace' }, 'workspace'],
  ])('forgets an outage of %s once the service answers with a refusal', async (_, call, scope, of) => {
    const { world, daemon, pass } = await followingDaemon('parcels');
    throwAt(world, call, OUT_OF_REACH);
    await pass(100 * MINUTE_MS, STEP_MS);
    expect(daemon.state().incidents).toHaveLength(1);
    throwAt(world, call, refusal(scope));
    await pass(70 * MINUTE_MS, STEP_MS);
    expect(daemon.state()).toMatchObject({ incidents: [], suspensions: [{ refusal: { scope } }] });
    expect(incidentsOf(world).at(-1)).toEqual([
      'warn',
      of,
      'Suspended: an operator must act. See feed-sync status.',
    ]);
  });

  it('resolves an incident of bad data once other data is published', async () => {
    const { world, pass } = await followingDaemon('parcels');
    publishWithSnapshot(world, 'parcels', { resyncRequired: true });
    throwAt(world, /^commit$/, new DataError('The file has 9 rows and should have 10.'));
    await pass(3 * MINUTE_MS, STEP_MS);
    calm(world);
    publishWithSnapshot(world, 'parcels', { resyncRequired: true });
    await pass(3 * MINUTE_MS, STEP_MS);
    expect(incidentsOf(world).map(([, of, message]) => [of, message])).toEqual([
      ['dataset parcels', BEGAN],
      ['dataset parcels', OVER],
    ]);
  });
});

describe('a suspension', () => {
  it('logs a suspension once, with the message and links of the service, and once when it is lifted', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels', 'permits');
    publish(world, 'parcels');
    throwAt(world, /^versions parcels/, refusal({ kind: 'dataset', datasetId: 'parcels' }));
    await pass(2 * MINUTE_MS, STEP_MS);
    publish(world, 'parcels');
    await pass(50 * MINUTE_MS, STEP_MS);
    const { message, links } = refusal({ kind: 'dataset', datasetId: 'parcels' }).refusal;
    expect(links.size).toBeGreaterThan(0);
    const reported = world.logged.filter(([level]) => level !== 'debug');
    expect(reported).toMatchObject([
      [
        'warn',
        { of: 'dataset parcels', why: message, links: Object.fromEntries(links) },
        expect.stringMatching(/^Suspended: /),
      ],
    ]);
    expect(daemon.state().suspensions).toHaveLength(1);
    calm(world);
    world.logged.length = 0;
    lift(world);
    await pass(MINUTE_MS, STEP_MS);
    expect(world.logged.filter(([level]) => level !== 'debug').map(([, , line]) => line)).toEqual([
      'Resumed.',
      'Applied changes.',
    ]);
  });
});

/** As `feed-sync resume` does, beside the daemon. */
function lift(world: World): void {
  const checkpoint = openCheckpointBeside({ path: world.checkpointPath, uid: 1000, clock: NOON_CLOCK });
  checkpoint?.lift({ kind: 'dataset', datasetId: 'parcels' });
  checkpoint?.close();
}
