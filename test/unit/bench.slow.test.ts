/** The bench harness: its arithmetic, its table and JSON, that it refuses wrong results, and one real quick run. */

import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { type BenchCase, type Sample, WrongResultError } from '../bench/case.ts';
import { CASES } from '../bench/cases.ts';
import { CHECKED_CASES, recordedNames } from '../bench/check/cases.ts';
import { judgeCase, judgeRatio, type Recorded } from '../bench/check/judge.ts';
import { AXES, type Axis } from '../bench/growth/axes.ts';
import { exponents } from '../bench/growth/fit.ts';
import { growthOf, pointOf } from '../bench/growth/growth.ts';
import { growthMarkdown } from '../bench/growth/report.ts';
import { LockWatch } from '../bench/lock-watch.ts';
import { measureScript } from '../bench/measured-process.ts';
import { type Report, reportJson, reportTable } from '../bench/report.ts';
import { runCase } from '../bench/run-case.ts';
import { judge, median, spread, summarize } from '../bench/statistics.ts';
import { checkRawTables } from '../bench/table-counts.ts';
import { until } from '../support/patience.ts';
import { projectRoot } from '../support/source-tree.ts';

const folder = mkdtempSync(join(tmpdir(), 'bench-test-'));
// A server of PostgreSQL that root starts runs as another user, who has to enter it.
chmodSync(folder, 0o755);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function sample(seconds: number, counts: Sample['counts'] = {}): Sample {
  return { seconds, cpuSeconds: seconds / 2, peakMegabytes: seconds * 100, counts };
}

/** A case whose sides take the scripted seconds, in turn. */
function scripted(subjectSeconds: readonly number[], referenceSeconds: readonly number[]): BenchCase {
  const order: string[] = [];
  const next = (side: string, seconds: readonly number[]) => async () => {
    order.push(side);
    const taken = order.filter((entry) => entry === side).length - 1;
    return sample(seconds[taken] ?? Number.NaN, { position: order.length });
  };
  return {
    name: 'scripted',
    what: 'takes the scripted seconds',
    reach: [{ measure: 'ratio', atMost: 2, moonshot: 1 }],
    validate: async () => ({
      subject: next('subject', subjectSeconds),
      reference: next('reference', referenceSeconds),
      async [Symbol.asyncDispose]() {},
    }),
  };
}

describe('the arithmetic of the bench', () => {
  it('takes the middle value as the median, or the mean of the two in the middle', () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([10, 2, 4, 1])).toBe(3);
    expect(median([7])).toBe(7);
    expect(() => median([])).toThrow(RangeError);
    expect(spread([3, 1, 2])).toEqual({ median: 2, least: 1, most: 3 });
  });

  it('takes the ratio of each pair first, then their median', () => {
    const pairs = [
      { subject: sample(2), reference: sample(1) },
      { subject: sample(30), reference: sample(10) },
      { subject: sample(4), reference: sample(4) },
    ];
    const { ratio, cpuRatio, subject, reference } = summarize(pairs);
    expect(ratio).toEqual({ median: 2, least: 1, most: 3 });
    expect(cpuRatio).toEqual({ median: 2, least: 1, most: 3 });
    expect(subject.seconds.median).toBe(4);
    expect(reference?.seconds.median).toBe(4);
  });

  it('judges goals by medians, counts among them, and refuses an unknown measure', () => {
    const summary = summarize([{ subject: sample(2, { requests: 4 }), reference: null }]);
    expect(summary.ratio).toBeNull();
    const goals = judge(
      [
        { measure: 'requests', atMost: 3 },
        { measure: 'seconds', atMost: 2 },
      ],
      summary,
    );
    expect(goals.map(({ value, reached }) => [value, reached])).toEqual([
      [4, false],
      [2, true],
    ]);
    expect(() => judge([{ measure: 'ratio', atMost: 1 }], summary)).toThrow(/no measure "ratio"/);
  });

  it('judges memory, and counts that both sides have, beside the reference, pair by pair', () => {
    const pairs = [
      { subject: sample(2, { megabytes: 3, requests: 4 }), reference: sample(1, { megabytes: 2 }) },
      { subject: sample(4, { megabytes: 6, requests: 4 }), reference: sample(1, { megabytes: 2 }) },
    ];
    const summary = summarize(pairs);
    const goals = ['peakMegabytesRatio', 'megabytesRatio'].map((measure) => ({ measure, atMost: 2 }));
    expect(judge(goals, summary).map(({ value, reached }) => [value, reached])).toEqual([
      [3, false],
      [2.25, false],
    ]);
    const requests = [{ measure: 'requestsRatio', atMost: 1 }];
    expect(() => judge(requests, summary)).toThrow(/no measure "requestsRatio"/);
  });
});

describe('a case of the bench', () => {
  it('runs both sides of a case in turn and leaves the first pair out', async () => {
    const seen: number[] = [];
    const result = await runCase(scripted([100, 4, 6, 2], [1, 2, 2, 2]), {
      size: 'quick',
      runs: 3,
      onPair: (number) => seen.push(number),
    });
    expect(seen).toEqual([0, 1, 2, 3]);
    expect(result.summary.ratio).toEqual({ median: 2, least: 1, most: 3 });
    expect(result.pairs).toMatchObject(
      [3, 5, 7].map((position) => ({
        subject: { counts: { position } },
        reference: { counts: { position: position + 1 } },
      })),
    );
    expect(result.goals).toEqual([{ measure: 'ratio', atMost: 2, moonshot: 1, value: 2, reached: true }]);
  });

  it('runs a long case as often as the case says, and counts every pair', async () => {
    const seen: number[] = [];
    const long = { ...scripted([8, 4, 6], [2, 2, 2]), fewRuns: 2 };
    const result = await runCase(long, { size: 'quick', runs: 5, onPair: (number) => seen.push(number) });
    expect(seen).toEqual([1, 2]);
    expect(result.summary.ratio).toEqual({ median: 3, least: 2, most: 4 });
    const single = await runCase(long, { size: 'quick', runs: 1, onPair: () => {} });
    expect(single.pairs).toHaveLength(1);
  });

  it('shows the result of a case as a table and as JSON', async () => {
    const result = await runCase(scripted([1, 3, 3], [1, 1, 1]), { size: 'full', runs: 2, onPair: () => {} });
    const report: Report = {
      measuredAt: '2026-01-02T03:04:05.000Z',
      size: 'full',
      runs: 2,
      machine: { cores: 2, memoryMegabytes: 4096, platform: 'linux x64', node: 'v24', duckdb: 'v1' },
      notRun: [{ name: 'elsewhere', why: 'there is no peer.' }],
      cases: [result],
    };
    const table = reportTable(report);
    expect(table).toContain('3.00 (3.00–3.00)');
    expect(table).toContain('300 / 100');
    expect(table).toContain('ratio 3.00 is above 2');
    expect(table).toContain('scripted: takes the scripted seconds.');
    expect(table).toContain('position 4.00 (3.00–5.00)');
    expect(table).toContain('Median (least–most). 2 cores, 4096 MB, Node v24, DuckDB v1.');
    expect(JSON.parse(reportJson(report))).toEqual(report);
  });
});

describe('a wrong result', () => {
  it('reports what a failed process wrote', async () => {
    const script = join(folder, 'fails.mjs');
    await writeFile(script, "process.stderr.write('no room'); process.exitCode = 74;");
    const failing = measureScript({ script, values: [], folder });
    await expect(failing).rejects.toThrow(WrongResultError);
    await expect(failing).rejects.toThrow(/74[\s\S]*no room/);
  });

  it('names a table with a wrong row count or a wrong type', async () => {
    const own = await mkdtemp(join(folder, 'wrong-'));
    const database = join(own, 'raw.duckdb');
    const instance = await DuckDBInstance.create(database);
    const connection = await instance.connect();
    await connection.run(
      'CREATE TABLE "a" AS SELECT 1 AS id; CREATE TABLE "b" AS SELECT \'POINT (1 2)\' AS geometry',
    );
    connection.closeSync();
    instance.closeSync();
    const dataset = (datasetId: string, rowCount: number) => ({ datasetId, rowCount, files: [] });
    await expect(checkRawTables(database, [dataset('a', 2)])).rejects.toThrow('a: 1 rows instead of 2');
    await expect(checkRawTables(database, [dataset('b', 1)])).rejects.toThrow('b is a VARCHAR');
    await rm(own, { recursive: true });
  });
});

it('measures time, CPU and peak memory of one process only', async () => {
  const script = join(folder, 'uses.mjs');
  await writeFile(script, 'globalThis.kept = Buffer.alloc(300 * 1024 * 1024, 1);');
  const big = await measureScript({ script, values: [], folder });
  await writeFile(script, '');
  const small = await measureScript({ script, values: [], folder });
  expect(big.peakMegabytes - small.peakMegabytes).toBeGreaterThan(290);
  expect(big.peakMegabytes - small.peakMegabytes).toBeLessThan(320);
  expect(small.cpuSeconds).toBeGreaterThan(0);
  expect(small.cpuSeconds).toBeLessThan(big.seconds + big.cpuSeconds);
});

it('sees from outside how long a process has a database open, and never disturbs it', async () => {
  const path = join(folder, 'locked.duckdb');
  (await DuckDBInstance.create(path)).closeSync();
  using locks = new LockWatch(process.pid, path);
  for (const lockedMs of [120, 60]) {
    const instance = await DuckDBInstance.create(path);
    await until('a reading that finds it locked', () => locks.isLocked);
    await sleep(lockedMs);
    instance.closeSync();
    await locks.free(50);
  }
  const { observed, longestGapMs } = locks.take();
  expect(observed).toHaveLength(2);
  const [first, second] = observed.map(({ fromMs, untilMs }) => untilMs - fromMs);
  expect(first).toBeGreaterThan(120 - longestGapMs - 1);
  expect(second).toBeGreaterThan(60 - longestGapMs - 1);
  expect(locks.take().observed).toEqual([]);
});

describe('the growth of cost', () => {
  const axis = { ...(AXES[0] as Axis), job: 'rows', what: 'loads' };
  const at = (amount: number, seconds: number) =>
    pointOf(amount, [sample(seconds, { mirrorMegabytes: amount })]);

  it('fits the exponent of growth, overall and for the upper half', () => {
    const square = [10, 100, 1_000, 10_000].map((size) => [size, 3 * size ** 2] as const);
    expect(exponents(square)?.overall).toBeCloseTo(2);
    const afterAConstant = [1, 10, 1_000, 10_000].map((size) => [size, Math.max(1_000, size)] as const);
    expect(exponents(afterAConstant)?.upperHalf).toBeCloseTo(1);
    expect(exponents(afterAConstant)?.overall).toBeLessThan(0.5);
    expect(exponents([[10, 1]])).toBeNull();
  });

  it('adds new measurements of growth to earlier ones', () => {
    const { points, exponents: fitted } = growthOf(
      axis,
      [at(10, 1), at(1_000, 7)],
      [at(100, 10), at(1_000, 100)],
    );
    expect(points.map(({ amount, seconds }) => [amount, seconds])).toEqual([
      [10, 1],
      [100, 10],
      [1_000, 100],
    ]);
    expect(fitted?.seconds).toEqual({ overall: expect.closeTo(1), upperHalf: expect.closeTo(1) });
  });

  it('renders growth as a Markdown table', () => {
    const table = growthMarkdown([growthOf(axis, [], [at(1_000, 1), at(10_000, 10)])]);
    expect(table.split('\n')).toEqual([
      '| loads | s | CPU s | peak MB | mirror MB |',
      '| --- | --- | --- | --- | --- |',
      '| 1,000 rows | 1.00 | 0.50 | 100 | 1000.0 |',
      '| 10,000 rows | 10.00 | 5.00 | 1000 | 10000.0 |',
      '| **exponent, upper half** | 1.00 | 1.00 | 1.00 | 1.00 |',
      '| **exponent, overall** | 1.00 | 1.00 | 1.00 | 1.00 |',
      '',
    ]);
  });

  it('measures growth with real processes, part by part', () => {
    const json = join(folder, 'growth.json');
    const grow = (...values: readonly string[]) => {
      const words = ['test/bench/main.ts', 'growth', '--quick', '--runs', '1', '--json', json, ...values];
      const env = { ...process.env, TMPDIR: folder };
      const run = spawnSync(process.execPath, words, { cwd: projectRoot, encoding: 'utf8', env });
      expect(run.status, run.stderr).toBe(0);
      return run.stdout;
    };
    grow('--axis', 'changed-rows', '--smallest', '100', '--largest', '100');
    const table = grow('--axis', 'changed-rows', '--smallest', '1000', '--largest', '1000');
    expect(table).toMatch(/\| 100 rows \|[\s\S]*\| 1,000 rows \|[\s\S]*exponent/);
  });
});

describe('npm run bench:check', () => {
  const recorded: Recorded = {
    measuredAt: '2026-01-02T03:04:05Z',
    machine: '',
    ratios: { known: 1.5, 'known requestsPerDataset': 2, 'known cpuRatio': 2, 'known lockMsRatio': 2 },
  };

  it('fails the check where a ratio is worse than twice the recorded one, or nothing is recorded', () => {
    expect(judgeRatio('known', 3, recorded).isGood).toBe(true);
    expect(judgeRatio('known', 3.01, recorded)).toEqual({
      isGood: false,
      text: 'known: 3.01 is above 3.00, 2 times the recorded 1.50.',
    });
    expect(judgeRatio('new', 1, recorded).isGood).toBe(false);
  });

  it('allows requests, bytes and memory a quarter more than recorded, CPU seconds half more, a lock twice as much', () => {
    expect(judgeRatio('known requestsPerDataset', 2.5, recorded).isGood).toBe(true);
    expect(judgeRatio('known requestsPerDataset', 2.51, recorded).isGood).toBe(false);
    expect(judgeRatio('known cpuRatio', 3, recorded).isGood).toBe(true);
    expect(judgeRatio('known cpuRatio', 3.01, recorded).isGood).toBe(false);
    expect(judgeRatio('known lockMsRatio', 4, recorded).isGood).toBe(true);
    expect(judgeRatio('known lockMsRatio', 4.01, recorded).isGood).toBe(false);
  });

  it('fails a case of which one measure of several is worse, and says all of them', async () => {
    const judged = await judgeCase(async () => ({ known: 1, 'known requestsPerDataset': 3 }), recorded);
    expect(judged.isGood).toBe(false);
    expect(judged.text.split('\n')).toEqual([
      'known: 1.00 is within 3.00, 2 times the recorded 1.50.',
      'known requestsPerDataset: 3.00 is above 2.50, 1.25 times the recorded 2.00.',
    ]);
  });

  it('measures a failing case again, up to three times in all', async () => {
    const measuring = (...ratios: number[]) => vi.fn(async () => ({ known: ratios.shift() ?? Number.NaN }));
    const disturbed = measuring(9, 1.4);
    expect((await judgeCase(disturbed, recorded)).isGood).toBe(true);
    expect(disturbed).toHaveBeenCalledTimes(2);
    const worse = measuring(9, 8, 7, 1.4);
    expect((await judgeCase(worse, recorded)).isGood).toBe(false);
    expect(worse).toHaveBeenCalledTimes(3);
    const good = measuring(1);
    await judgeCase(good, recorded);
    expect(good).toHaveBeenCalledTimes(1);
  });

  it('has a recorded ratio for every case that it measures', () => {
    const path = join(projectRoot, 'test/bench/check/recorded.json');
    const { ratios }: Recorded = JSON.parse(readFileSync(path, 'utf8'));
    expect(Object.keys(ratios)).toEqual(CHECKED_CASES.flatMap(recordedNames));
  });
});

describe('npm run bench', () => {
  it('runs every case at the quick size with real processes', () => {
    const json = join(folder, 'results.json');
    const values = ['test/bench/main.ts', '--quick', '--runs', '1', '--json', json];
    const env = { ...process.env, TMPDIR: folder };
    const run = spawnSync(process.execPath, values, { cwd: projectRoot, encoding: 'utf8', env });
    expect(run.stderr).toContain('warm-up');
    expect(run.status, run.stderr.slice(-2_000)).toBe(0);
    const report: Report = JSON.parse(readFileSync(json, 'utf8'));
    const names = [...report.cases, ...report.notRun].map(({ name }) => name);
    expect(names.sort()).toEqual(CASES.map(({ name }) => name).sort());
    for (const { name, summary } of report.cases) {
      expect(run.stdout).toContain(name);
      expect(summary.ratio?.median ?? 1).toBeGreaterThan(0);
      expect(summary.subject.peakMegabytes.median).toBeGreaterThan(20);
    }
    expect(report.cases[0]?.summary.subject.counts).toMatchObject({ fileRequests: { median: 6 } });
  });
});
