/** `npm run bench -- growth`: what it costs as things grow. Can be done in parts, which add to one file. */

import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { wholeNumber } from '../flags.ts';
import { machine } from '../machine.ts';
import { AXES } from './axes.ts';
import { type AxisGrowth, growthOf, measurePoint, type Point } from './growth.ts';
import { type GrowthReport, growthMarkdown } from './report.ts';

interface Flags {
  readonly axis?: string;
  readonly smallest: number;
  readonly largest: number;
  readonly runs: number;
  readonly quick: boolean;
  readonly json: string;
}

export const growthCommand = new Command('growth')
  .description(
    'Measures how seconds, processor time, memory and the file grow with rows, datasets and changes.',
  )
  .addOption(new Option('--axis <name>', 'one axis').choices(AXES.map(({ name }) => name)))
  .option('--smallest <number>', 'leave smaller amounts out', wholeNumber, 1)
  .option('--largest <number>', 'leave larger amounts out', wholeNumber, 10_000_000)
  .option('--runs <number>', 'runs of each amount', wholeNumber, 3)
  .option('--quick', 'small tables, to see that it works', false)
  .option('--json <file>', 'what is measured is added to it', join(tmpdir(), 'feed-sync-growth.json'))
  .action(growth);

async function growth({ axis: only, smallest, largest, runs, quick, json }: Flags): Promise<void> {
  for (const axis of AXES.filter(({ name }) => only === undefined || name === only)) {
    const why = axis.whyNot?.() ?? null;
    if (why !== null) {
      process.stderr.write(`${axis.name} was NOT RUN: ${why}\n`);
      continue;
    }
    for (const amount of axis.sizes.filter((each) => each >= smallest && each <= largest)) {
      process.stderr.write(`${axis.name} ${amount}: `);
      const point = await measurePoint(axis, amount, quick ? 'quick' : 'full', runs);
      process.stderr.write(`${point.seconds.toFixed(2)} s\n`);
      // At once: a part that is cut short keeps what it has.
      await add(json, axis.name, point);
    }
  }
  process.stdout.write(`${growthMarkdown(await earlier(json))}\nWritten to ${json}.\n`);
}

async function add(json: string, axisName: string, point: Point): Promise<void> {
  const before = await earlier(json);
  const axes = AXES.flatMap((axis) => {
    const points = before.find((each) => each.axis === axis.name)?.points ?? [];
    const measured = axis.name === axisName ? [point] : [];
    return points.length + measured.length === 0 ? [] : [growthOf(axis, points, measured)];
  });
  const report: GrowthReport = { machine: machine(), axes };
  await writeFile(json, `${JSON.stringify(report, null, 2)}\n`);
}

async function earlier(json: string): Promise<readonly AxisGrowth[]> {
  try {
    const { axes }: GrowthReport = JSON.parse(await readFile(json, 'utf8'));
    return axes;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
}
