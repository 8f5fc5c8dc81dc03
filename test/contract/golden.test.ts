/** What the commands print of a world in which everything that they can report is there: for programs, and for people. */

import { mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { acquireInstanceLock } from '../../src/checkpoint/instance-lock.ts';
import type { DryRun } from '../../src/cli/render/dry-run.ts';
import type { ContentFinding } from '../../src/cli/verify/content-findings.ts';
import { type Verification, verificationOf } from '../../src/cli/verify/findings.ts';
import type { Mending } from '../../src/cli/verify/mend.ts';
import { renderVerification } from '../../src/cli/verify/verify.ts';
import type { Candidate } from '../../src/model/candidate.ts';
import type { StatusJson } from '../../src/reporting/status.ts';
import { commit, openAt } from '../support/checkpoint-files.ts';
import { IDENTITY } from '../support/command-line.ts';
import { expectGolden, expectGoldenText, withPlaceholders } from '../support/golden.ts';
import {
  catchUp,
  comesToWork,
  type GoldenWorld,
  goldenWorld,
  leavingWorld,
  losesItsKey,
  losesItsStores,
  meetsIncidents,
  waitingWorld,
} from '../support/golden-world.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { table, version } from '../support/sync-values.ts';

/** No service answers here. */
const NOWHERE = 'http://127.0.0.1:9';
const WIDTHS = [80, 120] as const;
/** A value of every kind, and null. */
const VALUES = `SELECT 'Ä "b"' AS text, 9007199254740993 AS integer, 1.5::DOUBLE AS number, 'nan'::DOUBLE AS nan, 1.50::DECIMAL(5, 2) AS decimal,
  true AS boolean, DATE '2026-02-28' AS date, TIMESTAMPTZ '2026-02-28 08:00:00.123456Z' AS moment, '{"a": 1}'::JSON AS json,
  [1, 2] AS list, {'a': 'b'} AS struct, 'POINT (1 2)'::GEOMETRY AS geometry, NULL AS nothing
  UNION ALL BY NAME SELECT 'x' AS text`;
/** A disk is as full as it is. */
const FREE_BYTES = 80_000_000_000;
const MIRROR_BYTES = 12_600_000;

it('every command prints a world that has everything as the golden files say', async () => {
  const world = await goldenWorld();
  const { feed, installed } = world;
  expectGoldenText('summary/failing', reported(world, await catchUp(world)));
  await comesToWork(world);
  expectGolden('dry-run/everything', await planned(world, 77));
  await expectTexts('dry-run/everything', world, 'once', '--dry-run');
  const unreadable = { operation: 'events', subscriptionId: 'sub_1' } as const;
  feed.faults.add({ match: unreadable, act: { kind: 'respond', status: 503 } });
  expectGolden('dry-run/unreadable-log', await planned(world, 77));

  meetsIncidents(world);
  expectGoldenText('summary/everything', reported(world, await catchUp(world)));
  await installed.run('forget', '--subscription', 'sub_5', '--yes');
  await installed.run('resync', 'us-tx-travis-bridges');
  expectGolden('subscriptions/everything', await json(world, 0, 'subscriptions', '--json'));
  await expectTexts('subscriptions/everything', world, 'subscriptions');
  await publishesFor(world, (checkpoint) => {
    const said = 'The command after commits, ./refresh.sh, ended with 2:\nno warehouse';
    checkpoint.hookFailed(said, feed.clock.now());
    const beganAt = feed.clock.now();
    const position = { table: 'main.us_tx_travis_flood', row: 0 };
    checkpoint.keepScrub({ beganAt, position, completedAt: null, isExaminationAsked: false });
  });
  const running = await instanceOf(world);
  expectGolden('status/everything', await json(world, 0, 'status', '--json'));
  await running.release();
  await expectTexts('status/everything', world, 'status');
  publishesForNobody(world);
  const mirrorPath = join(installed.dataDirectory, 'mirror.duckdb');
  await writeMirror(mirrorPath, 'DELETE FROM us_tx_travis_flood WHERE amount = 7');
  expectGolden('verify/everything', await json(world, 77, 'verify', '--json'));
  await expectTexts('verify/everything', world, 'verify');

  expectGoldenText('query/values', (await installed.run('query', '--format', 'json', VALUES)).stdout);
  expectGolden('log/catch-ups', logOf(world));

  losesItsKey(world);
  expectGolden('dry-run/refused', await planned(world, 77));
  await expectTexts('dry-run/refused', world, 'once', '--dry-run');
  expectGoldenText('summary/refused', reported(world, await catchUp(world)));
  expectGolden('verify/refused', await json(world, 77, 'verify', '--json'));
  losesItsStores(world, 'mirror.duckdb');
  expectGolden('status/lost-mirror', await json(world, 78, 'status', '--json'));
});

it('once --json prints catch-ups as the golden files say', async () => {
  const world = await goldenWorld();
  expectGolden('once/failing', await json(world, 77, 'once', '--json'));
  await comesToWork(world);
  // Their past was kept until now.
  await writeMirror(
    join(world.installed.dataDirectory, 'mirror.duckdb'),
    `INSERT INTO feed_sync.history_logs BY NAME SELECT dataset_id, table_name AS log_name,
      'main.' || table_name AS table_name, commit_number AS first_commit, applied_at AS first_time FROM feed_sync.datasets`,
  );
  meetsIncidents(world);
  const unreadable = { operation: 'events', subscriptionId: 'sub_4', times: 'always' } as const;
  world.feed.faults.add({ match: unreadable, act: { kind: 'respond', status: 503 } });
  expectGolden('once/everything', await json(world, 77, 'once', '--json'));
  world.installed.environment['FEED_SYNC_BASE_URL'] = NOWHERE;
  expectGolden('once/unreachable', await json(world, 77, 'once', '--json'));
  world.installed.environment['FEED_SYNC_BASE_URL'] = world.feed.baseUrl;
});

it('verify prints contents that were compared with the service as the golden files say', () => {
  const seen = { commitNumber: 7, snapshotVersion: 3, snapshotDigest: 'digest' };
  const key = (id: string) => new Map([['id', id]]);
  const different: ContentFinding = {
    kind: 'different',
    difference: { added: 1, changed: 1, removed: 1 },
    keys: { added: [key('1')], changed: [{ key: key('2'), columns: ['owner'] }], removed: [key('3')] },
    ...seen,
  };
  const keyless = { added: 2, changed: null, removed: 1 };
  const unreadable = { kind: 'damaged', why: 'Corrupt database file' } as const;
  const waiting = { kind: 'not-comparable', why: 'it waits for an operator', exitCode: 77 } as const;
  const contents: Readonly<Record<string, readonly [ContentFinding, Mending | null]>> = {
    altered: [different, null],
    damaged: [{ ...unreadable, columnName: 'owner' }, null],
    keyless: [{ ...different, difference: keyless, keys: { added: [], changed: [], removed: [] } }, null],
    mended: [different, { kind: 'repaired', text: 'Repaired the table mended of mended: 1 added.' }],
    waiting: [waiting, null],
  };
  const sound = { rowCount: 10, keys: null, strayColumns: [], hasRecordedChecksum: false };
  const datasets = Object.entries(contents).map(([datasetId, [content, mending]]) => ({
    datasetId,
    comparison: { kind: 'followed' } as const,
    counted: { observed: table(3, { datasetId, tableName: datasetId }), table: sound, damage: null },
    answer: [version(datasetId, 3)],
    content,
    mending,
  }));
  const kept = { datasetId: 'mended', schema: 'history', logName: 'mended', recorded: null, checksum: null };
  const view = verificationOf({
    mirror: '/mirror',
    datasets,
    past: [
      { ...kept, kind: 'log', name: 'mended', state: 'altered', damage: null },
      { ...kept, kind: 'frozen', name: 'mended__3', state: 'missing', damage: null },
      {
        ...kept,
        kind: 'archived',
        schema: 'archived',
        name: 'old__1',
        state: 'damaged',
        damage: 'Corrupt block',
      },
      { ...kept, kind: 'log', name: 'sound', state: 'equal', damage: null },
    ],
    renewal: {
      kind: 'renewed',
      text: 'Closed undo logs that were altered outside feed-sync: history.mended.',
    },
    files: {
      endingProcess: new Map(),
      copy: { path: '/copy.duckdb', damage: ['main.mended: Corrupt block'] },
    },
    workspaceSuspension: null,
    problem: null,
  });
  expectGolden('verify/deep', view);
  for (const width of WIDTHS) {
    expectGoldenText(`verify/deep.${width}`, `${renderVerification(view, [], width)}\n`);
  }
});

it('the commands print retirements that wait for approval, and lost stores, as the golden files say', async () => {
  const world = await leavingWorld();
  const { installed } = world;
  const copyPath = await publishesFor(world, (checkpoint) => {
    const now = world.feed.clock.now();
    checkpoint.hookReported({ commitNumber: 12, mark: 'the last of them' }, now);
    checkpoint.keepScrub({ beganAt: now, position: null, completedAt: now, isExaminationAsked: false });
  });
  const manifestPath = join(world.installed.dataDirectory, 'export', 'manifest.json');
  mkdirSync(dirname(manifestPath));
  for (const path of [copyPath, manifestPath]) {
    writeFileSync(path, 'a copy');
    utimesSync(path, world.feed.clock.now(), world.feed.clock.now());
  }
  expectGolden('status/leaving', firstTwo(await json<StatusJson>(world, 0, 'status', '--json')));
  await expectTexts('status/leaving', world, 'status');
  publishesForNobody(world);
  expectGolden('dry-run/leaving', firstTwo(await planned(world, 77)));
  await installed.run('resume', '--retire', '--yes');
  expectGolden('dry-run/agreed', firstTwo(await planned(world, 0)));
  installed.environment['FEED_SYNC_BASE_URL'] = NOWHERE;
  expectGolden('dry-run/unreachable', await planned(world, 75));
  expectGolden('verify/unreachable', firstTwo(await json<Verification>(world, 75, 'verify', '--json')));
  installed.environment['FEED_SYNC_BASE_URL'] = world.feed.baseUrl;
  expectGoldenText('summary/agreed', reported(world, await catchUp(world)));
  expectGolden('status/idle', firstTwo(await json<StatusJson>(world, 0, 'status', '--json')));
  installed.environment['FEED_SYNC_BASE_URL'] = NOWHERE;
  await catchUp(world);
  expectGolden('status/outage', firstTwo(await json<StatusJson>(world, 0, 'status', '--json')));
  await expectTexts('status/outage', world, 'status');
  installed.environment['FEED_SYNC_BASE_URL'] = world.feed.baseUrl;
  rmSync(join(installed.dataDirectory, 'checkpoint.sqlite'));
  expectGolden('status/lost-checkpoint', await json<StatusJson>(world, 0, 'status', '--json'));
  losesItsStores(world, 'mirror.duckdb', 'checkpoint.sqlite');
  expectGoldenText('summary/lost-stores', reported(world, await catchUp(world)));
  expectGolden('log/lost-stores', logOf(world));
});

it('the commands print retirements that wait for subscriptions as the golden files say', async () => {
  const world = await waitingWorld();
  expectGoldenText('summary/waiting', reported(world, await catchUp(world)));
  expectGolden('status/waiting', await json<StatusJson>(world, 0, 'status', '--json'));
  await expectTexts('status/waiting', world, 'status');
  expectGolden('dry-run/waiting', await planned(world, 77));
  const mirrorPath = join(world.installed.dataDirectory, 'mirror.duckdb');
  const pinned = "UPDATE feed_sync.datasets SET pinned_since = TIMESTAMPTZ '2026-03-01 12:00:00Z'";
  const log = `INSERT INTO feed_sync.history_logs BY NAME
    SELECT 'us-tx-bexar-parcels' AS dataset_id, unnest(['parcels', 'parcels__2_log']) AS log_name, 'main.a' AS table_name,
      1 AS first_commit, TIMESTAMPTZ '2026-03-01 08:00:00Z' AS first_time, unnest(['history was switched off', NULL]) AS closed_reason,
      unnest([1, NULL]) AS closed_commit, unnest([NULL, 2]) AS frozen_commit, unnest([1234, NULL]) AS row_count`;
  const union = {
    name: 'parcels',
    globs: ['*-parcels'],
    form: 2,
    members: 2,
    parts: 1,
    unusable: ['us-tx-bexar-parcels'],
    leftOut: [
      { columnName: 'height', kinds: [{ kind: 'integer', members: 1, example: 'us-tx-travis-parcels' }] },
    ],
  };
  const unions = `INSERT INTO feed_sync.meta VALUES ('union', '${JSON.stringify(union)}')`;
  await writeMirror(mirrorPath, pinned, log, unions);
  expectGolden('status/pinned', await json<StatusJson>(world, 0, 'status', '--json'));
  await expectTexts('status/pinned', world, 'status');
  const undone = [
    'UPDATE feed_sync.datasets SET pinned_since = NULL',
    'DELETE FROM feed_sync.history_logs',
    `DELETE FROM feed_sync.meta WHERE "key" = 'union'`,
  ];
  await writeMirror(mirrorPath, ...undone);
  expectGoldenText('summary/suspended', reported(world, await catchUp(world)));
  expectGolden('log/waiting', logOf(world));
});

it('status prints commits that wait for approval as the golden files say', async () => {
  const world = await waitingWorld();
  const checkpoint = await openAt(join(world.installed.dataDirectory, 'checkpoint.sqlite'));
  const since = world.feed.clock.now();
  const counted = { before: 1_200, after: 500, added: 0, changed: 2, removed: 700, isByKey: true };
  const waiting: Candidate = {
    datasetId: 'us-tx-travis-parcels',
    base: 'a state of the table',
    version: 2,
    judged: {
      digest: '3f9a1c20'.repeat(8),
      counts: counted,
      keys: { added: [], changed: [['3'], ['5']], removed: [['501'], ['502']] },
    },
    since,
    approvedAt: null,
    identity: 'version 2',
    content: { kind: 'changes', versions: [] },
    alike: [],
    later: [
      { version: 3, counts: { ...counted, changed: null }, digest: 'a1b2c3d4'.repeat(8), alike: [] },
      { version: 4, counts: { ...counted, added: 1, after: 501 }, digest: 'b2c3d4e5'.repeat(8), alike: [] },
    ],
  };
  // One that an older program followed, and that was not polled since.
  commit(checkpoint, 'sub_9');
  checkpoint.keepCandidate(waiting);
  checkpoint.keepCandidate({
    ...waiting,
    datasetId: 'us-tx-bexar-parcels',
    judged: {
      ...waiting.judged,
      counts: { ...counted, added: 1_200, changed: null, removed: 1_200, after: 1_200 },
      keys: { added: [['b, 1']], changed: [], removed: [['1']] },
    },
    approvedAt: since,
    later: [],
  });
  checkpoint.close();
  expectGolden('status/awaiting', await json<StatusJson>(world, 0, 'status', '--json'));
  await expectTexts('status/awaiting', world, 'status');
});

/** The screens that a text is shown on. */
async function expectTexts(name: string, world: GoldenWorld, ...words: readonly string[]): Promise<void> {
  for (const width of WIDTHS) {
    const { stdout } = await world.installed.runOn({ width }, ...words);
    expectGoldenText(`${name}.${width}`, reported(world, stdout));
  }
}

async function json<T = unknown>(
  world: GoldenWorld,
  exitCode: number,
  ...words: readonly string[]
): Promise<T> {
  const said = await world.installed.run(...words);
  expect(said.exitCode, said.stderr).toBe(exitCode);
  return withoutSizes(JSON.parse(reported(world, said.stdout)));
}

/** How large a file is that DuckDB has made is its own affair. */
function withoutSizes<T>(output: T): T {
  const { mirror } = output as { readonly mirror?: string | Partial<StatusJson['mirror']> };
  if (typeof mirror !== 'object' || mirror.bytes === undefined) return output;
  expect(mirror.bytes).toBeGreaterThan(0);
  const freeBytes = typeof mirror.freeBytes === 'number' ? 0 : null;
  return { ...output, mirror: { ...mirror, bytes: MIRROR_BYTES, freeBytes } };
}

async function planned(world: GoldenWorld, exitCode: number): Promise<DryRun> {
  const view = await json<DryRun>(world, exitCode, 'once', '--dry-run', '--json');
  expect(view.disk.freeBytes).toBeGreaterThan(0);
  return { ...view, disk: { ...view.disk, freeBytes: FREE_BYTES, isEnough: true } };
}

/** Without what differs from run to run. */
function reported({ feed, installed }: GoldenWorld, text: string): string {
  const places = { data: installed.dataDirectory, service: feed.baseUrl, host: new URL(feed.baseUrl).host };
  return withPlaceholders(text, places)
    .replace(/; [\d.]+ [KMGT]B are free/, '; 80.0 GB are free')
    .replace(/(The mirror is .*) \([\d.]+ [KM]?B\)\./, '$1 (12.6 MB).');
}

/** From now on it has a copy and a command to be run after commits, of which the checkpoint knows. */
async function publishesFor(
  { installed }: GoldenWorld,
  remember: (checkpoint: Checkpoint) => void,
): Promise<string> {
  const copyPath = join(installed.dataDirectory, 'copy.duckdb');
  installed.environment['FEED_SYNC_DESTINATION_PUBLISH'] = copyPath;
  installed.environment['FEED_SYNC_EXPORT_PATH'] = join(installed.dataDirectory, 'export');
  installed.environment['FEED_SYNC_HOOKS_AFTER_COMMIT'] = './refresh.sh';
  const checkpoint = await openAt(join(installed.dataDirectory, 'checkpoint.sqlite'));
  remember(checkpoint);
  checkpoint.close();
  return copyPath;
}

function publishesForNobody({ installed }: GoldenWorld): void {
  delete installed.environment['FEED_SYNC_DESTINATION_PUBLISH'];
  delete installed.environment['FEED_SYNC_EXPORT_PATH'];
  delete installed.environment['FEED_SYNC_HOOKS_AFTER_COMMIT'];
}

/** Of datasets that are all alike. */
function firstTwo<T extends { readonly datasets: readonly unknown[] }>(view: T): T {
  return { ...view, datasets: view.datasets.slice(0, 2) };
}

/** An instance at work, as far as its lock is concerned. */
function instanceOf({ feed, installed }: GoldenWorld) {
  const { pid, host, uid } = IDENTITY;
  const holder = { pid, host, startedAt: feed.clock.now(), command: 'once' };
  return acquireInstanceLock({ path: join(installed.dataDirectory, 'lock.sqlite'), uid, holder });
}

interface LogLine {
  readonly time: string;
  readonly msg: string;
}

/** A line of every kind: those that say the same of another dataset are left out. Their order depends on the machine. */
function logOf(world: GoldenWorld): readonly object[] {
  const lines = world.logged.map((line): LogLine => JSON.parse(reported(world, line)));
  for (const { time } of lines) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const sorted = lines
    .map((line) => ({ ...line, time: '2026-01-01T00:00:00.000Z' }))
    .toSorted((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1));
  const kindOf = (line: LogLine): string => `${line.msg} ${Object.keys(line).join(' ')}`;
  return [...new Map(sorted.toReversed().map((line) => [kindOf(line), line])).values()].toReversed();
}
