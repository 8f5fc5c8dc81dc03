/**
 * `npm run bench:check`: measures a few small cases beside raw DuckDB and fails where one is worse than twice what was
 * recorded. Ratios only, so that it means the same on every machine.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { type BenchCase, WrongResultError } from '../case.ts';
import { machine } from '../machine.ts';
import { machineText } from '../report.ts';
import { runCase } from '../run-case.ts';
import { CHECKED_CASES } from './cases.ts';
import { judgeCase, type Recorded } from './judge.ts';

const PAIRS = 3;
const RECORDED = fileURLToPath(new URL('recorded.json', import.meta.url));

interface Flags {
  readonly record: boolean;
  readonly recorded: string;
}

export const checkCommand = new Command('check')
  .description('Fails where feed-sync has become much slower beside raw DuckDB than it was.')
  .option('--record', 'write down the ratios of now instead', false)
  .option('--recorded <file>', 'where they are written down', RECORDED)
  .action(check);

async function check({ record, recorded: path }: Flags, command: Command): Promise<void> {
  if (record) {
    await writeFile(path, `${JSON.stringify(await measureAll(), null, 2)}\n`);
    process.stdout.write(`Written to ${path}.\n`);
    return;
  }
  const recorded = await readRecorded(path).catch((error: unknown) =>
    command.error(
      `The ratios of before cannot be read: ${error}. "npm run bench:check -- --record" writes them down.`,
    ),
  );
  for (const checked of CHECKED_CASES) {
    const { isGood, text } = await judgeCase(checked.name, () => ratioOf(checked), recorded);
    process.stdout.write(`${text}\n`);
    if (!isGood) process.exitCode = 1;
  }
}

async function readRecorded(path: string): Promise<Recorded> {
  return JSON.parse(await readFile(path, 'utf8'));
}

async function measureAll(): Promise<Recorded> {
  const ratios: [string, number][] = [];
  for (const checked of CHECKED_CASES) {
    const ratio = await ratioOf(checked);
    ratios.push([checked.name, Number(ratio.toFixed(2))]);
  }
  return {
    measuredAt: new Date().toISOString(),
    machine: machineText(machine()),
    ratios: Object.fromEntries(ratios),
  };
}

async function ratioOf(checked: BenchCase): Promise<number> {
  const { summary } = await runCase(checked, { size: 'full', runs: PAIRS, onPair() {} });
  if (summary.ratio === null) throw new WrongResultError(`${checked.name} has nothing to compare with.`);
  process.stderr.write(`${checked.what}: ${summary.ratio.median.toFixed(2)}\n`);
  return summary.ratio.median;
}
