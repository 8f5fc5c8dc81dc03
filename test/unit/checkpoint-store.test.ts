/** Everything but desired states: the contract, suspensions, failures, sync runs, and their limits; all of it after a restart. */

import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { MAX_LINKS, MAX_SYNC_RUNS, MAX_TEXT_CHARACTERS } from '../../src/checkpoint/sqlite/table.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import {
  commit,
  dropped,
  event,
  failureOf,
  joined,
  NOON,
  openAt,
  openNew,
  position,
  reloadAsked,
  suspensionOf,
  temporaryPath,
} from '../support/checkpoint-files.ts';

const WORKSPACE: RefusalScope = { kind: 'workspace' };
const SUBSCRIPTION: RefusalScope = { kind: 'subscription', subscriptionId: 'same-id' };
const DATASET: RefusalScope = { kind: 'dataset', datasetId: 'same-id' };
const RETIREMENT: RefusalScope = { kind: 'retirement' };
const SCOPES = [WORKSPACE, SUBSCRIPTION, DATASET, RETIREMENT];

describe('the remembered contract', () => {
  it('remembers no contract at first, and the newest one after that', async () => {
    const checkpoint = await openNew();
    expect(checkpoint.rememberedContract()).toEqual({ manifestPath: null, newerThanParameter: null });
    checkpoint.rememberContract({ manifestPath: '/v1/m/{datasetId}', newerThanParameter: 'since' });
    checkpoint.rememberContract({ manifestPath: null, newerThanParameter: 'after' });
    expect(checkpoint.rememberedContract()).toEqual({ manifestPath: null, newerThanParameter: 'after' });
  });
});

describe('suspensions', () => {
  it('stores one suspension for each scope, also where ids are equal', async () => {
    const checkpoint = await openNew();
    for (const scope of SCOPES) checkpoint.suspend(suspensionOf(scope));
    expect(checkpoint.suspensions()).toHaveLength(SCOPES.length);
    expect(checkpoint.suspensions()).toEqual(
      expect.arrayContaining(SCOPES.map((scope) => suspensionOf(scope))),
    );
  });

  it('replaces a suspension by a newer one of the same scope', async () => {
    const checkpoint = await openNew();
    checkpoint.suspend(suspensionOf(DATASET, 'first'));
    const second = { ...suspensionOf(DATASET, 'second'), keyHash: 'another key' };
    checkpoint.suspend(second);
    expect(checkpoint.suspensions()).toEqual([second]);
  });

  it('lifts a suspension by its scope, and says whether there was one', async () => {
    const checkpoint = await openNew();
    checkpoint.suspend(suspensionOf(DATASET));
    expect(checkpoint.lift(SUBSCRIPTION)).toBe(false);
    expect(checkpoint.lift(WORKSPACE)).toBe(false);
    expect(checkpoint.lift(DATASET)).toBe(true);
    expect(checkpoint.lift(DATASET)).toBe(false);
    expect(checkpoint.suspensions()).toEqual([]);
  });

  it('stores a suspension without status and code, which feed-sync found out itself', async () => {
    const checkpoint = await openNew();
    const suspension = suspensionOf(SUBSCRIPTION);
    const ours = { ...suspension, refusal: { ...suspension.refusal, status: null, code: null } };
    checkpoint.suspend(ours);
    expect(checkpoint.suspensions()).toEqual([ours]);
  });

  it('stores messages and links of any text within limits', async () => {
    const checkpoint = await openNew();
    const links = new Map(
      [...Array(MAX_LINKS + 5).keys()].map((n) => [`link ${n}`, `https://a.example/${n}`]),
    );
    const suspension = suspensionOf(WORKSPACE, `it's "no"\0${'🌍'.repeat(MAX_TEXT_CHARACTERS)}`);
    checkpoint.suspend({ ...suspension, refusal: { ...suspension.refusal, code: null, links } });
    const [stored] = checkpoint.suspensions();
    expect(stored?.refusal.code).toBeNull();
    expect(stored?.refusal.message).toMatch(/^it's "no"\0🌍.*…$/u);
    expect(stored?.refusal.message).toHaveLength(MAX_TEXT_CHARACTERS);
    expect([...(stored?.refusal.links ?? [])]).toEqual([...links].slice(0, MAX_LINKS));
  });

  it('leaves out a link that would have to be cut, and keeps odd names', async () => {
    const checkpoint = await openNew();
    const suspension = suspensionOf(WORKSPACE);
    const kept = new Map([['__proto__', 'https://a.example/']]);
    const links = new Map([...kept, ['long', `https://a.example/${'x'.repeat(MAX_TEXT_CHARACTERS)}`]]);
    checkpoint.suspend({ ...suspension, refusal: { ...suspension.refusal, links } });
    expect(checkpoint.suspensions()[0]?.refusal.links).toEqual(kept);
  });
});

describe('failures', () => {
  it('stores one failure for each dataset until it is over', async () => {
    const checkpoint = await openNew();
    checkpoint.fail(failureOf('a'));
    checkpoint.fail(failureOf('b', { hint: 'refresh', contents: [] }));
    const worse = failureOf('a', {
      contents: ['version 3', 'changes of version 3'],
      attempts: 2,
      error: 'storage_failed',
      retryAt: new Date(NOON.getTime() + 120_000),
    });
    checkpoint.fail(worse);
    expect(checkpoint.failures()).toEqual(
      new Map([
        ['a', worse],
        ['b', failureOf('b', { hint: 'refresh', contents: [] })],
      ]),
    );
    checkpoint.clearFailure('a');
    checkpoint.clearFailure('never failed');
    expect([...checkpoint.failures().keys()]).toEqual(['b']);
  });

  it.each([
    ['DataError', 'data_invalid'],
    ['DiskFullError', 'disk_full'],
    ['TypeError', 'bug'],
    ['toString', 'bug'],
  ] as const)(
    'reads a failure that an earlier program stored as the class %s as %s',
    async (stored, error) => {
      const path = temporaryPath('checkpoint.sqlite');
      const checkpoint = await openAt(path);
      checkpoint.fail(failureOf('a'));
      const database = new Database(path);
      database.prepare('UPDATE failures SET error = ?').run(stored);
      database.close();
      expect(checkpoint.failures()).toEqual(new Map([['a', failureOf('a', { error })]]));
    },
  );

  it('stores the content that differed, with its own times, as far as there is room', async () => {
    const checkpoint = await openNew();
    const retryAt = new Date(NOON.getTime() + 900_000);
    const differing = Array.from({ length: MAX_TEXT_CHARACTERS / 100 + 1 }, (_, index) => ({
      content: `version ${index} (${'0123456789abcdef'.repeat(2)})`,
      failedAt: NOON,
      retryAt,
    }));
    checkpoint.fail(failureOf('a', { differing: differing.slice(0, 2) }));
    expect(checkpoint.failure('a')).toEqual(failureOf('a', { differing: differing.slice(0, 2) }));
    checkpoint.fail(failureOf('a', { contents: [], differing }));
    const kept = checkpoint.failure('a')?.differing ?? [];
    expect(kept.length).toBeLessThan(differing.length);
    expect(kept.slice(0, -1)).toEqual(differing.slice(0, kept.length - 1));
    checkpoint.fail(failureOf('a', { contents: [], differing: kept }));
  });

  it('cuts long messages of failures', async () => {
    const checkpoint = await openNew();
    checkpoint.fail(failureOf('a', { message: 'x'.repeat(MAX_TEXT_CHARACTERS + 1) }));
    expect(checkpoint.failures().get('a')?.message).toBe(`${'x'.repeat(MAX_TEXT_CHARACTERS - 1)}…`);
  });
});

describe('sync runs', () => {
  it('returns the newest sync runs first', async () => {
    const checkpoint = await openNew();
    const lines = ['one', 'two', 'three'].map((detail) => ({
      at: NOON,
      kind: 'loaded',
      datasetId: null,
      detail,
    }));
    for (const line of lines) checkpoint.recordSyncRun(line);
    expect(checkpoint.recentSyncRuns(2)).toEqual([lines[2], lines[1]]);
    expect(checkpoint.recentSyncRuns(10)).toHaveLength(3);
  });

  it('drops the oldest sync runs past their limit', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    const checkpoint = await openAt(path);
    fillSyncRuns(path, MAX_SYNC_RUNS - 1);
    checkpoint.recordSyncRun({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'last but one' });
    checkpoint.recordSyncRun({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'last' });
    const kept = checkpoint.recentSyncRuns(MAX_SYNC_RUNS + 10);
    expect(kept).toHaveLength(MAX_SYNC_RUNS);
    expect(kept[0]?.detail).toBe('last');
    expect(kept.at(-1)?.detail).toBe('line 2');
  });
});

it('keeps everything that is stored over a restart', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const checkpoint = await openAt(path);
  checkpoint.rememberContract({ manifestPath: '/m', newerThanParameter: 'since' });
  commit(
    checkpoint,
    's',
    joined('d', { version: 3 }),
    { kind: 'refresh', datasetId: 'd' },
    reloadAsked('d', 4n),
  );
  checkpoint.commitFollowStep({
    subscriptionId: 't',
    subscriptionName: 'T',
    position: position(event(8n), {
      logNumber: 2,
      cursorCreatedAt: NOON,
      isExpiredCursorReplay: true,
      coveredUntil: NOON,
    }),
    changes: [dropped('e', { eventNumber: 8n, at: NOON, reason: 'left' })],
  });
  checkpoint.noteStatedLastEvent('t');
  checkpoint.noteAbsences([{ subject: { kind: 'table', datasetId: 'f' }, since: NOON }], []);
  checkpoint.requestResync(['d']);
  checkpoint.approveRetirements();
  checkpoint.forget('u');
  checkpoint.suspend(suspensionOf(DATASET));
  checkpoint.fail(failureOf('d'));
  checkpoint.recordSyncRun({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'version 3' });
  const all = (from: typeof checkpoint) => [
    from.rememberedContract(),
    from.followed(),
    from.desiredStates(),
    from.absences(),
    from.forgotten(),
    from.suspensions(),
    from.failures(),
    from.recentSyncRuns(10),
  ];
  const before = all(checkpoint);
  checkpoint.close();
  expect(all(await openAt(path))).toEqual(before);
});

it('shares one checkpoint between two that have it open, each seeing what the other stored', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const [daemon, command] = [await openAt(path), await openAt(path)];
  daemon.suspend(suspensionOf(DATASET));
  expect(command.lift(DATASET)).toBe(true);
  expect(daemon.suspensions()).toEqual([]);
  commit(daemon, 's', joined('d'), { kind: 'refresh', datasetId: 'd' });
  expect(command.desiredStates().get('d')?.refreshesRequested).toBe(1);
});

/** So many sync runs at once: through the port each would wait for the disk. */
function fillSyncRuns(path: string, lines: number): void {
  const database = new Database(path);
  const insert = database.prepare('INSERT INTO sync_runs (at, kind, dataset_id, detail) VALUES (?, ?, ?, ?)');
  database.transaction(() => {
    for (let line = 1; line <= lines; line += 1)
      insert.run(NOON.toISOString(), 'loaded', null, `line ${line}`);
  })();
  database.close();
}
