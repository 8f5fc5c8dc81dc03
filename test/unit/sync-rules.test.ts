/** The small pure rules of a catch-up: need, schema, state, failures. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Failure } from '../../src/checkpoint/checkpoint.ts';
import { BadChangesError, DataError, ServiceUnavailableError } from '../../src/model/errors.ts';
import {
  errorOf,
  failureOf,
  MAX_BAD_CONTENTS,
  SAME_CONTENT_AGAIN_AFTER_MS,
  toRemember,
} from '../../src/sync/failures.ts';
import { isOfContent, refusedContents } from '../../src/sync/plan/content.ts';
import { phaseOf } from '../../src/sync/plan/dataset-state.ts';
import { movesWith, needOf, OPERATOR, pendingReloads } from '../../src/sync/plan/need.ts';
import { schemaOfSnapshot } from '../../src/sync/plan/versions.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import { SEED } from '../support/seed.ts';
import {
  announcing,
  desired,
  entry,
  failure,
  metadata,
  NOW,
  reload,
  schema,
  suspension,
  table,
  version,
} from '../support/sync-values.ts';

describe('what a dataset needs', () => {
  it.each([
    ['a table, before all else', null, desired({ refreshesRequested: 1, reloads: [reload(1)] }), 'table'],
    ['a reload', table(5), desired({ ...announcing(6), reloads: [reload(1)] }), 'reload'],
    [
      'a reload, before a resync of an operator',
      table(5),
      desired({ resyncNumber: 1, reloads: [reload(1)] }),
      'reload',
    ],
    [
      'a resync',
      table(5, { reloads: reloadMarks([[OPERATOR, 1n]]) }),
      desired({ ...announcing(6), resyncNumber: 2 }),
      'resync',
    ],
    [
      'nothing, where the table satisfies the resync',
      table(5, { reloads: reloadMarks([[OPERATOR, 2n]]) }),
      desired({ resyncNumber: 2 }),
      'nothing',
    ],
    ['a version', table(5), desired({ ...announcing(6), refreshesRequested: 1 }), 'version'],
    [
      'a refresh',
      table(5),
      desired({ ...announcing(5), refreshesRequested: 3, refreshesDone: 2 }),
      'refresh',
    ],
    ['nothing', table(5), desired({ ...announcing(5), refreshesRequested: 3, refreshesDone: 3 }), 'nothing'],
    ['nothing, where it is ahead of the announced version', table(7), desired(announcing(5)), 'nothing'],
  ])('finds that a dataset needs %s', (_, observed, state, need) => {
    expect(needOf(observed, state)).toBe(need);
  });

  it.each([
    ['moves', 'the load answers the resync that moves it', 3, 2n, 3n, true],
    ['moves', 'the load answers that resync and later ones', 3, 2n, 5n, true],
    ['moves', 'it is the first resync', 1, null, 1n, true],
    ['stays', 'the load answers an earlier resync', 3, 1n, 2n, false],
    ['stays', 'the load answers no resync', 3, 2n, null, false],
    ['stays', 'it has moved already', 3, 3n, 5n, false],
    ['stays', 'no resync moves it', 0, null, 1n, false],
  ] as const)('says that a table %s where %s', (_, _why, moveNumber, before, after, isMoved) => {
    const marks = (number: bigint | null) => reloadMarks(number === null ? [] : [[OPERATOR, number]]);
    const observed = table(5, { reloads: marks(before) });
    expect(movesWith(marks(after), observed, desired({ resyncNumber: 9, moveNumber }))).toBe(isMoved);
    if (before === null) {
      expect(movesWith(marks(after), null, desired({ resyncNumber: 9, moveNumber }))).toBe(isMoved);
    }
  });

  describe('what a dataset needs with its metadata', () => {
    const schemas = [
      schema('parcels', { schemaVersion: '2', firstVersion: 6 }),
      schema('parcels', { schemaVersion: '1', firstVersion: 1 }),
    ];
    const at = (...numbers: readonly number[]) =>
      metadata(
        numbers.map((one) => version('parcels', one)),
        schemas,
      );
    const unsaid = metadata([version('parcels', 6, { schemaVersion: null })], schemas);

    it.each([
      ['a version that was published, though none was announced', table(5), desired(), at(5, 6), 'version'],
      ['a version newer than the announced one', table(5), desired(announcing(5)), at(5, 6), 'version'],
      [
        'a version that was announced, though it is not listed',
        table(5),
        desired(announcing(6)),
        at(5),
        'version',
      ],
      ['the schema of its version', table(5, { schemaVersion: '2' }), desired(), at(5), 'schema'],
      [
        'nothing, where its version names an older schema than the newest',
        table(6),
        desired(),
        at(6),
        'nothing',
      ],
      ['the newest schema by its version', table(6, { schemaVersion: '1' }), desired(), unsaid, 'schema'],
      [
        'nothing more, at the head, after the refresh',
        table(5),
        desired({ refreshesRequested: 1 }),
        at(5),
        'nothing',
      ],
      [
        'nothing, ahead of the list',
        table(7, { schemaVersion: '9' }),
        desired({ refreshesRequested: 1 }),
        at(5),
        'nothing',
      ],
    ] as const)('finds by the metadata that a dataset needs %s', (_, observed, state, read, need) => {
      expect(needOf(observed, state, read)).toBe(need);
    });
  });

  it('counts a reload as pending until the table satisfies its event, in its own subscription', () => {
    const state = desired({
      reloads: [
        reload(9),
        reload(10, { subscriptionId: 'sub_2' }),
        reload(9_223_372_036_854_775_807n, { subscriptionId: 'sub_3' }),
      ],
    });
    const observed = table(5, {
      reloads: reloadMarks([
        ['sub_1', 9n],
        ['sub_2', 9n],
        ['sub_3', 9_223_372_036_854_775_806n],
      ]),
    });
    expect(pendingReloads(observed, state).map(({ subscriptionId }) => subscriptionId)).toEqual([
      'sub_2',
      'sub_3',
    ]);
    expect(pendingReloads(null, state)).toEqual(state.reloads);
  });

  it('compares the numbers of reloads within one log only, because a later log voids the earlier numbers', () => {
    const satisfying = (logNumber: number, eventNumber: bigint) =>
      table(5, { reloads: new Map([['sub_1', { logNumber, eventNumber, createdAt: null }]]) });
    const ofSecondLog = desired({ reloads: [reload(3, { logNumber: 2 })] });
    expect(pendingReloads(satisfying(1, 900n), ofSecondLog)).toHaveLength(1);
    expect(pendingReloads(satisfying(2, 3n), ofSecondLog)).toEqual([]);
    const ofFirstLog = desired({ reloads: [reload(900)] });
    expect(pendingReloads(satisfying(2, 0n), ofFirstLog)).toEqual([]);
  });

  it('distinguishes reloads at one event by their times', () => {
    const before = new Date(NOW.getTime() - 1);
    const observed = table(5, {
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 9n, createdAt: before }]]),
    });
    const state = desired({ reloads: [reload(9, { createdAt: before }), reload(9, { createdAt: NOW })] });
    expect(pendingReloads(observed, state)).toEqual([state.reloads[1]]);
    expect(pendingReloads(table(5, { reloads: reloadMarks([['sub_1', 9n]]) }), state)).toEqual([]);
  });
});

describe('the schema of a snapshot', () => {
  const schemas = [
    schema('parcels', { schemaVersion: '3', firstVersion: 8 }),
    schema('parcels', { schemaVersion: '2', firstVersion: 6 }),
    schema('parcels', { schemaVersion: '1', firstVersion: null }),
  ];
  const of = (named: string | null, recorded: string | null, number = 7): string => {
    const read = metadata([version('parcels', number, { schemaVersion: recorded })], schemas);
    return schemaOfSnapshot({ ...entry('parcels', number), schemaVersion: named }, read).schemaVersion;
  };

  it('takes the schema that the entry names, else its version, else the newest one by then', () => {
    expect(of('3', '1')).toBe('3');
    expect(of(null, '1')).toBe('1');
    expect(of(null, null)).toBe('2');
    expect(of(null, null, 5)).toBe('1');
  });

  it('refuses a schema that the service does not list', () => {
    expect(() => of('4', '1')).toThrow(
      'The schema "4" of version 7 of dataset parcels is not in the service\'s list of schemas.',
    );
    expect(() => schemaOfSnapshot({ ...entry('parcels', 7), schemaVersion: null }, metadata([], []))).toThrow(
      "The schema of version 7 of dataset parcels is not in the service's list of schemas.",
    );
  });
});

describe('the phase of a dataset', () => {
  const known = { desired: desired(), observed: table(5), suspension: suspension(), failure: failure() };
  it.each([
    ['retired', { ...known, desired: desired({ members: new Map() }) }],
    ['suspended', known],
    ['failed', { ...known, suspension: null }],
    ['live', { ...known, suspension: null, failure: null }],
    ['absent', { ...known, suspension: null, failure: null, observed: null }],
  ])('recognises a dataset that is %s', (kind, given) => {
    expect(phaseOf(given)).toBe(kind);
  });
});

describe('a failure', () => {
  const bad = new DataError('The file is broken.', { hint: 'Report it to the service.' });
  const unreachable = new ServiceUnavailableError('unreachable');

  it('retries failed content after a day, and remembers the content', () => {
    expect(failureOf('parcels', bad, ['version 3'], null, NOW)).toEqual({
      datasetId: 'parcels',
      error: 'data_invalid',
      message: 'The file is broken.',
      hint: 'Report it to the service.',
      contents: ['version 3'],
      differing: [],
      attempts: 1,
      failedAt: NOW,
      retryAt: new Date(NOW.getTime() + SAME_CONTENT_AGAIN_AFTER_MS),
    });
  });

  it('reports failed content again with the stored code, message and hint', () => {
    const stored = failureOf(
      'parcels',
      new BadChangesError('parcels', 3, 'Row 1 has no key.'),
      ['3'],
      null,
      NOW,
    );
    expect(stored.error).toBe('changes_invalid');
    const { code, message, hint } = errorOf(stored);
    expect({ error: code, message, hint }).toEqual({
      error: stored.error,
      message: stored.message,
      hint: stored.hint,
    });
  });

  it('retries any other failure soon, and remembers no content', () => {
    expect(failureOf('parcels', unreachable, ['version 3'], null, NOW)).toMatchObject({
      contents: [],
      retryAt: new Date(NOW.getTime() + 60_000),
    });
    expect(failureOf('parcels', bad, [], null, NOW)).toMatchObject({ contents: [] });
  });

  it('keeps content that was found bad before, until its retry', () => {
    const before = failureOf('parcels', bad, ['version 3'], null, NOW);
    const later = new Date(NOW.getTime() + 1_000);
    expect(failureOf('parcels', bad, ['changes of version 3'], before, later)).toMatchObject({
      contents: ['changes of version 3', 'version 3'],
      retryAt: new Date(later.getTime() + SAME_CONTENT_AGAIN_AFTER_MS),
    });
    const other = failureOf('parcels', unreachable, [], before, later);
    expect(other).toMatchObject({ contents: [], retryAt: new Date(later.getTime() + 120_000) });
    expect(toRemember(other, before)).toBe(before);
    const muchLater = failureOf('parcels', unreachable, [], before, before.retryAt);
    expect(toRemember(muchLater, before)).toBe(muchLater);
    expect(toRemember(other, null)).toBe(other);
    expect(failureOf('parcels', bad, ['version 4'], before, before.retryAt)).toMatchObject({
      contents: ['version 4'],
    });
  });

  const differs = new DataError('The file differs from what its manifest states.', {
    code: 'content_mismatch',
  });
  const MINUTE_MS = 60_000;
  const later = (waitMs: number, from = NOW): Date => new Date(from.getTime() + waitMs);

  it('retries content that differs from its manifest after 15 minutes, doubling to a day', () => {
    const waits: number[] = [];
    let before: Failure | null = null;
    let now = NOW;
    for (let times = 0; times < 9; times += 1) {
      const failed: Failure = failureOf('parcels', differs, ['version 3'], before, now);
      waits.push((failed.retryAt.getTime() - now.getTime()) / MINUTE_MS);
      expect(refusedContents(failed, later(-1, failed.retryAt))).toEqual(['version 3']);
      expect(refusedContents(failed, failed.retryAt)).toEqual([]);
      now = failed.retryAt;
      // Another error in between makes the next wait no shorter.
      const other = failureOf('parcels', unreachable, [], failed, now);
      before = toRemember(other, failed);
      expect(before).toBe(other);
      expect(isOfContent(other)).toBe(false);
    }
    expect(waits).toEqual([15, 30, 60, 120, 240, 480, 960, 1_440, 1_440]);
  });

  it('retries other content that differs after 15 minutes, too', () => {
    const before = failureOf('parcels', differs, ['version 3'], null, NOW);
    const { retryAt } = failureOf('parcels', differs, ['version 4'], before, later(MINUTE_MS));
    expect(retryAt).toEqual(later(16 * MINUTE_MS));
  });

  it('keeps the retries of differing and of bad content apart', () => {
    const wrong = failureOf('parcels', bad, ['changes of version 3'], null, NOW);
    const both = failureOf('parcels', differs, ['version 3'], wrong, later(MINUTE_MS));
    const standing = (waitMs: number) => refusedContents(both, later(waitMs));
    expect(standing(15 * MINUTE_MS)).toEqual(['changes of version 3', 'version 3']);
    expect(standing(16 * MINUTE_MS)).toEqual(['changes of version 3']);
    expect(standing(SAME_CONTENT_AGAIN_AFTER_MS - 1)).toEqual(['changes of version 3']);
    expect(standing(SAME_CONTENT_AGAIN_AFTER_MS)).toEqual([]);
    const [twice, other] = ['version 3', 'version 4'].map((content) => {
      const found = failureOf('parcels', bad, [content], both, later(20 * MINUTE_MS));
      return failureOf('parcels', differs, ['version 3'], found, later(25 * MINUTE_MS));
    });
    expect(twice?.differing[0]?.retryAt).toEqual(later(40 * MINUTE_MS));
    expect(other?.differing[0]?.retryAt).toEqual(later(55 * MINUTE_MS));
  });

  it('keeps differing content remembered through another error', () => {
    const before = failureOf('parcels', differs, ['version 3'], null, NOW);
    expect(isOfContent(before)).toBe(true);
    const other = failureOf('parcels', unreachable, [], before, later(14 * MINUTE_MS));
    expect(toRemember(other, before)).toBe(before);
  });

  it('keeps the newest of many bad contents', () => {
    const many = Array.from({ length: MAX_BAD_CONTENTS }, (_, index) => `version ${index}`);
    const before = failureOf('parcels', bad, many, null, NOW);
    const { contents } = failureOf('parcels', bad, ['version 99'], before, NOW);
    expect(contents).toEqual(['version 99', ...many.slice(0, -1)]);
  });

  it('doubles the wait after each failure, up to an hour', () => {
    fc.assert(
      fc.property(fc.nat(5_000), (attempts) => {
        const { retryAt, attempts: counted } = failureOf(
          'parcels',
          unreachable,
          [],
          failure({ attempts }),
          NOW,
        );
        const waitMs = retryAt.getTime() - NOW.getTime();
        expect(counted).toBe(attempts + 1);
        expect(waitMs).toBe(Math.min(3_600_000, 60_000 * 2 ** attempts));
      }),
      { seed: SEED },
    );
  });
});
