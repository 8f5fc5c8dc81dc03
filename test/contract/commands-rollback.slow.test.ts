/** `diff`, `rollback` and the end of a pin, from the command line: states, questions, exit codes. */

import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import type { Context } from '../../src/cli/context.ts';
import { commandLine } from '../support/command-line.ts';
import { duckdb } from '../support/duckdb-mirror.ts';
import { smallContent } from '../support/small-content.ts';
import { startedFeed } from '../support/started-feed.ts';

const FIRST: readonly Row[] = [
  ['a', 1],
  ['b', 2],
  ['c', 3],
];
const SECOND: readonly Row[] = [
  ['a', 1],
  ['b', 20],
  ['d', 4],
];

interface Options {
  readonly history?: string;
  readonly ask?: Context['ask'];
  readonly datasetId?: string;
}

async function installed({ history = '*', ask, datasetId = 'parcels' }: Options = {}) {
  const feed = await startedFeed();
  feed.publisher.addDataset({ datasetId, placeId: 'us-tx-travis', topic: 'parcels' });
  const environment = { FEED_SYNC_HISTORY_DATASETS: history };
  const now = () => feed.clock.now();
  const line = commandLine({ feed, now, environment, ...(ask === undefined ? {} : { ask }) });
  onTestFinished(() => line.remove());
  const publish = async (rows: readonly Row[]) => {
    feed.publisher.publish(datasetId, smallContent(rows, null));
    const said = await line.run('once');
    expect(said, said.stderr).toMatchObject({ exitCode: 0 });
    return said;
  };
  const query = async (sql: string) => (await line.run('query', '--format', 'json', sql)).stdout.trim();
  return { feed, line, publish, query };
}

const NAMED = /commit (\d) \(version (\d), 2026-01-01 00:00 UTC\)/g;

it('diff shows what changed of each row, as a table, as CSV and as JSON', async () => {
  const { line, publish } = await installed();
  await publish(FIRST);
  await publish(SECOND);
  const diff = (...words: readonly string[]) => line.run('diff', 'parcels', '--from-version', '1', ...words);
  expect(await diff()).toMatchObject({
    exitCode: 0,
    stderr: '',
    stdout: `parcels, from commit 1 (version 1, 2026-01-01 00:00 UTC) to commit 2 (version 2, 2026-01-01 00:00 UTC)

change   id  column  before  after
──────────────────────────────────
changed  b   amount  2       20
removed  c   amount  3       NULL
added    d   amount  NULL    4
(3 differences)
1 row added, 1 changed, 1 removed
`,
  });
  expect((await diff('--format', 'csv')).stdout).toBe(
    'change,id,column,before,after\nchanged,b,amount,2,20\nremoved,c,amount,3,\nadded,d,amount,,4\n',
  );
  expect((await diff('--format', 'json', '--to-commit', '2')).stdout).toBe(
    [
      '{"change":"changed","key":{"id":"b"},"before":{"amount":2},"after":{"amount":20}}',
      '{"change":"removed","key":{"id":"c"},"before":{"amount":3},"after":null}',
      '{"change":"added","key":{"id":"d"},"before":null,"after":{"amount":4}}',
      '',
    ].join('\n'),
  );
  expect((await diff('--to-time', '2026-01-01T00:00')).stdout).toMatch(NAMED);
});

it.each([
  [['diff', 'parcels'], 'diff needs to know from which state on.'],
  [['diff', 'parcels', '--from-version', '1', '--from-commit', '1'], 'Only one of --from-version'],
  [['diff', 'parcels', '--from-version', 'one'], "--from-version is 'one', which is not a whole number."],
  [['diff', 'parcels', '--from-time', 'noon'], "--from-time is 'noon', which is not a time in ISO 8601."],
  [['diff', 'parcels', '--from-version', '7'], 'The table of parcels never had version 7.'],
  [['diff', 'nowhere', '--from-version', '1'], 'The mirror has no table of nowhere, and never had one.'],
  [['rollback', 'parcels', '--yes'], 'rollback needs to know to which state.'],
  [['rollback', 'parcels', '--to-commit', '0', '--yes'], 'parcels had no table then'],
  [['rollback', 'parcels', '--to-version', '2', '--yes'], 'there is nothing to roll back.'],
  [['rollback', 'parcels', '--to-time', '2025-01-01', '--yes'], 'parcels had no table then'],
  [['resume', '--dataset', 'parcels'], 'Neither suspended nor failed: dataset parcels.'],
])('refuses %j with 64 and the reason', async (words, message) => {
  const { line, publish } = await installed();
  await publish(FIRST);
  await publish(SECOND);
  const said = await line.run(...words);
  expect(said).toMatchObject({ exitCode: 64, stdout: '' });
  expect(said.stderr).toContain(message);
});

it('F38 diff, rollback and resume show the id of a dataset without control characters', async () => {
  const datasetId = 'parcels\u001b[2J';
  const { line, publish } = await installed({ datasetId });
  await publish(FIRST);
  await publish(SECOND);
  for (const words of [
    ['diff', datasetId, '--from-version', '1'],
    ['rollback', datasetId, '--to-version', '1', '--yes'],
    ['resume', '--dataset', datasetId, '--yes'],
  ]) {
    const { exitCode, stdout, stderr } = await line.run(...words);
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toContain('parcels\\u001b[2J');
    expect(stdout + stderr).not.toContain('\u001b');
  }
});

it('F69 rollback shows what it does, asks, and pins the dataset until resume --dataset', async () => {
  const questions: string[] = [];
  let answer = 'no';
  const ask = async (question: string) => {
    questions.push(question);
    return answer;
  };
  const { feed, line, publish, query } = await installed({ ask });
  const rows = () => query('SELECT id, amount FROM parcels ORDER BY id');
  await publish(FIRST);
  const first = await rows();
  await publish(SECOND);
  const declined = await line.run('rollback', 'parcels', '--to-version', '1');
  expect(declined).toMatchObject({ exitCode: 64, stdout: '' });
  expect(declined.stderr).toContain('1 row added, 1 changed, 1 removed.');
  expect(declined.stderr).toContain('Nothing was done: the answer was not yes.');
  answer = 'yes';
  expect(await line.run('rollback', 'parcels', '--to-version', '1')).toMatchObject({
    exitCode: 0,
    stdout:
      'Rolled back: parcels is as commit 1 left it, at version 1 with 3 rows. It stays there until "feed-sync resume --dataset parcels".\n',
  });
  expect(await rows()).toBe(first);

  const caughtUp = await publish([['e', 5]]);
  expect(caughtUp.stdout).toContain('1 pinned');
  expect(await rows()).toBe(first);
  expect((await line.run('status')).stdout).toContain('pinned since 2026-01-01 00:00, until you resume it');
  expect(JSON.parse((await line.run('status', '--json')).stdout).datasets).toMatchObject([
    { state: 'pinned', need: null, version: 1, pinnedSince: '2026-01-01T00:00:00.000Z' },
  ]);
  expect((await line.run('doctor')).stdout).toContain('A rollback keeps these where they are: parcels.');
  expect(await line.run('verify')).toMatchObject({ exitCode: 0 });
  expect(await line.run('once', '--dry-run')).toMatchObject({ exitCode: 0 });

  const resync = await line.run('resync', 'parcels');
  expect(resync).toMatchObject({ exitCode: 64, stdout: '' });
  expect(resync.stderr).toContain('feed-sync resume --dataset parcels');
  expect(await line.run('resume', '--all')).toMatchObject({ exitCode: 0 });
  feed.publisher.resync('parcels', 'source_retired');
  await line.run('once');
  expect(await rows()).toBe(first);

  questions.length = 0;
  expect(await line.run('resume', '--dataset', 'parcels')).toMatchObject({
    exitCode: 0,
    stdout:
      'The next version of parcels is 3; version 2 was undone.\nLifted the pin of parcels, which is at version 1.\n',
  });
  expect(questions).toEqual([]);
  expect(await line.run('once')).toMatchObject({ exitCode: 0 });
  expect(await rows()).toBe('{"id":"e","amount":5}');
});

it('F69 resume --dataset asks when the next version is the one that was undone', async () => {
  const { line, publish, query } = await installed();
  await publish(FIRST);
  await publish(SECOND);
  await line.run('rollback', 'parcels', '--to-commit', '1', '--yes');
  const said = await line.run('resume', '--dataset', 'parcels');
  expect(said).toMatchObject({ exitCode: 64, stdout: '' });
  expect(said.stderr).toContain('The next version of parcels is 2, which was undone.');
  expect(await line.run('resume', '--dataset', 'parcels', '--yes')).toMatchObject({ exitCode: 0 });
  expect(await line.run('once')).toMatchObject({ exitCode: 0 });
  expect(await query('SELECT version FROM feed_sync.datasets')).toBe('{"version":2}');
});

it('rollback without history says what can be done instead: 64', async () => {
  const { line, publish } = await installed({ history: 'others-*' });
  await publish(FIRST);
  await publish(SECOND);
  const said = await line.run('rollback', 'parcels', '--to-version', '1', '--yes');
  expect(said).toMatchObject({ exitCode: 64, stdout: '' });
  expect(said.stderr).toContain('parcels has no history: its earlier states are not known.');
  expect(said.stderr).toContain('feed-sync resync');
});

it('F70 diff and rollback name a column that was altered by hand (65), and a resync restores the table', async () => {
  const { line, publish } = await installed();
  await publish(FIRST);
  await publish(SECOND);
  const byHand = (sql: string) =>
    duckdb(`ATTACH '${join(line.dataDirectory, 'mirror.duckdb')}' AS m`, 'USE m', sql);
  for (const change of ['ALTER amount TYPE VARCHAR', 'DROP COLUMN amount']) {
    await byHand(`ALTER TABLE parcels ${change}`);
    for (const words of [
      ['diff', 'parcels', '--from-version', '1'],
      ['rollback', 'parcels', '--to-version', '1', '--yes'],
    ]) {
      const { exitCode, stderr } = await line.run(...words);
      expect(exitCode, stderr).toBe(65);
      expect(stderr).toContain('The table parcels has not the columns that the catalog lists: "amount".');
      expect(stderr).toContain('feed-sync resync parcels');
    }
  }
  await line.run('resync', 'parcels', '--yes');
  expect(await line.run('once')).toMatchObject({ exitCode: 0 });
  await publish(FIRST);
  expect(await line.run('diff', 'parcels', '--from-commit', '3')).toMatchObject({ exitCode: 0 });
});
