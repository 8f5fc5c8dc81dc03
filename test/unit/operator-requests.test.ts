/** Requests of operators: started once, only while their command waits, and answered by the working instance. */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import {
  MAX_REQUESTS,
  MAX_SILENCE_MS,
  type OperatorRequest,
  type Requests,
} from '../../src/checkpoint/requests.ts';
import { openCheckpointBeside } from '../../src/checkpoint/sqlite/open.ts';
import { present } from '../../src/lib/assert.ts';
import { baseOf } from '../../src/model/candidate.ts';
import { StorageError } from '../../src/model/errors.ts';
import type { Handler, Performing } from '../../src/sync/request-handler.ts';
import { performRequests, type Unanswered } from '../../src/sync/requests.ts';
import { NOON, NOON_CLOCK, openNew } from '../support/checkpoint-files.ts';
import { eventually } from '../support/patience.ts';
import { smallDaemon } from '../support/small-daemon.ts';
import { calm, oneSubscription } from '../support/small-world.ts';
import { candidate } from '../support/sync-values.ts';

const SECOND_MS = 1_000;

function request(requestId: string, datasetId = 'parcels', command = 'rollback'): OperatorRequest {
  return { requestId, datasetId, command, parameters: { toCommit: 3 } };
}

function later(ms: number): Date {
  return new Date(NOON.getTime() + ms);
}

describe('a request of an operator', () => {
  it('starts a request once, the oldest of its dataset first, and keeps its answer', async () => {
    const { requests } = await openNew();
    await requests.ask(request('a'), NOON);
    await requests.ask(request('b'), NOON);
    await requests.ask(request('c', 'permits'), NOON);
    expect(await requests.waitingDatasets(NOON)).toEqual(['parcels', 'permits']);
    expect(await requests.begin('parcels', NOON)).toEqual(request('a'));
    expect(await requests.state('a')).toEqual({ kind: 'begun' });
    expect(await requests.begin('parcels', NOON)).toEqual(request('b'));
    expect(await requests.begin('parcels', NOON)).toBeNull();
    await requests.answer('a', { kind: 'done', text: 'It was taken back.' });
    expect(await requests.state('a')).toEqual({ kind: 'done', text: 'It was taken back.' });
    expect(await requests.state('c')).toEqual({ kind: 'waiting' });
    expect(await requests.state('never asked')).toBeNull();
  });

  it('starts no request whose command has been silent for a minute, or withdrew it', async () => {
    const { requests } = await openNew();
    await requests.ask(request('a'), NOON);
    await requests.ask(request('b', 'permits'), NOON);
    expect(await requests.waitingDatasets(later(MAX_SILENCE_MS - 1))).toEqual(['parcels', 'permits']);
    await requests.ask(request('a'), later(MAX_SILENCE_MS - 1));
    expect(await requests.waitingDatasets(later(MAX_SILENCE_MS))).toEqual(['parcels']);
    expect(await requests.begin('permits', later(MAX_SILENCE_MS))).toBeNull();
    expect(await requests.withdraw('a')).toEqual({ kind: 'removed', wasBegun: false });
    expect(await requests.begin('parcels', later(MAX_SILENCE_MS))).toBeNull();
    expect(await requests.withdraw('a')).toEqual({ kind: 'kept' });
  });

  it('neither withdraws nor starts again a request that was started', async () => {
    const { requests } = await openNew();
    await requests.ask(request('a'), NOON);
    await requests.begin('parcels', NOON);
    await requests.ask(request('a'), later(SECOND_MS));
    expect(await requests.withdraw('a')).toEqual({ kind: 'kept' });
    expect(await requests.state('a')).toEqual({ kind: 'begun' });
    expect(await requests.begin('parcels', later(SECOND_MS))).toBeNull();
  });

  it('counts a request from before the clock was set back as silent', async () => {
    const { requests } = await openNew();
    await requests.ask(request('a'), later(2 * MAX_SILENCE_MS));
    expect(await requests.waitingDatasets(NOON)).toEqual([]);
  });

  it('drops the oldest request where there are too many', async () => {
    const { requests } = await openNew();
    for (let number = 0; number <= MAX_REQUESTS; number += 1) {
      await requests.ask(request(`request ${number}`), NOON);
    }
    expect(await requests.state('request 0')).toBeNull();
    expect(await requests.state('request 1')).toEqual({ kind: 'waiting' });
  });
});

describe('performRequests', () => {
  async function performing(handlers: Record<string, Handler>) {
    const checkpoint = await openNew();
    const performingNow = () =>
      ({ parts: { checkpoint, destination: {}, clock: NOON_CLOCK } }) as unknown as Performing;
    const perform = async () => {
      const unanswered: Unanswered[] = [];
      const byCommand = new Map(Object.entries(handlers));
      await performRequests('parcels', performingNow, (one) => unanswered.push(one), byCommand);
      return unanswered;
    };
    return { requests: checkpoint.requests, perform };
  }

  it("answers a request by the handler of its command, or with the handler's error", async () => {
    const { requests, perform } = await performing({
      rollback: async ({ requestId, parameters }) => ({
        kind: 'done',
        text: `${requestId}: ${JSON.stringify(parameters)}`,
      }),
      repair: async () => {
        throw new StorageError('The disk is full.', { code: 'disk_full', hint: 'Free some.' });
      },
    });
    await requests.ask(request('a'), NOON);
    await requests.ask(request('b', 'parcels', 'repair'), NOON);
    expect(await perform()).toEqual([]);
    expect(await requests.state('a')).toEqual({ kind: 'done', text: 'a: {"toCommit":3}' });
    expect(await requests.state('b')).toEqual({
      kind: 'refused',
      error: 'disk_full',
      message: 'The disk is full.',
      hint: 'Free some.',
    });
  });

  it('leaves a request unanswered until its dataset was reconciled', async () => {
    const { requests, perform } = await performing({
      approve: async () => (result) => ({ kind: 'done', text: result.kind }),
    });
    await requests.ask(request('a', 'parcels', 'approve'), NOON);
    const [unanswered] = await perform();
    expect(unanswered?.requestId).toBe('a');
    expect(await requests.state('a')).toEqual({ kind: 'begun' });
    expect(
      unanswered?.answerAfter({ kind: 'current', datasetId: 'parcels', commits: [], recheckAt: null }),
    ).toEqual({
      kind: 'done',
      text: 'current',
    });
  });
});

describe('a daemon with requests', () => {
  /** With `failing`, the destination has the requests, and that call to begin one fails, counted from 1. */
  async function following(failing: number | null = null) {
    const world = await oneSubscription('parcels');
    const stored = world.checkpoint.requests;
    let calls = 0;
    const begin: Requests['begin'] = async (datasetId, now) => {
      calls += 1;
      if (calls === failing) throw new StorageError('It is gone.', { code: 'disk_full' });
      return await stored.begin(datasetId, now);
    };
    if (failing !== null) Object.assign(world.parts.destination, { requests: { ...stored, begin } });
    const daemon = smallDaemon(world);
    await daemon.pass(SECOND_MS);
    calm(world);
    const beside = openCheckpointBeside({ path: world.checkpointPath, uid: 1000, clock: NOON_CLOCK });
    if (beside === null) throw new Error('there is a checkpoint');
    return { ...daemon, world, requests: (beside as Checkpoint).requests };
  }

  it.for(['parcels', 'an unknown dataset'])(
    'answers a request of another process about %s within seconds, and names an unknown command',
    async (datasetId) => {
      const { world, pass, settle, requests } = await following();
      await requests.ask(request('a', datasetId, 'a later command'), world.parts.clock.now());
      await pass(SECOND_MS);
      await eventually(async () => {
        await settle();
        expect(await requests.state('a')).toMatchObject({
          error: 'usage_invalid',
          message: 'The program that works here does not know the request "a later command".',
        });
      });
    },
  );

  it('answers a request that waits for its dataset although the next request could not be started', async () => {
    const { world, pass, requests } = await following(2);
    const { parts, tables } = world;
    const table = present(tables.get('parcels'), 'the daemon has loaded it');
    const waiting = candidate({ base: baseOf(table), version: 2 });
    parts.checkpoint.keepCandidate(waiting);
    const { judged, version } = waiting;
    const approved = {
      ...request('a', 'parcels', 'approve'),
      parameters: { version, content: judged.digest },
    };
    await requests.ask(approved, parts.clock.now());
    await requests.ask(request('b', 'parcels', 'a later command'), parts.clock.now());
    await eventually(async () => {
      await pass(SECOND_MS);
      expect(await requests.state('a')).toMatchObject({ kind: 'refused' });
      expect(await requests.state('b')).toMatchObject({ error: 'usage_invalid' });
    });
  });
});
