/** Withdrawn versions and version restarts: when each is believed, and the steps of the table then. */

import { describe, expect, it } from 'vitest';
import type { DesiredState } from '../../src/model/desired-state.ts';
import type { PlanInput } from '../../src/sync/plan/step.ts';
import { absentVersions, namingOf } from '../../src/sync/plan/versions.ts';
import { ago, chain, HOUR_MS, MINUTE_MS, planOf, stepOf } from '../support/planning.ts';
import {
  announcing,
  desired,
  listedEntry,
  member,
  metadata,
  NOW,
  reload,
  table,
  version,
} from '../support/sync-values.ts';

/** Announced by each of two subscriptions. */
function announcedBy(first: number, second: number): Pick<DesiredState, 'members'> {
  const members = [first, second].map(
    (announced, index) => [`sub_${index + 1}`, member({ announced })] as const,
  );
  return { members: new Map(members) };
}

describe('an announced version that the list does not name', () => {
  const announced = { observed: table(5), desired: desired(announcing(6)), metadata: metadata(chain(1, 5)) };
  const absentFor = (durationMs: number, ...versions: number[]): Pick<PlanInput, 'absentSince'> => ({
    absentSince: new Map(versions.map((one) => [one, ago(durationMs)])),
  });

  it('F50 waits for an announced version until it was absent for an hour', () => {
    const soon = { ...announced, ...absentFor(HOUR_MS - 1, 6) };
    expect(planOf(soon)).toEqual({ kind: 'wait', why: 'list-lags', until: new Date(NOW.getTime() + 1) });
    expect(planOf(announced)).toEqual({ kind: 'wait', why: 'list-lags', until: null });
  });

  it('W38 F50 voids an announced version after an hour of absence, and keeps the table', () => {
    expect(planOf({ ...announced, ...absentFor(HOUR_MS, 6) })).toEqual({ kind: 'void-announced', above: 5 });
    expect(stepOf({ ...announced, desired: desired() })).toBe('keep');
  });

  it('F50 voids an announced version though a reload is owed, which a listed version answers', () => {
    const owed = {
      ...announced,
      desired: { ...announced.desired, reloads: [reload(50)] },
      ...absentFor(HOUR_MS, 6),
    };
    const lagging = [listedEntry(5, { watermark: { kind: 'number', through: 49n } })];
    expect(planOf({ ...owed, listedEntries: lagging })).toEqual({ kind: 'void-announced', above: 5 });
    const next = { ...owed, desired: desired({ reloads: [reload(50)] }), listedEntries: lagging };
    expect(stepOf(next)).toBe('wait: manifest-lags');
    expect(stepOf({ ...next, listedEntries: [listedEntry(5)] })).toBe('load 5');
    const answered = table(5, {
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 50n, createdAt: null }]]),
    });
    expect(stepOf({ ...next, observed: answered })).toBe('keep');
    expect(stepOf({ ...next, observed: answered, metadata: metadata(chain(1, 6)) })).toBe('apply 6');
  });

  it('voids only the absent version, and waits for another that was announced since', () => {
    const both = { ...announced, desired: desired(announcedBy(6, 7)) };
    expect(planOf({ ...both, ...absentFor(HOUR_MS, 7) })).toEqual({ kind: 'void-announced', above: 6 });
    expect(planOf({ ...both, ...absentFor(HOUR_MS, 6, 7) })).toEqual({ kind: 'void-announced', above: 5 });
    expect(stepOf({ ...both, ...absentFor(HOUR_MS, 6) })).toBe('wait: list-lags');
  });

  it('notes each announced version as absent that a list with lower newest versions lacks', () => {
    const absent = absentVersions(table(5), desired(announcedBy(6, 7)), metadata(chain(1, 4)));
    expect(absent.map((subject) => 'version' in subject && subject.version)).toEqual([5, 6, 7]);
    expect(absentVersions(table(5), desired(announcedBy(6, 7)), metadata(chain(1, 7)))).toEqual([]);
    expect(absentVersions(table(5), desired(announcing(6)), metadata([]))).toEqual([]);
    expect(absentVersions(null, desired(announcing(6)), metadata(chain(1, 6)))).toEqual([]);
  });

  it('applies changes meanwhile, and loads no snapshot for an absent version', () => {
    const behind = {
      ...announced,
      observed: table(4),
      listedEntries: [listedEntry(5)],
      ...absentFor(HOUR_MS - 1, 6),
    };
    expect(stepOf(behind)).toBe('apply 5');
  });
});

describe('namingOf', () => {
  const stated = { publishedAt: NOW };
  const versions = metadata(chain(1, 5));

  it.each([
    ['named by its record', table(5, stated), versions, 'named'],
    ['named where the table lacks the time of publication', table(5), versions, 'named'],
    [
      'named where the list lacks the time of publication',
      table(5, { publishedAt: ago(1) }),
      metadata(chain(1, 5, { publishedAt: null })),
      'named',
    ],
    [
      'named where the list lacks the row count',
      table(5, { rowCount: 11 }),
      metadata(chain(1, 5, { rowCount: null })),
      'named',
    ],
    [
      'another where it was published at another time',
      table(5, { publishedAt: ago(1) }),
      versions,
      'another',
    ],
    ['another where it has another row count', table(5, { ...stated, rowCount: 11 }), versions, 'another'],
    ['absent where lower versions are the newest', table(6, stated), versions, 'absent'],
    ['unknown where the list names no version', table(5, stated), metadata([]), 'unknown'],
    ['unknown where the list names only later versions', table(5, stated), metadata(chain(6, 7)), 'unknown'],
  ] as const)('judges the version of a table as %s', (_, observed, list, naming) => {
    expect(namingOf(observed, list)).toBe(naming);
  });
});

describe('a table whose version is withdrawn', () => {
  const withdrawn = {
    observed: table(5),
    desired: desired({ refreshesRequested: 1 }),
    metadata: metadata(chain(1, 4)),
  };
  const absent = (durationMs: number) => ({ absentSince: new Map([[5, ago(durationMs)]]) });

  it('F79 keeps a table until its version was absent for an hour', () => {
    expect(stepOf({ ...withdrawn, listedEntries: [listedEntry(4)] })).toBe('keep');
    expect(stepOf({ ...withdrawn, ...absent(HOUR_MS - 1), listedEntries: [listedEntry(4)] })).toBe('keep');
  });

  it('F79 reloads a table whose version was absent for an hour, and returns to a listed version', () => {
    expect(planOf({ ...withdrawn, ...absent(HOUR_MS) })).toEqual({
      kind: 'ask-reload',
      isWithdrawal: true,
      why: 'version 5 was withdrawn',
    });
    const owed = {
      ...withdrawn,
      desired: desired({ reloads: [reload(50, { isWithdrawal: true })] }),
      ...absent(HOUR_MS),
    };
    expect(stepOf({ ...owed, listedEntries: [listedEntry(4)] })).toBe('load 4');
    expect(stepOf({ ...owed, listedEntries: [] })).toBe('wait: not-listed');
  });

  it('F79 asks for a reload where only another is owed, which the same version might answer', () => {
    const owed = {
      ...withdrawn,
      desired: desired({ reloads: [reload(50)] }),
      ...absent(HOUR_MS),
      listedEntries: [listedEntry(4)],
    };
    expect(planOf(owed)).toMatchObject({ kind: 'ask-reload', isWithdrawal: true });
  });

  it('W37 F79 applies no changes to a table of a withdrawn version, also where they seem to follow', () => {
    const grown = { ...withdrawn, metadata: metadata(chain(1, 6)) };
    expect(stepOf(grown)).toBe('apply 6');
    const unnamed = [...chain(1, 4), version('parcels', 6, { previousVersion: 5 })];
    expect(stepOf({ ...withdrawn, metadata: metadata(unnamed), listedEntries: [] })).toBe('wait: not-listed');
    expect(stepOf({ ...withdrawn, metadata: metadata(unnamed), listedEntries: [listedEntry(6)] })).toBe(
      'load 6',
    );
    const owed = { ...grown, desired: desired({ reloads: [reload(50, { isWithdrawal: true })] }) };
    expect(stepOf({ ...owed, listedEntries: [] })).toBe('wait: not-listed');
    expect(
      stepOf({ ...owed, listedEntries: [listedEntry(6, { watermark: { kind: 'number', through: 49n } })] }),
    ).toBe('wait: manifest-lags');
    const answered = table(5, {
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 50n, createdAt: null }]]),
    });
    expect(stepOf({ ...owed, observed: answered })).toBe('apply 6');
  });

  it('F79 loads nothing unlisted, such as the withdrawn version in a lagging manifest', () => {
    const owed = { ...withdrawn, desired: desired({ reloads: [reload(50, { isWithdrawal: true })] }) };
    expect(stepOf({ ...owed, listedEntries: [listedEntry(5)] })).toBe('wait: entry-unlisted');
  });
});

describe('a table whose version was published again', () => {
  it.each([
    ['published again under the same number', table(5, { publishedAt: ago(1) }), metadata(chain(1, 5))],
    [
      'published again with another row count',
      table(5, { publishedAt: NOW, rowCount: 9 }),
      metadata(chain(1, 5)),
    ],
    ['passed by versions that restarted', table(3, { publishedAt: ago(1) }), metadata(chain(1, 5))],
  ])(
    'F79 reloads a table at once whose version was %s, and applies no changes before',
    (_, observed, list) => {
      const refreshing = {
        observed,
        desired: desired({ refreshesRequested: 1 }),
        metadata: list,
        listedEntries: [listedEntry(5)],
      };
      expect(planOf(refreshing)).toMatchObject({ kind: 'ask-reload', isWithdrawal: true });
      const owed = { ...refreshing, desired: desired({ reloads: [reload(50, { isWithdrawal: true })] }) };
      expect(stepOf({ ...owed, listedEntries: [] })).toBe('wait: not-listed');
      expect(stepOf(owed)).toBe('load 5');
    },
  );

  it('F79 reloads a table after an hour where the versions restarted below it without an event', () => {
    const refreshing = {
      observed: table(5),
      desired: desired({ refreshesRequested: 1 }),
      metadata: metadata(chain(1, 1)),
    };
    expect(stepOf({ ...refreshing, listedEntries: [listedEntry(1)] })).toBe('keep');
    const absentSince = new Map([[5, ago(HOUR_MS)]]);
    expect(stepOf({ ...refreshing, absentSince, listedEntries: [listedEntry(1)] })).toBe('ask-reload');
    const owed = desired({ reloads: [reload(50, { isWithdrawal: true })] });
    expect(stepOf({ ...refreshing, desired: owed, absentSince, listedEntries: [listedEntry(1)] })).toBe(
      'load 1',
    );
  });

  it('F79 answers the reload by time only where the manifest reflects the time of the request', () => {
    const observed = table(5, { publishedAt: ago(1) });
    const at = ago(5 * MINUTE_MS);
    const owed = desired({ reloads: [reload(50, { createdAt: at, readAt: at, isWithdrawal: true })] });
    const read = (durationMs: number) => [
      listedEntry(5, { watermark: { kind: 'time', through: new Date(at.getTime() + durationMs) } }),
    ];
    const given = { observed, desired: owed, metadata: metadata(chain(1, 5)) };
    expect(stepOf({ ...given, listedEntries: read(-1) })).toBe('wait: manifest-lags');
    expect(stepOf({ ...given, listedEntries: read(0) })).toBe('load 5');
  });

  it('V19 applies the changes that follow where nothing shows another version', () => {
    const refreshing = {
      observed: table(3),
      desired: desired({ refreshesRequested: 1 }),
      metadata: metadata(chain(1, 5)),
    };
    expect(stepOf(refreshing)).toBe('apply 4,5');
  });
});
