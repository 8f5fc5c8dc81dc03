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
import { dumpOf, restore, schemaOf } from '../support/checkpoint-dump.ts';
import {
  commit,
  event,
  failureOf,
  holdOf,
  NOON,
  openAt,
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
];

/** A reload that a file of format 1 holds does not say when it was asked for. */
const LONG_AGO = new Date(0);

function fill(checkpoint: Checkpoint, format: number): void {
  for (const fillFormat of FILLS.slice(0, format)) fillFormat(checkpoint);
}

function fillFormat1(checkpoint: Checkpoint): void {
  checkpoint.rememberContract({ manifestPath: '/v1/{datasetId}/manifest', newerThanParameter: "o'ther" });
  const step = { subscriptionId: 's', subscriptionName: 'Parcels', cursor: event(LARGEST), isQuiet: false };
  checkpoint.commitFollowStep({
    ...step,
    changes: [
      { kind: 'member', datasetId: 'd', eventNumber: 3n },
      { kind: 'reload', datasetId: 'd', eventNumber: LARGEST, version: 7 },
      { kind: 'look', datasetId: 'd' },
      { kind: 'look', datasetId: 'd' },
      { kind: 'no-member', datasetId: 'e' },
    ],
  });
  commit(checkpoint, 't');
  checkpoint.markLooked('d', 1);
  for (const scope of SCOPES) checkpoint.hold(holdOf(scope, 'it is "not" distributable'));
  checkpoint.fail(failureOf('d', { hint: 'look at row 3' }));
  checkpoint.journal({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'version 7' });
}

function fillFormat2(checkpoint: Checkpoint): void {
  const step = { subscriptionId: 'u', subscriptionName: 'Quiet', cursor: event(9n), isQuiet: true };
  checkpoint.commitFollowStep({
    ...step,
    changes: [
      { kind: 'member', datasetId: 'f', eventNumber: 1n },
      { kind: 'reload', datasetId: 'f', eventNumber: 8n, version: null },
      { kind: 'no-member', datasetId: 'g', eventNumber: 7n, reason: "it's left" },
    ],
  });
  checkpoint.askResync(['f']);
  checkpoint.askResync(['f']);
  checkpoint.markResynced('f', 1);
  checkpoint.approveRetirements();
  commit(checkpoint, 'gone');
  checkpoint.forget('gone');
  const { refusal, ...hold } = holdOf({ kind: 'retirement' });
  checkpoint.hold({ ...hold, refusal: { ...refusal, status: null, code: 'mass_retirement' } });
}

function fillFormat3(checkpoint: Checkpoint): void {
  checkpoint.keepWebhook({ webhookId: "wh_'1", url: 'https://receiver.example/webhook', createdAt: NOON });
  checkpoint.rememberDelivery("msg_'1", NOON);
}

function fillFormat4(checkpoint: Checkpoint): void {
  checkpoint.hookTold({ lines: 7, last: "parcels' changes 3" }, NOON);
  checkpoint.hookFailed("it ended with 1: can't", NOON);
}

function contentOf(checkpoint: CheckpointReader) {
  return {
    contract: checkpoint.rememberedContract(),
    followed: checkpoint.followed(),
    wants: checkpoint.wants(),
    forgotten: checkpoint.forgotten(),
    holds: checkpoint.holds(),
    failures: checkpoint.failures(),
    webhooks: checkpoint.webhooks(),
    hook: checkpoint.hook(),
    journal: checkpoint.recentJournal(10),
  };
}

function withReloadsOfLongAgo(content: ReturnType<typeof contentOf>): ReturnType<typeof contentOf> {
  const wants = [...content.wants].map(([id, want]) => {
    const reloadAskedAt = new Map(
      [...want.reloadAfter.keys()].map((subscriptionId) => [subscriptionId, LONG_AGO]),
    );
    return [id, { ...want, reloadAskedAt }] as const;
  });
  return { ...content, wants: new Map(wants) };
}

function dumpPath(format: number): string {
  return `${folder}format-${format}.sql`;
}

/** A new checkpoint with the content of the format. */
async function freshPath(format: number): Promise<string> {
  const path = temporaryPath('checkpoint.sqlite');
  const checkpoint = await openAt(path);
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
