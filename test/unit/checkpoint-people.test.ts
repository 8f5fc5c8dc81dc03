/** What people ask for: snapshots again, agreed retirements, subscriptions given up, holds that are over by themselves. */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import { commit, failureOf, holdOf, openNew } from '../support/checkpoint-files.ts';

const RETIREMENT: RefusalScope = { kind: 'retirement' };

function datasetScope(datasetId: string): RefusalScope {
  return { kind: 'dataset', datasetId };
}

function subscriptionScope(subscriptionId: string): RefusalScope {
  return { kind: 'subscription', subscriptionId };
}

function heldScopes(checkpoint: Checkpoint): readonly RefusalScope[] {
  return checkpoint.holds().map(({ refusal }) => refusal.scope);
}

describe('a resync', () => {
  it('is counted for what a subscription holds, and ends its failure', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', { kind: 'member', datasetId: 'a' }, { kind: 'member', datasetId: 'b' });
    commit(checkpoint, 's', { kind: 'no-member', datasetId: 'dropped' });
    for (const id of ['a', 'b', 'dropped']) checkpoint.fail(failureOf(id));
    expect(checkpoint.askResync(['dropped', 'a', 'unknown', 'a'])).toEqual(['a']);
    expect(checkpoint.wants().get('a')).toMatchObject({ resyncsAsked: 1, resyncsDone: 0 });
    expect(checkpoint.wants().get('b')).toMatchObject({ resyncsAsked: 0 });
    expect(checkpoint.wants().get('dropped')).toMatchObject({ resyncsAsked: 0 });
    expect(checkpoint.wants().has('unknown')).toBe(false);
    expect([...checkpoint.failures().keys()]).toEqual(['b', 'dropped']);
  });

  it('is done up to those that were seen, and never before it is asked for', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', { kind: 'member', datasetId: 'a' });
    checkpoint.markResynced('a', 3);
    checkpoint.askResync(['a']);
    checkpoint.askResync(['a']);
    expect(checkpoint.wants().get('a')).toMatchObject({ resyncsAsked: 2, resyncsDone: 0 });
    checkpoint.markResynced('a', 1);
    expect(checkpoint.wants().get('a')).toMatchObject({ resyncsAsked: 2, resyncsDone: 1 });
    checkpoint.markResynced('a', 2);
    checkpoint.markResynced('a', 1);
    expect(checkpoint.wants().get('a')).toMatchObject({ resyncsAsked: 2, resyncsDone: 2 });
  });
});

describe('approved retirements', () => {
  it('are those of datasets that no subscription holds now', async () => {
    const checkpoint = await openNew();
    checkpoint.hold(holdOf(RETIREMENT));
    checkpoint.hold(holdOf(datasetScope('b')));
    commit(checkpoint, 's', ...(['b', 'a', 'c'] as const).map((id) => drop(id)));
    commit(checkpoint, 't', { kind: 'member', datasetId: 'c' });
    expect(checkpoint.approveRetirements()).toEqual(['a', 'b']);
    expect(heldScopes(checkpoint)).toEqual([datasetScope('b')]);
    const approved = [...checkpoint.wants().values()].filter((want) => want.retirementApproved);
    expect(approved.map((want) => want.datasetId).sort()).toEqual(['a', 'b']);
    commit(checkpoint, 't', drop('c'));
    expect(checkpoint.wants().get('c')?.retirementApproved).toBe(false);
  });

  it('are over once any subscription holds the dataset', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', drop('a', 5n));
    checkpoint.approveRetirements();
    commit(checkpoint, 's', { kind: 'member', datasetId: 'a', eventNumber: 4n });
    expect(checkpoint.wants().get('a')?.retirementApproved).toBe(true);
    commit(checkpoint, 'new', { kind: 'member', datasetId: 'a' });
    expect(checkpoint.wants().get('a')?.retirementApproved).toBe(false);
  });
});

describe('a hold of a dataset', () => {
  it('is over when the dataset was dropped and is held again, also within one step', async () => {
    const checkpoint = await openNew();
    for (const id of ['a', 'b']) checkpoint.hold(holdOf(datasetScope(id)));
    commit(checkpoint, 's', { kind: 'member', datasetId: 'a' }, drop('a', 5n));
    expect(heldScopes(checkpoint)).toEqual([datasetScope('a'), datasetScope('b')]);
    commit(checkpoint, 's', { kind: 'member', datasetId: 'a', eventNumber: 6n });
    expect(heldScopes(checkpoint)).toEqual([datasetScope('b')]);
    commit(checkpoint, 's', drop('b', 7n), { kind: 'member', datasetId: 'b', eventNumber: 8n });
    expect(heldScopes(checkpoint)).toEqual([]);
  });

  it('stands when the events of its return come again, and whatever else is said of it', async () => {
    const checkpoint = await openNew();
    const events = [drop('a', 5n), { kind: 'member', datasetId: 'a', eventNumber: 6n }] as const;
    commit(checkpoint, 's', ...events);
    checkpoint.hold(holdOf(datasetScope('a')));
    commit(checkpoint, 's', ...events, { kind: 'member', datasetId: 'a' });
    commit(checkpoint, 't', { kind: 'member', datasetId: 'a' });
    commit(
      checkpoint,
      's',
      { kind: 'at-least', datasetId: 'a', version: 9 },
      { kind: 'reload', datasetId: 'a', version: 9, eventNumber: 7n },
      { kind: 'look', datasetId: 'a' },
    );
    expect(heldScopes(checkpoint)).toEqual([datasetScope('a')]);
  });
});

describe('a forgotten subscription', () => {
  it('leaves nothing behind but its id and what others want', async () => {
    const checkpoint = await openNew();
    commit(
      checkpoint,
      'gone',
      { kind: 'member', datasetId: 'b' },
      { kind: 'member', datasetId: 'a' },
      drop('c'),
    );
    commit(checkpoint, 'gone', { kind: 'reload', datasetId: 'a', eventNumber: 7n, version: 3 });
    commit(checkpoint, 'gone', { kind: 'at-least', datasetId: 'a', version: 9 });
    commit(checkpoint, 'stays', { kind: 'member', datasetId: 'a' });
    for (const id of ['gone', 'stays']) checkpoint.hold(holdOf(subscriptionScope(id)));
    expect(checkpoint.forget('gone')).toEqual(['a', 'b']);
    expect([...checkpoint.followed().keys()]).toEqual(['stays']);
    expect(heldScopes(checkpoint)).toEqual([subscriptionScope('stays')]);
    expect(checkpoint.forgotten()).toEqual(['gone']);
    expect(checkpoint.wants().get('a')).toMatchObject({
      members: new Set(['stays']),
      reloadAfter: new Map(),
      // Nobody knows who had announced it: the lists of versions are asked.
      atLeastVersion: null,
      looksAsked: 1,
    });
    for (const id of ['b', 'c']) {
      expect(checkpoint.wants().get(id)).toMatchObject({ members: new Set(), formerMembers: new Map() });
    }
  });

  it('takes what only it held with it, with the agreement of the person', async () => {
    const checkpoint = await openNew();
    commit(
      checkpoint,
      'gone',
      { kind: 'member', datasetId: 'only' },
      { kind: 'member', datasetId: 'shared' },
    );
    commit(checkpoint, 'gone', drop('dropped'));
    commit(checkpoint, 'stays', { kind: 'member', datasetId: 'shared' });
    checkpoint.forget('gone');
    const approved = [...checkpoint.wants().values()].filter((want) => want.retirementApproved);
    expect(approved.map((want) => want.datasetId)).toEqual(['only']);
  });

  it('goes together with others, or none of them goes', async () => {
    const checkpoint = await openNew();
    for (const id of ['s', 't']) commit(checkpoint, id, { kind: 'member', datasetId: `only ${id}` });
    expect(() => checkpoint.forget('s', 'half a character: \ud83d')).toThrow();
    expect([...checkpoint.followed().keys()]).toEqual(['s', 't']);
    expect(checkpoint.forgotten()).toEqual([]);
    expect(checkpoint.forget('s', 't')).toEqual(['only s', 'only t']);
    expect(checkpoint.forgotten()).toEqual(['s', 't']);
  });

  it('is remembered until the destination names it no more', async () => {
    const checkpoint = await openNew();
    for (const id of ['t', 's', 't', 'u']) checkpoint.forget(id);
    expect(checkpoint.forgotten()).toEqual(['s', 't', 'u']);
    checkpoint.clearForgotten(['s', 'never forgotten', 'u']);
    expect(checkpoint.forgotten()).toEqual(['t']);
  });

  it('is forgotten no more when it is followed again', async () => {
    const checkpoint = await openNew();
    for (const id of ['s', 't']) checkpoint.forget(id);
    commit(checkpoint, 's');
    expect(checkpoint.forgotten()).toEqual(['t']);
  });
});

function drop(datasetId: string, eventNumber?: bigint) {
  return { kind: 'no-member' as const, datasetId, ...(eventNumber === undefined ? {} : { eventNumber }) };
}
