/**
 * Every format that is in use is migrated to the current one without loss of content.
 *
 * `checkpoint-formats/format-<n>.sql` is the dump of a checkpoint of format n with the content below. A new format needs
 * its own dump: set FEED_SYNC_RECORD_FORMAT=1 and run this test once. An existing dump is never recorded again, because
 * it is what released versions left on disks.
 */

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Checkpoint, CheckpointReader } from '../../src/checkpoint/checkpoint.ts';
import { CURRENT_FORMAT } from '../../src/checkpoint/sqlite/format.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { AbsenceSubject } from '../../src/model/absence.ts';
import { emptyDesiredState } from '../../src/model/desired-state.ts';
import { ConfigurationError, ServiceUnavailableError } from '../../src/model/errors.ts';
import type { NotificationLedger } from '../../src/model/notification.ts';
import type { ScrubRecord } from '../../src/model/scrub.ts';
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
import { candidate } from '../support/sync-values.ts';

const FORMATS = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] as const;
const folder = fileURLToPath(new URL('checkpoint-formats/', import.meta.url));
const LARGEST = 2n ** 63n - 1n;

const SCOPES = [
  { kind: 'workspace' },
  { kind: 'subscription', subscriptionId: 's' },
  { kind: 'dataset', datasetId: 'd' },
] as const;

const LEDGER: NotificationLedger = {
  sent: { "suspended it's": { at: NOON.toISOString(), keys: ['dataset d'] } },
  pending: { damaged: { items: [{ subject: 'table d', text: 'a part of it cannot be read' }], count: 2 } },
};

const SCRUB: ScrubRecord = {
  beganAt: NOON,
  position: { table: "main.it's", row: Number.MAX_SAFE_INTEGER },
  completedAt: new Date(7),
  isExaminationAsked: true,
};

const WEBHOOK = {
  webhookId: 'wh_2',
  url: 'https://receiver.example/other',
  createdAt: NOON,
  secret: { path: "/etc/o'ther", digest: 'd1' },
};

/** Format 4 does not store when a subscription joined or left, so it counts as long ago. */
const LONG_AGO = new Date(0);

/** A resync that was requested in format 4 has the lowest number: it was requested before any other. */
const EARLY_CLOCK: Clock = { ...NOON_CLOCK, now: () => new Date(1) };

/** Stores what format 4 can store, and from format 5 on what only the later formats can store. */
function fill(checkpoint: Checkpoint, format: number): void {
  fillEvents(checkpoint);
  fillRequests(checkpoint);
  fillPostCommit(checkpoint);
  if (format > 4) fillLaterColumns(checkpoint);
  if (format > 7) checkpoint.keepCandidate(candidate());
  if (format > 8) fillPolls(checkpoint);
  if (format > 9) checkpoint.keepNotificationLedger(LEDGER);
  if (format > 10) checkpoint.keepWebhook(WEBHOOK);
  if (format > 11) checkpoint.noteMentions([{ subscriptionId: 's', datasetId: "e's" }], []);
  if (format > 12) checkpoint.keepScrub(SCRUB);
  if (format > 13) checkpoint.requestResync(['f'], true);
}

function fillPolls(checkpoint: Checkpoint): void {
  checkpoint.notePoll(null, NOON, new ServiceUnavailableError("it can't", { hint: 'wait' }));
  checkpoint.notePoll('s', NOON, { command: 'run', pid: 7, host: "o'host" });
}

function fillEvents(checkpoint: Checkpoint): void {
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
  checkpoint.markRefreshed('d', 1);
  for (const scope of SCOPES) checkpoint.suspend(suspensionOf(scope, 'it is "not" distributable'));
  checkpoint.fail(failureOf('d', { hint: 'look at row 3' }));
  checkpoint.recordSyncRun({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'version 7' });
}

function fillRequests(checkpoint: Checkpoint): void {
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
  checkpoint.requestResync(['f']);
  checkpoint.approveRetirements();
  commit(checkpoint, 'gone');
  checkpoint.forget('gone');
  const { refusal, ...suspension } = suspensionOf({ kind: 'retirement' });
  checkpoint.suspend({ ...suspension, refusal: { ...refusal, status: null, code: 'mass_retirement' } });
}

function fillPostCommit(checkpoint: Checkpoint): void {
  checkpoint.keepWebhook({
    webhookId: "wh_'1",
    url: 'https://receiver.example/webhook',
    createdAt: NOON,
    secret: null,
  });
  checkpoint.rememberDelivery("msg_'1", NOON);
  checkpoint.hookReported({ commitNumber: 7, mark: "parcels' changes 3" }, NOON);
  checkpoint.hookFailed("it ended with 1: can't", NOON);
}

function fillLaterColumns(checkpoint: Checkpoint): void {
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
    polls: checkpoint.polls(),
    desiredStates: checkpoint.desiredStates(),
    absences: checkpoint.absences(),
    mentions: checkpoint.mentions(),
    forgotten: checkpoint.forgotten(),
    suspensions: checkpoint.suspensions(),
    candidates: checkpoint.candidates(),
    failures: checkpoint.failures(),
    webhooks: checkpoint.webhooks(),
    hook: checkpoint.hook(),
    notifications: checkpoint.notificationLedger(),
    scrub: checkpoint.scrub(),
    syncRuns: checkpoint.recentSyncRuns(10),
  };
}

function dumpPath(format: number): string {
  return `${folder}format-${format}.sql`;
}

async function newPath(): Promise<string> {
  const path = temporaryPath('checkpoint.sqlite');
  (await openAt(path)).close();
  return path;
}

/** Creates a checkpoint with the content of the format. */
async function filledPath(format: number): Promise<string> {
  const path = temporaryPath('checkpoint.sqlite');
  const checkpoint = await openAt(path, silentLog, EARLY_CLOCK);
  fill(checkpoint, format);
  checkpoint.close();
  return path;
}

/** Restores the dump of a format, and what `sql` adds to it. */
function restoredPath(format: number, sql = ''): string {
  const path = temporaryPath('checkpoint.sqlite');
  restore(path, readFileSync(dumpPath(format), 'utf8') + sql);
  return path;
}

const { FEED_SYNC_RECORD_FORMAT } = process.env;
if (FEED_SYNC_RECORD_FORMAT === '1') {
  it('records the current format', async () => {
    const path = dumpPath(CURRENT_FORMAT);
    expect(existsSync(path), 'a recorded format stays as it is').toBe(false);
    writeFileSync(path, dumpOf(await filledPath(CURRENT_FORMAT)));
  });
}

it('has a dump of every format that the program reads', () => {
  expect(FORMATS.at(-1)).toBe(CURRENT_FORMAT);
  expect(readdirSync(folder).sort()).toEqual(FORMATS.map((format) => `format-${format}.sql`).sort());
});

describe.each(FORMATS)('the migration of format %i', (format) => {
  it('gives a migrated file the schema of a new checkpoint', async () => {
    const path = restoredPath(format);
    (await openAt(path)).close();
    expect(schemaOf(path)).toEqual(schemaOf(await newPath()));
  });

  it('keeps the content of a migrated file', async () => {
    const expected = contentOf(await openAt(await filledPath(format)));
    const migrated = await openAt(restoredPath(format));
    expect(contentOf(migrated)).toEqual(expected);
    expect(migrated.rememberDelivery("msg_'1", NOON)).toBe(false);
  });
});

it.each([1, 2, 3])(
  'refuses a checkpoint of the unreleased format %i, unchanged, and says what to do',
  async (format) => {
    const path = restoredPath(4, `PRAGMA user_version = ${format};`);
    const before = readFileSync(path);
    const opening = openAt(path);
    await expect(opening).rejects.toThrow(ConfigurationError);
    await expect(opening).rejects.toThrow(`${path} has format ${format}`);
    await expect(opening).rejects.toHaveProperty('hint', expect.stringContaining('Remove the file'));
    expect(readFileSync(path)).toEqual(before);
  },
);

describe('the migration of the first released format', () => {
  it('F46 keeps an announced version for every subscription that contains the dataset, and for none that dropped it', async () => {
    const path = restoredPath(
      4,
      `INSERT INTO wants (dataset_id, at_least_version) VALUES ('shared', 9), ('left', 8);
      INSERT INTO want_members (dataset_id, subscription_id, is_member, event_number)
      VALUES ('shared', 's', 1, 3), ('shared', 't', 1, NULL), ('shared', 'u', 0, 4), ('left', 's', 0, 5);`,
    );
    const checkpoint = await openAt(path);
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

  it('keeps a resync that is owed, and forgets one that was done', async () => {
    const path = restoredPath(
      4,
      "INSERT INTO wants (dataset_id, resyncs_asked, resyncs_done) VALUES ('owed', 5, 4), ('done', 5, 5);",
    );
    const checkpoint = await openAt(path);
    const numbers = ['owed', 'done'].map((id) => checkpoint.desired(id)?.resyncNumber);
    expect(numbers).toEqual([1, 0]);
  });
});
