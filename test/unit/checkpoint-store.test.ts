/** Everything but wants: the contract, holds, failures, the journal, and their limits; all of it after a restart. */

import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { MAX_JOURNAL_LINES, MAX_LINKS, MAX_TEXT_CHARACTERS } from '../../src/checkpoint/sqlite/errors.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import {
  commit,
  dropped,
  event,
  failureOf,
  holdOf,
  joined,
  NOON,
  openAt,
  openNew,
  position,
  reloadAsked,
  temporaryPath,
} from '../support/checkpoint-files.ts';

const WORKSPACE: RefusalScope = { kind: 'workspace' };
const SUBSCRIPTION: RefusalScope = { kind: 'subscription', subscriptionId: 'same-id' };
const DATASET: RefusalScope = { kind: 'dataset', datasetId: 'same-id' };
const RETIREMENT: RefusalScope = { kind: 'retirement' };
const SCOPES = [WORKSPACE, SUBSCRIPTION, DATASET, RETIREMENT];

describe('the remembered contract', () => {
  it('is empty at first, and what was remembered last after that', async () => {
    const checkpoint = await openNew();
    expect(checkpoint.rememberedContract()).toEqual({ manifestPath: null, newerThanParameter: null });
    checkpoint.rememberContract({ manifestPath: '/v1/m/{datasetId}', newerThanParameter: 'since' });
    checkpoint.rememberContract({ manifestPath: null, newerThanParameter: 'after' });
    expect(checkpoint.rememberedContract()).toEqual({ manifestPath: null, newerThanParameter: 'after' });
  });
});

describe('holds', () => {
  it('stand one for each scope, also where ids are equal', async () => {
    const checkpoint = await openNew();
    for (const scope of SCOPES) checkpoint.hold(holdOf(scope));
    expect(checkpoint.holds()).toHaveLength(SCOPES.length);
    expect(checkpoint.holds()).toEqual(expect.arrayContaining(SCOPES.map((scope) => holdOf(scope))));
  });

  it('are replaced by a newer one of the same scope', async () => {
    const checkpoint = await openNew();
    checkpoint.hold(holdOf(DATASET, 'first'));
    const second = { ...holdOf(DATASET, 'second'), keyHash: 'another key' };
    checkpoint.hold(second);
    expect(checkpoint.holds()).toEqual([second]);
  });

  it('are lifted by scope, and say whether anything was', async () => {
    const checkpoint = await openNew();
    checkpoint.hold(holdOf(DATASET));
    expect(checkpoint.lift(SUBSCRIPTION)).toBe(false);
    expect(checkpoint.lift(WORKSPACE)).toBe(false);
    expect(checkpoint.lift(DATASET)).toBe(true);
    expect(checkpoint.lift(DATASET)).toBe(false);
    expect(checkpoint.holds()).toEqual([]);
  });

  it('may have no status and no code: what we found out ourselves', async () => {
    const checkpoint = await openNew();
    const hold = holdOf(SUBSCRIPTION);
    const ours = { ...hold, refusal: { ...hold.refusal, status: null, code: null } };
    checkpoint.hold(ours);
    expect(checkpoint.holds()).toEqual([ours]);
  });

  it('relay messages and links of any text within limits', async () => {
    const checkpoint = await openNew();
    const links = new Map(
      [...Array(MAX_LINKS + 5).keys()].map((n) => [`link ${n}`, `https://a.example/${n}`]),
    );
    const hold = holdOf(WORKSPACE, `it's "no"\0${'🌍'.repeat(MAX_TEXT_CHARACTERS)}`);
    checkpoint.hold({ ...hold, refusal: { ...hold.refusal, code: null, links } });
    const [stored] = checkpoint.holds();
    expect(stored?.refusal.code).toBeNull();
    expect(stored?.refusal.message).toMatch(/^it's "no"\0🌍.*…$/u);
    expect(stored?.refusal.message).toHaveLength(MAX_TEXT_CHARACTERS);
    expect([...(stored?.refusal.links ?? [])]).toEqual([...links].slice(0, MAX_LINKS));
  });

  it('leave out a link that would have to be cut, and keep odd names', async () => {
    const checkpoint = await openNew();
    const hold = holdOf(WORKSPACE);
    const kept = new Map([['__proto__', 'https://a.example/']]);
    const links = new Map([...kept, ['long', `https://a.example/${'x'.repeat(MAX_TEXT_CHARACTERS)}`]]);
    checkpoint.hold({ ...hold, refusal: { ...hold.refusal, links } });
    expect(checkpoint.holds()[0]?.refusal.links).toEqual(kept);
  });
});

describe('failures', () => {
  it('stand one for each dataset until they are over', async () => {
    const checkpoint = await openNew();
    checkpoint.fail(failureOf('a'));
    checkpoint.fail(failureOf('b', { hint: 'look', contents: [] }));
    const worse = failureOf('a', {
      contents: ['version 3', 'changes of version 3'],
      attempts: 2,
      error: 'StorageError',
      retryAt: new Date(NOON.getTime() + 120_000),
    });
    checkpoint.fail(worse);
    expect(checkpoint.failures()).toEqual(
      new Map([
        ['a', worse],
        ['b', failureOf('b', { hint: 'look', contents: [] })],
      ]),
    );
    checkpoint.clearFailure('a');
    checkpoint.clearFailure('never failed');
    expect([...checkpoint.failures().keys()]).toEqual(['b']);
  });

  it('keep the content that differed, with its own times, as far as there is room', async () => {
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

  it('cut long messages', async () => {
    const checkpoint = await openNew();
    checkpoint.fail(failureOf('a', { message: 'x'.repeat(MAX_TEXT_CHARACTERS + 1) }));
    expect(checkpoint.failures().get('a')?.message).toBe(`${'x'.repeat(MAX_TEXT_CHARACTERS - 1)}…`);
  });
});

describe('the journal', () => {
  it('gives the newest lines first', async () => {
    const checkpoint = await openNew();
    const lines = ['one', 'two', 'three'].map((detail) => ({
      at: NOON,
      kind: 'loaded',
      datasetId: null,
      detail,
    }));
    for (const line of lines) checkpoint.journal(line);
    expect(checkpoint.recentJournal(2)).toEqual([lines[2], lines[1]]);
    expect(checkpoint.recentJournal(10)).toHaveLength(3);
  });

  it('drops the oldest lines past its limit', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    const checkpoint = await openAt(path);
    fillJournal(path, MAX_JOURNAL_LINES - 1);
    checkpoint.journal({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'last but one' });
    checkpoint.journal({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'last' });
    const kept = checkpoint.recentJournal(MAX_JOURNAL_LINES + 10);
    expect(kept).toHaveLength(MAX_JOURNAL_LINES);
    expect(kept[0]?.detail).toBe('last');
    expect(kept.at(-1)?.detail).toBe('line 2');
  });
});

it('is all there after a restart', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const checkpoint = await openAt(path);
  checkpoint.rememberContract({ manifestPath: '/m', newerThanParameter: 'since' });
  commit(
    checkpoint,
    's',
    joined('d', { version: 3 }),
    { kind: 'look', datasetId: 'd' },
    reloadAsked('d', 4n),
  );
  checkpoint.commitFollowStep({
    subscriptionId: 't',
    subscriptionName: 'T',
    position: position(event(8n), { logNumber: 2, cursorCreatedAt: NOON, isQuiet: true, coveredUntil: NOON }),
    changes: [dropped('e', { eventNumber: 8n, at: NOON, reason: 'left' })],
  });
  checkpoint.noteStatedLastEvent('t');
  checkpoint.noteAbsences([{ subject: { kind: 'table', datasetId: 'f' }, since: NOON }], []);
  checkpoint.askResync(['d']);
  checkpoint.approveRetirements();
  checkpoint.forget('u');
  checkpoint.hold(holdOf(DATASET));
  checkpoint.fail(failureOf('d'));
  checkpoint.journal({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'version 3' });
  const all = (from: typeof checkpoint) => [
    from.rememberedContract(),
    from.followed(),
    from.wants(),
    from.absences(),
    from.forgotten(),
    from.holds(),
    from.failures(),
    from.recentJournal(10),
  ];
  const before = all(checkpoint);
  checkpoint.close();
  expect(all(await openAt(path))).toEqual(before);
});

it('is shared by two that have it open, each seeing what the other stored', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const [daemon, command] = [await openAt(path), await openAt(path)];
  daemon.hold(holdOf(DATASET));
  expect(command.lift(DATASET)).toBe(true);
  expect(daemon.holds()).toEqual([]);
  commit(daemon, 's', joined('d'), { kind: 'look', datasetId: 'd' });
  expect(command.wants().get('d')?.looksAsked).toBe(1);
});

/** So many lines at once: through the port each would wait for the disk. */
function fillJournal(path: string, lines: number): void {
  const database = new Database(path);
  const insert = database.prepare('INSERT INTO journal (at, kind, dataset_id, detail) VALUES (?, ?, ?, ?)');
  database.transaction(() => {
    for (let line = 1; line <= lines; line += 1)
      insert.run(NOON.toISOString(), 'loaded', null, `line ${line}`);
  })();
  database.close();
}
