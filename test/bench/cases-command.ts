/** `npm run bench`: feed-sync beside what is compared with it, as a table and as JSON. */

import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { CASES } from './cases.ts';
import { wholeNumber } from './flags.ts';
import { machine } from './machine.ts';
import { type Report, reportJson, reportTable } from './report.ts';
import { type CaseResult, runCase } from './run-case.ts';
import type { Pair } from './statistics.ts';

interface Flags {
  readonly runs: number;
  readonly only?: string;
  readonly rows?: number;
  readonly quick: boolean;
  readonly json: string;
}

/** Cases, and groups of them. */
const CHOICES = [...new Set(CASES.flatMap(({ name, group }) => [name, group ?? name]))];

export const casesCommand = new Command('cases')
  .description(
    'Measures feed-sync (as built in dist) beside raw DuckDB doing the same work on the same files.',
  )
  .option('--runs <number>', 'measured pairs of runs of each case', wholeNumber, 5)
  .addOption(
    new Option('--only <case>', 'run one case, or all of a group (peers, postgres)').choices(CHOICES),
  )
  .option('--rows <number>', 'rows of the large dataset in the cases of PostgreSQL', wholeNumber)
  .option('--quick', 'small sizes, to see that it works', false)
  .option('--json <file>', 'where the results are written', join(tmpdir(), 'feed-sync-bench.json'))
  .action(bench);

async function bench({ runs, only, rows, quick, json }: Flags): Promise<void> {
  const size = quick ? 'quick' : 'full';
  const cases: CaseResult[] = [];
  const notRun: Report['notRun'][number][] = [];
  const report = (): Report => ({
    measuredAt: new Date().toISOString(),
    size,
    runs,
    ...(rows === undefined ? {} : { rows }),
    machine: machine(),
    cases,
    notRun,
  });
  for (const benchCase of CASES.filter(({ name, group }) => [undefined, name, group].includes(only))) {
    const { name, what } = benchCase;
    process.stderr.write(`${name}: ${what}\n`);
    const why = benchCase.whyNot?.() ?? null;
    if (why === null)
      cases.push(
        await runCase(benchCase, { size, runs, ...(rows === undefined ? {} : { rows }), onPair: tellPair }),
      );
    else {
      process.stderr.write(`  NOT RUN: ${why}\n`);
      notRun.push({ name, why });
    }
    // Each time: whoever ends it early has those that were measured.
    await writeFile(json, reportJson(report()));
  }
  process.stdout.write(`${reportTable(report())}\nWritten to ${json}.\n`);
}

function tellPair(number: number, { subject, reference }: Pair): void {
  const which = number === 0 ? 'warm-up' : `pair ${number}`;
  const beside = reference === null ? '' : ` beside ${reference.seconds.toFixed(2)} s`;
  process.stderr.write(`  ${which}: ${subject.seconds.toFixed(2)} s${beside}\n`);
}
