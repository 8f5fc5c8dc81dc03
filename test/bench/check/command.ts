/**
 * `npm run bench:check`: measures small cases beside what else would do the same work, and fails where one is worse than
 * its factor times what was recorded. Ratios only, so that it means the same on every machine.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Command, Option } from 'commander';
import { machine } from '../machine.ts';
import { machineText } from '../report.ts';
import { runCase } from '../run-case.ts';
import { medianOf } from '../statistics.ts';
import { CHECKED_CASES, type CheckedCase, measuresOf, recordedNames } from './cases.ts';
import { judgeCase, type Measured, type Recorded, recordedName } from './judge.ts';

const PAIRS = 3;
const RECORDED = fileURLToPath(new URL('recorded.json', import.meta.url));

interface Flags {
  readonly record: boolean;
  readonly recorded: string;
  readonly only?: string;
}

export const checkCommand = new Command('check')
  .description(
    'Fails where feed-sync has become much slower than it was beside raw DuckDB, a script or psql.',
  )
  .option('--record', 'write down the ratios of now instead', false)
  .option('--recorded <file>', 'where they are written down', RECORDED)
  .addOption(new Option('--only <case>', 'one case').choices(CHECKED_CASES.map(({ name }) => name)))
  .action(check);

async function check({ record, recorded: path, only }: Flags, command: Command): Promise<void> {
  const recorded = await readRecorded(path).catch((error: unknown) =>
    record
      ? { measuredAt: '', machine: '', ratios: {} }
      : command.error(
          `The ratios of before cannot be read: ${error}. "npm run bench:check -- --record" writes them down.`,
        ),
  );
  const measured: [string, number][] = [];
  for (const checked of CHECKED_CASES.filter(({ name }) => only === undefined || name === only)) {
    const why = checked.whyNot?.() ?? null;
    if (why !== null) process.stdout.write(`${checked.name} was NOT RUN: ${why}\n`);
    else if (record) measured.push(...Object.entries(await measure(checked)));
    else {
      const { isGood, text } = await judgeCase(() => measure(checked), recorded);
      process.stdout.write(`${text}\n`);
      if (!isGood) process.exitCode = 1;
    }
  }
  if (!record) return;
  await writeFile(path, `${JSON.stringify(together(recorded, Object.fromEntries(measured)), null, 2)}\n`);
  process.stdout.write(`Written to ${path}.\n`);
}

async function readRecorded(path: string): Promise<Recorded> {
  return JSON.parse(await readFile(path, 'utf8'));
}

/** What was not measured stays; all in the order of the cases. */
function together({ ratios }: Recorded, measured: Measured): Recorded {
  const names = CHECKED_CASES.flatMap(recordedNames);
  return {
    measuredAt: new Date().toISOString(),
    machine: machineText(machine()),
    ratios: Object.fromEntries(
      names.flatMap((name) => {
        const ratio = measured[name] ?? ratios[name];
        return ratio === undefined ? [] : [[name, Number(ratio.toFixed(2))]];
      }),
    ),
  };
}

async function measure(checked: CheckedCase): Promise<Measured> {
  const { summary } = await runCase(checked, { size: 'full', runs: PAIRS, onPair() {} });
  const measured = measuresOf(checked).map((name) => [
    recordedName(checked.name, name),
    medianOf(name, summary),
  ]);
  process.stderr.write(
    `${checked.what}: ${measured.map(([, ratio]) => Number(ratio).toFixed(2)).join(', ')}\n`,
  );
  return Object.fromEntries(measured);
}
