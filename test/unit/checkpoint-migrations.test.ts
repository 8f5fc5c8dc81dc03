/**
 * Every format that a released version wrote is brought to the current one, with its content.
 *
 * `checkpoint-formats/format-<n>.sql` is the dump of a checkpoint of format n with the content below. A new migration
 * needs the dump of the format it makes: set FEED_SYNC_RECORD_FORMAT=1 and run this test once. A dump that is there is
 * never recorded again: it is what released versions left on disks.
 */

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Checkpoint, CheckpointReader } from '../../src/checkpoint/checkpoint.ts';
import { CURRENT_FORMAT } from '../../src/checkpoint/sqlite/migrations.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { AbsenceSubject } from '../../src/model/absence.ts';
import { emptyDesiredState } from '../../src/model/desired-state.ts';
import { dumpOf, restore, schemaOf } from '../support/checkpoint-dump.ts';
import {
  commit,
  dropped,
  event,
  failureOf,
  joined,
  NOON,
  NOON_CLOCK,
  openAt,
  position,
  reloadAsked,
  suspensionOf,
  temporaryPath,
} from '../support/checkpoint-files.ts';

const FORMATS = [...Array(CURRENT_FORMAT + 1).keys()];
const folder = fileURLToPath(new URL('checkpoint-formats/', import.meta.url));
const LARGEST = 2n ** 63n - 1n;

const SCOPES = [
  { kind: 'workspace' },
  { kind: 'subscription', subscriptionId: 's' },
  { kind: 'dataset', datasetId: 'd' },
] as const;

/** What each format added: content of format n is filled by the first n functions. */
const FILLS: readonly ((checkpoint: Checkpoint) => void)[] = [
  fillFormat1,
  fillFormat2,
  fillFormat3,
  fillFormat4,
  fillFormat5,
];

/**
 * What an older file does not say the time of counts as of long ago: who is a member, up to format 4, and when a reload was asked
 * for, in format 1.
 */
const LONG_AGO = new Date(0);

/** A resync that was asked for up to format 4 has the lowest number: it was asked for before any other. */
const EARLY_CLOCK: Clock = { ...NOON_CLOCK, now: () => new Date(1) };

function fill(checkpoint: Checkpoint, format: number): void {
  for (const fillFormat of FILLS.slice(0, format)) fillFormat(checkpoint);
}

function fillFormat1(checkpoint: Checkpoint): void {
  checkpoint.rememberContract({ manifestPath: '/v1/{datasetId}/manifest', newerThanParameter: "o'ther" });
  checkpoint.commitFollowStep({
    subscriptionId: 's',
    subscriptionName: 'Parcels',
    position: position(event(LARGEST)),
    changes: [
      joined('d', { eventNumber: 3n, at: LONG_AGO }),
      reloadAsked('d', LARGEST, { createdAt: NOON, readAt: NOON, version: 7 }),
      { kind: 'refresh', datasetId: 'd' },
      { kind: 'refresh', datasetId: 'd' },
      dropped('e', { at: LONG_AGO }),
    ],
  });
  commit(checkpoint, 't');
  checkpoint.markLooked('d', 1);
  for (const scope of SCOPES) checkpoint.suspension(suspensionOf(scope, 'it is "not" distributable'));
  checkpoint.fail(failureOf('d', { hint: 'look at row 3' }));
  checkpoint.syncRuns({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'version 7' });
}

function fillFormat2(checkpoint: Checkpoint): void {
  checkpoint.commitFollowStep({
    subscriptionId: 'u',
    subscriptionName: 'Quiet',
    position: position(event(9n), { isExpiredCursorReplay: true }),
    changes: [
      joined('f', { eventNumber: 1n, at: LONG_AGO }),
      reloadAsked('f', 8n, { createdAt: NOON, readAt: NOON }),
      dropped('g', { eventNumber: 7n, at: LONG_AGO, reason: "it's left" }),
    ],
  });
  checkpoint.askResync(['f']);
  checkpoint.approveRetirements();
  commit(checkpoint, 'gone');
  checkpoint.forget('gone');
  const { refusal, ...suspension } = suspensionOf({ kind: 'retirement' });
  checkpoint.suspension({ ...suspension, refusal: { ...refusal, status: null, code: 'mass_retirement' } });
}

function fillFormat3(checkpoint: Checkpoint): void {
  checkpoint.keepWebhook({ webhookId: "wh_'1", url: 'https://receiver.example/webhook', createdAt: NOON });
  checkpoint.rememberDelivery("msg_'1", NOON);
}

function fillFormat4(checkpoint: Checkpoint): void {
  checkpoint.hookReported({ commitNumber: 7, mark: "parcels' changes 3" }, NOON);
  checkpoint.hookFailed("it ended with 1: can't", NOON);
}

function fillFormat5(checkpoint: Checkpoint): void {
  checkpoint.commitFollowStep({
    subscriptionId: 'v',
    subscriptionName: 'Anew',
    position: position(event(6n), { logNumber: 2, cursorCreatedAt: NOON, coveredUntil: NOON }),
    changes: [
      joined('h', { eventNumber: 2n, at: NOON, version: Number.MAX_SAFE_INTEGER }),
      reloadAsked('h', 3n, { logNumber: 2, createdAt: NOON, readAt: NOON, knownVersion: 4 }),
      dropped('i', { eventNumber: 4n, at: NOON, reason: "it's left" }),
    ],
  });
  checkpoint.noteListed('h', 5);
  const withdrawn = reloadAsked('h', 3n, { logNumber: 2, createdAt: NOON, readAt: NOON, isWithdrawal: true });
  commit(checkpoint, 'w', joined('h', { version: 2 }), reloadAsked('h', LARGEST), withdrawn);
  checkpoint.noteStatedLastEvent('v');
  const subjects: readonly AbsenceSubject[] = [
    { kind: 'member', subscriptionId: 'v', datasetId: "h's" },
    { kind: 'subscription', subscriptionId: 'v' },
    { kind: 'log', subscriptionId: 'v' },
    { kind: 'version', datasetId: 'h', version: Number.MAX_SAFE_INTEGER },
    { kind: 'table', datasetId: 'j' },
  ];
  checkpoint.noteAbsences(
    subjects.map((subject) => ({ subject, since: NOON })),
    [],
  );
}

function contentOf(checkpoint: CheckpointReader) {
  return {
    contract: checkpoint.rememberedContract(),
    followed: checkpoint.followed(),
    desiredStates: checkpoint.desiredStates(),
    absences: checkpoint.absences(),
    forgotten: checkpoint.forgotten(),
    suspensions: checkpoint.suspensions(),
    failures: checkpoint.failures(),
    webhooks: checkpoint.webhooks(),
    hook: checkpoint.hook(),
    syncRuns: checkpoint.recentSyncRuns(10),
  };
}

function withReloadsOfLongAgo(content: ReturnType<typeof contentOf>): ReturnType<typeof contentOf> {
  const desiredStates = [...content.desiredStates].map(([id, desired]) => {
    const reloads = desired.reloads.map((reload) => ({ ...reload, createdAt: LONG_AGO, readAt: LONG_AGO }));
    return [id, { ...desired, reloads }] as const;
  });
  return { ...content, desiredStates: new Map(desiredStates) };
}

function dumpPath(format: number): string {
  return `${folder}format-${format}.sql`;
}

/** A new checkpoint with the content of the format. */
async function freshPath(format: number): Promise<string> {
  const path = temporaryPath('checkpoint.sqlite');
  const checkpoint = await openAt(path, silentLog, EARLY_CLOCK);
  fill(checkpoint, format);
  checkpoint.close();
  return path;
}

const { FEED_SYNC_RECORD_FORMAT } = process.env;
if (FEED_SYNC_RECORD_FORMAT === '1') {
  it('records the current format', async () => {
    const path = dumpPath(CURRENT_FORMAT);
    expect(existsSync(path), 'a recorded format stays as it is').toBe(false);
    writeFileSync(path, dumpOf(await freshPath(CURRENT_FORMAT)));
  });
}

it('has a dump of every format', () => {
  expect(readdirSync(folder).sort()).toEqual(FORMATS.map((format) => `format-${format}.sql`).sort());
});

describe.each(FORMATS)('format %i', (format) => {
  it('is brought to the schema of a new checkpoint', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    restore(path, readFileSync(dumpPath(format), 'utf8'));
    (await openAt(path)).close();
    expect(schemaOf(path)).toEqual(schemaOf(await freshPath(0)));
  });

  it('keeps its content', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    restore(path, readFileSync(dumpPath(format), 'utf8'));
    const fresh = await openAt(await freshPath(format));
    const expected = format === 1 ? withReloadsOfLongAgo(contentOf(fresh)) : contentOf(fresh);
    expect(contentOf(await openAt(path))).toEqual(expected);
  });
});

describe('what a file of format 4 says', () => {
  /** The dump of format 4 and what `sql` adds to it, brought to the current format. */
  async function migrated(sql: string): Promise<Checkpoint> {
    const path = temporaryPath('checkpoint.sqlite');
    restore(path, readFileSync(dumpPath(4), 'utf8') + sql);
    return openAt(path);
  }

  it('F46 of announced versions is kept for every subscription that contains the dataset, and for none that has dropped it', async () => {
    const checkpoint = await migrated(`
      INSERT INTO wants (dataset_id, at_least_version) VALUES ('shared', 9), ('left', 8);
      INSERT INTO want_members (dataset_id, subscription_id, is_member, event_number)
      VALUES ('shared', 's', 1, 3), ('shared', 't', 1, NULL), ('shared', 'u', 0, 4), ('left', 's', 0, 5);`);
    expect(checkpoint.desired('shared')).toEqual({
      ...emptyDesiredState('shared'),
      members: new Map([
        ['s', { eventNumber: 3n, since: LONG_AGO, announced: 9 }],
        ['t', { eventNumber: null, since: LONG_AGO, announced: 9 }],
      ]),
      formerMembers: new Map([['u', { eventNumber: 4n, at: LONG_AGO, reason: null }]]),
    });
    const back = joined('left', { eventNumber: 6n, at: NOON });
    commit(checkpoint, 's', back);
    expect(checkpoint.desired('left')?.members.get('s')?.announced).toBeNull();
  });

  it('of a resync is kept where it is owed, and not where it was done', async () => {
    const checkpoint = await migrated(`
      INSERT INTO wants (dataset_id, resyncs_asked, resyncs_done) VALUES ('owed', 5, 4), ('done', 5, 5);`);
    const numbers = ['owed', 'done'].map((id) => checkpoint.desired(id)?.resyncNumber);
    expect(numbers).toEqual([1, 0]);
  });
});
