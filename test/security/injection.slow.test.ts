/**
 * F38 every text that the service sends, in every field of every answer, is hostile: nothing is executed, no file is made
 * that is not ours, no line of output is forged, no terminal is made to act, and nothing ends with a bug.
 */

import { cpSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { Act } from '../../fixtures/feed/faults.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { Operation } from '../../fixtures/feed/operations.ts';
import type { SourceSchema } from '../../fixtures/source/content.ts';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { mirrorDump } from '../support/mirror-dump.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { expectHarmless } from './harmless.ts';
import { HOSTILE, MARK, UNWRITABLE } from './hostile-texts.ts';
import { READ_OPERATIONS } from './read-operations.ts';
import { pathName, textPaths, withNames, withText } from './wire-texts.ts';

/** With every field that a column can have. */
const SCHEMA: SourceSchema = {
  ...SMALL_SCHEMA,
  columns: SMALL_SCHEMA.columns.map((one) => ({
    ...one,
    description: 'What it is.',
    sourceName: 'ITS_NAME',
  })),
  envelopeColumns: [column('loaded_by', 'string')],
};
const WIDER: SourceSchema = {
  ...SCHEMA,
  schemaVersion: '2',
  columns: [...SCHEMA.columns, column('b', 'json')],
};
interface Scene {
  readonly feed: FixtureFeed;
  /** A data directory in which the first versions are. */
  readonly behind: string;
  /** Of each operation an answer as it is. */
  readonly answers: ReadonlyMap<Operation, unknown>;
}

async function scene(): Promise<Scene> {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  feed.publisher.subscribe({
    subscriptionId: 'sub_1',
    name: 'All',
    places: ['us-tx-travis'],
    topics: ['parcels'],
  });
  const ids = ['parcels', 'permits'];
  for (const datasetId of ids) {
    feed.publisher.addDataset({ datasetId, placeId: 'us-tx-travis', topic: 'parcels' });
    feed.publisher.publish(datasetId, smallContent(rows(2), [], SCHEMA));
  }
  const before = installation(feed);
  expect(await before.run('once')).toMatchObject({ exitCode: 0 });
  const added = [{ op: 'added' as const, row: rows(3)[2] ?? [] }];
  for (const datasetId of ids) {
    feed.publisher.publish(datasetId, smallContent(rows(3), added, SCHEMA));
    const wider = rows(4).map(([id = '', amount = 0, by = '']) => [id, amount, { json: { of: 'json' } }, by]);
    const row = wider[3] ?? [];
    feed.publisher.publish(datasetId, smallContent(wider, [{ op: 'added', row }], WIDER));
  }
  return { feed, behind: before.dataDirectory, answers: await answersOf(feed, before.dataDirectory) };
}

function rows(count: number) {
  return numberedRows(count).map((row) => [...row, 'us']);
}

function installation(feed: FixtureFeed, from: string | null = null): CommandLine {
  const made = commandLine({
    feed,
    now: () => new Date(),
    environment: {
      FEED_SYNC_LOG_LEVEL: 'trace',
      FEED_SYNC_LOG_FORMAT: 'text',
      FEED_SYNC_RETRY_MAX_ATTEMPTS: '2',
      FEED_SYNC_SCHEMA_CHANGES: 'alter',
    },
  });
  onTestFinished(() => made.remove());
  if (from !== null) cpSync(from, made.dataDirectory, { recursive: true });
  return made;
}

/** As they come in a catch-up from nothing and one of what is behind. */
async function answersOf(feed: FixtureFeed, behind: string): Promise<ReadonlyMap<Operation, unknown>> {
  const answers = new Map<Operation, unknown>();
  for (const operation of READ_OPERATIONS) {
    const rewrite = (body: unknown): unknown => {
      // Changes of two versions come in any order: the one with more to say is taken.
      const before = textPaths(answers.get(operation) ?? {}).length;
      if (textPaths(body).length >= before) answers.set(operation, body);
      return body;
    };
    feed.faults.add({ match: { operation, times: 'always' }, act: { kind: 'rewrite', rewrite } });
  }
  for (const from of [null, behind])
    expect(await installation(feed, from).run('once')).toMatchObject({ exitCode: 0 });
  feed.faults.clear();
  return answers;
}

async function play(feed: FixtureFeed, from: string | null, operation: Operation, act: Act, about: string) {
  const installed = installation(feed, from);
  feed.faults.add({ match: { operation, times: 'always' }, act });
  expectHarmless(await installed.run('once'), about);
  for (const command of ['status', 'subscriptions']) {
    expectHarmless(await installed.run(command), `${about}, ${command}`);
  }
  feed.faults.clear();
  const home = join(installed.dataDirectory, '..');
  const files = readdirSync(home, { recursive: true }).map(String);
  expect(
    files.filter((path) => path.includes(MARK)),
    about,
  ).toEqual([]);
  expect(
    files.filter(
      (path) => !/^data(?:\/(?:[a-z]+\.(?:duckdb|sqlite)(?:-wal|-shm|\.wal)?|staging.*))?$/.test(path),
    ),
  ).toEqual([]);
  if (from !== null) {
    const dump = await mirrorDump(join(installed.dataDirectory, 'mirror.duckdb'));
    expect(Object.keys(dump), about).toEqual(
      expect.arrayContaining(['"main"."parcels"', '"main"."permits"', '"feed_sync"."datasets"']),
    );
  }
  expect(Object.keys(Object.prototype)).toEqual([]);
}

/** What a catch-up from nothing asks for; the others are asked for what is behind. */
const OF_FIRST_LOADS: readonly Operation[] = ['openapi', 'subscriptions', 'manifest'];

it('F38 mirrors and prints hostile texts in every field of every answer harmlessly', async () => {
  const { feed, behind, answers } = await scene();
  const played: string[] = [];
  for (const [operation, body] of answers) {
    const from = OF_FIRST_LOADS.includes(operation) ? null : behind;
    const paths = textPaths(body);
    // Of the description almost nothing is read.
    for (const path of operation === 'openapi' ? [] : paths) {
      const about = `${operation} ${pathName(path)}`;
      played.push(about);
      const rewrite = (sent: unknown): unknown => withText(sent, path, HOSTILE);
      await play(feed, from, operation, { kind: 'rewrite', rewrite }, about);
    }
    const unwritable = (sent: unknown): unknown =>
      paths.reduce((changed, path) => withText(changed, path, UNWRITABLE), sent);
    await play(feed, from, operation, { kind: 'rewrite', rewrite: unwritable }, `${operation}, unwritable`);
    const named = (sent: unknown): unknown => withNames(sent, HOSTILE);
    await play(feed, from, operation, { kind: 'rewrite', rewrite: named }, `${operation}, names`);
  }
  expect(played).toEqual([
    'subscriptions subscriptions[].id',
    'subscriptions subscriptions[].name',
    'subscriptions subscriptions[].places[]',
    'subscriptions subscriptions[].topics[]',
    'subscriptions subscriptions[].delivery.type',
    'subscriptions subscriptions[].createdAt',
    'subscriptions subscriptions[].format',
    'subscriptions subscriptions[].lastEventId',
    'manifest subscriptionId',
    'manifest lastEventId',
    'manifest datasets[].datasetId',
    'manifest datasets[].schemaVersion',
    'manifest datasets[].files[].url',
    'manifest datasets[].files[].sha256',
    'events events[].id',
    'events events[].type',
    'events events[].createdAt',
    'events events[].subscriptionId',
    'events events[].data.datasetId',
    'events events[].data.schemaVersion',
    'events events[].data.links.version',
    'events events[].data.links.changes',
    'events events[].data.links.schema',
    'versions versions[].datasetId',
    'versions versions[].schemaVersion',
    'versions versions[].publishedAt',
    'schemas schemas[].datasetId',
    'schemas schemas[].schemaVersion',
    'schemas schemas[].columns[].name',
    'schemas schemas[].columns[].type',
    'schemas schemas[].columns[].description',
    'schemas schemas[].columns[].sourceName',
    'schemas schemas[].keyColumns[]',
    'schemas schemas[].envelopeColumns[].name',
    'schemas schemas[].envelopeColumns[].type',
    'schemas schemas[].changeFromPrevious.kind',
    'schemas schemas[].changeFromPrevious.previousSchemaVersion',
    'schemas schemas[].changeFromPrevious.added[].name',
    'schemas schemas[].changeFromPrevious.added[].type',
    'changes datasetId',
    'changes schemaVersion',
    'changes changes[].op',
    'changes changes[].row.id',
    'changes changes[].row.b.of',
    'changes changes[].row.loaded_by',
  ]);
});
