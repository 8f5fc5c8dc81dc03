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
import { event, failureOf, holdOf, NOON, openAt, temporaryPath } from '../support/checkpoint-files.ts';

const FORMATS = [...Array(CURRENT_FORMAT + 1).keys()];
const folder = fileURLToPath(new URL('checkpoint-formats/', import.meta.url));
const LARGEST = 2n ** 63n - 1n;

const SCOPES = [
  { kind: 'workspace' },
  { kind: 'subscription', subscriptionId: 's' },
  { kind: 'dataset', datasetId: 'd' },
] as const;

/** Content that every format can hold. What a later format adds is filled by a function of its own. */
function fill(checkpoint: Checkpoint): void {
  checkpoint.rememberContract({ manifestPath: '/v1/{datasetId}/manifest', newerThanParameter: "o'ther" });
  const step = { subscriptionId: 's', subscriptionName: 'Parcels', cursor: event(LARGEST) };
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
  checkpoint.commitFollowStep({ subscriptionId: 't', subscriptionName: null, cursor: null, changes: [] });
  checkpoint.markLooked('d', 1);
  for (const scope of SCOPES) checkpoint.hold(holdOf(scope, 'it is "not" distributable'));
  checkpoint.fail(failureOf('d', { hint: 'look at row 3' }));
  checkpoint.journal({ at: NOON, kind: 'loaded', datasetId: 'd', detail: 'version 7' });
}

function contentOf(checkpoint: CheckpointReader): unknown {
  return {
    contract: checkpoint.rememberedContract(),
    followed: checkpoint.followed(),
    wants: checkpoint.wants(),
    holds: checkpoint.holds(),
    failures: checkpoint.failures(),
    journal: checkpoint.recentJournal(10),
  };
}

function dumpPath(format: number): string {
  return `${folder}format-${format}.sql`;
}

async function freshPath(fillIt: (checkpoint: Checkpoint) => void = () => {}): Promise<string> {
  const path = temporaryPath('checkpoint.sqlite');
  const checkpoint = await openAt(path);
  fillIt(checkpoint);
  checkpoint.close();
  return path;
}

const { FEED_SYNC_RECORD_FORMAT } = process.env;
if (FEED_SYNC_RECORD_FORMAT === '1') {
  it('records the current format', async () => {
    const path = dumpPath(CURRENT_FORMAT);
    expect(existsSync(path), 'a recorded format stays as it is').toBe(false);
    writeFileSync(path, dumpOf(await freshPath(fill)));
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
    expect(schemaOf(path)).toEqual(schemaOf(await freshPath()));
  });

  it('keeps its content', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    restore(path, readFileSync(dumpPath(format), 'utf8'));
    const isEmpty = format === 0;
    const expected = await openAt(await freshPath(isEmpty ? undefined : fill));
    expect(contentOf(await openAt(path))).toEqual(contentOf(expected));
  });
});
