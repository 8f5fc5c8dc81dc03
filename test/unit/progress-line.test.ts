/** What is seen of a catch-up while it works: one line on a terminal, log lines elsewhere. */

import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { progressFor } from '../../src/cli/progress-line.ts';
import { ERASE_LINE } from '../../src/cli/terminal.ts';
import type { Log, LogFields } from '../../src/lib/log.ts';
import type { Progress } from '../../src/sync/progress.ts';
import type { Commit } from '../../src/sync/result.ts';
import { instantClock } from '../support/feed-client.ts';
import { hold } from '../support/sync-values.ts';

const LOADED: Commit = {
  kind: 'snapshot',
  tableName: 'parcels',
  fromVersion: null,
  toVersion: 1,
  rowCount: 1_000,
  net: null,
  versions: 1,
  bytes: 9_100,
  durationMs: 12.4,
};
const APPLIED: Commit = {
  ...LOADED,
  kind: 'changes',
  fromVersion: 1,
  toVersion: 4,
  versions: 3,
  net: { added: 2, changed: 1, removed: 0 },
};

function work(progress: Progress, betweenSteps: () => void = () => {}): void {
  const steps = [
    () => progress.started(3),
    () => progress.began('parcels\n', 'applying 3 versions'),
    () => progress.downloaded(9_100, 'parcels'),
    () => progress.committed('parcels', LOADED),
    () => progress.committed('parcels', APPLIED),
    () => progress.settled({ kind: 'updated', datasetId: 'parcels', commits: [LOADED, APPLIED] }),
    () => progress.settled({ kind: 'retired', datasetId: 'permits', commits: [], table: null }),
    () => progress.settled({ kind: 'held', datasetId: 'zoning', commits: [], hold: hold() }),
  ];
  for (const step of steps) {
    step();
    betweenSteps();
  }
}

function terminal(isWatched: boolean, width = 200) {
  const stderr = new PassThrough({ encoding: 'utf8' });
  return { stdout: new PassThrough(), stderr, isWatched, hasColor: false, width };
}

function logInto(lines: (readonly [string, LogFields, string])[]): Log {
  const at = (level: string) => (fields: LogFields, message: string) => {
    lines.push([level, fields, message]);
  };
  return { trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

describe('progress', () => {
  it('on a terminal is one line that is written over', async () => {
    const watched = terminal(true);
    const clock = instantClock();
    const progress = progressFor(watched, clock, logInto([]));
    work(progress, () => void clock.sleep(100));
    progress.end();
    const lines = String(watched.stderr.read()).split(ERASE_LINE);
    expect(lines.at(1)).toBe('0 of 3 datasets, 0 B downloaded, 0 rows written, 0 ms');
    expect(lines.at(-2)).toBe(
      '3 of 3 datasets, 9.1 KB downloaded, 1,003 rows written, 700 ms, parcels\\u000a: applying 3 versions',
    );
    expect(lines.at(-1)).toBe('');
  });

  it('is no wider than the terminal', () => {
    const narrow = terminal(true, 20);
    work(progressFor(narrow, instantClock(), logInto([])));
    const lines = String(narrow.stderr.read()).split(ERASE_LINE);
    expect(Math.max(...lines.map(({ length }) => length))).toBe(19);
  });

  it('elsewhere is a log line for each commit and each ending', () => {
    const lines: (readonly [string, LogFields, string])[] = [];
    work(progressFor(terminal(false), instantClock(), logInto(lines)));
    expect(lines.filter(([level]) => level !== 'debug')).toEqual([
      ['info', { datasets: 3 }, 'Catching up.'],
      [
        'info',
        { dataset: 'parcels', version: 1, rows: 1_000, bytes: 9_100, durationMs: 12 },
        'Loaded a snapshot.',
      ],
      [
        'info',
        {
          dataset: 'parcels',
          fromVersion: 1,
          version: 4,
          versions: 3,
          added: 2,
          changed: 1,
          removed: 0,
          rows: 1_000,
          bytes: 9_100,
          durationMs: 12,
        },
        'Applied changes.',
      ],
      ['info', { dataset: 'permits', table: null }, 'Retired: no subscription holds it any more.'],
      ['warn', { dataset: 'zoning', code: 'outside_coverage' }, 'Held: a person has to act.'],
    ]);
  });
});
