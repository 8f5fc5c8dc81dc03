/** Changes of desired states: the effect of each, that a repeated change has none, and what becomes void. */

import { describe, expect, it } from 'vitest';
import {
  announcedVersion,
  changedDesiredState,
  type DesiredState,
  type DesiredStateChange,
  emptyDesiredState,
  MAX_RELOADS_KEPT,
  type Member,
  type Reload,
  withListed,
  withoutAnnouncedAbove,
  withoutAnswered,
  withoutLog,
  withoutSubscription,
} from '../../src/model/desired-state.ts';
import { dropped, joined, reloadAsked } from '../support/checkpoint-files.ts';
import { desired, formerMember, member, NOW, reload } from '../support/sync-values.ts';

const D = 'parcels';
const refresh: DesiredStateChange = { kind: 'refresh', datasetId: D };
const nothingAnnounced: DesiredStateChange = { kind: 'nothing-announced', datasetId: D };

/** So many minutes after noon. */
function at(minutes: number): Date {
  return new Date(NOW.getTime() + minutes * 60_000);
}

function atLeast(version: number, eventNumber: bigint): DesiredStateChange {
  return { kind: 'at-least', datasetId: D, version, eventNumber };
}

/** Applies the changes of a subscription to the desired state of a dataset, by default to the empty one. */
function grown(
  changes: readonly DesiredStateChange[],
  before: DesiredState = emptyDesiredState(D),
  subscriptionId = 's',
): DesiredState {
  return changes.reduce((changed, change) => changedDesiredState(changed, subscriptionId, change), before);
}

function memberOf(changed: DesiredState, subscriptionId = 's'): Member | undefined {
  return changed.members.get(subscriptionId);
}

function numbersOf({ reloads }: DesiredState, subscriptionId = 's'): readonly number[] {
  return reloads
    .filter((one) => one.subscriptionId === subscriptionId)
    .map(({ eventNumber }) => Number(eventNumber));
}

describe('a dataset that joins a subscription', () => {
  it('makes a dataset a member of the subscription, with the event and the timestamp of the change', () => {
    const one = joined(D, { eventNumber: 9n, at: NOW, version: 3 });
    expect(grown([one])).toEqual({
      ...emptyDesiredState(D),
      members: new Map([['s', { eventNumber: 9n, since: NOW, announced: 3 }]]),
    });
  });

  it('keeps the membership of a dataset for each subscription by itself', () => {
    const ofOne = grown([joined(D, { eventNumber: 900n, version: 3 })]);
    const ofBoth = grown([joined(D, { eventNumber: 2n, version: 5 })], ofOne, 't');
    expect(memberOf(ofBoth, 's')).toMatchObject({ eventNumber: 900n, announced: 3 });
    expect(memberOf(ofBoth, 't')).toMatchObject({ eventNumber: 2n, announced: 5 });
  });

  it('replaces number, timestamp and version of a member by those of a later event', () => {
    const before = grown([joined(D, { eventNumber: 9n, version: 5 })]);
    expect(memberOf(grown([joined(D, { eventNumber: 12n, at: NOW, version: 1 })], before))).toEqual({
      eventNumber: 12n,
      since: NOW,
      announced: 1,
    });
  });

  it('ends the approval of a retirement when the dataset joins a subscription anew', () => {
    const approved = desired({ members: new Map(), retirementApproved: true });
    expect(grown([joined(D)], approved).retirementApproved).toBe(false);
    const old = desired({
      members: new Map(),
      formerMembers: new Map([['s', formerMember({ eventNumber: 5n })]]),
      retirementApproved: true,
    });
    expect(grown([joined(D, { eventNumber: 4n })], old)).toBe(old);
  });
});

describe('a dataset that leaves a subscription', () => {
  it('makes a dataset that leaves a subscription a former member, with the reason of the event', () => {
    const left = grown([
      joined(D, { eventNumber: 3n }),
      dropped(D, { eventNumber: 5n, at: NOW, reason: 'left_coverage' }),
    ]);
    expect(left).toEqual({
      ...emptyDesiredState(D),
      formerMembers: new Map([['s', { eventNumber: 5n, at: NOW, reason: 'left_coverage' }]]),
    });
  });

  it('makes a dataset that leaves a former member also where no event said that it had joined', () => {
    expect(grown([dropped(D, { eventNumber: 5n })]).formerMembers.get('s')).toMatchObject({
      eventNumber: 5n,
    });
  });

  it('leaves the memberships of other subscriptions as they are when a dataset leaves one', () => {
    const both = grown([joined(D, { version: 7 })], grown([joined(D, { version: 2 })]), 't');
    const left = grown([dropped(D, { eventNumber: 5n })], both);
    expect([...left.members]).toEqual([['t', expect.objectContaining({ announced: 7 })]]);
  });

  it('keeps the reason of a former member where a repeated drop has none, and takes a newer one', () => {
    const reasonAfter = (...changes: DesiredStateChange[]) => grown(changes).formerMembers.get('s')?.reason;
    const first = dropped(D, { eventNumber: 3n, reason: 'left_coverage' });
    expect(reasonAfter(first, dropped(D, { eventNumber: 4n }))).toBe('left_coverage');
    expect(reasonAfter(first, dropped(D, { eventNumber: 3n, reason: 'repeated' }))).toBe('left_coverage');
    expect(reasonAfter(first, dropped(D, { eventNumber: 4n, reason: 'newer' }))).toBe('newer');
  });

  it('forgets the reason of an earlier drop once the dataset joined again', () => {
    const again = [
      dropped(D, { eventNumber: 3n, reason: 'left_coverage' }),
      joined(D, { eventNumber: 4n }),
      dropped(D, { eventNumber: 5n }),
    ];
    expect(grown(again).formerMembers.get('s')?.reason).toBeNull();
  });
});

describe('the decision between joining and leaving', () => {
  const isMemberAfter = (...changes: DesiredStateChange[]): boolean => grown(changes).members.has('s');

  it('decides membership by the higher event number, in any order and whatever the timestamps say', () => {
    const added = joined(D, { eventNumber: 9n, at: at(60) });
    const removed = dropped(D, { eventNumber: 10n, at: NOW });
    expect(isMemberAfter(added, removed)).toBe(false);
    expect(isMemberAfter(removed, added)).toBe(false);
    expect(isMemberAfter(removed, joined(D, { eventNumber: 11n, at: at(-60) }))).toBe(true);
  });

  it('decides membership by the later timestamp where one of the two changes has no event number', () => {
    const listed = joined(D, { at: NOW });
    expect(isMemberAfter(dropped(D, { eventNumber: 10n, at: at(-1) }), listed)).toBe(true);
    expect(isMemberAfter(dropped(D, { eventNumber: 10n, at: at(1) }), listed)).toBe(false);
    expect(isMemberAfter(listed, dropped(D, { eventNumber: 10n, at: at(1) }))).toBe(false);
    expect(isMemberAfter(listed, dropped(D, { eventNumber: 10n, at: at(-1) }))).toBe(true);
  });

  it('decides membership by the last change where neither has a number and both have one timestamp', () => {
    expect(isMemberAfter(dropped(D), joined(D))).toBe(true);
    expect(isMemberAfter(joined(D), dropped(D))).toBe(false);
  });

  it('F51 decides membership by the later timestamp where a listing and an event have one number', () => {
    const added = joined(D, { eventNumber: 10n, at: NOW });
    const absent = dropped(D, { eventNumber: 10n, at: at(10) });
    expect(isMemberAfter(added, absent)).toBe(false);
    expect(isMemberAfter(added, absent, added)).toBe(false);
    expect(isMemberAfter(added, absent, joined(D, { eventNumber: 10n, at: at(20) }))).toBe(true);
  });
});

describe('a version that is announced', () => {
  const isMember = joined(D, { eventNumber: 2n });

  it('raises the announced version, and never lowers it', () => {
    expect(announcedVersion(grown([isMember, atLeast(3, 3n), atLeast(7, 4n), atLeast(5, 5n)]))).toBe(7);
  });

  it('keeps the announced version of each subscription, of which the highest counts', () => {
    const both = grown([isMember, atLeast(3, 3n)], grown([isMember, atLeast(9, 8n)]), 't');
    expect([memberOf(both, 's')?.announced, memberOf(both, 't')?.announced]).toEqual([9, 3]);
    expect(announcedVersion(both)).toBe(9);
  });

  it('F46 voids an announced version when its subscription drops the dataset, in any order of the logs', () => {
    const ofOne = [
      joined(D, { eventNumber: 1n, version: 4 }),
      atLeast(5, 2n),
      dropped(D, { eventNumber: 3n }),
    ];
    const returned = [...ofOne, joined(D, { eventNumber: 4n, version: 1 })];
    const ofOther = [
      joined(D, { eventNumber: 70n, version: 4 }),
      atLeast(5, 71n),
      dropped(D, { eventNumber: 72n }),
    ];
    expect(announcedVersion(grown(ofOther, grown(returned, emptyDesiredState(D), 's'), 't'))).toBe(1);
    expect(announcedVersion(grown(returned, grown(ofOther, emptyDesiredState(D), 't'), 's'))).toBe(1);
    expect(announcedVersion(grown(ofOther.slice(0, 2), grown(returned), 't'))).toBe(5);
  });

  it('ignores an announced version of a dataset that is no member', () => {
    const left = grown([dropped(D, { eventNumber: 5n })]);
    expect(grown([atLeast(9, 6n)], left)).toBe(left);
  });

  it('does not raise the announced version by an event from before the dataset joined', () => {
    const before = grown([joined(D, { eventNumber: 6n, version: 2 })]);
    expect(grown([atLeast(7, 5n)], before)).toBe(before);
    expect(announcedVersion(grown([atLeast(7, 7n)], before))).toBe(7);
  });

  it('does not raise the announced version by an event from before the newest reload of its subscription', () => {
    const reloading = grown([isMember, reloadAsked(D, 5n, { version: 3 })]);
    expect(announcedVersion(grown([atLeast(9, 4n)], reloading))).toBe(3);
    expect(announcedVersion(grown([atLeast(9, 6n)], reloading))).toBe(9);
    expect(announcedVersion(grown([isMember, atLeast(9, 4n)], reloading, 't'))).toBe(9);
  });

  it('keeps an announced version exact up to the largest safe integer', () => {
    expect(announcedVersion(grown([isMember, atLeast(Number.MAX_SAFE_INTEGER, 3n)]))).toBe(
      Number.MAX_SAFE_INTEGER,
    );
  });

  it('voids the announced version of a subscription whose position was lost, and raises it anew', () => {
    const both = grown([isMember, atLeast(4, 8n)], grown([isMember, atLeast(9, 3n)]), 't');
    const lost = grown([nothingAnnounced], both);
    expect([memberOf(lost, 's')?.announced, memberOf(lost, 't')?.announced]).toEqual([null, 4]);
    expect(memberOf(grown([atLeast(2, 9n)], lost))?.announced).toBe(2);
  });

  it('F50 lowers announced versions of every subscription to the newest listed version, and raises none', () => {
    const three = desired({
      members: new Map([
        ['s', member({ announced: 9 })],
        ['t', member({ announced: 4 })],
        ['u', member()],
      ]),
    });
    const voided = withoutAnnouncedAbove(three, 4);
    expect([...voided.members.values()].map(({ announced }) => announced)).toEqual([4, 4, null]);
    expect(withoutAnnouncedAbove(voided, 4)).toBe(voided);
    expect(withoutAnnouncedAbove(three, 9)).toBe(three);
  });
});

describe('a reload', () => {
  const isMember = joined(D, { eventNumber: 2n });

  it('keeps of a reload everything that decides which manifest satisfies it', () => {
    const requested = reloadAsked(D, 5n, {
      logNumber: 3,
      createdAt: at(1),
      readAt: at(2),
      knownVersion: 7,
      isWithdrawal: true,
    });
    expect(grown([isMember, requested]).reloads).toEqual<Reload[]>([
      {
        subscriptionId: 's',
        logNumber: 3,
        eventNumber: 5n,
        createdAt: at(1),
        readAt: at(2),
        knownVersion: 7,
        listedVersion: null,
        isWithdrawal: true,
      },
    ]);
  });

  it('keeps the reloads of each subscription side by side, oldest first', () => {
    const ofOne = grown([isMember, ...[10n, 7n, 8n].map((number) => reloadAsked(D, number))]);
    const ofBoth = grown([isMember, reloadAsked(D, 9n)], ofOne, 't');
    expect([numbersOf(ofBoth, 's'), numbersOf(ofBoth, 't')]).toEqual([[7, 8, 10], [9]]);
  });

  it('keeps two reloads with one event number and different timestamps, the earlier one first', () => {
    const both = grown([
      isMember,
      reloadAsked(D, 5n, { createdAt: at(1) }),
      reloadAsked(D, 5n, { createdAt: NOW }),
    ]);
    expect(both.reloads.map(({ createdAt }) => createdAt)).toEqual([NOW, at(1)]);
  });

  it('keeps a reload after a withdrawal beside the reload of the event with the same number', () => {
    const both = grown([isMember, reloadAsked(D, 5n), reloadAsked(D, 5n, { isWithdrawal: true })]);
    expect(both.reloads.map(({ isWithdrawal }) => isWithdrawal)).toEqual([false, true]);
  });

  it('replaces the announced version of its own subscription by that of a reload that names one', () => {
    const both = grown([isMember, atLeast(8, 3n)], grown([isMember, atLeast(9, 3n)]), 't');
    const reloading = grown([reloadAsked(D, 5n, { version: 3 })], both);
    expect([memberOf(reloading, 's')?.announced, memberOf(reloading, 't')?.announced]).toEqual([3, 8]);
    expect(memberOf(grown([reloadAsked(D, 5n)], both))?.announced).toBe(9);
  });

  it('ignores the version of a reload that precedes another reload', () => {
    const reloading = grown([
      isMember,
      reloadAsked(D, 9n, { version: 4 }),
      reloadAsked(D, 7n, { version: 8 }),
    ]);
    expect([announcedVersion(reloading), numbersOf(reloading)]).toEqual([4, [7, 9]]);
  });

  it('ignores a reload of a dataset that is no member, or from before the dataset joined', () => {
    const left = grown([dropped(D, { eventNumber: 5n })]);
    expect(grown([reloadAsked(D, 6n)], left)).toBe(left);
    const rejoined = grown([joined(D, { eventNumber: 7n })], left);
    expect(grown([reloadAsked(D, 6n)], rejoined)).toBe(rejoined);
    expect(numbersOf(grown([reloadAsked(D, 7n)], rejoined))).toEqual([7]);
  });

  it('F82 keeps a reload owed where its subscription drops the dataset', () => {
    const left = grown([isMember, reloadAsked(D, 5n), dropped(D, { eventNumber: 6n })]);
    expect(numbersOf(left)).toEqual([5]);
  });

  it(`F88 keeps ${MAX_RELOADS_KEPT} reloads of a subscription at most: the oldest, and always the newest`, () => {
    const requested = (count: number) =>
      Array.from({ length: count }, (_, nth) => reloadAsked(D, BigInt(100 + nth)));
    expect(numbersOf(grown([isMember, ...requested(MAX_RELOADS_KEPT)]))).toHaveLength(MAX_RELOADS_KEPT);
    const most = MAX_RELOADS_KEPT + 20;
    const kept = numbersOf(grown([isMember, ...requested(most)]));
    const oldest = Array.from({ length: MAX_RELOADS_KEPT - 1 }, (_, nth) => 100 + nth);
    expect(kept).toEqual([...oldest, 100 + most - 1]);
    const others = grown([isMember, reloadAsked(D, 1_000n)], grown([isMember, ...requested(most)]), 't');
    expect([numbersOf(others, 's').length, numbersOf(others, 't')]).toEqual([MAX_RELOADS_KEPT, [1_000]]);
  });
});

describe('the first list of versions after reloads', () => {
  it('stores with reloads the newest version of the first list after them, and of no later list', () => {
    const requested = desired({ reloads: [reload(5), reload(6, { listedVersion: 3 })] });
    const listed = withListed(requested, 7);
    expect(listed.reloads.map(({ listedVersion }) => listedVersion)).toEqual([7, 3]);
    expect(withListed(listed, 9)).toBe(listed);
  });
});

describe('reloads that the table satisfies', () => {
  const all = desired({
    reloads: [
      reload(5),
      reload(6),
      reload(9),
      reload(70, { subscriptionId: 'sub_2' }),
      reload(71, { subscriptionId: 'sub_2' }),
    ],
  });

  it('forgets satisfied reloads but for the newest of each subscription, which a restored table may need', () => {
    const answered = withoutAnswered(all, ({ eventNumber }) => eventNumber !== 9n);
    expect(numbersOf(answered, 'sub_1')).toEqual([6, 9]);
    expect(numbersOf(answered, 'sub_2')).toEqual([71]);
    expect(withoutAnswered(answered, ({ eventNumber }) => eventNumber !== 9n)).toBe(answered);
  });

  it('keeps reloads that the table does not satisfy', () => {
    expect(withoutAnswered(all, () => false)).toBe(all);
  });
});

describe('a metadata refresh', () => {
  it('counts every request for a metadata refresh', () => {
    expect(grown([joined(D), refresh, refresh])).toMatchObject({ refreshesRequested: 2, refreshesDone: 0 });
  });

  it('ignores a metadata refresh of a dataset that is no member', () => {
    const empty = emptyDesiredState(D);
    expect(grown([refresh], empty)).toBe(empty);
  });
});

describe('repeated changes', () => {
  const changes: readonly DesiredStateChange[] = [
    joined(D, { eventNumber: 1n, at: NOW, version: 8 }),
    atLeast(9, 2n),
    reloadAsked(D, 3n, { version: 4 }),
    dropped(D, { eventNumber: 4n, at: at(1), reason: 'left_coverage' }),
    joined(D, { eventNumber: 5n, at: at(2), version: 1 }),
    reloadAsked(D, 5n, { version: 1 }),
    atLeast(2, 6n),
    reloadAsked(D, 7n),
    atLeast(3, 8n),
  ];

  it('leaves the desired state as it is when changes are repeated, one by one or in sequence', () => {
    const once = grown(changes);
    for (const change of changes) expect(changedDesiredState(once, 's', change)).toBe(once);
    for (let from = 0; from < changes.length; from += 1) {
      for (let to = from + 1; to <= changes.length; to += 1) {
        expect(grown(changes.slice(from, to), once)).toBe(once);
      }
    }
  });

  it('leaves the desired state as it is when changes without event numbers are repeated', () => {
    for (const change of [
      joined(D, { at: NOW, version: 3 }),
      dropped(D, { at: NOW, reason: 'left_coverage' }),
    ]) {
      const once = grown([change]);
      expect(grown([change], once)).toBe(once);
    }
    const raised = grown([joined(D, { at: NOW }), atLeast(5, 2n)]);
    expect(grown([joined(D, { at: NOW })], raised)).toBe(raised);
  });
});

describe('F81 a log restart', () => {
  const before = desired({
    members: new Map([
      ['s', member({ eventNumber: 9n, announced: 7 })],
      ['t', member({ eventNumber: 8n, announced: 6 })],
    ]),
    formerMembers: new Map([['u', formerMember({ eventNumber: 5n, reason: 'left_coverage' })]]),
    reloads: [
      reload(9, { subscriptionId: 's' }),
      reload(8, { subscriptionId: 't' }),
      reload(4, { subscriptionId: 'u' }),
    ],
  });

  it('voids the event numbers of members, their announced versions and the reloads after a log restart', () => {
    expect(withoutLog(before, 's')).toEqual({
      ...before,
      members: new Map([
        ['s', member()],
        ['t', member({ eventNumber: 8n, announced: 6 })],
      ]),
      reloads: before.reloads.slice(1),
    });
  });

  it('keeps former members and their reasons without event numbers after a log restart', () => {
    const { formerMembers, reloads } = withoutLog(before, 'u');
    expect(formerMembers.get('u')).toEqual(formerMember({ reason: 'left_coverage' }));
    expect(reloads).toEqual(before.reloads.slice(0, 2));
  });

  it('accepts small event numbers again after a log restart, judged by their timestamps', () => {
    const restarted = withoutLog(before, 's');
    expect(grown([dropped(D, { eventNumber: 1n, at: NOW })], restarted).members.has('s')).toBe(false);
    expect(grown([dropped(D, { eventNumber: 1n, at: at(-60 * 24 * 60) })], restarted).members.has('s')).toBe(
      true,
    );
    expect(memberOf(grown([atLeast(2, 1n)], restarted))?.announced).toBe(2);
    expect(numbersOf(grown([reloadAsked(D, 1n, { logNumber: 2 })], restarted))).toEqual([1]);
  });
});

it('forgets everything that a subscription stated once it is given up', () => {
  const before = desired({
    members: new Map([
      ['s', member({ eventNumber: 9n })],
      ['t', member()],
    ]),
    formerMembers: new Map([['u', formerMember()]]),
    reloads: [reload(9, { subscriptionId: 's' }), reload(8, { subscriptionId: 't' })],
    refreshesRequested: 2,
  });
  expect(withoutSubscription(before, 's')).toEqual({
    ...before,
    members: new Map([['t', member()]]),
    reloads: before.reloads.slice(1),
  });
  expect(withoutSubscription(before, 'u')).toEqual({ ...before, formerMembers: new Map() });
});
