/** The faults that explorations have found, as the shortest histories. `npm run explore -- HISTORY` prints all that happens in one. */

import { describe, expect, it } from 'vitest';
import { parseHistory } from './history.ts';
import { ModelMirror } from './model-mirror.ts';
import { play } from './play.ts';

/** The number and the description of the fault, and histories that show it. */
const CASES: readonly (readonly [string, readonly string[]])[] = [
  [
    'F46 an announcement of a subscription that has dropped the dataset is void',
    [
      'two: P@list1 P@list1 L(A)@list1 L(B)@list1 N@list1 J(A)@list1',
      'two/time: P@list1 P@list1 L(A)@list1 L(B)@list1 n@list1 J(A)@list1',
      'two/dataset: P@list1 L(A)@list1 L(B)@list1 n@list1 J(A)@events1',
    ],
  ],
  [
    'F47 a manifest that lags never answers a reload with the old content',
    [
      'one/time/nodigest: F(A)@list1 R@list1',
      'one/time: P@list1 . F(A)@list1 R@list1 . P@list1',
      'one/dataset/noid/nodigest: P@list1 . F@list1 R@list1 . P@list1',
      'one/time/nodigest: F(A)@list1 N@list1 . P@list1',
    ],
  ],
  [
    'F49 a table that some subscription contained at every moment stays',
    [
      'half: J(B)@events1 L(A)@events1',
      'half: J(B)@manifest1 L(A)@manifest1',
      'half: J(B)@events3 L(A)@manifest2',
    ],
  ],
  [
    'F50 a version that is announced and withdrawn becomes void, and the table follows on',
    [
      'one: P@list1 W@versions1',
      'one/time: P@list1 W@versions1 R@versions1',
      'one/dataset: P@list1 W@list1 . R@list1 . P@list1',
    ],
  ],
  [
    'F51 a removal without an event is made good by the complete record',
    ['one/dataset: l(A)@list1', 'one/dataset: l(A)@list1 X@list1', 'two/dataset: l(A)@list1 . l(B)@list1'],
  ],
  [
    'F54 a log restart below the position is noticed, and the log is followed from its start',
    [
      'one: A(A)@list1 P@list1',
      'one/time: P@list1 . A(A)@list1 . P@list1',
      'one/dataset: P@list1 . A(A)@list1 R@list1',
    ],
  ],
  [
    'F79 a withdrawal or restart of a version that the table took is noticed',
    ['one: W@list1', 'one/time: W@list1 P@list1', 'one/dataset/nodigest: W@list1 P@list1', 'one: n@list1'],
  ],
  [
    'F80 old content never satisfies a reload, whichever manifest lists it',
    [
      'two/time: F(A)@list1 R@list1',
      'two/time/nodigest: F(A)@list1 R@list1 . R@list1',
      'one/time: R@list1 F(A)@list1 R@list1',
    ],
  ],
  [
    'F80 a repair never brings back content from before a reload that the table satisfies',
    ['two: F(A)@list1 R@list1 Z@list1', 'two/nodigest: F(A)@list1 R@list1 Z@list1 . T@list1'],
  ],
  [
    'F81 numbers of an old log are void',
    [
      'one: R@events2 A(A)@events2',
      'one/time: R@list1 A(A)@list1 R@list1',
      'one: F(A)@list1 A(A)@list1 R@list1',
    ],
  ],
  [
    'F82 a reload stays owed by the table when the subscription that asked for it drops the dataset',
    [
      'half/time: F(B)@list1 R@list1 J(B)@list1 L(A)@list1',
      'half: R@list1 J(B)@list1 L(A)@list1',
      'one/time: L(A)@list1 R@list1 J(A)@list1',
      'one: l(A)@list1 R@list1 . j(A)@list1',
    ],
  ],
  [
    'F83 an expired position without a newest event in the record leads to one replay, and no reload is lost',
    [
      'one/noid: X@list1',
      'one/noid: X@list1 R@list1 X@list1',
      'one/time/noid: X@list1 . R@list1 X@list1',
      'one: X@list1 . R@list1',
    ],
  ],
  [
    'F83 a position that expires again leads to one more replay, and no reload is lost',
    [
      'one/time/noid/nodigest: X@list1 . R@list1 X@list1',
      'one/dataset/noid/nodigest: X@list1 . R@list1 X@list1',
      'two/time/noid/nodigest/first: X@list5 . T@manifest4 l(B)@list5 . R@manifest2 X@manifest2',
      'one/dataset/noid/digest/later: C@list1 . X@events2 P@events3 R@events4 R@events4 X@events4',
    ],
  ],
  [
    'F84 a table that joins another subscription without an event is never retired',
    ['half/time: F(B)@list1 j(B)@list1 L(A)@list1', 'half/dataset: j(B)@list1 L(A)@list1'],
  ],
  [
    'F85 no old snapshot is taken for a version after a version restart',
    [
      'one/time/first: N@manifest1 P@manifest1',
      'one/nodigest/first: N@list3 P@versions1',
      'one/first: N@list2 n@versions1',
    ],
  ],
  [
    'F86 an older version never replaces a newer one',
    [
      'two/first: F(B)@list1 Q@list1',
      'two/time: R@list1 F(A)@list1 P@list1',
      'two/first: F(A)@list1 Q@list1 P@list1',
    ],
  ],
  [
    'F87 an entry that the manifest lacks after a 410 is loaded once a later manifest names it',
    ['one: X@list1 E(A)@manifest1 R@manifest1', 'one/time: X@list1 E(A)@manifest1 . R@list1'],
  ],
  [
    'F88 reloads ten minutes apart are satisfied one after another',
    [
      'one/time: R@list1 . R@list1 . R@list1 . R@list1 . R@list1 . R@list1',
      'one/dataset/nodigest: R@list1 . R@list1 . R@list1 . R@list1',
    ],
  ],
  [
    'the absence of a version counts from its first observation',
    ['one: W@manifest1', 'one/dataset: n@entry1'],
  ],
  [
    'an absence ends when an event removes the absent dataset',
    ['two: L(A)@manifest1', 'two/dataset: L(A)@list1'],
  ],
  [
    'changes that no event announced are never applied to replaced content',
    ['one/time/first: R@list3 P@list3', 'one: R@manifest1 P@manifest1', 'half/time/first: R@list3 P@list4'],
  ],
  [
    'a manifest read before a version was published never supplies that version',
    ['one/nodigest/first: N@list2 n@versions1', 'one/time/nodigest/first: W@versions1 P@versions1'],
  ],
  [
    'F50 a withdrawn version leaves the one before it desired',
    ['half/time/noid/first: Q@list4 T@manifest4 P@events3 W@versions3'],
  ],
  [
    'F85 a first start takes no version of a lagging manifest for a restarted one',
    ['one/dataset/nodigest/first: F@entry1 N@versions1 . W@entry1 . Q@events2'],
  ],
  [
    'a version restart under the number of the table is noticed within a day',
    ['one/nodigest: N@list1 . n@manifest1', 'one/dataset/nodigest: W@entry1 . n@entry1'],
  ],
  [
    'a log restart below the events of members is noticed',
    ['one/dataset/nodigest/first: X@events1 K@events1 . K@download1 . A(A)@events1 . l(A)@list1'],
  ],
  [
    'changes wait while a log restart is suspected',
    ['half/nodigest: J(A)@events2 R@manifest1 l(B)@manifest1 P@events3 . A(A)@events2'],
  ],
  [
    'a new checkpoint owes the right reloads if an older mirror is restored after it was lost',
    ['two/time/noid: R@list1 . P@events4 . C@manifest2 . M@manifest2'],
  ],
  [
    'a log restart is noticed even if the checkpoint is lost before',
    [
      'one/time/nodigest: A(A)@list2 R@list2 . C@list2',
      'one/dataset/nodigest: A(A)@events2 . R@events1 C@events3',
      'half/nodigest: A(A)@list3 R@list3 C@list3',
    ],
  ],
  [
    'a log restart is noticed even if only a manifest had named the position',
    [
      'one/nodigest/first: . A(A)@list1 R@list1 C@events1',
      'one/nodigest/first: A(A)@versions1 . R@list1 C@events1',
      'one/time/nodigest/first: . A(A)@list1 . R@list1 C@list3',
    ],
  ],
  [
    'a retirement waits for a subscription that contains the dataset again without an event',
    ['two/time/noid: L(A)@events2 n@manifest1 C@list3 . j(A)@manifest1 . L(B)@events2'],
  ],
  [
    'changes are never applied to content that was replaced during a log restart',
    ['one/first: T@manifest2 A(A)@list3 R@list3 P@versions1', 'one/time: A(A)@events2 . R@events2 P@events2'],
  ],
  [
    'a restart of a quiet log is noticed',
    ['half/dataset/nodigest: J(A)@events2 A(A)@events3 M@events3 . X@events1 R@events3'],
  ],
  [
    'a reload is not lost when its event expires',
    ['two/noid/nodigest/first: T@list5 X@list5 . L(A)@events4 R@manifest3'],
  ],
  [
    'W23 other content in a manifest satisfies no event that was not read',
    ['one: R@manifest1 P@list2 R@list2'],
  ],
  [
    'a position taken from a manifest is void after a log restart',
    ['one/nodigest: A(A)@list2 . R@list2', 'one/nodigest/first: A(A)@list3 R@list3'],
  ],
];

/** Decisions of an operator, and the contents of the table after each catch-up; the first is that before the history. */
const DECISIONS: readonly (readonly [title: string, history: string, contents: readonly string[]])[] = [
  [
    'a commit beyond the limit waits until it is approved',
    'one: G@list1 P@list1 . Y@list1',
    ['c1+2', 'c1+2', 'c1+2+3'],
  ],
  ['a reload beyond the limit does, too', 'one: G@list1 R@list1 . Y@list1', ['c1+2', 'c1+2', 'c3']],
  [
    'an approval lets exactly its content through, and newer content waits',
    'one: G@list1 P@list1 . P@list1 Y@list1 . T@list1',
    ['c1+2', 'c1+2', 'c1+2+3', 'c1+2+3'],
  ],
  [
    'a table that was rolled back takes nothing until its pin ends',
    'one: P@list1 . B@list1 . P@list1 . U@list1',
    ['c1+2', 'c1+2+3', 'c1+2', 'c1+2', 'c1+2+3+4'],
  ],
  [
    'a row that was altered by hand stays through changes, until a repair',
    'one: H@list1 P@list1 . Z@list1 . T@list1',
    ['c1+2', 'c1+2+3~', 'c1+2+3~', 'c1+2+3'],
  ],
  [
    'a rollback does nothing to a table with an altered row',
    'one: P@list1 . H@list1 B@list1 . T@list1',
    ['c1+2', 'c1+2+3', 'c1+2+3~', 'c1+2+3~'],
  ],
  [
    'a dataset that the service refuses waits until the operator resumes it',
    'one: S@list1 P@list1 . T@list1 . U@list1',
    ['c1+2', 'c1+2', 'c1+2', 'c1+2+3'],
  ],
  [
    'F72 what waits for approval is known to the instance that takes over',
    'one: G@list1 P@list1 . I@list1 . Y@list1',
    ['c1+2', 'c1+2', 'c1+2', 'c1+2', 'c1+2+3'],
  ],
  [
    'F72 an approval whose instance is stopped is used by the one that takes over',
    'one: G@list1 P@list1 . Y@list1 I@changes1',
    ['c1+2', 'c1+2', 'c1+2+3', 'c1+2+3'],
  ],
  [
    'F72 a pin holds for the instance that takes over',
    'one: P@list1 . B@list1 . I@list1 R@list1 . U@list1',
    ['c1+2', 'c1+2+3', 'c1+2', 'c1+2', 'c1+2', 'c4'],
  ],
];

describe('F73 an instance that is stopped while it works', () => {
  const LOADED = 'snapshot: none becomes c1+2';

  it.each([
    ['changes', 'one: P@list1 I@changes1', [LOADED, 'changes: c1+2 becomes c1+2+3']],
    ['a snapshot', 'one: Q@list1 I@download1', [LOADED, 'snapshot: c1+2 becomes c1+2+3']],
    ['the first load', 'one/first: I@download1', [LOADED]],
  ] as const)('commits nothing once it is woken: %s', async (_what, text, commits) => {
    const seen: string[] = [];
    const report = (line: string): void => void (line.includes(' becomes ') && seen.push(line.trim()));
    expect(await play(parseHistory(text), { report })).toMatchObject({ unreached: [] });
    expect(seen).toEqual(commits);
  });

  it('refuses every write of an instance whose lease was taken over', async () => {
    const mirror = new ModelMirror(true, () => {});
    mirror.takeLease();
    const first = mirror.destination();
    mirror.takeLease();
    const before = mirror.state;
    const progress = { subscriptions: [], members: [], owed: [] };
    const enrolment = { origin: '', subscriptionIds: [], forgottenSubscriptionIds: [], datasetIds: [] };
    const superseded = { code: 'instance_running' };
    await expect(first.storeProgress(progress, 'wait')).rejects.toMatchObject(superseded);
    await expect(first.enroll(enrolment)).rejects.toMatchObject(superseded);
    await expect(first.unpin('parcels')).rejects.toMatchObject(superseded);
    await expect(first.candidates?.remove('parcels')).rejects.toMatchObject(superseded);
    await expect(first.requests?.begin('parcels', new Date(0))).rejects.toMatchObject(superseded);
    expect(mirror.state).toBe(before);
  });
});

describe('decisions of an operator', () => {
  it.each(DECISIONS)('%s: %s', async (_title, text, contents) => {
    const seen: string[] = [];
    const report = (line: string): void => {
      const content = /^ {2}has (\S+),/.exec(line)?.[1];
      if (content !== undefined) seen.push(content);
    };
    const played = await play(parseHistory(text), { report });
    expect(played.unreached).toEqual([]);
    expect(seen.slice(0, contents.length)).toEqual(contents);
  });
});

describe('faults that explorations have found', () => {
  describe.each(CASES)('%s', (_title, histories) => {
    it.each(histories)('ends up to date in %s', async (text) => {
      const history = parseHistory(text);
      await expect(play(history)).resolves.toMatchObject({ unreached: [] });
    });
  });
});
