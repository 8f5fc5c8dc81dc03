/** Decisions of operators: resyncs, approved retirements, forgotten subscriptions; and suspensions that end by themselves. */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { emptyDesiredState } from '../../src/model/desired-state.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import {
  commit,
  dropped,
  failureOf,
  joined,
  NOON,
  NOON_CLOCK,
  openAt,
  openNew,
  reloadAsked,
  suspensionOf,
  temporaryPath,
} from '../support/checkpoint-files.ts';
import { member, reload } from '../support/sync-values.ts';

const RETIREMENT: RefusalScope = { kind: 'retirement' };

function datasetScope(datasetId: string): RefusalScope {
  return { kind: 'dataset', datasetId };
}

function subscriptionScope(subscriptionId: string): RefusalScope {
  return { kind: 'subscription', subscriptionId };
}

function suspendedScopes(checkpoint: Checkpoint): readonly RefusalScope[] {
  return checkpoint.suspensions().map(({ refusal }) => refusal.scope);
}

describe('a resync', () => {
  it('numbers the resync of a dataset that a subscription contains, and ends its failure', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('a'), joined('b'));
    commit(checkpoint, 's', dropped('dropped'));
    for (const id of ['a', 'b', 'dropped']) checkpoint.fail(failureOf(id));
    expect(checkpoint.requestResync(['dropped', 'a', 'unknown', 'a'])).toEqual(['a']);
    expect(checkpoint.desired('a')).toMatchObject({ resyncNumber: NOON.getTime() });
    expect(checkpoint.desired('b')).toMatchObject({ resyncNumber: 0 });
    expect(checkpoint.desired('dropped')).toMatchObject({ resyncNumber: 0 });
    expect(checkpoint.desired('unknown')).toBeNull();
    expect([...checkpoint.failures().keys()]).toEqual(['b', 'dropped']);
  });

  it('keeps which resync moves a table: that of the newest request that says so, and none after one that says no', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('a'), joined('b'));
    const first = NOON.getTime();
    const moveNumber = () => checkpoint.desired('a')?.moveNumber;
    checkpoint.requestResync(['a']);
    expect(moveNumber()).toBe(0);
    checkpoint.requestResync(['a'], true);
    expect(checkpoint.desired('a')).toMatchObject({ resyncNumber: first + 1, moveNumber: first + 1 });
    // A damaged table is requested without a word about moves.
    checkpoint.requestResync(['a']);
    expect(checkpoint.desired('a')).toMatchObject({ resyncNumber: first + 2, moveNumber: first + 1 });
    checkpoint.requestResync(['a'], false);
    expect(checkpoint.desired('a')).toMatchObject({ resyncNumber: first + 3, moveNumber: 0 });
    expect(checkpoint.desired('b')).toMatchObject({ resyncNumber: 0, moveNumber: 0 });
  });

  it('gives each resync a higher number, also where the clock stands still or goes back', async () => {
    let now = NOON;
    const checkpoint = await openAt(temporaryPath('checkpoint.sqlite'), undefined, {
      ...NOON_CLOCK,
      now: () => now,
    });
    commit(checkpoint, 's', joined('a'));
    const numbers = [0, 0, -3_600_000, 60_000].map((passed) => {
      now = new Date(NOON.getTime() + passed);
      checkpoint.requestResync(['a']);
      return (checkpoint.desired('a')?.resyncNumber ?? 0) - NOON.getTime();
    });
    expect(numbers).toEqual([0, 1, 2, 60_000]);
  });

  it('numbers a resync above those of a lost checkpoint, so that no loaded table satisfies it', async () => {
    const later = { ...NOON_CLOCK, now: () => new Date(NOON.getTime() + 1) };
    const numberAt = async (clock: typeof NOON_CLOCK): Promise<number> => {
      const checkpoint = await openAt(temporaryPath('checkpoint.sqlite'), undefined, clock);
      commit(checkpoint, 's', joined('a'));
      checkpoint.requestResync(['a']);
      return checkpoint.desired('a')?.resyncNumber ?? 0;
    };
    expect(await numberAt(later)).toBeGreaterThan(await numberAt(NOON_CLOCK));
  });

  it('keeps a resync of one process and the steps of another where both have the checkpoint open', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    const [daemon, command] = [await openAt(path), await openAt(path)];
    commit(daemon, 's', joined('a'));
    command.requestResync(['a']);
    commit(daemon, 's', reloadAsked('a', 5n), { kind: 'refresh', datasetId: 'a' });
    expect(command.desired('a')).toMatchObject({ resyncNumber: NOON.getTime(), refreshesRequested: 1 });
    expect(command.desired('a')?.reloads).toHaveLength(1);
  });
});

describe('approved retirements', () => {
  it('approves the retirement of datasets that no subscription contains now', async () => {
    const checkpoint = await openNew();
    checkpoint.suspend(suspensionOf(RETIREMENT));
    checkpoint.suspend(suspensionOf(datasetScope('b')));
    commit(checkpoint, 's', ...['b', 'a', 'c'].map((id) => dropped(id)));
    commit(checkpoint, 't', joined('c'));
    expect(checkpoint.approveRetirements()).toEqual(['a', 'b']);
    expect(suspendedScopes(checkpoint)).toEqual([datasetScope('b')]);
    const approved = [...checkpoint.desiredStates().values()].filter((desired) => desired.retirementApproved);
    expect(approved.map((desired) => desired.datasetId).sort()).toEqual(['a', 'b']);
    commit(checkpoint, 't', dropped('c'));
    expect(checkpoint.desiredStates().get('c')?.retirementApproved).toBe(false);
  });

  it('voids an approved retirement once any subscription contains the dataset', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', dropped('a', { eventNumber: 5n }));
    checkpoint.approveRetirements();
    commit(checkpoint, 's', joined('a', { eventNumber: 4n }));
    expect(checkpoint.desiredStates().get('a')?.retirementApproved).toBe(true);
    commit(checkpoint, 'new', joined('a'));
    expect(checkpoint.desiredStates().get('a')?.retirementApproved).toBe(false);
  });
});

describe('the suspension of a dataset', () => {
  it('lifts the suspension of a dataset that was dropped and is contained again, also within one step', async () => {
    const checkpoint = await openNew();
    for (const id of ['a', 'b']) checkpoint.suspend(suspensionOf(datasetScope(id)));
    commit(checkpoint, 's', joined('a'), dropped('a', { eventNumber: 5n }));
    expect(suspendedScopes(checkpoint)).toEqual([datasetScope('a'), datasetScope('b')]);
    commit(checkpoint, 's', joined('a', { eventNumber: 6n }));
    expect(suspendedScopes(checkpoint)).toEqual([datasetScope('b')]);
    commit(checkpoint, 's', dropped('b', { eventNumber: 7n }), joined('b', { eventNumber: 8n }));
    expect(suspendedScopes(checkpoint)).toEqual([]);
  });

  it('keeps a suspension where the events of a return come again, whatever else follows', async () => {
    const checkpoint = await openNew();
    const events = [dropped('a', { eventNumber: 5n }), joined('a', { eventNumber: 6n })] as const;
    commit(checkpoint, 's', ...events);
    checkpoint.suspend(suspensionOf(datasetScope('a')));
    commit(checkpoint, 's', ...events, joined('a'));
    commit(checkpoint, 't', joined('a'));
    commit(
      checkpoint,
      's',
      { kind: 'at-least', datasetId: 'a', version: 9, eventNumber: 7n },
      reloadAsked('a', 7n, { version: 9 }),
      { kind: 'refresh', datasetId: 'a' },
    );
    expect(suspendedScopes(checkpoint)).toEqual([datasetScope('a')]);
  });
});

describe('a forgotten subscription', () => {
  it('F82 keeps of a forgotten subscription only its id, and the reloads that tables of others owe', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'gone', joined('b'), joined('a'), dropped('c'));
    commit(checkpoint, 'gone', reloadAsked('a', 7n, { version: 3 }), reloadAsked('c', 7n));
    commit(checkpoint, 'gone', { kind: 'at-least', datasetId: 'a', version: 9, eventNumber: 8n });
    commit(checkpoint, 'stays', joined('a', { version: 4 }), reloadAsked('a', 2n));
    for (const id of ['gone', 'stays']) checkpoint.suspend(suspensionOf(subscriptionScope(id)));
    expect(checkpoint.forget('gone')).toEqual(['a', 'b']);
    expect([...checkpoint.followed().keys()]).toEqual(['stays']);
    expect(suspendedScopes(checkpoint)).toEqual([subscriptionScope('stays')]);
    expect(checkpoint.forgotten()).toEqual(['gone']);
    expect(checkpoint.desiredStates().get('a')).toMatchObject({
      members: new Map([['stays', member({ announced: 4 })]]),
      reloads: [reload(2, { subscriptionId: 'stays' }), reload(7, { subscriptionId: 'gone' })],
      // The metadata of a dataset that others contain is refreshed.
      refreshesRequested: 1,
    });
    for (const id of ['b', 'c']) {
      expect(checkpoint.desiredStates().get(id)).toEqual({
        ...emptyDesiredState(id),
        retirementApproved: id === 'b',
      });
    }
  });

  it('approves the retirement of datasets that only the forgotten subscription contained', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'gone', joined('only'), joined('shared'));
    commit(checkpoint, 'gone', dropped('dropped'));
    commit(checkpoint, 'stays', joined('shared'));
    checkpoint.forget('gone');
    const approved = [...checkpoint.desiredStates().values()].filter((desired) => desired.retirementApproved);
    expect(approved.map((desired) => desired.datasetId)).toEqual(['only']);
  });

  it('forgets several subscriptions together, or none of them', async () => {
    const checkpoint = await openNew();
    for (const id of ['s', 't']) commit(checkpoint, id, joined(`only ${id}`));
    expect(() => checkpoint.forget('s', 'half a character: \ud83d')).toThrow();
    expect([...checkpoint.followed().keys()]).toEqual(['s', 't']);
    expect(checkpoint.forgotten()).toEqual([]);
    expect(checkpoint.forget('s', 't')).toEqual(['only s', 'only t']);
    expect(checkpoint.forgotten()).toEqual(['s', 't']);
  });

  it('remembers a forgotten subscription until the destination names it no more', async () => {
    const checkpoint = await openNew();
    for (const id of ['t', 's', 't', 'u']) checkpoint.forget(id);
    expect(checkpoint.forgotten()).toEqual(['s', 't', 'u']);
    checkpoint.clearForgotten(['s', 'never forgotten', 'u'], () => false);
    expect(checkpoint.forgotten()).toEqual(['t']);
  });

  it('keeps the reloads of a forgotten subscription for shared datasets until the destination satisfied them', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('both'), joined('own'), reloadAsked('both', 5n), reloadAsked('both', 6n));
    commit(checkpoint, 't', joined('both'), reloadAsked('both', 5n));
    checkpoint.forget('s');
    const owed = () =>
      checkpoint.desired('both')?.reloads.map((reload) => `${reload.subscriptionId} ${reload.eventNumber}`);
    expect(owed()?.toSorted()).toEqual(['s 5', 's 6', 't 5']);
    checkpoint.clearForgotten(
      ['s'],
      ({ eventNumber }, datasetId) => datasetId === 'both' && eventNumber === 5n,
    );
    expect(owed()?.toSorted()).toEqual(['s 6', 't 5']);
  });

  it('remembers a forgotten subscription no more once it is followed again', async () => {
    const checkpoint = await openNew();
    for (const id of ['s', 't']) checkpoint.forget(id);
    commit(checkpoint, 's');
    expect(checkpoint.forgotten()).toEqual(['t']);
  });
});
