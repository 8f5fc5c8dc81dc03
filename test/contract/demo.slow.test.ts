/** The demo as a user runs it: the real command line, the real fixture feed, what is printed and what stays. */

import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { COUNTIES, KINDS, ROWS_PER_DATASET, SEED } from '../../fixtures/demo/counties.ts';
import { EMBEDDED } from '../../fixtures/postgres-server.ts';
import type { Cell, Json } from '../../fixtures/source/content.ts';
import { type GeneratedDataset, generateDatasets } from '../../fixtures/source/generate.ts';
import { compareCaptured } from '../support/compare-captured.ts';
import { writeDatasetFolders } from '../support/dataset-folder.ts';
import { runDemo, startDemo } from '../support/demo-process.ts';
import { projectRoot } from '../support/source-tree.ts';

/** As of a user who has a real service configured: the demo must not touch it. */
const REAL_SERVICE = {
  FEED_SYNC_BASE_URL: 'https://real.invalid',
  FEED_SYNC_API_KEY_FILE: '/nowhere/key',
  FEED_SYNC_SUBSCRIPTIONS: 'sub_real',
  FEED_SYNC_DESTINATION_PATH: '/nowhere/mirror.duckdb',
};

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'demo-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The cells of a printed table, without its title and the rule below it. */
function tableAfter(stdout: string, command: RegExp): readonly (readonly string[])[] {
  const after = stdout.slice(stdout.search(command));
  const [, table = ''] = /^─+\n([\s\S]*?)^\(\d+ rows?\)$/m.exec(after) ?? [];
  return table
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/));
}

/** Of the numbered steps. */
function titlesOf(stdout: string): readonly string[] {
  return Array.from(stdout.matchAll(/^\d+\. (.*)$/gm), ([, title = '']) => title);
}

/** What came of a bad scrape that was approved and taken back, of its correction, and of a row altered by hand. */
function safetyIn(stdout: string) {
  return {
    afterApproval: tableAfter(stdout, /^Committed version 5 of us-nm-mapleford-parcels/m),
    afterRollback: tableAfter(stdout, /^Rolled back: us-nm-mapleford-parcels/m),
    changed: /^\d+ rows? added, .*$/m.exec(stdout)?.[0],
    repaired: /Repaired the table us_nm_mapleford_parcels of us-nm-mapleford-parcels: (.*)$/m.exec(
      stdout,
    )?.[1],
  };
}

/** What each catch-up says that it did with the datasets. */
function summariesOf(stdout: string): readonly string[] {
  return Array.from(
    stdout.matchAll(/^12 datasets in 1 subscription: (.*? already up to date\.)/gm),
    ([, summary = '']) => summary,
  );
}

describe('the demo', () => {
  /** The demo of invented counties: the tables that it prints are what the feed published. Returns what it prints. */
  async function printsCounties(
    environment: Record<string, string>,
    ...words: readonly string[]
  ): Promise<string> {
    const { exitCode, stdout, stderr } = await runDemo(words, { ...REAL_SERVICE, ...environment });
    expect([exitCode, stdout, stderr]).toEqual([0, expect.anything(), expect.anything()]);
    expect(stdout).toContain(`made from seed ${SEED}.`);
    expect(stderr).toContain('Loaded a snapshot.');
    expect(titlesOf(stdout)).toEqual([
      'A feed',
      'Its mirror',
      'What is in the mirror',
      'A question to it',
      'Days pass',
      'A column more',
      'A column less',
      'A resync',
      'A dataset leaves',
      'A scrape that stops early',
      'Taken back',
      'The correction',
      'The value before',
      'A row altered by hand',
      'Mended',
      'What was committed',
      'Look further',
    ]);
    expect(stdout).toMatch(/^\$ node dist\/main\.js once\n12 datasets in 1 subscription: 12 loaded/m);
    const datasets = generateDatasets({
      seed: SEED,
      counties: COUNTIES,
      rowsPerDataset: ROWS_PER_DATASET,
      kinds: KINDS,
    });
    expect(tableAfter(stdout, /What is in the mirror/)).toEqual(contentsOf(datasets));
    expect(tableAfter(stdout, /A question to it/)).toEqual(contractorsOf(datasets));
    expect(summariesOf(stdout)).toEqual([
      '12 loaded, 0 already up to date.',
      '0 loaded, 12 updated by changes, 0 already up to date.',
      '1 loaded, 11 already up to date.',
      '1 loaded, 11 already up to date.',
      '1 loaded, 11 already up to date.',
      '1 loaded, 1 retired, 10 already up to date.',
    ]);
    expect(tableAfter(stdout, /A column less/).flat()).not.toContain('owner_name');
    expect(tableAfter(stdout, /A dataset leaves/)).toEqual([
      ['us-az-cedarville-ordinances', '4', 'left subscription sub_demo: source_retired'],
    ]);
    expect(safetyIn(stdout)).toEqual({
      afterApproval: [['', '201']],
      afterRollback: [['', '503']],
      changed: '0 rows added, 3 changed, 0 removed',
      repaired: '0 added, 1 changed, 0 removed.',
    });
    return stdout;
  }

  it('the demo mirrors invented counties: the tables it prints are what the feed published', async () => {
    const stdout = await printsCounties({}, '--data-dir', join(folder, 'generated'));
    const commands = stdout.split('\n').filter((line) => /^npx feed-sync (query|status) /.test(line));
    expect(commands).toHaveLength(2);
    for (const command of commands) {
      // Not by npx itself, which would build dist anew beside the other tests.
      const direct = command.replace(/^npx feed-sync/, `"${process.execPath}" dist/main.js`);
      const printed = execFileSync('sh', ['-c', direct], {
        cwd: projectRoot,
        encoding: 'utf8',
      });
      expect(printed).toContain('us_az_cedarville_parcels');
    }
  });

  it.skipIf(EMBEDDED.folder === null)(
    'the demo with PostgreSQL prints the same, and its server ends with it and leaves nothing',
    async () => {
      const temporary = join(folder, 'temporary-of-postgres');
      mkdirSync(temporary);
      chmodSync(folder, 0o755);
      const words = ['--destination', 'postgres', '--data-dir', join(folder, 'of-postgres')];
      const stdout = await printsCounties({ TMPDIR: temporary }, ...words);
      expect(stdout).toContain('in schema feeds of the database county_1, UPDATE us_nm_mapleford_parcels');
      expect(readdirSync(temporary)).toEqual([]);
    },
  );

  it('the demo mirrors a folder of datasets, finds mirror and files equal, and starts anew when it runs again', async () => {
    const data = join(folder, 'small');
    writeDatasetFolders(data);
    const dataDirectory = join(folder, "it's a mirror");
    for (let run = 1; run <= 2; run++) {
      const { exitCode, stdout, stderr } = await runDemo(['--data', data, '--data-dir', dataDirectory]);
      expect(stdout.match(/^stations: .*\nus-xx-areas: .*$/gm)).toEqual([
        'stations: 2 versions, 2 equal\nus-xx-areas: 1 version, 1 equal',
        'stations: 2 versions, 2 equal\nus-xx-areas: 1 version, 1 equal',
      ]);
      expect(stderr).toContain('The position in the log has expired: starting from the manifest.');
      expect(exitCode).toBe(0);
      writeFileSync(join(dataDirectory, 'left-over'), '');
    }
    const mirror = join(dataDirectory, 'mirror.duckdb');
    expect(await compareCaptured('--mirror', mirror, '--data', data)).toMatchObject({ exitCode: 0 });
  });

  it('the demo stops feed and command at Ctrl-C, and leaves nothing behind but its data directory', async () => {
    const temporary = join(folder, 'temporary');
    mkdirSync(temporary);
    const demo = startDemo(['--data-dir', join(folder, 'stopped')], { TMPDIR: temporary });
    demo.process.stdout?.on('data', (chunk: Buffer) => {
      if (chunk.includes('dist/main.js once')) demo.process.kill('SIGINT');
    });
    const { exitCode, stdout } = await demo.ended;
    expect(exitCode).toBe(130);
    expect(stdout).not.toContain('What is in the mirror');
    expect(readdirSync(temporary)).toEqual([]);
  });
});

describe('command lines that the demo refuses', () => {
  it('the demo refuses wrong arguments with 64, and touches no foreign folder', async () => {
    const foreign = join(folder, 'foreign');
    mkdirSync(foreign);
    writeFileSync(join(foreign, 'precious'), 'data');
    const cases: readonly (readonly [readonly string[], string])[] = [
      [['--data', join(folder, 'nowhere')], `There is no folder ${join(folder, 'nowhere')}`],
      [['--data', foreign], `The folder ${foreign} contains no dataset`],
      [['--data-dir', foreign], 'no demo has made it'],
      [['--data-dir', join(foreign, 'precious')], "cannot be the demo's data directory (ENOTDIR)"],
      [['--destination', 'oracle'], '--destination is duckdb or postgres, not oracle.'],
      [
        ['--destination', 'postgres', '--data', foreign],
        '--data compares files of DuckDB: it needs --destination duckdb.',
      ],
      [['--fast'], "unknown option '--fast'"],
      [['again'], 'too many arguments'],
    ];
    for (const [words, message] of cases) {
      const { exitCode, stdout, stderr } = await runDemo(words);
      expect([exitCode, stdout]).toEqual([64, '']);
      expect(stderr).toContain(message);
      expect(stderr).toContain('See npm run demo -- --help.');
    }
    expect(readFileSync(join(foreign, 'precious'), 'utf8')).toBe('data');
  });

  it('the demo explains its options and exit codes with --help', async () => {
    const { exitCode, stdout } = await runDemo(['--help']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/--data <folder>[\s\S]*--data-dir <folder>[\s\S]*Exit codes:/);
  });
});

function contentsOf(datasets: readonly GeneratedDataset[]): readonly (readonly string[])[] {
  return datasets
    .map((dataset) => ({ datasetId: dataset.datasetId, ...dataset.initial() }))
    .sort((left, right) => (left.datasetId < right.datasetId ? -1 : 1))
    .map(({ datasetId, rowCount, schema }) => {
      const columnCount = schema.columns.length + schema.envelopeColumns.length;
      return [datasetId, '1', String(rowCount), String(columnCount)];
    });
}

/** The answer to the demo's question, reckoned from the rows as they were generated. */
function contractorsOf(datasets: readonly GeneratedDataset[]): readonly (readonly string[])[] {
  const byContractor = new Map<string, { permits: number; counties: Set<string>; dollars: number }>();
  for (const { placeName, topic, initial } of datasets) {
    if (topic !== 'permits') continue;
    const { schema, rows } = initial();
    const position = (name: string) => schema.columns.findIndex((column) => column.name === name);
    for (const row of rows()) {
      const contractor = row[position('contractor')] ?? null;
      if (contractor === null) continue;
      const name = nameOf(contractor);
      const sum = byContractor.get(name) ?? { permits: 0, counties: new Set(), dollars: 0 };
      sum.permits += 1;
      sum.counties.add(placeName);
      sum.dollars += Number(row[position('valuation')] ?? 0);
      byContractor.set(name, sum);
    }
  }
  return [...byContractor]
    .sort(([, left], [, right]) => right.dollars - left.dollars)
    .map(([name, { permits, counties, dollars }]) => [
      name,
      String(permits),
      String(counties.size),
      String(Math.round(dollars)),
    ]);
}

function nameOf(contractor: Cell): string {
  const { json } = contractor as Json;
  return (json as { readonly name: string }).name;
}
