/**
 * `resync`, `resume` and `forget`: the decision of an operator is stored in the checkpoint, and reported. Each is run as a
 * process on a checkpoint that the test has filled, beside an instance: the test has the lock of one.
 */

import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { acquireInstanceLock } from '../../src/checkpoint/instance-lock.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import {
  commit,
  dropped,
  failureOf,
  joined,
  NOON,
  openAt,
  suspensionOf,
} from '../support/checkpoint-files.ts';
import { type Program, program } from '../support/program.ts';

/** An installation in which an instance runs, as far as its checkpoint and its lock are concerned, and its checkpoint. */
async function installedWith(
  fill: (checkpoint: Checkpoint) => void,
  command: 'once' | 'run' = 'once',
): Promise<[Program, Checkpoint]> {
  const installed = await program();
  const checkpoint = await openAt(installed.checkpointPath);
  fill(checkpoint);
  const lock = await acquireInstanceLock({
    path: join(installed.dataDirectory, 'lock.sqlite'),
    uid: null,
    holder: { pid: process.pid, host: 'here', startedAt: NOON, command },
  });
  onTestFinished(() => lock.release());
  return [installed, checkpoint];
}

/** The subscription contains these datasets. */
function containing(checkpoint: Checkpoint, subscriptionId: string, ...datasetIds: readonly string[]): void {
  commit(checkpoint, subscriptionId, ...datasetIds.map((id) => joined(id)));
}

function missing(checkpoint: Checkpoint, subscriptionId: string): void {
  const { refusal, ...suspension } = suspensionOf({ kind: 'subscription', subscriptionId });
  checkpoint.suspend({
    ...suspension,
    refusal: { ...refusal, status: null, code: 'subscription_missing' },
  });
}

function suspendedScopes(checkpoint: Checkpoint): readonly RefusalScope[] {
  return checkpoint.suspensions().map(({ refusal }) => refusal.scope);
}

/** The datasets for which a resync is owed. */
function owed(checkpoint: Checkpoint): readonly string[] {
  const desiredStates = [...checkpoint.desiredStates().values()];
  return desiredStates.filter(({ resyncNumber }) => resyncNumber > 0).map(({ datasetId }) => datasetId);
}

it.for([
  [['resync'], 'resync needs to know what: no dataset was named.'],
  [['forget'], 'forget needs to know what: no subscription was named.'],
  [['resync', 'parcels'], 'There is nothing to load again: no catch-up has run here yet.'],
] as const)('%s before the first catch-up ends with 64', async ([words, says]) => {
  const ended = await (await program()).run(...words);
  expect(ended).toMatchObject({ exitCode: 64, stdout: '' });
  expect(ended.stderr).toContain(says);
});

describe('resync', () => {
  it('resync requests reloads of the named datasets, and says what is in the way', async () => {
    const [installed, checkpoint] = await installedWith((filled) => {
      containing(filled, 'sub_1', 'parcels', 'permits', 'zoning');
      filled.fail(failureOf('parcels'));
      filled.suspend(suspensionOf({ kind: 'dataset', datasetId: 'zoning' }));
    });
    expect(await installed.run('resync', 'parcels', 'zoning')).toEqual({
      exitCode: 0,
      signal: null,
      stdout:
        'Will be loaded again from the snapshot at the next catch-up: parcels, zoning.\n' +
        'But dataset zoning is suspended: see feed-sync status.\n',
      stderr: '',
    });
    expect(owed(checkpoint)).toEqual(['parcels', 'zoning']);
    expect(checkpoint.failures().size).toBe(0);
  });

  it('resync --all requests reloads of what subscriptions contain, and of nothing else', async () => {
    const [installed, checkpoint] = await installedWith((filled) => {
      containing(filled, 'sub_1', 'parcels', 'permits');
      commit(filled, 'sub_1', dropped('dropped'));
    });
    expect(await installed.run('resync', '--all', '--yes')).toMatchObject({
      exitCode: 0,
      stdout: 'Will be loaded again from the snapshot at the next catch-up: parcels, permits.\n',
    });
    expect(owed(checkpoint)).toEqual(['parcels', 'permits']);
  });

  it('resync --move of a mirror in a file requests nothing, and says for what it is: 64', async () => {
    const [installed, checkpoint] = await installedWith((filled) => containing(filled, 'sub_1', 'parcels'));
    expect(await installed.run('resync', '--move', 'parcels')).toMatchObject({
      exitCode: 64,
      stdout: '',
      stderr:
        'feed-sync: resync --move is for PostgreSQL: a file has all tables in the schema main. [usage_invalid]\n' +
        '→ Leave --move out to load the tables again.\n',
    });
    expect(owed(checkpoint)).toEqual([]);
  });

  it('resync of a dataset that no subscription contains requests nothing, and names the nearest: 64', async () => {
    const [installed, checkpoint] = await installedWith((filled) =>
      containing(filled, 'sub_1', 'parcels', 'permits'),
    );
    const ended = await installed.run('resync', 'parcels', 'premits');
    expect(ended).toMatchObject({ exitCode: 64, stdout: '' });
    expect(ended.stderr).toBe(
      'feed-sync: No subscription contains premits (the nearest is permits). [usage_invalid]\n' +
        '→ No reload was requested. Known: parcels, permits.\n',
    );
    expect(owed(checkpoint)).toEqual([]);
  });
});

it.for([
  [['resync', 'parcels'], 'Will be loaded again from the snapshot at the next catch-up: parcels.'],
  [
    ['resume', '--workspace'],
    'Lifted the suspension of this API key. The next catch-up asks the service again.',
  ],
  [
    ['forget', '--subscription', 'sub_2', '--yes'],
    'Forgotten: subscription sub_2.\nIt contained no dataset.',
  ],
] as const)('%s beside run says that it is done at once', async ([words, says]) => {
  const [installed] = await installedWith((filled) => {
    containing(filled, 'sub_1', 'parcels');
    missing(filled, 'sub_2');
    if (words[0] === 'resume') filled.suspend(suspensionOf({ kind: 'workspace' }));
  }, 'run');
  expect(await installed.run(...words)).toMatchObject({
    exitCode: 0,
    stdout: `${says}\nfeed-sync run is at work here (process ${process.pid}): it begins within a second.\n`,
  });
});

describe('resume', () => {
  const EVERYTHING: readonly RefusalScope[] = [
    { kind: 'workspace' },
    { kind: 'subscription', subscriptionId: 'sub_1' },
    { kind: 'dataset', datasetId: 'parcels' },
    { kind: 'retirement' },
  ];

  function fillEverything(checkpoint: Checkpoint): void {
    containing(checkpoint, 'sub_1', 'parcels', 'permits');
    commit(checkpoint, 'sub_1', dropped('dropped'));
    for (const scope of EVERYTHING) checkpoint.suspend(suspensionOf(scope));
    checkpoint.fail(failureOf('permits'));
  }

  it('resume --all lifts every refusal and retries failures, while retirements go on waiting', async () => {
    const [installed, checkpoint] = await installedWith(fillEverything);
    expect(await installed.run('resume', '--all')).toMatchObject({
      exitCode: 0,
      stdout:
        'Lifted the suspension of dataset parcels, subscription sub_1, this API key. The next catch-up asks the service again.\n' +
        'Tried again at the next catch-up: permits.\n' +
        'Retirements still wait for you to agree to them: feed-sync resume --retire\n',
    });
    expect(suspendedScopes(checkpoint)).toEqual([{ kind: 'retirement' }]);
    expect(checkpoint.failures().size).toBe(0);
    expect(checkpoint.desiredStates().get('dropped')?.retirementApproved).toBe(false);
  });

  it('resume --retire approves retirements, and lifts nothing else', async () => {
    const [installed, checkpoint] = await installedWith(fillEverything);
    expect(await installed.run('resume', '--retire', '--yes')).toMatchObject({
      exitCode: 0,
      // There is no mirror, and so no table of it.
      stdout: 'No dataset waits to be retired.\n',
    });
    expect(suspendedScopes(checkpoint)).toEqual(
      expect.arrayContaining(EVERYTHING.filter(({ kind }) => kind !== 'retirement')),
    );
    expect(checkpoint.desiredStates().get('dropped')?.retirementApproved).toBe(true);
  });

  it('resume retries a failed dataset, and ends with 64 for one that is neither suspended nor failed', async () => {
    const [installed, checkpoint] = await installedWith(fillEverything);
    const words = ['--dataset', 'permits', '--dataset', 'nobody', '--subscription', 'sub_1'];
    expect(await installed.run('resume', ...words)).toMatchObject({
      exitCode: 64,
      stdout:
        'Lifted the suspension of subscription sub_1. The next catch-up asks the service again.\n' +
        'Tried again at the next catch-up: permits.\n',
      stderr:
        'feed-sync: Neither suspended nor failed: dataset nobody. [usage_invalid]\n→ feed-sync status lists what is suspended and what failed.\n',
    });
    expect(checkpoint.failures().size).toBe(0);
  });
});

describe('forget', () => {
  it('forget says what is retired with a missing subscription, and what stays', async () => {
    const [installed, checkpoint] = await installedWith((filled) => {
      containing(filled, 'gone', 'only', 'shared', 'both');
      containing(filled, 'gone_too', 'both');
      containing(filled, 'there', 'shared');
      for (const id of ['gone', 'gone_too']) missing(filled, id);
    });
    expect(
      await installed.run('forget', '--subscription', 'gone', '--subscription', 'gone_too', '--yes'),
    ).toMatchObject({
      exitCode: 0,
      stdout:
        'Forgotten: subscription gone, subscription gone_too.\n' +
        'Will be retired at the next catch-up, because no other subscription contains them: both, only.\n' +
        'Kept, because another subscription contains them: shared.\n',
      stderr: '',
    });
    expect(checkpoint.forgotten()).toEqual(['gone', 'gone_too']);
    expect([...checkpoint.followed().keys()]).toEqual(['there']);
  });

  it('forget of a subscription that exists says so, and forgets none: 64', async () => {
    const [installed, checkpoint] = await installedWith((filled) => {
      for (const id of ['there', 'gone']) containing(filled, id, 'parcels');
      missing(filled, 'gone');
    });
    const words = ['--subscription', 'gone', '--subscription', 'there'];
    expect(await installed.run('forget', ...words)).toMatchObject({
      exitCode: 64,
      stdout: '',
      stderr:
        'feed-sync: Subscription there is not missing: it was there at the last catch-up. [usage_invalid]\n' +
        '→ Run feed-sync once: it is suspended as missing once it is gone, or left out of the setting subscriptions.\n',
    });
    expect(checkpoint.forgotten()).toEqual([]);
  });
});
