/** The live view: its text, its rates, and its lines beside those of the log. */

import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { progressLog } from '../../src/cli/commands/once.ts';
import { frameOf, type LiveState, LiveView } from '../../src/cli/render/live-view.ts';
import { Meter, timeLeftMs, WorkSeen } from '../../src/cli/render/meter.ts';
import { COLORED, PLAIN, Screen } from '../../src/cli/render/screen.ts';
import type { StateSummary } from '../../src/daemon/state-of.ts';
import type { LogFields } from '../../src/lib/log.ts';
import { StorageError } from '../../src/model/errors.ts';
import type { Progress } from '../../src/sync/progress.ts';
import { documentedLog } from '../support/documented-lines.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { suspension, table } from '../support/sync-values.ts';
import { TerminalScreen } from '../support/terminal-screen.ts';

const SMALL = { width: 80, height: 24 };
const LARGE = { width: 120, height: 40 };
const MINUTE_MS = 60_000;
const COMMIT = {
  kind: 'snapshot',
  tableName: 'parcels',
  fromVersion: null,
  toVersion: 1,
  rowCount: 1_000,
  net: null,
  versions: 1,
  bytes: 9_100,
  durationMs: 12,
  observed: table(1),
} as const;

/** A catch-up that is in the middle of its work. */
function atWork() {
  const clock = new SteppedClock();
  const work = new WorkSeen(clock);
  work.started(40);
  work.began('us-tx-travis-parcels', 'loading version 12', { bytes: 40_000_000, rows: 2_000_000 });
  work.began('us-tx-travis-permits', 'applying 3 versions', { bytes: null, rows: 1_204 });
  work.began('us-tx-travis-zoning', 'loading version 3', { bytes: 1_000, rows: 10 });
  clock.pass(4_000);
  work.downloaded(18_200_000, 'us-tx-travis-parcels');
  work.downloaded(1_200_000, 'us-tx-travis-permits');
  work.downloaded(1_000, 'us-tx-travis-zoning');
  work.arrived('us-tx-travis-zoning');
  work.committed('us-tx-travis-water', COMMIT);
  work.settled({ kind: 'updated', datasetId: 'us-tx-travis-water', commits: [COMMIT], recheckAt: null });
  work.settled({
    kind: 'suspended',
    datasetId: 'us-tx-travis-bridges',
    commits: [],
    suspension: suspension(),
  });
  return { clock, work };
}

const NOON = new Date('2026-03-01T12:00:00.000Z');
const IDLE: StateSummary = {
  phase: 'following',
  tables: 1_200,
  underWay: 0,
  due: 0,
  waiting: 0,
  suspensions: 0,
  incidents: [],
  now: NOON,
  lastPollAt: new Date(NOON.getTime() - 12_000),
  nextPollInMs: 48_000,
};

function incident(of: string, message: string) {
  const since = new Date(NOON.getTime() - 3 * MINUTE_MS);
  return {
    of,
    error: 'service_unavailable' as const,
    message,
    hint: null,
    since,
    attempts: 4,
    isStall: false,
  };
}

function framed(state: Partial<LiveState> & { summary?: StateSummary | null } = {}, size = SMALL) {
  const work = state.work ?? new WorkSeen(new SteppedClock());
  return frameOf({ work, summary: null, nowMs: 4_000, ...state }, size, PLAIN);
}

describe('the view of a catch-up', () => {
  it('shows each step with its progress, its rate and its remaining time', () => {
    const { work } = atWork();
    expect(framed({ work }, LARGE)).toEqual([
      '',
      'Catching up: 2 of 40 datasets, 1 commit, 1 suspended · 19.4 MB at 4.9 MB/s · 4 s',
      '  us-tx-travis-parcels  loading version 12  18.2 of 40.0 MB  4.5 MB/s  ~5 s',
      '  us-tx-travis-permits  applying 3 versions  1.2 MB  300.0 KB/s',
      '  us-tx-travis-zoning   loading version 3  1.0 KB  writing',
    ]);
  });

  it('estimates the remaining time once enough datasets are caught up', () => {
    const clock = new SteppedClock();
    const work = new WorkSeen(clock);
    const settle = (id: string) =>
      work.settled({ datasetId: id, kind: 'current', commits: [], recheckAt: null });
    work.started(40);
    for (const id of ['a', 'b']) settle(id);
    expect(framed({ work, nowMs: 20_000 })[1]).not.toContain('left');
    for (const id of ['c', 'd']) settle(id);
    expect(framed({ work, nowMs: 4_000 })[1]).not.toContain('left');
    expect(framed({ work, nowMs: 20_000 })[1]).toContain('4 of 40 datasets, 0 commits · ~3 m left');
    for (let rest = 0; rest < 36; rest += 1) settle(`rest-${rest}`);
    expect(framed({ work, nowMs: 90_000 })[1]).toContain('~0 s left');
  });

  it('shows an error of several lines on one line, without escapes', () => {
    const summary = { ...IDLE, incidents: [incident('mirror', 'it cannot\n  be read')] };
    expect(framed({ summary }).join('\n')).toContain('it cannot be read');
  });

  it('shows whole lines on 80 columns, and cuts them at the end of a narrower screen', () => {
    const { work } = atWork();
    expect(framed({ work }).slice(2)).toEqual(framed({ work }, LARGE).slice(2));
    expect(framed({ work }, { width: 60, height: 24 }).slice(2)).toEqual([
      '  us-tx-travis-parcels  loading version 12  18.2 of 40.0 M…',
      '  us-tx-travis-permits  applying 3 versions  1.2 MB  300.0…',
      '  us-tx-travis-zoning   loading version 3  1.0 KB  writing',
    ]);
  });

  it('says that it asks the service while the number of datasets is unknown', () => {
    const work = new WorkSeen(new SteppedClock());
    expect(framed({ work })[1]).toBe('Catching up: asking the service what there is · 4 s');
    work.read('sub_1', [{}, {}]);
    expect(framed({ work })[1]).toBe('Catching up: asking the service what there is, 2 events · 4 s');
  });

  it('counts the steps that do not fit', () => {
    const work = new WorkSeen(new SteppedClock());
    for (let number = 1; number <= 32; number += 1) {
      work.began(`dataset-${number}`, 'loading version 1', { bytes: 100, rows: null });
    }
    const ids = () =>
      framed({ work })
        .slice(2)
        .map((line) => line.trim().split('  ')[0]);
    expect(ids()).toEqual(['dataset-1', 'dataset-2', 'dataset-3', 'and 29 more']);
    work.downloaded(10, 'dataset-20');
    expect(ids()).toEqual(['dataset-20', 'dataset-1', 'dataset-2', 'dataset-3', 'and 28 more']);
    for (let number = 1; number <= 32; number += 1) work.arrived(`dataset-${number}`);
    expect(framed({ work })).toHaveLength(12);
    expect(ids().at(-1)).toBe('and 23 more');
    expect(framed({ work }, LARGE)).toHaveLength(20);
  });

  it.each([1, 5, 12, 20, 33, 47, 60, 79, 80, 119, 200])(
    'is no wider than a screen of %i columns',
    (width) => {
      const { work } = atWork();
      work.began('a-dataset-with-an-id-that-is-longer-than-most-screens-are-wide-'.repeat(3), 'retiring', {
        bytes: null,
        rows: null,
      });
      const summary = {
        ...IDLE,
        underWay: 1,
        suspensions: 3,
        incidents: [incident('service', 'It is out of reach.')],
      };
      for (const height of [1, 3, 10, 50]) {
        for (const state of [{ work }, { work, summary }]) {
          const lines = framed(state, { width, height });
          expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(Math.max(1, width - 1));
          expect(lines.length).toBeLessThanOrEqual(Math.max(1, height - 1));
        }
      }
    },
  );

  it('shortens a long id to its beginning and its end', () => {
    const work = new WorkSeen(new SteppedClock());
    work.began('us-tx-williamson-county-ordinances', 'loading version 1', { bytes: null, rows: null });
    expect(framed({ work })[2]).toBe('  us-tx-will…rdinances  loading version 1');
    expect(framed({ work }, { width: 60, height: 24 })[2]).toBe('  us-tx-will…rdinances  loading version 1');
    expect(framed({ work }, LARGE)[2]).toMatch(/^ {2}us-tx-williamson-county-ordinances +loading version 1$/);
  });

  it('shows control characters as escapes', () => {
    const work = new WorkSeen(new SteppedClock());
    work.began('parcels\u001b[2J', 'loading version 1', { bytes: null, rows: null });
    expect(framed({ work })[2]).toContain('parcels\\u001b[2J');
  });

  it('shows the same words with colours', () => {
    const { work } = atWork();
    const state = { work, summary: { ...IDLE, underWay: 1, suspensions: 1 }, nowMs: 4_000 };
    const colored = frameOf(state, LARGE, COLORED).join('\n');
    expect(colored).toContain('\u001b[1mWorking');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken away.
    expect(colored.replaceAll(/\u001b\[\d+m/g, '')).toBe(frameOf(state, LARGE, PLAIN).join('\n'));
  });
});

describe('the view of the daemon', () => {
  it.each<[string, Partial<StateSummary>, string]>([
    ['an idle daemon in one quiet line', {}, 'Idle: 1,200 tables · last poll 12 s ago · next poll in 48 s'],
    ['a poll', { nextPollInMs: 0 }, 'Idle: 1,200 tables · last poll 12 s ago · polling'],
    [
      'work that is retried later',
      { waiting: 2, suspensions: 1 },
      'Waiting: 1,200 tables, 2 retried later · last poll 12 s ago · next poll in 48 s',
    ],
    [
      'the datasets that are done of those that were due',
      { underWay: 3, due: 5, nextPollInMs: 125_000 },
      'Working: 2 of 10 datasets, 1 commit · 19.4 MB at 4.9 MB/s · next poll in 3 m',
    ],
    ['the start', { phase: 'starting' }, 'Starting: asking the service what there is · 4 s'],
    ['the stop', { phase: 'draining' }, 'Stopping: finishing or rolling back the work in progress'],
  ])('shows %s', (_, changed, head) => {
    const { work } = atWork();
    expect(framed({ work, summary: { ...IDLE, ...changed } }, LARGE)[1]).toBe(head);
  });

  it('names incidents and counts suspensions', () => {
    const incidents = ['service', 'subscription sub_1', 'dataset parcels', 'dataset permits'].map((of) =>
      incident(of, 'It cannot be reached.'),
    );
    expect(framed({ summary: { ...IDLE, incidents, suspensions: 2 } }).slice(2)).toEqual([
      '  ! service, for 3 m 0 s: It cannot be reached.',
      '  ! subscription sub_1, for 3 m 0 s: It cannot be reached.',
      '  ! dataset parcels, for 3 m 0 s: It cannot be reached.',
      '  ! and 1 more incident: feed-sync status',
      '  ! 2 suspended until you have acted: feed-sync status',
    ]);
  });

  it('restarts its counts after all work was done', () => {
    const { work } = atWork();
    work.restartCount();
    const summary = { ...IDLE, underWay: 1 };
    expect(framed({ work, summary })[1]).toBe('Working: 0 of 1 dataset, 0 commits · next poll in 48 s');
  });
});

describe('a meter of bytes', () => {
  it('measures the rate of the last ten seconds', () => {
    const meter = new Meter(0);
    for (let atMs = 100; atMs <= 30_000; atMs += 100) meter.add(atMs <= 15_000 ? 100 : 500, atMs);
    expect(meter.rate(30_000)).toBeGreaterThan(4_900);
    expect(meter.rate(30_000)).toBeLessThan(5_300);
  });

  it('has no rate in the first second, and a rate of zero where nothing arrives', () => {
    const meter = new Meter(0);
    meter.add(1_000, 500);
    expect(meter.rate(900)).toBeNull();
    expect(meter.rate(2_000)).toBe(500);
    expect(meter.rate(60_000)).toBe(0);
    expect(timeLeftMs(meter, 5_000, 60_000)).toBeNull();
  });

  it('estimates the remaining time from the rate and the missing bytes', () => {
    const meter = new Meter(0);
    meter.add(1_000, 500);
    expect(timeLeftMs(meter, 3_000, 2_000)).toBe(4_000);
    expect(timeLeftMs(meter, 900, 2_000)).toBe(0);
    expect(timeLeftMs(meter, null, 2_000)).toBeNull();
  });
});

/** A view on a screen, whose time a test lets pass. */
function watched({ width, height } = SMALL) {
  const clock = new SteppedClock();
  const stderr = new PassThrough({ encoding: 'utf8' });
  const shown = new TerminalScreen(width, height);
  const writes: string[] = [];
  stderr.on('data', (text: string) => {
    writes.push(text);
    shown.write(text);
  });
  const terminal = {
    stdout: new PassThrough(),
    stderr,
    isWatched: true,
    hasColor: false,
    width,
    height,
    resultWidth: null,
  };
  const screen = new Screen(terminal, clock);
  const work = new WorkSeen(clock);
  const view = new LiveView(screen, terminal, clock, () => ({ work, summary: null }));
  const pass = async (durationMs: number): Promise<void> => {
    for (let restMs = durationMs; restMs > 0; restMs -= 10) {
      clock.pass(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { clock, terminal, screen, shown, work, view, writes, pass };
}

/** The log of `once` without a view. */
function logged(...steps: readonly ((progress: Progress) => void)[]) {
  const lines: (readonly [string, LogFields, string])[] = [];
  const at = (level: string) => (fields: LogFields, message: string) => {
    lines.push([level, fields, message]);
  };
  const log = {
    trace: at('trace'),
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  };
  const progress = progressLog(documentedLog(log));
  for (const step of steps) step(progress);
  return lines;
}

describe('once without a view', () => {
  it('logs a line for each commit and each result', () => {
    const applied = { ...COMMIT, kind: 'changes', fromVersion: 1, toVersion: 4, versions: 3 } as const;
    const lines = logged(
      (progress) => progress.started(3),
      (progress) => progress.committed('parcels', COMMIT),
      (progress) => progress.committed('parcels', { ...applied, net: { added: 2, changed: 1, removed: 0 } }),
      (progress) => progress.settled({ kind: 'updated', datasetId: 'parcels', commits: [], recheckAt: null }),
      (progress) => progress.settled({ kind: 'retired', datasetId: 'permits', commits: [], table: null }),
      (progress) =>
        progress.settled({ kind: 'suspended', datasetId: 'zoning', commits: [], suspension: suspension() }),
      (progress) =>
        progress.settled({
          kind: 'waiting',
          datasetId: 'water',
          commits: [],
          why: 'it lags',
          until: null,
          awaited: [],
        }),
    );
    const counted = { rows: 1_000, bytes: 9_100, durationMs: 12 };
    const changed = { added: 2, changed: 1, removed: 0 };
    expect(lines).toEqual([
      ['info', { datasets: 3 }, 'Catching up.'],
      ['info', { dataset: 'parcels', version: 1, ...counted }, 'Loaded a snapshot.'],
      [
        'info',
        { dataset: 'parcels', fromVersion: 1, version: 4, versions: 3, ...changed, ...counted },
        'Applied changes.',
      ],
      ['info', { dataset: 'permits' }, 'Retired: no subscription contains it any more.'],
      ['warn', { dataset: 'zoning', code: 'outside_coverage' }, 'Suspended: an operator must act.'],
      ['info', { dataset: 'water', why: 'it lags' }, 'Waiting.'],
    ]);
  });

  it('logs a cause of failures as an error with its first dataset alone, however many it meets', () => {
    const failed = (datasetId: string, message: string) => (progress: Progress) =>
      progress.settled({
        kind: 'failed',
        datasetId,
        commits: [],
        error: new StorageError(message),
        failure: null,
      });
    const lines = logged(
      failed('parcels', 'The table parcels cannot be written: no space.'),
      failed('permits', 'The table permits cannot be written: no space.'),
      failed('zoning', 'The file of zoning cannot be read.'),
    );
    expect(lines.map(([level, { dataset }]) => [level, dataset])).toEqual([
      ['error', 'parcels'],
      ['debug', 'permits'],
      ['error', 'zoning'],
    ]);
  });
});

describe('the view on the screen', () => {
  it('keeps log lines and later output unbroken above itself and leaves nothing behind', async () => {
    const { screen, shown, work, view, terminal, pass } = watched();
    for (let number = 1; number <= 40; number += 1) {
      work.began(`dataset-${number}`, 'loading version 1', { bytes: 100, rows: 7 });
      screen.writeAbove(`line ${number}\n`);
      await pass(70);
    }
    expect(shown.lines.filter((line) => line.startsWith('line '))).toHaveLength(40);
    expect(shown.lines.at(-1)).toBe('  and 37 more');
    await view.end();
    terminal.stderr.write('The summary.\n');
    await pass(500);
    const lines = Array.from({ length: 40 }, (_, index) => `line ${index + 1}`);
    expect(shown.lines).toEqual([...lines, 'The summary.', '']);
  });

  it('redraws the view at most ten times a second, and never where nothing changes', async () => {
    const { work, writes, view, pass } = watched();
    work.started(3);
    work.began('parcels', 'loading version 1', { bytes: 1_000_000, rows: 7 });
    for (let turn = 0; turn < 200; turn += 1) {
      work.downloaded(1_000, 'parcels');
      await pass(10);
    }
    expect(writes.length).toBeGreaterThan(15);
    expect(writes.length).toBeLessThanOrEqual(21);
    await view.end();
  });

  it('follows a screen that becomes narrower and leaves no broken lines', async () => {
    const { work, shown, view, terminal, pass } = watched();
    work.began('us-tx-travis-parcels', 'loading version 1', { bytes: 1_000_000, rows: 7 });
    terminal.stderr.write('before\n');
    await pass(200);
    terminal.width = 40;
    shown.resize(40, 24);
    await pass(1_000);
    expect(shown.lines).toEqual([
      'before',
      '',
      'Catching up: asking the service what t…',
      '  us-tx-travis-parcels  loading versio…',
    ]);
    await view.end();
    expect(shown.lines).toEqual(['before', '']);
  });
});
